"""Go durations such as `1m30s` and `250ms`, as Kubernetes and Volcano write them in annotations and policies."""

from __future__ import annotations

import re

_SECONDS = {"ns": 1e-9, "us": 1e-6, "µs": 1e-6, "ms": 1e-3, "s": 1.0, "m": 60.0, "h": 3600.0}
_PART = r"(\d+\.?\d*|\.\d+)(ns|us|µs|ms|s|m|h)"
_WHOLE = re.compile(rf"(?:{_PART})+")
_EACH = re.compile(_PART)


class DurationError(ValueError):
    """A string that is not a duration."""


def seconds(text: str) -> float:
    """A duration of zero or more in seconds; raises DurationError with the rule."""
    text = text.strip()
    if text == "0":
        return 0.0
    if _WHOLE.fullmatch(text) is None:
        msg = f"{text!r} is not a duration; write numbers with units (ms, s, m, h), such as 30s, 250ms or 1m30s"
        raise DurationError(msg)
    return sum(float(number) * _SECONDS[unit] for number, unit in _EACH.findall(text))


def text(amount: int) -> str:
    """Whole seconds as Go prints a duration: `0s`, `45s`, `1m30s`, `2h0m5s`."""
    minutes, rest = divmod(amount, 60)
    hours, minutes = divmod(minutes, 60)
    if hours:
        return f"{hours}h{minutes}m{rest}s"
    return f"{minutes}m{rest}s" if minutes else f"{rest}s"
