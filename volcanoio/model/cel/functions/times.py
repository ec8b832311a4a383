"""Timestamps and durations: their text and their parts (cel-spec, "Abstract types")."""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import UTC, datetime, timedelta, timezone, tzinfo
from decimal import Decimal
from typing import Any, Final
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from volcanoio.model.cel.errors import EvaluationError, NoSuchOverload
from volcanoio.model.cel.signatures import Declared
from volcanoio.model.cel.values import Duration, Timestamp

_SECOND: Final = 1_000_000_000
_UNITS: Final = {
    "ns": 1,
    "us": 1_000,
    "µs": 1_000,
    "μs": 1_000,
    "ms": 1_000_000,
    "s": _SECOND,
    "m": 60 * _SECOND,
    "h": 3600 * _SECOND,
}
_DURATION: Final = re.compile(r"[+-]?(?:(?:\d+\.?\d*|\.\d+)(?:ns|us|µs|μs|ms|s|m|h))+")
_PART: Final = re.compile(r"(\d+\.?\d*|\.\d+)(ns|us|µs|μs|ms|s|m|h)")
_MOMENT: Final = re.compile(r"(\d{4})-(\d\d)-(\d\d)T(\d\d):(\d\d):(\d\d)(?:[.,](\d+))?(Z|[+-]\d\d:\d\d)")
_OFFSET: Final = re.compile(r"([+-]?)(\d\d):(\d\d)")
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


def parse_duration(text: str) -> int:
    """Parse a duration such as `1h30m` into nanoseconds (Go's `time.ParseDuration`).

    Raises ValueError.
    """
    if text.lstrip("+-") == "0" and len(text) <= 2:
        return 0
    if _DURATION.fullmatch(text) is None:
        raise ValueError(f"not a duration: {text}")
    total = sum(int(Decimal(number) * _UNITS[unit]) for number, unit in _PART.findall(text))
    return -total if text.startswith("-") else total


def duration_text(value: int) -> str:
    """Return seconds with the suffix `s`, as `string(duration)` does."""
    seconds = Decimal(value) / _SECOND
    return f"{seconds.normalize():f}s" if value else "0s"


def parse_timestamp(text: str) -> int:
    """Parse an RFC 3339 time into nanoseconds since 1970; raises ValueError."""
    match = _MOMENT.fullmatch(text)
    if match is None:
        raise ValueError(f"not a time: {text}")
    year, month, day, hour, minute, second = (int(one) for one in match.groups()[:6])
    moment = datetime(year, month, day, hour, minute, second, tzinfo=UTC)
    zone = match[8]
    offset = 0 if zone == "Z" else (int(zone[1:3]) * 60 + int(zone[4:6])) * (-1 if zone[0] == "-" else 1)
    whole = (moment - _EPOCH) // timedelta(seconds=1) - offset * 60
    return whole * _SECOND + int((match[7] or "0")[:9].ljust(9, "0"))


def timestamp_text(value: int) -> str:
    """Return an RFC 3339 time in UTC, with as many fractional digits as needed."""
    seconds, rest = divmod(value, _SECOND)
    moment = _EPOCH + timedelta(seconds=seconds)
    fraction = f".{rest:09d}".rstrip("0") if rest else ""
    return f"{moment:%Y-%m-%dT%H:%M:%S}{fraction}Z"


def _zone(name: str) -> tzinfo:
    match = _OFFSET.fullmatch(name)
    if match is not None:
        minutes = int(match[2]) * 60 + int(match[3])
        return timezone(timedelta(minutes=-minutes if match[1] == "-" else minutes))
    try:
        return ZoneInfo(name) if name else UTC
    except (ZoneInfoNotFoundError, ValueError, OSError):
        raise EvaluationError(f"unknown time zone {name}") from None


def _part(of_time: Callable[[datetime], int], of_span: Callable[[int], int] | None = None) -> Callable[..., int]:
    def part(value: Any, zone: Any = "") -> int:
        if type(value) is Timestamp and type(zone) is str:
            moment = _EPOCH + timedelta(microseconds=value // 1000)
            return of_time(moment.astimezone(_zone(zone)))
        if type(value) is Duration and of_span is not None:
            return of_span(value)
        raise NoSuchOverload

    return part


def _cut(value: int, unit: int) -> int:
    return abs(value) // unit * (-1 if value < 0 else 1)


_MOMENTS = "timestamp.() -> int; timestamp.(string) -> int"
_BOTH = f"{_MOMENTS}; duration.() -> int"

TABLE: dict[str, Declared] = {
    "getFullYear": Declared(_MOMENTS, _part(lambda one: one.year)),
    "getMonth": Declared(_MOMENTS, _part(lambda one: one.month - 1)),
    "getDayOfYear": Declared(_MOMENTS, _part(lambda one: one.timetuple().tm_yday - 1)),
    "getDayOfMonth": Declared(_MOMENTS, _part(lambda one: one.day - 1)),
    "getDate": Declared(_MOMENTS, _part(lambda one: one.day)),
    "getDayOfWeek": Declared(_MOMENTS, _part(lambda one: one.isoweekday() % 7)),
    "getHours": Declared(_BOTH, _part(lambda one: one.hour, lambda span: _cut(span, 3600 * _SECOND))),
    "getMinutes": Declared(_BOTH, _part(lambda one: one.minute, lambda span: _cut(span, 60 * _SECOND))),
    "getSeconds": Declared(_BOTH, _part(lambda one: one.second, lambda span: _cut(span, _SECOND))),
    "getMilliseconds": Declared(_BOTH, _part(lambda one: one.microsecond // 1000, lambda span: _cut(span, 1_000_000))),
}
