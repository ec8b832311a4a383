"""Time as the edge needs it, injected so that tests and replays decide what time it is."""

from __future__ import annotations

import asyncio
import time
from datetime import UTC, datetime
from typing import Protocol


class Clock(Protocol):
    """All times are seconds."""

    def now(self) -> float:
        """Time of day, since the epoch."""
        ...

    def monotonic(self) -> float:
        """A clock that is never set back; its zero means nothing."""
        ...

    async def sleep(self, seconds: float) -> None:
        """Return after that many seconds of `monotonic`."""
        ...


class WallClock:
    """The machine's clocks."""

    def now(self) -> float:
        """Time of day, since the epoch."""
        return time.time()

    def monotonic(self) -> float:
        """The machine's monotonic clock."""
        return time.monotonic()

    async def sleep(self, seconds: float) -> None:
        """Sleep on the running event loop."""
        await asyncio.sleep(seconds)


def rfc3339(moment: float) -> str:
    """A time of day as Kubernetes writes `metav1.Time`: UTC, whole seconds."""
    return datetime.fromtimestamp(moment, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
