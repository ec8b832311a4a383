"""Timestamps in Kubernetes' format (`metav1.Time`) and Go durations such as `1m30s` and `250ms`.

Times are seconds since the epoch, durations are seconds.
"""

import re
from datetime import UTC, datetime
from functools import lru_cache


@lru_cache(maxsize=1024)
def _rfc3339(second: int) -> str:
    return datetime.fromtimestamp(second, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def rfc3339(moment: float) -> str:
    """Format epoch seconds in UTC, in whole seconds, with `Z`."""
    return _rfc3339(int(moment))  # cached: thousands of pods start and end in one second


def epoch(text: str | None) -> float | None:
    """Return a timestamp in epoch seconds; None for None. Raises ValueError if it is invalid."""
    return datetime.fromisoformat(text).timestamp() if text else None


_UNIT_SECONDS = {"ns": 1e-9, "us": 1e-6, "µs": 1e-6, "ms": 1e-3, "s": 1.0, "m": 60.0, "h": 3600.0}
_PART_PATTERN = r"([0-9]+\.?[0-9]*|\.[0-9]+)(ns|us|µs|ms|s|m|h)"
_DURATION = re.compile(rf"(?:{_PART_PATTERN})+")
_DURATION_PART = re.compile(_PART_PATTERN)
_MAX_LENGTH = 128
"""Characters of a duration; matching the pattern is quadratic in the digits of a number without a unit."""
_SHOWN = 64
"""Characters of an invalid text that messages contain."""


MAX_DURATION = 2.0**63 / 1e9
"""Seconds: the range of a Go duration, 292 years."""


class DurationError(ValueError):
    """The string is not a duration."""


def parse_duration(text: str) -> float:
    """Return a duration of zero or more in seconds; raises DurationError with the rule."""
    if (text := text.strip()) == "0":
        return 0.0
    if len(text) > _MAX_LENGTH or _DURATION.fullmatch(text) is None:
        shown = text if len(text) <= _SHOWN else f"{text[:_SHOWN]}…"
        msg = f"{shown!r} is not a duration; write numbers with units (ms, s, m, h), such as 30s, 250ms or 1m30s"
        raise DurationError(msg)
    seconds = sum(float(number) * _UNIT_SECONDS[unit] for number, unit in _DURATION_PART.findall(text))
    if seconds >= MAX_DURATION:
        shown = text if len(text) <= _SHOWN else f"{text[:_SHOWN]}…"
        raise DurationError(f"{shown!r} is longer than 292 years, the longest duration; write a shorter one")
    return seconds


def go_duration(amount: int) -> str:
    """Format whole seconds as a Go duration: `0s`, `45s`, `1m30s`, `2h0m5s`."""
    minutes, rest = divmod(amount, 60)
    hours, minutes = divmod(minutes, 60)
    if hours:
        return f"{hours}h{minutes}m{rest}s"
    return f"{minutes}m{rest}s" if minutes else f"{rest}s"


@lru_cache(maxsize=1 << 16)
def epoch_or_none(text: str | None) -> float | None:
    """Return an RFC 3339 timestamp in seconds since the epoch, None if it is invalid."""
    try:
        return datetime.fromisoformat(text).timestamp() if text else None
    except ValueError:
        return None


@lru_cache(maxsize=1024)
def positive_duration(text: str) -> float | None:
    """Return a Go duration in seconds, None if it is invalid or not positive."""
    try:
        return parse_duration(text) or None
    except DurationError:
        return None
