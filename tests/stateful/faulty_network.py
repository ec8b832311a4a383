"""A network between a process and the API server with failures of requests and watches on demand."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Iterable, Mapping
from contextlib import asynccontextmanager
from enum import StrEnum
from typing import Unpack

import msgspec

from volcanoio.kube.transport import RequestOptions, Response, StreamRefused, Transport, TransportError

WRITES = frozenset({"POST", "PUT", "PATCH", "DELETE"})
_STATUS = {"kind": "Status", "apiVersion": "v1", "status": "Failure"}


class Trouble(StrEnum):
    """What may become of a write."""

    CONFLICT = "conflict"
    """409, and nothing is changed."""
    FORBIDDEN = "forbidden"
    """403."""
    BUSY = "busy"
    """429 with Retry-After."""
    BROKEN = "broken"
    """500, and nothing is changed."""
    LOST = "lost"
    """The connection is reset before the server has it."""
    UNHEARD = "unheard"
    """The server carries it out, and the answer is lost."""
    SLOW = "slow"
    """It and its answer take half a second each."""


_CODES = {
    Trouble.CONFLICT: (409, "Conflict"),
    Trouble.FORBIDDEN: (403, "Forbidden"),
    Trouble.BUSY: (429, "TooManyRequests"),
    Trouble.BROKEN: (500, "InternalError"),
}


class FaultyNetwork:
    """A `kube.transport.Transport` that works until a failure is requested.

    `expect` says what becomes of the next writes, `cut` breaks all watches, `blocked` keeps them and lists away, and
    `lag` is how many seconds watches are behind. `happened` counts.
    """

    def __init__(self, inner: Transport) -> None:
        self._inner = inner
        self._coming: list[Trouble | None] = []
        self._cut = asyncio.Event()
        self._passable = asyncio.Event()
        self._passable.set()
        self._expired: set[str] = set()
        self._open: Counter[str] = Counter()
        self._late = 0
        self.lag = 0.0
        self.happened: Counter[str] = Counter()

    def expect(self, after: int, *troubles: Trouble) -> None:
        """After so many writes that go well, these happen to the next ones."""
        self._coming = [None] * after + [*troubles]

    def cut(self, *, expired: bool = False) -> None:
        """Break every watch; with `expired` it cannot be resumed either: the response is 410."""
        if expired:
            self._expired |= set(self._open)
        self._cut.set()
        self._cut = asyncio.Event()

    def block(self) -> None:
        """Leave watches and lists without a response until `clear`; break those in progress."""
        self._passable.clear()
        self.cut()

    def delivers(self, paths: Iterable[str]) -> bool:
        """Whether all of these are watched, and their events were delivered."""
        return not self._late and all(self._open[path] for path in paths)

    def clear(self) -> None:
        """Repair the network."""
        self._coming, self.lag = [], 0.0
        self._passable.set()

    async def request(self, method: str, path: str, **options: Unpack[RequestOptions]) -> Response:
        """Send one request."""
        is_write = method in WRITES
        trouble = self._coming.pop(0) if self._coming and is_write and "/events" not in path else None
        if trouble is not None:
            self.happened[trouble] += 1
        if not is_write:
            await self._passable.wait()
        if trouble in _CODES:
            return _refusal(*_CODES[trouble])
        if trouble is Trouble.LOST:
            raise TransportError(f"{method} {path}: reset")
        if trouble is Trouble.SLOW:
            await asyncio.sleep(0.5)
        response = await self._inner.request(method, path, **options)
        if trouble is Trouble.SLOW:
            await asyncio.sleep(0.5)
        if trouble is Trouble.UNHEARD:
            raise TransportError(f"{method} {path}: the answer was lost")
        return response

    @asynccontextmanager
    async def stream(
        self, path: str, *, query: Mapping[str, str] | None = None
    ) -> AsyncIterator[AsyncIterator[list[bytes]]]:
        """Open a watch."""
        await self._passable.wait()
        if path in self._expired:
            self._expired.discard(path)
            self.happened["expired"] += 1
            raise StreamRefused(_refusal(410, "Expired"))
        self._open[path] += 1
        try:
            async with self._inner.stream(path, query=query) as batches:
                yield self._delivered(batches)
        finally:
            self._open[path] -= 1

    async def _delivered(self, batches: AsyncIterator[list[bytes]]) -> AsyncIterator[list[bytes]]:
        """Batches, late if they are, until the watch is cut."""
        cut = asyncio.ensure_future(self._cut.wait())
        coming: asyncio.Future[list[bytes] | None] | None = None
        try:
            while True:
                coming = asyncio.ensure_future(_next(batches))
                await asyncio.wait((coming, cut), return_when=asyncio.FIRST_COMPLETED)
                late = int(not cut.done() and self.lag > 0)
                self._late += late
                try:
                    if late:
                        await asyncio.wait((cut,), timeout=self.lag)
                    if cut.done():
                        self.happened["cut"] += 1
                        raise TransportError("the watch broke")
                    batch = coming.result()
                    if batch is None:
                        return
                    yield batch  # it was delivered when the next one is asked for
                finally:
                    self._late -= late
        finally:
            for waiting in (cut, coming):
                if waiting is not None and not waiting.done():
                    waiting.cancel()
                    await asyncio.wait((waiting,))

    async def aclose(self) -> None:
        """Keep the server, which other processes use."""


async def _next(batches: AsyncIterator[list[bytes]]) -> list[bytes] | None:
    """Return the next batch, None at the end of the stream."""
    return await anext(batches, None)


def _refusal(code: int, reason: str) -> Response:
    status = {**_STATUS, "code": code, "reason": reason, "message": "the network fails"}
    headers = {"Retry-After": "1"} if code == 429 else {}
    return Response(code, msgspec.json.encode(status), headers)
