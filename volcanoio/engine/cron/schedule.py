"""Cron schedules: time zones, run times, the grammar, and which run of a CronJob is due.

The grammar is robfig/cron v3's standard one (`cron.ParseStandard`), which Volcano and Kubernetes use: five fields
(minute, hour, day of month, month, weekday) of lists, ranges, steps and names; `*` and `?` alike; the descriptors
`@yearly` to `@hourly`; `@every` with a Go duration; before it `TZ=` or `CRON_TZ=`. Moments are epoch seconds. Every
instant at which the zone's clock shows a minute of the schedule is a run: the hour left out by a change to summer time
has none, and the hour repeated by the change back has them twice. Time zones are constant while a process runs, and a
replay needs the same.
"""

import re
from collections.abc import Iterator, Mapping
from datetime import UTC, date, datetime, time, timedelta
from functools import lru_cache
from typing import NamedTuple
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

import msgspec

from volcanoio.framework.arguments import suggestion
from volcanoio.model import times
from volcanoio.model.batch import CronJob
from volcanoio.model.times import epoch

_ZONE_PART = re.compile(r"[A-Za-z._0-9+-]{1,14}").fullmatch
_LONGEST_NAME = 64
"""Characters; the longest in the database has 32. Names of many parts exceed the recursion limit in `zoneinfo`."""
UTC_NAME = "UTC"


class TimeZoneError(ValueError):
    """An invalid time zone; the message names the rule that it breaks."""


@lru_cache(maxsize=256)
def zone(name: str) -> ZoneInfo:
    """Return the time zone of that name, UTC for ""; raises TimeZoneError.

    `Local` is refused, as it means another time on every machine.
    """
    if name in ("", UTC_NAME):
        return ZoneInfo(UTC_NAME)
    if rule := zone_name_error(name):
        raise TimeZoneError(rule)
    try:
        return ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError, OSError):
        msg = f'"{name}" is not in the time zone database; give a name such as Europe/Berlin or Etc/UTC'
        raise TimeZoneError(msg) from None


def zone_name_error(name: str) -> str:
    """Return why a zone's name is malformed; "" when it is not (Volcano: webhooks/admission/cronjobs)."""
    if name.lower() == "local":
        return '"Local" is another time zone on every machine; give a name such as Europe/Berlin'
    if len(name) > _LONGEST_NAME:
        return f'"{name[:_LONGEST_NAME]}..." is longer than any time zone\'s name; give a name such as Europe/Berlin'
    for part in name.split("/"):
        if part in (".", "..") or part.startswith("-") or _ZONE_PART(part) is None:
            return (
                f'"{part}" in "{name}" is not a part of a time zone\'s name: 1 to 14 letters, digits, ".", "-", "_" or '
                '"+", not beginning with "-"'
            )
    return ""


YEARS_AHEAD = 5
"""Years within which the next run is searched (robfig/cron: SpecSchedule.Next); a 30th of February never comes."""
_DAY = timedelta(days=1)


class Every(msgspec.Struct, frozen=True, tag=True):
    """`@every`: whole seconds from one run to the next, at least 1."""

    seconds: int

    def next_after(self, moment: float) -> int | None:
        """Return the first run after a run at `moment`."""
        return int(moment) + self.seconds

    def latest(self, since: float, upto: float) -> int | None:
        """Return the last run in (since, upto], counted from a run at `since`; None when there is none."""
        steps = int(upto - int(since)) // self.seconds
        return int(since) + steps * self.seconds if steps > 0 else None


