"""Time for the simulated cluster: the wall clock, run faster if asked, or a clock that tests move.

Stored times stay true wall-clock times at any speed, so that they agree with the API server's and survive a restart;
it is the durations that shrink. `speed` is in simulated seconds per second.
"""

from __future__ import annotations

import asyncio
import heapq
import itertools
import time
from collections.abc import Callable
from datetime import UTC, datetime
from functools import lru_cache
from typing import Protocol


class Clock(Protocol):
    """Tells the time and waits for it."""

    @property
    def speed(self) -> float:
        """Simulated seconds that pass in one second of `now`."""
        ...

    def now(self) -> float:
        """Seconds since the epoch."""
        ...

    async def sleep_until(self, moment: float) -> None:
        """Return when `now` has reached the moment; at once if it has passed."""
        ...


class RealClock:
    """The machine's clock. It never steps: the wall clock is read once, at the start."""

    def __init__(self, speed: float = 1.0) -> None:
        if speed <= 0:
            msg = f"speed: {speed} must be greater than 0; 1 is real time, 10 runs simulated pods ten times as fast"
            raise ValueError(msg)
        self._speed = speed
        self._offset = time.time() - time.monotonic()

    @property
    def speed(self) -> float:
        """As given."""
        return self._speed

    def now(self) -> float:
        """Seconds since the epoch."""
        return self._offset + time.monotonic()

    async def sleep_until(self, moment: float) -> None:
        """Sleep in real time."""
        await asyncio.sleep(max(0.0, moment - self.now()))


class VirtualClock:
    """A clock that a test moves: timers fire in order, and what one causes happens before the next."""

    speed = 1.0
    _SETTLE_TURNS = 50
    """Turns of the event loop after which work that waits for nothing outside this process has come to rest."""

    def __init__(self, start: float = 1_800_000_000.0) -> None:
        self._now = start
        self._numbers = itertools.count()
        self._timers: list[tuple[float, int, asyncio.Future[None]]] = []

    def now(self) -> float:
        """Seconds since the epoch, as far as the test has moved it."""
        return self._now

    async def sleep_until(self, moment: float) -> None:
        """Wait for the test to move the clock there."""
        if moment <= self._now:
            await asyncio.sleep(0)
            return
        done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        heapq.heappush(self._timers, (moment, next(self._numbers), done))
        await done

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
        while self._timers and self._timers[0][0] <= end:
            moment, _, done = heapq.heappop(self._timers)
            if not done.done():
                self._now = max(self._now, moment)
                done.set_result(None)
                return True
        return False

    async def _settle(self) -> None:
        for _ in range(self._SETTLE_TURNS):
            await asyncio.sleep(0)


@lru_cache(maxsize=1024)
def _text(second: int) -> str:
    return datetime.fromtimestamp(second, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def rfc3339(moment: float) -> str:
    """An instant as Kubernetes writes it: UTC, whole seconds."""
    return _text(int(moment))


def epoch(text: str | None) -> float | None:
    """The instant that a Kubernetes timestamp means; None for none."""
    return datetime.fromisoformat(text).timestamp() if text else None
