"""`CronJobController`: starts the runs of CronJobs (Volcano: pkg/controllers/cronjob).

One write at a time, each derived from the state alone. A run is started in the order Create, then status: the name
identifies the run however often it is tried, and the existing Job proves to a later process that the time was handled.
Unlike Volcano: a status that could not be written is written later; an AlreadyExists is investigated in the CronJob's
namespace; terminated and aborted runs block nothing and count against the history of failed ones.
"""

from collections.abc import Sequence
from typing import TypeAlias

from msgspec.structs import replace

from volcanoio.engine.cron.runs import (
    build_job,
    desired_status,
    ended_run_events,
    expired_runs,
    last_schedule_time,
    orphaned_jobs,
    run_name,
)
from volcanoio.engine.cron.schedule import (
    MAX_MISSED_RUNS,
    DueRuns,
    Schedule,
    UnschedulableError,
    find_due_runs,
    has_own_zone,
    has_too_many_missed_runs,
    schedule_of,
)
from volcanoio.engine.cron.state import (
    NORMAL,
    WARNING,
    CronState,
    WriteKind,
    cron_event,
    cron_event_once,
    fold,
    is_active,
    run_keys,
)
from volcanoio.framework.backoff import CONFLICT, WriteBackoff
from volcanoio.framework.controller import ControllerContext, Input, Reference, Rule, Step, View
from volcanoio.framework.effects import Create, Delete, Patch, Record, Stages, StartTimer
from volcanoio.framework.events import ControllerEvent, EffectFailed, EffectSucceeded, Observed, TimerFired
from volcanoio.framework.statuses import status_patch
from volcanoio.model import kinds
from volcanoio.model.batch import ConcurrencyPolicy, CronJob, Job
from volcanoio.model.times import rfc3339

SCHEDULE_TIMER, RETRY_TIMER = "schedule", "retry"
Plan: TypeAlias = tuple[CronState, Stages]


def plan(state: CronState, view: View) -> Plan:
    """Return the next write if one is due, else the timer of the next run."""
    if (cron := state.cron) is None or cron.metadata.deletion_timestamp is not None:
        return state, ()
    if state.backoff.is_active(view.now, cron.metadata.revision):
        return _with_timer(state, RETRY_TIMER, state.backoff.until, view.now)
    runs = state.runs
    last = last_schedule_time(cron, runs)
    if (desired := desired_status(cron, runs, last)) != cron.status:
        write = status_patch(kinds.CRON_JOB, cron, cron.status, desired)
        events = tuple(
            cron_event(cron, NORMAL, *each) for each in ended_run_events(cron, runs, desired, state.replaced)
        )
        return _with_last_write(state, "status"), ((write,), events)
    if too_many := expired_runs(cron, runs):
        return _with_last_write(state, "delete"), _delete_jobs(cron, too_many)
    state, warnings = _orphan_events(state, cron, orphaned_jobs(runs, desired))
    if cron.spec.suspend:
        return state, (warnings,)
    state, stages = _plan_run(state, cron, last, view)
    return state, (warnings, *stages)


def _plan_run(state: CronState, cron: CronJob, last: float | None, view: View) -> Plan:
    """Start the run that is due, or wait for the next."""
    try:
        schedule = schedule_of(cron)
    except UnschedulableError as error:
        text = f"{error}; nothing is run until it is fixed"
        state, events = cron_event_once(state, cron, WARNING, error.reason, text)
        return state, (events,)
    events = ()
    if has_own_zone(cron):
        text = f'schedule "{cron.spec.schedule}" names its time zone itself; use spec.timeZone instead'
        state, events = cron_event_once(state, cron, WARNING, "UnsupportedSchedule", text)
    due = find_due_runs(cron, schedule, last, view.now)
    state, stages = (
        (state, ()) if due.following is None else _with_timer(state, SCHEDULE_TIMER, due.following, view.now)
    )
    if due.too_late is not None:
        text = f"Missed scheduled time to start a job: {rfc3339(due.too_late)}"
        state, missed = cron_event_once(state, cron, WARNING, "MissSchedule", text)
        return state, ((*events, *missed), *stages)
    if due.run is None:
        return state, (events, *stages)
    state, more = _start_run(state, cron, schedule, due, view)
    return state, (events, *stages, *more)


