"""A probe that records gauges, for plugins that report metrics."""

from __future__ import annotations


class Figures:
    """`gauges` by name and label values, joined by a comma; a plugin that counts or observes is at fault."""

    def __init__(self) -> None:
        self.gauges: dict[tuple[str, str], float] = {}

    def count(self, name: str, amount: float = 1.0, **labels: str) -> None:
        """No plugin does."""
        raise AssertionError(name)

    def observe(self, name: str, value: float, times: int = 1, **labels: str) -> None:
        """No plugin does."""
        raise AssertionError(name)

    def gauge(self, name: str, value: float, **labels: str) -> None:
        """Keep it."""
        self.gauges[name, ",".join(labels.values())] = value

    def forget(self, name: str, **labels: str) -> None:
        """Drop it."""
        del self.gauges[name, ",".join(labels[key] for key in ("queue_name", "resource") if key in labels)]
