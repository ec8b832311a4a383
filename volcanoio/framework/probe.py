"""Metrics as an injected, write-only Protocol: the engine reports values and never reads them."""

from typing import Protocol


class Probe(Protocol):
    """A sink for metric values. Names are exported unchanged, without rules about type suffixes."""

    def count(self, name: str, amount: float = 1.0, **labels: str) -> None:
        """Add to a counter."""
        ...

    def gauge(self, name: str, value: float, **labels: str) -> None:
        """Set a gauge."""
        ...

    def observe(self, name: str, value: float, times: int = 1, **labels: str) -> None:
        """Add a sample to a histogram, `times` times."""
        ...

    def forget(self, name: str, **labels: str) -> None:
        """Drop the series with these labels."""
        ...


class NoProbe:
    """A probe that discards everything."""

    def count(self, name: str, amount: float = 1.0, **labels: str) -> None:
        """Discard."""

    def gauge(self, name: str, value: float, **labels: str) -> None:
        """Discard."""

    def observe(self, name: str, value: float, times: int = 1, **labels: str) -> None:
        """Discard."""

    def forget(self, name: str, **labels: str) -> None:
        """Discard."""
