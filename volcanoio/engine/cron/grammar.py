"""Reading a schedule: the standard grammar of robfig/cron v3 (`cron.ParseStandard`), which Volcano and Kubernetes use.

Five fields (minute, hour, day of month, month, weekday) of lists, ranges, steps and names; `*` and `?` alike; the
descriptors `@yearly` to `@hourly`; `@every` with a Go duration; before it `TZ=` or `CRON_TZ=` with a time zone.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import lru_cache
from typing import NamedTuple

from volcanoio.engine.cron.calendar import Every, Fields, Schedule
from volcanoio.engine.cron.zones import TimeZoneError, zone
from volcanoio.framework.arguments import suggestion
from volcanoio.model import durations


class ScheduleError(ValueError):
    """A text that is no schedule; the message names the part, the rule and the next step."""


class Bounds(NamedTuple):
    """What a field may hold."""

    title: str
    least: int
    most: int
    names: Mapping[str, int] = {}


_MONTHS = "jan feb mar apr may jun jul aug sep oct nov dec"
_WEEKDAYS = "sun mon tue wed thu fri sat"
FIELDS = (
    Bounds("minute", 0, 59),
    Bounds("hour", 0, 23),
    Bounds("day of month", 1, 31),
    Bounds("month", 1, 12, {name: number for number, name in enumerate(_MONTHS.split(), start=1)}),
    Bounds("weekday", 0, 6, {name: number for number, name in enumerate(_WEEKDAYS.split())}),
)
DESCRIPTORS: Mapping[str, str] = {
    "@yearly": "0 0 1 1 *",
    "@annually": "0 0 1 1 *",
    "@monthly": "0 0 1 * *",
    "@weekly": "0 0 * * 0",
    "@daily": "0 0 * * *",
    "@midnight": "0 0 * * *",
    "@hourly": "0 * * * *",
}
_EVERY = "@every "
_ZONED = re.compile(r"(?:CRON_)?TZ=(\S*)\s*(.*)", re.DOTALL)
_NUMBER = re.compile(r"\+?[0-9]+").fullmatch
_ANY = ("*", "?")
_LONGEST = 2.0**63 / 1e9
"""Seconds: what a Go duration holds."""


@lru_cache(maxsize=4096)
def parse(text: str, default_zone: str = "") -> Schedule:
    """The schedule; one without a time zone of its own is in `default_zone` ("" for UTC).

    Raises ScheduleError, and TimeZoneError for `default_zone`.
    """
    name = default_zone
    if (zoned := _ZONED.match(text)) is not None:
        name, text = zoned.groups()
        try:
            zone(name)
        except TimeZoneError as error:
            msg = f"TZ: {error}"
            raise ScheduleError(msg) from None
    zone(name)
    text = text.strip()
    if not text:
        msg = 'the schedule is empty; give five fields such as "30 2 * * *", or a descriptor such as @hourly'
        raise ScheduleError(msg)
    if text.startswith(_EVERY):
        return _every(text.removeprefix(_EVERY))
    if text.startswith("@"):
        if text not in DESCRIPTORS:
            msg = f'there is no descriptor "{text}"{suggestion(text, [*DESCRIPTORS, "@every"])}'
            raise ScheduleError(msg)
        text = DESCRIPTORS[text]
    return _fields(text, name)


def _every(text: str) -> Every:
    """As robfig's `Every`: whole seconds, and never less than one."""
    sign, amount = (text[0], text[1:]) if text[:1] in ("+", "-") else ("+", text)
    try:
        seconds = durations.seconds(amount) if amount == amount.strip() else float("inf")
    except durations.DurationError:
        seconds = float("inf")
    if seconds >= _LONGEST:
        msg = f'"{text}" after @every is not a duration; write numbers with units (ms, s, m, h), such as 90s or 1h30m'
        raise ScheduleError(msg)
    return Every(max(1, int(round(seconds, 6))) if sign == "+" else 1)


def _fields(text: str, name: str) -> Fields:
    parts = text.split()
    if len(parts) != len(FIELDS):
        titles = ", ".join(bounds.title for bounds in FIELDS)
        msg = f'expected exactly 5 fields ({titles}), found {len(parts)}: "{text}"; give one for each, * for any'
        raise ScheduleError(msg)
    minutes, hours, days, months, weekdays = (_field(part, bounds) for part, bounds in zip(parts, FIELDS, strict=True))
    return Fields(
        minutes=tuple(sorted(minutes[0])),
        hours=tuple(sorted(hours[0])),
        days=days[0],
        months=months[0],
        weekdays=weekdays[0],
        both=days[1] or weekdays[1],
        zone=name,
    )


def _field(text: str, bounds: Bounds) -> tuple[frozenset[int], bool]:
    """The values of a list, and whether it takes any value as it comes. Empty entries count for nothing."""
    parts = [_range(part, bounds) for part in text.split(",") if part]
    return frozenset(value for values, _ in parts for value in values), any(free for _, free in parts)


def _range(text: str, bounds: Bounds) -> tuple[range, bool]:
    """`*`, `n`, `a-b`, each perhaps with `/step`; `n/step` goes on to the end. A step above 1 makes `*` a choice."""
    span, *steps = text.split("/")
    low, *high = span.split("-")
    if len(steps) > 1 or (len(high) > 1 and low not in _ANY):
        surplus = "slashes" if len(steps) > 1 else "hyphens"
        msg = f'{bounds.title}: "{text}" has too many {surplus}; write a-b or a-b/step'
        raise ScheduleError(msg)
    step = _number(steps[0], text, bounds, {}) if steps else 1
    free = low in _ANY
    first = bounds.least if free else _number(low, text, bounds, bounds.names)
    last = first
    if free or (steps and not high):
        last = bounds.most
    elif high:
        last = _number(high[0], text, bounds, bounds.names)
    if not bounds.least <= first <= last <= bounds.most or step == 0:
        rule = f"values go from {bounds.least} to {bounds.most}, a range from the lower to the higher, a step from 1 on"
        msg = f'{bounds.title}: "{text}" is out of bounds; {rule}'
        raise ScheduleError(msg)
    return range(first, last + 1, step), free and step == 1


def _number(text: str, part: str, bounds: Bounds, names: Mapping[str, int]) -> int:
    value = names.get(text.lower())
    if value is not None:
        return value
    if _NUMBER(text) is None:
        known = f" or one of {', '.join(names)}" if names else ""
        msg = f'{bounds.title}: "{text}" in "{part}" is no whole number{known}'
        raise ScheduleError(msg)
    return int(text)
