"""The time of day, injected so that tests, replays and fast clusters control it."""

from __future__ import annotations

import asyncio
import time
from datetime import UTC, datetime
from typing import Protocol

from volcanoio.localcluster.clock import Clock as ClusterClock


class TimeOfDay(Protocol):
    """Protocol of a source of the current time."""

    def now(self) -> datetime:
        """Return the current time, with a time zone."""
        ...


class Clock(TimeOfDay, Protocol):
    """A server's clock.

    Timeouts of watches and bookmarks use real time instead: they concern connections.
    """

    async def idle(self, seconds: float) -> None:
        """Wait before the next round of a periodic task."""
        ...


class WallClock:
    """The machine's clock."""

    def now(self) -> datetime:
        """Return the current UTC time."""
        return datetime.now(UTC)

    async def idle(self, seconds: float) -> None:
        """Sleep on the running loop."""
        await asyncio.sleep(seconds)


class ServerClock:
    """Adapter of a cluster's clock to the server."""

    def __init__(self, clock: ClusterClock) -> None:
        self._clock = clock
        self.idle = clock.idle

    def now(self) -> datetime:
        """Return the cluster's UTC time."""
        return datetime.fromtimestamp(self._clock.now(), UTC)


class ClientClock:
    """Adapter of a server's clock to clients within the server: `volcanoio.kube.clock.Clock`."""

    rate = 1.0

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self.sleep = self.idle = clock.idle

    def now(self) -> float:
        """Return the time of day, in seconds since the epoch."""
        return self._clock.now().timestamp()

    def monotonic(self) -> float:
        """Return the machine's monotonic clock."""
        return time.monotonic()


def rfc3339(moment: datetime) -> str:
    """Return a time as Kubernetes writes it: UTC, whole seconds, `Z`."""
    return moment.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def parse_rfc3339(text: str) -> datetime:
    """Parse a Kubernetes timestamp; raises ValueError."""
    return datetime.fromisoformat(text)