class Fields(msgspec.Struct, frozen=True, tag=True):
    """Five fields. Weekdays count from Sunday, 0.

    `both`: the day of the month and the weekday must both fit (one of them is `*` or `?`); else one is enough.
    """

    minutes: tuple[int, ...]
    hours: tuple[int, ...]
    days: frozenset[int]
    months: frozenset[int]
    weekdays: frozenset[int]
    both: bool
    zone: str = ""

    def next_after(self, moment: float) -> int | None:
        """Return the first run after `moment`; None when there is none in the next years."""
        begin = int(moment)
        first = datetime.fromtimestamp(begin, zone(self.zone)).date()
        for day in self._days_from(first):
            if found := [run for run in self._runs_about(day) if run > begin]:
                return min(found)
        return None

    def latest(self, since: float, upto: float) -> int | None:
        """Return the last run in (since, upto]; None when there is none."""
        here = zone(self.zone)
        first = datetime.fromtimestamp(int(since), here).date()
        day = datetime.fromtimestamp(int(upto), here).date()
        while day >= first:
            if self._fits(day) and (found := [run for run in self._runs_about(day) if since < run <= upto]):
                return max(found)
            day -= _DAY
        return None

    def _days_from(self, day: date) -> Iterator[date]:
        last = min(day.year + YEARS_AHEAD, date.max.year - 1)
        while day.year <= last:
            if day.month not in self.months:
                day = (day.replace(day=1) + timedelta(days=32)).replace(day=1)
                continue
            if self._fits(day):
                yield day
            day += _DAY

    def _fits(self, day: date) -> bool:
        if day.month not in self.months:
            return False
        of_month, of_week = day.day in self.days, day.isoweekday() % 7 in self.weekdays
        return of_month and of_week if self.both else of_month or of_week

    def _runs_about(self, day: date) -> list[int]:
        """Return the runs of a day; if its clocks change those of the next day too, as the two may overlap."""
        if len(offsets := self._offsets(day)) == 1:
            (offset,) = offsets
            midnight = int((datetime.combine(day, time(), UTC) - offset).timestamp())
            return [midnight + 3600 * hour + 60 * minute for hour in self.hours for minute in self.minutes]
        return [run for each in (day, day + _DAY) if self._fits(each) for run in self._checked(each, offsets)]

    def _offsets(self, day: date) -> set[timedelta]:
        """Return the zone's UTC offsets at both ends of a day."""
        here = zone(self.zone)
        ends = (datetime.combine(day, time()), datetime.combine(day + _DAY, time()).replace(fold=1))
        return {offset for offset in (here.utcoffset(end) for end in ends) if offset is not None}

    def _checked(self, day: date, offsets: set[timedelta]) -> Iterator[int]:
        """Iterate over the runs of a day with a clock change: instants at which the clock really shows the time."""
        here = zone(self.zone)
        for offset in offsets:
            for hour in self.hours:
                for minute in self.minutes:
                    shown = datetime.combine(day, time(hour, minute))
                    instant = shown.replace(tzinfo=UTC) - offset
                    if instant.astimezone(here).replace(tzinfo=None, fold=0) == shown:
                        yield int(instant.timestamp())


Schedule = Every | Fields


class ScheduleError(ValueError):
    """An invalid schedule; the message names the part, the rule and the next step."""


class Bounds(NamedTuple):
    """Bounds of a field's values."""

    title: str
    least: int
    most: int
    names: Mapping[str, int] = {}


