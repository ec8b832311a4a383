"""The connection of a process that dies at a chosen write, before or after the server carried it out."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import AbstractAsyncContextManager
from typing import Unpack

from volcanoio.kube.transport import RequestOptions, Response, Transport

_WRITES = frozenset({"POST", "PUT", "PATCH", "DELETE"})


class DyingTransport:
    """A `kube.transport.Transport` that counts writes (Events aside) in `writes`.

    At the write number `die_at` (from 1; 0 never) no request is answered any more and `died` is set: the owner of the
    process is to end it. `after` says that the server carries that write out first.
    """

    def __init__(self, inner: Transport, die_at: int = 0, *, after: bool = False) -> None:
        self._inner = inner
        self.die_at = die_at
        self.after = after
        self.writes: list[str] = []
        self.died = asyncio.Event()

    async def request(self, method: str, path: str, **options: Unpack[RequestOptions]) -> Response:
        """Send one request, unless the process is dead."""
        if method in _WRITES and not path.endswith("/events"):
            if self.died.is_set():
                await _never()
            self.writes.append(f"{method} {path}")
            if len(self.writes) == self.die_at:
                self.died.set()
                if not self.after:
                    await _never()
        response = await self._inner.request(method, path, **options)
        if self.died.is_set():
            await _never()
        return response

    def stream(
        self, path: str, *, query: Mapping[str, str] | None = None
    ) -> AbstractAsyncContextManager[AsyncIterator[list[bytes]]]:
        """Open a watch."""
        return self._inner.stream(path, query=query)

    async def aclose(self) -> None:
        """Keep the server, which other processes use."""


async def _never() -> None:
    await asyncio.get_running_loop().create_future()
