"""When a cycle has taken long enough."""

from __future__ import annotations

from typing import Protocol


class Budget(Protocol):
    """Decides when a cycle has taken long enough; the runtime reads a clock, a replay counts gangs."""

    def exhausted(self) -> bool:
        """Asked at every gang boundary."""
        ...


class Unlimited:
    """A budget without end."""

    def exhausted(self) -> bool:
        """Never."""
        return False
