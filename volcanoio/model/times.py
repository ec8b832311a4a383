"""Times as Kubernetes writes them (`metav1.Time`), from and to seconds since the epoch."""

from __future__ import annotations

from datetime import UTC, datetime
from functools import lru_cache


@lru_cache(maxsize=1024)
def _text(second: int) -> str:
    return datetime.fromtimestamp(second, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def rfc3339(moment: float) -> str:
    """Epoch seconds as UTC, whole seconds, `Z`."""
    return _text(int(moment))  # the pods of a cluster begin and end by thousands in one second


def epoch(text: str | None) -> float | None:
    """A timestamp in epoch seconds; None for none. Raises ValueError for what is no timestamp."""
    return datetime.fromisoformat(text).timestamp() if text else None
