"""Timestamps as Kubernetes writes them, from and to epoch seconds."""

from __future__ import annotations

from datetime import UTC, datetime


def rfc3339(moment: float) -> str:
    """Epoch seconds as UTC, whole seconds, `Z`."""
    return datetime.fromtimestamp(int(moment), UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def epoch(text: str | None) -> float | None:
    """A timestamp in epoch seconds; None for none."""
    return datetime.fromisoformat(text).timestamp() if text else None
