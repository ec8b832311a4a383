"""Which run is due now, how many were missed before it, and when the next one is."""

from __future__ import annotations

import msgspec

from volcanoio.engine.cron.calendar import Schedule
from volcanoio.engine.cron.grammar import ScheduleError, parse
from volcanoio.engine.cron.zones import TimeZoneError
from volcanoio.model.cron import CronJob
from volcanoio.model.times import epoch

MANY = 100
"""So many missed runs are told of (Kubernetes: pkg/controller/cronjob)."""


class Due(msgspec.Struct, frozen=True):
    """Moments are epoch seconds, None for none.

    `run` is the newest run that is due, `too_late` the newest one when its deadline has passed, `following` the next
    one that is not due yet. `since` is where runs that were missed begin.
    """

    since: float
    run: int | None = None
    too_late: int | None = None
    following: int | None = None


class BadScheduleError(ValueError):
    """A CronJob that cannot be scheduled; `reason` is an Event's."""

    def __init__(self, reason: str, message: str) -> None:
        super().__init__(message)
        self.reason = reason


def schedule_of(cron: CronJob) -> Schedule:
    """The CronJob's schedule. Without a time zone it is in UTC. Raises BadScheduleError."""
    spec = cron.spec
    try:
        return parse(spec.schedule, "" if brings_zone(cron) else spec.time_zone or "")
    except TimeZoneError as error:
        raise BadScheduleError("InvalidTimeZone", f"spec.timeZone: {error}") from None
    except ScheduleError as error:
        raise BadScheduleError("InvalidSchedule", f"spec.schedule: {error}") from None


def brings_zone(cron: CronJob) -> bool:
    """Whether the schedule's text names a time zone, which then holds; it is an older form."""
    return "TZ" in cron.spec.schedule


def what_is_due(cron: CronJob, schedule: Schedule, last: float | None, now: float) -> Due:
    """Of the runs since the last one (or the CronJob's creation), the newest is due unless its deadline has passed."""
    since = last if last is not None else epoch(cron.metadata.creation_timestamp)
    since = now if since is None else since
    newest = schedule.latest(since, now)
    if newest is None:
        return Due(since, following=schedule.next_after(since))
    following = schedule.next_after(newest)
    deadline = cron.spec.starting_deadline_seconds
    if deadline is None:
        return Due(since, run=newest, following=following)
    if newest < now - deadline:
        return Due(since, too_late=newest, following=following)
    return Due(max(since, now - deadline), run=newest, following=following)


def many_missed(schedule: Schedule, due: Due) -> bool:
    """Whether more than MANY runs were due since the last one, within the deadline."""
    moment: float | None = due.since
    for _ in range(MANY + 1):
        moment = None if moment is None else schedule.next_after(moment)
        if moment is None or due.run is None or moment > due.run:
            return False
    return True
