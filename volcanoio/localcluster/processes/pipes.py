"""Ends of pipes and terminals on the event loop, without transports: read or write what is possible, else wait."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import os

CHUNK = 64 * 1024
"""Bytes read at once."""


class PipeEnd:
    """A descriptor that this object owns, for one task to read from or write to.

    `close` wakes it.
    """

    def __init__(self, descriptor: int) -> None:
        os.set_blocking(descriptor, False)
        self._descriptor = descriptor
        self._waiting: asyncio.Future[None] | None = None
        self.closed = False

    @property
    def descriptor(self) -> int:
        """File descriptor, valid until this end is closed."""
        return self._descriptor

    async def read(self) -> bytes:
        """Return the next bytes; none at the end, or once this end is closed."""
        loop = asyncio.get_running_loop()
        while not self.closed:
            try:
                return os.read(self._descriptor, CHUNK)
            except BlockingIOError:
                await self._ready(loop.add_reader, loop.remove_reader)
            except OSError as error:
                if error.errno == errno.EIO:  # a terminal whose other side is closed
                    return b""
                raise
        return b""

    async def write(self, data: bytes) -> bool:
        """Write all bytes; returns whether the other end is still open."""
        loop = asyncio.get_running_loop()
        view = memoryview(data)
        while view and not self.closed:
            try:
                view = view[os.write(self._descriptor, view) :]
            except BlockingIOError:
                await self._ready(loop.add_writer, loop.remove_writer)
            except (BrokenPipeError, OSError):
                return False
        return not self.closed

    async def _ready(self, add: object, remove: object) -> None:
        self._waiting = asyncio.get_running_loop().create_future()
        add(self._descriptor, self._wake)  # type: ignore[operator]  # a bound method of the loop
        try:
            await self._waiting
        finally:
            if not self.closed:
                remove(self._descriptor)  # type: ignore[operator]  # as above
            self._waiting = None

    def _wake(self) -> None:
        if self._waiting is not None and not self._waiting.done():
            self._waiting.set_result(None)

    def close(self) -> None:
        """Close the descriptor, and wake the task that waits for it."""
        if self.closed:
            return
        self.closed = True
        with contextlib.suppress(RuntimeError):  # no loop runs any more
            loop = asyncio.get_running_loop()
            loop.remove_reader(self._descriptor)
            loop.remove_writer(self._descriptor)
        self._wake()
        os.close(self._descriptor)
