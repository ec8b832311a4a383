"""The stream behind a watch: queued lines in batches, bookmarks, and its ends."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Final

from volcanoio.localcluster.apiserver.collection import Watcher
from volcanoio.localcluster.apiserver.errors import expired
from volcanoio.localcluster.apiserver.objects import encode, frame

BOOKMARK_SECONDS: Final = 60.0


class WatchStream:
    """An async iterator over batches of lines. `aclose` ends the subscription, also when nothing was read yet.

    Ends after `seconds` (0 for never) with a last bookmark, when `end` is called, and with an ERROR 410 line when the
    reader is too slow.
    """

    def __init__(
        self,
        watcher: Watcher,
        first: list[bytes],
        *,
        bookmark: Callable[[], bytes] | None,
        seconds: int,
        closed: Callable[[], None],
    ) -> None:
        self._watcher = watcher
        self._first = first
        self._bookmark = bookmark
        self._closed: Callable[[], None] | None = closed
        self._ended = False
        self._waiter: asyncio.Future[None] | None = None
        self._loop = asyncio.get_running_loop()
        now = self._loop.time()
        self._deadline = now + seconds if seconds else None
        self._next_bookmark = now + BOOKMARK_SECONDS
        watcher.wake = self._wake

    def __aiter__(self) -> WatchStream:
        return self

    async def __anext__(self) -> list[bytes]:
        """The next lines; waits for some."""
        if self._first:
            batch, self._first = self._first, []
            return batch
        while True:
            if self._watcher.pending:
                return self._watcher.take()
            if self._ended:
                break
            if self._watcher.overrun:
                self._ended = True
                status = expired("too old resource version: the watch fell behind; list again").status()
                return [frame("ERROR", encode(status))]
            now = self._loop.time()
            if self._deadline is not None and now >= self._deadline:
                self._ended = True
                if self._bookmark is not None:
                    return [self._bookmark()]
                break
            if self._bookmark is not None and now >= self._next_bookmark:
                self._next_bookmark = now + BOOKMARK_SECONDS
                return [self._bookmark()]
            await self._wait()
        await self.aclose()
        raise StopAsyncIteration

    async def aclose(self) -> None:
        """End the subscription."""
        self.end()
        closed, self._closed = self._closed, None
        if closed is not None:
            closed()

    def end(self) -> None:
        """Let the iterator end once it has given what is queued."""
        self._ended = True
        self._wake()

    def _wake(self) -> None:
        waiter = self._waiter
        if waiter is not None and not waiter.done():
            waiter.set_result(None)

    async def _wait(self) -> None:
        """Until there is a line, or a bookmark or the end is due."""
        waiter = self._waiter = self._loop.create_future()
        due = self._next_bookmark if self._bookmark is not None else None
        if self._deadline is not None:
            due = self._deadline if due is None else min(due, self._deadline)
        timer = self._loop.call_at(due, self._wake) if due is not None else None
        try:
            await waiter
        finally:
            self._waiter = None
            if timer is not None:
                timer.cancel()
