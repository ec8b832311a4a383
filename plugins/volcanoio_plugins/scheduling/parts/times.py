"""Timestamps and durations as plugins read them from objects."""

from __future__ import annotations

from datetime import datetime
from functools import lru_cache

from volcanoio.model import durations


@lru_cache(maxsize=1 << 16)
def epoch(text: str | None) -> float | None:
    """An RFC 3339 timestamp in seconds since the epoch, None when it is none."""
    try:
        return datetime.fromisoformat(text).timestamp() if text else None
    except ValueError:
        return None


@lru_cache(maxsize=1024)
def positive_duration(text: str) -> float | None:
    """A Go duration in seconds, None when it is none or not more than 0."""
    try:
        return durations.seconds(text) or None
    except durations.DurationError:
        return None