def _start_run(state: CronState, cron: CronJob, schedule: Schedule, due: DueRuns, view: View) -> Plan:
    """Start the due run as the concurrency policy requires; runs that it replaces are deleted first."""
    assert due.run is not None
    runs = state.runs
    name = run_name(cron, due.run)
    if any(job.metadata.name == name for job in runs):  # two times of the schedule within one minute
        status = replace(cron.status, last_schedule_time=rfc3339(due.run))
        return _with_last_write(state, "status"), ((status_patch(kinds.CRON_JOB, cron, cron.status, status),),)
    if state.last_run_name == name and view.lookup.get(kinds.JOB, name, cron.metadata.namespace) is not None:
        text = f"Job {name} exists and is not controlled by this CronJob; delete or rename it"
        state, events = cron_event_once(state, cron, WARNING, "ForeignJob", text)
        return state, (events,)
    active = [job for job in runs if is_active(job) and _is_listed(cron, job)]
    if active and cron.spec.concurrency_policy == ConcurrencyPolicy.FORBID:
        text = f"Not starting the run of {rfc3339(due.run)}: {active[0].metadata.name} goes on and runs may not overlap"
        state, events = cron_event_once(state, cron, NORMAL, "ForbidConcurrent", text)
        return state, (events,)
    if active and cron.spec.concurrency_policy == ConcurrencyPolicy.REPLACE:
        replaced = frozenset(job.metadata.uid for job in active)
        return _with_last_write(replace(state, replaced=replaced), "delete"), _delete_jobs(cron, active)
    missed: tuple[Record, ...] = ()
    if has_too_many_missed_runs(schedule, due):
        text = (
            f"more than {MAX_MISSED_RUNS} runs were missed before that of {rfc3339(due.run)}; set or decrease "
            "spec.startingDeadlineSeconds, or check the clocks"
        )
        state, missed = cron_event_once(state, cron, WARNING, "TooManyMissedTimes", text)
    create = Create(resource=kinds.JOB.resource, manifest=build_job(cron, due.run))
    done = cron_event(cron, NORMAL, "SuccessfulCreate", f"Created job {name}")
    return _with_last_write(replace(state, last_run_name=name), "create"), ((*missed, create), (done,))


def _is_listed(cron: CronJob, job: Job) -> bool:
    return any(reference.uid == job.metadata.uid for reference in cron.status.active)


def _orphan_events(state: CronState, cron: CronJob, jobs: Sequence[Job]) -> tuple[CronState, tuple[Record, ...]]:
    if not jobs:
        return state, ()
    names = ", ".join(job.metadata.name for job in jobs)
    text = f"Saw a job that the controller did not create or forgot: {names}"
    return cron_event_once(state, cron, WARNING, "OrphanedJob", text)


def _delete_jobs(cron: CronJob, jobs: Sequence[Job]) -> Stages:
    events = (cron_event(cron, NORMAL, "SuccessfulDelete", f"Deleted job {job.metadata.name}") for job in jobs)
    return (tuple(Delete.of(kinds.JOB.resource, job) for job in jobs), tuple(events))


def _with_last_write(state: CronState, kind: WriteKind) -> CronState:
    return replace(state, last_write=kind)


def _with_timer(state: CronState, name: str, due: float, now: float) -> Plan:
    """Set a timer, unless it runs already."""
    if state.timers.get(name) == due or due <= now:
        return state, ()
    return replace(state, timers={**state.timers, name: due}), ((StartTimer(name=name, due=due),),)


FORBIDDEN = 403
_WRITES = (Create, Delete, Patch)
_NAMESPACE_TERMINATING = "because it is being terminated"
"""Text of an API server's refusals in a terminating namespace (Kubernetes: NamespaceLifecycle)."""


_FAILURE_EVENTS = {
    "create": ("FailedCreate", "Error creating job: "),
    "delete": ("FailedDelete", "Error deleting job: "),
}


class CronJobController:
    """Reducer with one key per CronJob."""

    name = "cronjob-controller"
    inputs = (Input(kinds.CRON_JOB, lambda cron: (cron.metadata.key,)), Input(kinds.JOB, run_keys))
    references = (Reference(kinds.JOB),)
    rules = (
        Rule(kinds.CRON_JOB.group, ("cronjobs",), ("get", "list", "watch")),
        Rule(kinds.CRON_JOB.group, ("cronjobs/status",), ("patch",)),
        Rule(kinds.CRON_JOB.group, ("cronjobs/finalizers",), ("update",)),
        Rule(kinds.JOB.group, ("jobs",), ("get", "list", "watch", "create", "delete")),
        Rule("", ("events",), ("create", "patch")),
    )

    def __init__(self, context: ControllerContext) -> None:
        """Create the controller; it has no options."""

    def start(self, key: str) -> CronState:  # noqa: ARG002 - the same for every key
        """Return the state of an unknown key."""
        return CronState()

    def reduce(self, state: CronState, event: ControllerEvent, view: View) -> Step[CronState]:
        """Fold one event; then return the next write, unless one is in flight."""
        stages: Stages = ()
        match event:
            case Observed():
                state = fold(state, event.obj, event.change, view.key)
            case EffectSucceeded():
                state = replace(state, backoff=WriteBackoff())
            case EffectFailed():
                state, stages = _write_failed(state, event, view)
            case TimerFired(name=name):
                state = replace(state, timers={each: due for each, due in state.timers.items() if each != name})
        if state.cron is None and not state.jobs and not view.in_flight:
            return Step(None)
        if not view.synced or any(isinstance(effect, _WRITES) for effect in view.in_flight.values()):
            return Step(state, stages)
        state, more = plan(state, view)
        return Step(state, tuple(stage for stage in (*stages, *more) if stage))


def _write_failed(state: CronState, event: EffectFailed, view: View) -> tuple[CronState, Stages]:
    """Record an Event about a refused write, and retry later."""
    if (cron := state.cron) is None:
        return state, ()
    state = replace(state, backoff=state.backoff.after_refusal(event.code, view.now, cron.metadata.revision))
    if state.last_write not in _FAILURE_EVENTS or event.code == CONFLICT:
        return state, ()
    reason, text = _FAILURE_EVENTS[state.last_write]
    if event.code == FORBIDDEN and _NAMESPACE_TERMINATING in event.message:
        reason = "NamespaceTerminating"
    return state, ((cron_event(cron, WARNING, reason, text + (event.message or event.reason or "outcome unknown")),),)
