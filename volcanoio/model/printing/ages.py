"""Durations in readable form, to two digits' precision (Kubernetes: apimachinery `duration.HumanDuration`)."""

from datetime import datetime

UNKNOWN = "<unknown>"
_MINUTE, _HOUR, _DAY = 60, 3600, 86400
_YEAR = 365 * _DAY

# Below `limit` seconds, the number of larger units and, if a smaller one is given, the rest in it.
_SCALES: tuple[tuple[float, int, str, int, str], ...] = (
    (2 * _MINUTE, 1, "s", 0, ""),
    (10 * _MINUTE, _MINUTE, "m", 1, "s"),
    (3 * _HOUR, _MINUTE, "m", 0, ""),
    (8 * _HOUR, _HOUR, "h", _MINUTE, "m"),
    (2 * _DAY, _HOUR, "h", 0, ""),
    (8 * _DAY, _DAY, "d", _HOUR, "h"),
    (2 * _YEAR, _DAY, "d", 0, ""),
    (8 * _YEAR, _YEAR, "y", _DAY, "d"),
    (float("inf"), _YEAR, "y", 0, ""),
)


def human_duration(seconds: float) -> str:
    """Format as `90s`, `3m5s`, `7h12m`, `3d4h` …; slightly negative values are `0s`, since clocks differ."""
    if (whole := int(seconds)) < -1:
        return "<invalid>"
    whole = max(0, whole)
    for limit, unit, letter, smaller, small_letter in _SCALES:
        if whole < limit:
            rest = whole % unit // smaller if smaller else 0
            return f"{whole // unit}{letter}" + (f"{rest}{small_letter}" if rest else "")
    raise AssertionError("the last scale has no limit")


def since(timestamp: str | None, now: datetime) -> str:
    """Return the time since an RFC 3339 time; `<unknown>` without one."""
    if not timestamp:
        return UNKNOWN
    try:
        return human_duration((now - datetime.fromisoformat(timestamp)).total_seconds())
    except (ValueError, TypeError):  # not a time, or one without a zone
        return "<invalid>"