_MONTHS = "jan feb mar apr may jun jul aug sep oct nov dec"
_WEEKDAYS = "sun mon tue wed thu fri sat"
FIELD_BOUNDS = (
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
_EVERY_PREFIX = "@every "
_ZONED = re.compile(r"(?:CRON_)?TZ=(\S*)\s*(.*)", re.DOTALL)
_NUMBER = re.compile(r"\+?[0-9]+").fullmatch
_WILDCARDS = ("*", "?")
_MAX_LENGTH = 4096
"""Characters of a schedule: all values of all fields, written one by one, have 450."""
_MAX_DIGITS = 9


@lru_cache(maxsize=4096)
def parse(text: str, default_zone: str = "") -> Schedule:
    """Parse a schedule; one without a time zone of its own is in `default_zone` ("" for UTC).

    Raises ScheduleError, and TimeZoneError for `default_zone`.
    """
    if len(text) > _MAX_LENGTH:
        raise ScheduleError(f'longer than {_MAX_LENGTH} characters; give five fields such as "30 2 * * *"')
    name = default_zone
    if (zoned := _ZONED.match(text)) is not None:
        name, text = zoned.groups()
        try:
            zone(name)
        except TimeZoneError as error:
            raise ScheduleError(f"TZ: {error}") from None
    zone(name)
    if not (text := text.strip()):
        msg = 'the schedule is empty; give five fields such as "30 2 * * *", or a descriptor such as @hourly'
        raise ScheduleError(msg)
    if text.startswith(_EVERY_PREFIX):
        return _parse_every(text.removeprefix(_EVERY_PREFIX))
    if text.startswith("@"):
        if text not in DESCRIPTORS:
            raise ScheduleError(f'there is no descriptor "{text}"{suggestion(text, [*DESCRIPTORS, "@every"])}')
        text = DESCRIPTORS[text]
    return _parse_fields(text, name)


def _parse_every(text: str) -> Every:
    """Parse `@every`, rounded down to whole seconds and at least one (robfig/cron: Every)."""
    sign, amount = (text[0], text[1:]) if text[:1] in ("+", "-") else ("+", text)
    try:
        seconds = times.parse_duration(amount) if amount == amount.strip() else None
    except times.DurationError:
        seconds = None
    if seconds is None:
        msg = f'"{text}" after @every is not a duration; write numbers with units (ms, s, m, h), such as 90s or 1h30m'
        raise ScheduleError(msg)
    return Every(max(1, int(round(seconds, 6))) if sign == "+" else 1)


def _parse_fields(text: str, name: str) -> Fields:
    if len(parts := text.split()) != len(FIELD_BOUNDS):
        titles = ", ".join(bounds.title for bounds in FIELD_BOUNDS)
        msg = f'expected exactly 5 fields ({titles}), found {len(parts)}: "{text}"; give one for each, * for any'
        raise ScheduleError(msg)
    minutes, hours, days, months, weekdays = (
        _parse_field(part, bounds) for part, bounds in zip(parts, FIELD_BOUNDS, strict=True)
    )
    return Fields(
        minutes=tuple(sorted(minutes[0])),
        hours=tuple(sorted(hours[0])),
        days=days[0],
        months=months[0],
        weekdays=weekdays[0],
        both=days[1] or weekdays[1],
        zone=name,
    )


def _parse_field(text: str, bounds: Bounds) -> tuple[frozenset[int], bool]:
    """Return the values of a list, and whether it has a wildcard without a step. Empty entries are ignored."""
    parts = [_parse_range(part, bounds) for part in text.split(",") if part]
    return frozenset(value for values, _ in parts for value in values), any(free for _, free in parts)


def _parse_range(text: str, bounds: Bounds) -> tuple[range, bool]:
    """Parse `*`, `n` or `a-b`, with an optional `/step`; `n/step` ends at the maximum. `*/2` is no wildcard."""
    span, *steps = text.split("/")
    low, *high = span.split("-")
    if len(steps) > 1 or (len(high) > 1 and low not in _WILDCARDS):
        surplus = "slashes" if len(steps) > 1 else "hyphens"
        raise ScheduleError(f'{bounds.title}: "{text}" has too many {surplus}; write a-b or a-b/step')
    step = _parse_number(steps[0], text, bounds, {}) if steps else 1
    free = low in _WILDCARDS
    first = bounds.least if free else _parse_number(low, text, bounds, bounds.names)
    last = first
    if free or (steps and not high):
        last = bounds.most
    elif high:
        last = _parse_number(high[0], text, bounds, bounds.names)
    if not bounds.least <= first <= last <= bounds.most or step == 0:
        rule = f"values go from {bounds.least} to {bounds.most}, a range from the lower to the higher, a step from 1 on"
        raise ScheduleError(f'{bounds.title}: "{text}" is out of bounds; {rule}')
    return range(first, last + 1, step), free and step == 1


def _parse_number(text: str, part: str, bounds: Bounds, names: Mapping[str, int]) -> int:
    if (value := names.get(text.lower())) is not None:
        return value
    if _NUMBER(text) is None:
        known = f" or one of {', '.join(names)}" if names else ""
        raise ScheduleError(f'{bounds.title}: "{text}" in "{part}" is not a whole number{known}')
    return int(text) if len(text) <= _MAX_DIGITS else 10**_MAX_DIGITS


MAX_MISSED_RUNS = 100
"""Number of missed runs above which a warning is recorded (Kubernetes: pkg/controller/cronjob)."""


class DueRuns(msgspec.Struct, frozen=True):
    """Runs relative to now; times are epoch seconds, None for none.

    - `run`: newest run that is due; `too_late`: newest run, if its deadline has passed
    - `following`: next run that is not due yet; `since`: start of the period of missed runs
    """

    since: float
    run: int | None = None
    too_late: int | None = None
    following: int | None = None


class UnschedulableError(ValueError):
    """A CronJob that cannot be scheduled; `reason` is for an Event."""

    def __init__(self, reason: str, message: str) -> None:
        super().__init__(message)
        self.reason = reason


def schedule_of(cron: CronJob) -> Schedule:
    """Return the CronJob's schedule, in UTC without a time zone. Raises UnschedulableError."""
    spec = cron.spec
    try:
        return parse(spec.schedule, "" if has_own_zone(cron) else spec.time_zone or "")
    except TimeZoneError as error:
        raise UnschedulableError("InvalidTimeZone", f"spec.timeZone: {error}") from None
    except ScheduleError as error:
        raise UnschedulableError("InvalidSchedule", f"spec.schedule: {error}") from None


def has_own_zone(cron: CronJob) -> bool:
    """Return whether the schedule's text has a time zone (a deprecated form), which takes precedence."""
    return "TZ" in cron.spec.schedule


def find_due_runs(cron: CronJob, schedule: Schedule, last: float | None, now: float) -> DueRuns:
    """Return the runs since the last one, or the creation: the newest is due unless its deadline has passed."""
    since = last if last is not None else epoch(cron.metadata.creation_timestamp)
    since = now if since is None else since
    if (newest := schedule.latest(since, now)) is None:
        return DueRuns(since, following=schedule.next_after(since))
    following = schedule.next_after(newest)
    if (deadline := cron.spec.starting_deadline_seconds) is None:
        return DueRuns(since, run=newest, following=following)
    if newest < now - deadline:
        return DueRuns(since, too_late=newest, following=following)
    return DueRuns(max(since, now - deadline), run=newest, following=following)


def has_too_many_missed_runs(schedule: Schedule, due: DueRuns) -> bool:
    """Return whether more than MAX_MISSED_RUNS were due since the last one, within the deadline."""
    moment: float | None = due.since
    for _ in range(MAX_MISSED_RUNS + 1):
        moment = None if moment is None else schedule.next_after(moment)
        if moment is None or due.run is None or moment > due.run:
            return False
    return True
