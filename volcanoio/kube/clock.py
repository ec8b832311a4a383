"""Clocks that tests and replays can replace, and the back-off between retries."""

from __future__ import annotations

import asyncio
import random
import time
from typing import Protocol

from volcanoio.framework.backoff import Backoff


class Clock(Protocol):
    """A clock in seconds: the machine's, or that of a cluster whose virtual time runs faster."""

    @property
    def rate(self) -> float:
        """Seconds of this clock per second of the machine's while working; measurements divide by it."""
        ...

    def now(self) -> float:
        """Return the time of day, in seconds since the epoch."""
        ...

    def monotonic(self) -> float:
        """Return a time that is never set back; its zero has no meaning."""
        ...

    async def sleep(self, seconds: float) -> None:
        """Sleep for that many seconds of `monotonic`."""
        ...

    async def idle(self, seconds: float) -> None:
        """Sleep before periodic work that changes nothing by itself: virtual time does not skip ahead to it."""
        ...


class WallClock:
    """The machine's clocks."""

    rate = 1.0

    def now(self) -> float:
        """Return the time of day, in seconds since the epoch."""
        return time.time()

    def monotonic(self) -> float:
        """Return the machine's monotonic time."""
        return time.monotonic()

    async def sleep(self, seconds: float) -> None:
        """Sleep on the running event loop."""
        await asyncio.sleep(seconds)

    idle = sleep


class BootClock(WallClock):
    """The machine's clocks; `monotonic` also counts the time during which the machine was suspended, where it can."""

    def monotonic(self) -> float:
        """Return a time that is never set back."""
        return time.clock_gettime(_SINCE_BOOT)


_SINCE_BOOT = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)
"""Unlike this one, CLOCK_MONOTONIC stands still on Linux while the machine is suspended."""


API_BACKOFF = Backoff(base=0.2, cap=30.0)
"""Delays between attempts at one request to the API server."""


class RetryBackoff:
    """Jittered delays between the attempts at one operation."""

    def __init__(self, rng: random.Random, backoff: Backoff = API_BACKOFF) -> None:
        self._rng = rng
        self._backoff = backoff
        self.failures = 0
        """Consecutive failures."""

    def reset(self) -> None:
        """Reset to the first delay, after a success."""
        self.failures = 0

    def next(self, at_least: float = 0.0) -> float:
        """Return the seconds to wait after one more failure.

        `at_least` is the server's Retry-After: jitter may lengthen it but not shorten it.
        """
        self.failures += 1
        delay = self._backoff.delay(self.failures, self._rng.random())
        return at_least + delay / 4 if at_least > delay else delay
