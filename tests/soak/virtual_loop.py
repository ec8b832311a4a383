"""An event loop whose time passes only when it has nothing to do, and then at once."""

from __future__ import annotations

import asyncio
import selectors
from collections.abc import Coroutine, Mapping
from typing import Any, TypeVar

Result = TypeVar("Result")


class _Jumping(selectors.BaseSelector):
    """Waits for nothing: where the loop would wait for a timer, time moves to it."""

    def __init__(self) -> None:
        self._inner = selectors.DefaultSelector()
        self.moment = 0.0

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        ready = self._inner.select(0)
        if ready or timeout == 0:
            return ready
        if timeout is None:
            raise RuntimeError("every task waits, and none of them for a time to come")
        self.moment += timeout
        return []

    def register(self, fileobj: Any, events: int, data: Any = None) -> selectors.SelectorKey:
        return self._inner.register(fileobj, events, data)

    def unregister(self, fileobj: Any) -> selectors.SelectorKey:
        return self._inner.unregister(fileobj)

    def get_map(self) -> Mapping[Any, selectors.SelectorKey]:
        return self._inner.get_map()

    def close(self) -> None:
        self._inner.close()


class VirtualTimeLoop(asyncio.SelectorEventLoop):
    """asyncio's own loop on virtual time. Nothing in it may wait for threads, sockets or processes."""

    def __init__(self) -> None:
        self._jumping = _Jumping()
        super().__init__(self._jumping)

    def time(self) -> float:
        """Virtual seconds since the loop was made."""
        return self._jumping.moment


def run(main: Coroutine[Any, Any, Result]) -> Result:
    """As asyncio.run, on virtual time."""
    with asyncio.Runner(loop_factory=VirtualTimeLoop) as runner:
        return runner.run(main)
