"""A transport that records the times of watch events and writes."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from typing import Unpack

from bench.writes import VERBS, resource_of
from volcanoio.kube.transport import RequestOptions, Response, Transport
from volcanoio.model import kinds

PODS = kinds.POD.path("")


class Tapped:
    """Transport between the controllers and the server that counts writes and notes times.

    `on_write` is called with the path of each write, before it is sent. `came` is the time of the last event on the
    watch of pods, `last_answer` that of the last response to a write (`time.perf_counter`).
    """

    def __init__(self, inner: Transport) -> None:
        self._inner = inner
        self.came = self.last_answer = 0.0
        self.writes: Counter[str] = Counter()
        self.on_write: Callable[[str], None] | None = None

    async def request(self, method: str, path: str, **options: Unpack[RequestOptions]) -> Response:
        """Forward the call to the inner transport."""
        if method not in VERBS:
            return await self._inner.request(method, path, **options)
        if self.on_write is not None:
            self.on_write(path)
        self.writes[f"{VERBS[method]} {resource_of(path)}"] += 1
        answer = await self._inner.request(method, path, **options)
        self.last_answer = time.perf_counter()
        return answer

    @asynccontextmanager
    async def stream(
        self, path: str, *, query: Mapping[str, str] | None = None
    ) -> AsyncIterator[AsyncIterator[list[bytes]]]:
        """Forward the call to the inner transport."""
        async with self._inner.stream(path, query=query) as batches:
            yield self._noted(batches) if path == PODS else batches

    async def _noted(self, batches: AsyncIterator[list[bytes]]) -> AsyncIterator[list[bytes]]:
        async for batch in batches:
            self.came = time.perf_counter()
            yield batch

    async def aclose(self) -> None:
        """Close nothing: the inner transport belongs to the caller."""
