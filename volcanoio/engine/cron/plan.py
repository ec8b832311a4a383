"""What to do next about a CronJob, from its state alone: one write at a time, each leading to the next.

A run is started in the order Create, then status: the name makes it the same run however often it is tried, and the Job
that is there tells a later process that the time was seen to.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeAlias

from msgspec.structs import replace

from volcanoio.engine.cron.calendar import Schedule
from volcanoio.engine.cron.due import (
    MANY,
    BadScheduleError,
    Due,
    brings_zone,
    many_missed,
    schedule_of,
    what_is_due,
)
from volcanoio.engine.cron.runs import build_job, run_name
from volcanoio.engine.cron.state import CronState, Sent, is_active
from volcanoio.engine.cron.status import last_schedule, left, strangers, surplus, wanted_status
from volcanoio.engine.cron.telling import NORMAL, WARNING, told, told_once
from volcanoio.engine.statuses import status_patch
from volcanoio.framework.controller import View
from volcanoio.framework.effects import Create, Delete, Record, Stages, StartTimer
from volcanoio.model import kinds
from volcanoio.model.batch import Job
from volcanoio.model.cron import ConcurrencyPolicy, CronJob
from volcanoio.model.times import rfc3339

SCHEDULE_TIMER, RETRY_TIMER = "schedule", "retry"
Plan: TypeAlias = tuple[CronState, Stages]


def plan(state: CronState, view: View) -> Plan:
    """The next write if one is due, else the timer of the next run."""
    cron = state.cron
    if cron is None or cron.metadata.deletion_timestamp is not None:
        return state, ()
    if state.pace.holds(view.now, cron.metadata.revision):
        return _timed(state, RETRY_TIMER, state.pace.until, view.now)
    runs = state.runs
    last = last_schedule(cron, runs)
    wanted = wanted_status(cron, runs, last)
    if wanted != cron.status:
        write = status_patch(kinds.CRON_JOB, cron, cron.status, wanted)
        events = tuple(told(cron, NORMAL, *each) for each in left(cron, runs, wanted, state.replaced))
        return _sent(state, "status"), ((write,), events)
    if too_many := surplus(cron, runs):
        return _sent(state, "delete"), _deleted(cron, too_many)
    state, warnings = _of_strangers(state, cron, strangers(runs, wanted))
    if cron.spec.suspend:
        return state, (warnings,)
    state, stages = _scheduled(state, cron, runs, last, view)
    return state, (warnings, *stages)


def _scheduled(state: CronState, cron: CronJob, runs: Sequence[Job], last: float | None, view: View) -> Plan:
    """Start the run that is due, or wait for the next."""
    try:
        schedule = schedule_of(cron)
    except BadScheduleError as error:
        state, told_of = told_once(state, cron, WARNING, error.reason, f"{error}; nothing is run until it is mended")
        return state, (told_of,)
    events: tuple[Record, ...] = ()
    if brings_zone(cron):
        text = f'schedule "{cron.spec.schedule}" names its time zone itself; use spec.timeZone instead'
        state, events = told_once(state, cron, WARNING, "UnsupportedSchedule", text)
    due = what_is_due(cron, schedule, last, view.now)
    state, stages = (state, ()) if due.following is None else _timed(state, SCHEDULE_TIMER, due.following, view.now)
    if due.too_late is not None:
        text = f"Missed scheduled time to start a job: {rfc3339(due.too_late)}"
        state, missed = told_once(state, cron, WARNING, "MissSchedule", text)
        return state, ((*events, *missed), *stages)
    if due.run is None:
        return state, (events, *stages)
    state, more = _start(state, cron, schedule, runs, due, view)
    return state, (events, *stages, *more)


def _start(state: CronState, cron: CronJob, schedule: Schedule, runs: Sequence[Job], due: Due, view: View) -> Plan:
    """Start the run that is due as the concurrency policy has it; what it replaces goes first."""
    assert due.run is not None
    name = run_name(cron, due.run)
    if any(job.metadata.name == name for job in runs):  # two times of the schedule within one minute
        return _sent(state, "status"), (
            (
                status_patch(
                    kinds.CRON_JOB, cron, cron.status, replace(cron.status, last_schedule_time=rfc3339(due.run))
                ),
            ),
        )
    if state.tried == name and view.lookup.get(kinds.JOB, name, cron.metadata.namespace) is not None:
        text = f"Job {name} exists and is not controlled by this CronJob; delete or rename it"
        state, events = told_once(state, cron, WARNING, "ForeignJob", text)
        return state, (events,)
    active = [job for job in runs if is_active(job) and _is_listed(cron, job)]
    if active and cron.spec.concurrency_policy == ConcurrencyPolicy.FORBID:
        text = f"Not starting the run of {rfc3339(due.run)}: {active[0].metadata.name} goes on and runs may not overlap"
        state, events = told_once(state, cron, NORMAL, "ForbidConcurrent", text)
        return state, (events,)
    if active and cron.spec.concurrency_policy == ConcurrencyPolicy.REPLACE:
        replaced = frozenset(job.metadata.uid for job in active)
        return _sent(replace(state, replaced=replaced), "delete"), _deleted(cron, active)
    missed: tuple[Record, ...] = ()
    if many_missed(schedule, due):
        text = (
            f"more than {MANY} runs were missed before that of {rfc3339(due.run)}; set or decrease "
            "spec.startingDeadlineSeconds, or check the clocks"
        )
        state, missed = told_once(state, cron, WARNING, "TooManyMissedTimes", text)
    create = Create(resource=kinds.JOB.resource, manifest=build_job(cron, due.run))
    done = told(cron, NORMAL, "SuccessfulCreate", f"Created job {name}")
    return _sent(replace(state, tried=name), "create"), ((*missed, create), (done,))


def _is_listed(cron: CronJob, job: Job) -> bool:
    return any(reference.uid == job.metadata.uid for reference in cron.status.active)


def _of_strangers(state: CronState, cron: CronJob, jobs: Sequence[Job]) -> tuple[CronState, tuple[Record, ...]]:
    if not jobs:
        return state, ()
    names = ", ".join(job.metadata.name for job in jobs)
    text = f"Saw a job that the controller did not create or forgot: {names}"
    return told_once(state, cron, WARNING, "OrphanedJob", text)


def _deleted(cron: CronJob, jobs: Sequence[Job]) -> Stages:
    """Delete jobs; what was done is told once it is."""
    metas = [job.metadata for job in jobs]
    writes = tuple(
        Delete(resource=kinds.JOB.resource, namespace=meta.namespace, name=meta.name, uid=meta.uid) for meta in metas
    )
    events = tuple(told(cron, NORMAL, "SuccessfulDelete", f"Deleted job {meta.name}") for meta in metas)
    return (writes, events)


def _sent(state: CronState, what: Sent) -> CronState:
    return replace(state, sent=what)


def _timed(state: CronState, name: str, due: float, now: float) -> Plan:
    """Have a timer run until then; one that runs is not started anew."""
    if state.timers.get(name) == due or due <= now:
        return state, ()
    return replace(state, timers={**state.timers, name: due}), ((StartTimer(name=name, due=due),),)
