"""The wall clock, injected so that tests and replays decide what time it is."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Protocol


class Clock(Protocol):
    """Tells the time of day; durations inside the server use the event loop's own clock."""

    def now(self) -> datetime:
        """The current time, with a time zone."""
        ...


class WallClock:
    """The machine's clock."""

    def now(self) -> datetime:
        """The current UTC time."""
        return datetime.now(UTC)


def rfc3339(moment: datetime) -> str:
    """A time as Kubernetes writes it: UTC, whole seconds, `Z`."""
    return moment.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def parse_rfc3339(text: str) -> datetime:
    """The time a Kubernetes timestamp means; raises ValueError."""
    return datetime.fromisoformat(text)
