"""Time as the edge needs it, injected so that tests and replays decide what time it is."""

from __future__ import annotations

import asyncio
import time
from typing import Protocol


class Clock(Protocol):
    """All times are seconds. The machine's clock, or that of a cluster whose time runs faster."""

    @property
    def rate(self) -> float:
        """Its seconds in one second of the machine's while work is done: what measures our own work divides by it."""
        ...

    def now(self) -> float:
        """Time of day, since the epoch."""
        ...

    def monotonic(self) -> float:
        """A clock that is never set back; its zero means nothing."""
        ...

    async def sleep(self, seconds: float) -> None:
        """Return after that many seconds of `monotonic`."""
        ...

    async def idle(self, seconds: float) -> None:
        """As `sleep`, for what recurs without end and changes nothing by itself: time never hurries for its sake."""
        ...


class WallClock:
    """The machine's clocks."""

    rate = 1.0

    def now(self) -> float:
        """Time of day, since the epoch."""
        return time.time()

    def monotonic(self) -> float:
        """The machine's monotonic clock."""
        return time.monotonic()

    async def sleep(self, seconds: float) -> None:
        """Sleep on the running event loop."""
        await asyncio.sleep(seconds)

    idle = sleep
