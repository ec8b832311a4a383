"""`--speed max`: a clock that jumps to what is waited for next whenever nothing else can be done.

Discrete-event simulation on a live event loop: while there is work the clock keeps the machine's pace; when the loop
would block, time jumps to the moment of the earliest sleeper. Sleepers of `idle` and `beat` are passed over: they wake,
late, where a jump for others lands, signs of life first, so that a monitor sees no heart stop. With nothing but
idlers the clock keeps the machine's pace too: a cluster at rest costs no more than at speed 1.

Time does not jump while `holds` say that somebody outside the loop is at work (a request waits for the disk, a policy
thinks, a process runs). While clients are connected each jump gives them a moment to answer what they have just seen.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from selectors import BaseSelector, SelectorKey
from typing import Any

from volcanoio.localcluster.clock import Sleepers

CLIENTS_TURN = 0.002
"""Seconds that connected clients have before each jump."""
_BUSY = 0.02
"""Seconds of unbroken work after which sleepers whose time has come are woken all the same."""


class JumpingClock:
    """A `Clock` whose waits take no time. Use it `within` a running loop.

    `holds` are asked before each jump whether time must pass as it does; `clients` says how many are connected.
    """

    rate = 1.0
    skips = True

    def __init__(self, start: float = 0.0) -> None:
        self.holds: list[Callable[[], object]] = []
        self.clients: Callable[[], int] = int
        self.jumps = 0
        self._offset = max(start, time.time()) - time.monotonic()
        self._due, self._idlers, self._hearts = Sleepers(), Sleepers(), Sleepers()
        self._woken = 0.0

    def now(self) -> float:
        """Time of day, since the epoch."""
        return self._offset + time.monotonic()

    monotonic = now

    async def sleep(self, seconds: float) -> None:
        """Wait; time jumps there when nothing else is to be done."""
        await self.sleep_until(self.now() + seconds)

    async def sleep_until(self, moment: float) -> None:
        """Wait for the moment; time jumps there when nothing else is to be done."""
        if moment <= self.now():
            await asyncio.sleep(0)
        else:
            await self._due.wait(moment)

    async def idle(self, seconds: float) -> None:
        """Wait without making time jump."""
        await self._idlers.wait(self.now() + seconds)

    async def beat(self, seconds: float) -> None:
        """Wait without making time jump, and wake before the idlers when it has."""
        await self._hearts.wait(self.now() + seconds)

    @contextmanager
    def within(self, loop: asyncio.AbstractEventLoop) -> Iterator[None]:
        """Take part in the loop's waits. Raises TypeError for a loop that does not wait by a selector."""
        inner = getattr(loop, "_selector", None)
        if not isinstance(inner, BaseSelector):
            msg = f"--speed max: {type(loop).__name__} is no selector event loop; use asyncio's own, or a number"
            raise TypeError(msg)
        loop._selector = _Selector(inner, self)  # type: ignore[attr-defined]  # the one place where a loop waits
        try:
            yield
        finally:
            loop._selector = inner  # type: ignore[attr-defined]  # as above

    def wake(self) -> bool:
        """Wake the foremost kind of sleepers whose time has come; whether there were any."""
        now = self.now()
        self._woken = time.monotonic()
        return self._hearts.wake(now) or self._idlers.wake(now) or self._due.wake(now)

    def wake_while_busy(self) -> None:
        """As `wake`, if the loop has not come to rest for long."""
        if time.monotonic() - self._woken > _BUSY:
            while self.wake():
                pass

    def may_jump(self) -> bool:
        """Whether anybody waits for time to pass, and nobody minds."""
        return self._due.next() is not None and not any(hold() for hold in self.holds)

    def jump(self) -> None:
        """Let it be the time of the earliest sleeper."""
        moment = self._due.next()
        if moment is not None:
            self._offset += max(0.0, moment - self.now())
            self.jumps += 1

    def until_next(self) -> float | None:
        """Seconds until the next sleeper of any kind if time does not jump; None when there is none."""
        moments = [m for m in (self._due.next(), self._idlers.next(), self._hearts.next()) if m is not None]
        return max(0.0, min(moments) - self.now()) if moments else None


class _Selector(BaseSelector):
    """The loop's selector, with the clock's say in how long it waits."""

    def __init__(self, inner: BaseSelector, clock: JumpingClock) -> None:
        self._inner = inner
        self._clock = clock

    def select(self, timeout: float | None = None) -> list[tuple[SelectorKey, int]]:
        """As `selectors.BaseSelector.select`; the loop asks with a timeout of 0 while it has work."""
        clock = self._clock
        events = self._inner.select(0)
        if timeout is not None and timeout <= 0:
            clock.wake_while_busy()
            return events
        if events or clock.wake():
            return events
        if not clock.may_jump():
            return self._block(timeout)
        if clock.clients():
            events = self._inner.select(CLIENTS_TURN if timeout is None else min(timeout, CLIENTS_TURN))
            if events:
                return events
        clock.jump()
        clock.wake()
        return events

    def _block(self, timeout: float | None) -> list[tuple[SelectorKey, int]]:
        limits = [limit for limit in (timeout, self._clock.until_next()) if limit is not None]
        return self._inner.select(min(limits, default=None))

    def register(self, fileobj: Any, events: int, data: Any = None) -> SelectorKey:
        """As the loop's own."""
        return self._inner.register(fileobj, events, data)

    def unregister(self, fileobj: Any) -> SelectorKey:
        """As the loop's own."""
        return self._inner.unregister(fileobj)

    def modify(self, fileobj: Any, events: int, data: Any = None) -> SelectorKey:
        """As the loop's own."""
        return self._inner.modify(fileobj, events, data)

    def get_map(self) -> Mapping[Any, SelectorKey]:
        """As the loop's own."""
        return self._inner.get_map()

    def close(self) -> None:
        """As the loop's own."""
        self._inner.close()
