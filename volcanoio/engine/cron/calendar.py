"""When a schedule's runs are: the first after a moment, and the last up to one.

Moments are epoch seconds. A schedule of fields names wall-clock minutes of its zone: every instant at which the zone's
clock shows such a minute is a run. So a run in the hour that a change to summer time leaves out does not happen, and
one in the hour that the change back repeats happens twice, as with robfig/cron.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, date, datetime, time, timedelta

import msgspec

from volcanoio.engine.cron.zones import zone

YEARS_AHEAD = 5
"""How many years on a run is looked for (robfig/cron: SpecSchedule.Next); a 30th of February never comes."""
_DAY = timedelta(days=1)


class Every(msgspec.Struct, frozen=True, tag=True):
    """`@every`: whole seconds from one run to the next, at least 1."""

    seconds: int

    def next_after(self, moment: float) -> int | None:
        """The first run after a run at `moment`."""
        return int(moment) + self.seconds

    def latest(self, since: float, upto: float) -> int | None:
        """The last run in (since, upto], counted from a run at `since`; None when there is none."""
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
        """The first run after `moment`; None when there is none in the next years."""
        begin = int(moment)
        first = datetime.fromtimestamp(begin, zone(self.zone)).date()
        for day in self._days_from(first):
            found = [run for run in self._runs_about(day) if run > begin]
            if found:
                return min(found)
        return None

    def latest(self, since: float, upto: float) -> int | None:
        """The last run in (since, upto]; None when there is none."""
        here = zone(self.zone)
        first = datetime.fromtimestamp(int(since), here).date()
        day = datetime.fromtimestamp(int(upto), here).date()
        while day >= first:
            if self._fits(day):
                found = [run for run in self._runs_about(day) if since < run <= upto]
                if found:
                    return max(found)
            day -= _DAY
        return None

    def _days_from(self, day: date) -> Iterator[date]:
        """The days that fit, from one on."""
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
        """The runs of a day; where its clocks are changed those of the next too, as the two may overlap."""
        offsets = self._offsets(day)
        if len(offsets) == 1:
            (offset,) = offsets
            midnight = int((datetime.combine(day, time(), UTC) - offset).timestamp())
            return [midnight + 3600 * hour + 60 * minute for hour in self.hours for minute in self.minutes]
        return [run for each in (day, day + _DAY) if self._fits(each) for run in self._checked(each, offsets)]

    def _offsets(self, day: date) -> set[timedelta]:
        """What the zone's clock is ahead of UTC by at the day's two ends."""
        here = zone(self.zone)
        ends = (datetime.combine(day, time()), datetime.combine(day + _DAY, time()).replace(fold=1))
        return {offset for offset in (here.utcoffset(end) for end in ends) if offset is not None}

    def _checked(self, day: date, offsets: set[timedelta]) -> Iterator[int]:
        """The runs of a day whose clocks are changed: instants at which they really show the time."""
        here = zone(self.zone)
        for offset in offsets:
            for hour in self.hours:
                for minute in self.minutes:
                    shown = datetime.combine(day, time(hour, minute))
                    instant = shown.replace(tzinfo=UTC) - offset
                    if instant.astimezone(here).replace(tzinfo=None, fold=0) == shown:
                        yield int(instant.timestamp())


Schedule = Every | Fields
