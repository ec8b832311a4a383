"""Times as the API writes them."""

from __future__ import annotations

from datetime import UTC, datetime


def timestamp(at: float) -> str:
    """Epoch seconds as RFC 3339."""
    return datetime.fromtimestamp(at, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
