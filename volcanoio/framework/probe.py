"""Metrics as an injected, write-only Protocol: the engine reports and never reads."""

from __future__ import annotations

from typing import Protocol


class Probe(Protocol):
    """Where figures go. Names are Prometheus names without type suffix rules: what is given is what is exported."""

    def count(self, name: str, amount: float = 1.0, **labels: str) -> None:
        """Add to a counter."""
        ...

    def gauge(self, name: str, value: float, **labels: str) -> None:
        """Set a gauge."""
        ...

    def observe(self, name: str, value: float, times: int = 1, **labels: str) -> None:
        """Add a sample to a histogram, or so many alike."""
        ...

    def forget(self, name: str, **labels: str) -> None:
        """Drop the series with these labels."""
        ...


class NoProbe:
    """Reports to nobody."""

    def count(self, name: str, amount: float = 1.0, **labels: str) -> None:
        """Ignore."""

    def gauge(self, name: str, value: float, **labels: str) -> None:
        """Ignore."""

    def observe(self, name: str, value: float, times: int = 1, **labels: str) -> None:
        """Ignore."""

    def forget(self, name: str, **labels: str) -> None:
        """Ignore."""
