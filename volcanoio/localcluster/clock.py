"""The time of a cluster: the machine's, a multiple of it, or one that tests move (`jumping` has one that skips waits).

All that runs in a cluster goes by its clock, stored times too: at 60 times the speed a pod of a minute ends after a
second, and its status says a minute. Time outside stays real: HTTP time-outs, watches' deadlines, certificates.
"""

from __future__ import annotations

import asyncio
import heapq
import itertools
import time
from collections.abc import Callable
from typing import Protocol

from volcanoio.kube.clock import Clock as EdgeClock


class Clock(EdgeClock, Protocol):
    """That of the edge, with what only the nodes of a cluster wait for."""

    @property
    def skips(self) -> bool:
        """Whether waits are skipped, so that much of its time goes by in one of the machine's."""
        ...

    async def sleep_until(self, moment: float) -> None:
        """Return when `now` has reached the moment; at once if it has passed."""
        ...

    async def beat(self, seconds: float) -> None:
        """As `idle`, for signs of life: after a jump of time they come first."""
        ...


class RunningClock:
    """The machine's clock, or one that runs `rate` times as fast. It never steps.

    `start` (epoch seconds) is the time it begins with, at least the wall clock's. Raises ValueError for a rate that is
    not positive.
    """

    skips = False

    def __init__(self, rate: float = 1.0, start: float = 0.0) -> None:
        if rate <= 0:
            msg = f"speed: {rate} must be greater than 0; 1 is real time, 10 lets time run ten times as fast"
            raise ValueError(msg)
        self.rate = rate
        self._began = time.monotonic()
        self._start = max(start, time.time())

    def monotonic(self) -> float:
        """Seconds since the start."""
        return (time.monotonic() - self._began) * self.rate

    def now(self) -> float:
        """Time of day, since the epoch."""
        return self._start + self.monotonic()

    async def sleep(self, seconds: float) -> None:
        """Sleep on the running loop."""
        await asyncio.sleep(seconds / self.rate)

    async def sleep_until(self, moment: float) -> None:
        """Sleep until the moment."""
        await asyncio.sleep(max(0.0, moment - self.now()) / self.rate)

    idle = beat = sleep


class Sleepers:
    """Waiting tasks by the moment they are to wake at, then by the order they came in."""

    _FEW = 64

    def __init__(self) -> None:
        self._heap: list[tuple[float, int, asyncio.Future[None]]] = []
        self._numbers = itertools.count()
        self._dead = 0

    async def wait(self, moment: float) -> None:
        """Sleep until `wake` is called with this moment or a later one."""
        done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        heapq.heappush(self._heap, (moment, next(self._numbers), done))
        try:
            await done
        except asyncio.CancelledError:
            self._dead += 1
            if self._dead > self._FEW and self._dead * 2 > len(self._heap):
                self._heap = [entry for entry in self._heap if not entry[2].done()]
                heapq.heapify(self._heap)
                self._dead = 0
            raise

    def next(self) -> float | None:
        """The earliest moment somebody waits for."""
        while self._heap and self._heap[0][2].done():
            heapq.heappop(self._heap)
            self._dead = max(0, self._dead - 1)
        return self._heap[0][0] if self._heap else None

    def wake(self, moment: float, *, one: bool = False) -> bool:
        """Wake who waits for this moment or an earlier one (only the first with `one`); whether there was anybody."""
        woken = False
        while (first := self.next()) is not None and first <= moment and not (one and woken):
            heapq.heappop(self._heap)[2].set_result(None)
            woken = True
        return woken


class VirtualClock:
    """A clock that a test moves: timers fire in order, and what one causes happens before the next."""

    rate = 1.0
    skips = False
    _SETTLE_TURNS = 50
    """Turns of the event loop after which work that waits for nothing outside this process has come to rest."""

    def __init__(self, start: float = 1_800_000_000.0) -> None:
        self._now = start
        self._sleepers = Sleepers()

    def now(self) -> float:
        """Seconds since the epoch, as far as the test has moved it."""
        return self._now

    monotonic = now

    async def sleep_until(self, moment: float) -> None:
        """Wait for the test to move the clock there."""
        if moment <= self._now:
            await asyncio.sleep(0)
        else:
            await self._sleepers.wait(moment)

    async def sleep(self, seconds: float) -> None:
        """Wait for the test to move the clock so far."""
        await self.sleep_until(self._now + seconds)

    idle = beat = sleep

    async def run_until(self, condition: Callable[[], bool], *, limit: float = 3600.0) -> None:
        """Jump from timer to timer until the condition holds; TimeoutError after `limit` seconds of this clock."""
        end = self._now + limit
        while True:
            await self._settle()
            if condition():
                return
            if not self._fire_next(end):
                msg = f"the condition does not hold after {limit} s of virtual time"
                raise TimeoutError(msg)

    async def advance(self, seconds: float) -> None:
        """Move on by so many seconds; every timer on the way fires at its time."""
        end = self._now + seconds
        await self._settle()
        while self._fire_next(end):
            await self._settle()
        self._now = end
        await self._settle()

    def _fire_next(self, end: float) -> bool:
        moment = self._sleepers.next()
        if moment is None or moment > end:
            return False
        self._now = max(self._now, moment)
        return self._sleepers.wake(moment, one=True)

    async def _settle(self) -> None:
        for _ in range(self._SETTLE_TURNS):
            await asyncio.sleep(0)
