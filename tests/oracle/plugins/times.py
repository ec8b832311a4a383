"""Timestamps and durations, in the forms that the tests write."""

from __future__ import annotations

from datetime import datetime

_UNITS = {"s": 1.0, "m": 60.0, "h": 3600.0}


def seconds(text: str | None) -> float | None:
    """Parse a duration such as `30s`, `5m` or `1h`; without text return None."""
    return float(text[:-1]) * _UNITS[text[-1]] if text else None


def epoch(text: str) -> float:
    return datetime.fromisoformat(text).timestamp()
