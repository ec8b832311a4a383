"""`GarbageController`: deletes a finished Job `ttlSecondsAfterFinished` after it finished.

Source: Volcano, pkg/controllers/garbagecollector. The time is counted from what is stored, so a restart delays
nothing. A Job is deleted at the version whose phase and TTL were examined: one that changed meanwhile is examined
again. Jobs without a TTL cost nothing.
"""

from collections.abc import Iterable

import msgspec
from msgspec.structs import replace

from volcanoio.framework.backoff import Backoff
from volcanoio.framework.controller import Input, Reference, Rule, Step, View
from volcanoio.framework.effects import Delete, Stages, StartTimer, StopTimer
from volcanoio.framework.events import Change, ControllerEvent, EffectFailed, Observed, TimerFired
from volcanoio.model import kinds
from volcanoio.model.base import ApiObject
from volcanoio.model.batch import Job, JobPhase
from volcanoio.model.times import epoch

TTL_TIMER = "ttl"
FINISHED_PHASES_WITH_TTL = frozenset({JobPhase.COMPLETED, JobPhase.FAILED, JobPhase.TERMINATED})
"""Phases in which the TTL counts; an Aborted job may be resumed."""
BACKOFF = Backoff(base=1.0, cap=60.0)


class ExpiringJob(msgspec.Struct, frozen=True):
    """A Job with a TTL. `due` is when its timer fires (epoch seconds, or 0); `failures` counts refused deletions."""

    job: Job
    due: float = 0.0
    failures: int = 0


def _ttl_keys(job: ApiObject) -> Iterable[str]:
    return (job.metadata.key,) if isinstance(job, Job) and job.spec.ttl_seconds_after_finished is not None else ()


class GarbageController:
    """Deletes finished Jobs whose TTL has passed, with all that they own."""

    name = "gc-controller"
    inputs = (Input(kinds.JOB, _ttl_keys),)
    references: tuple[Reference, ...] = ()
    rules = (Rule(kinds.JOB.group, ("jobs",), ("get", "list", "watch", "delete")),)

    def start(self, key: str) -> ExpiringJob:  # noqa: ARG002 - the same for every key
        """Return the state of an unknown key."""
        return ExpiringJob(Job())

    def reduce(self, state: ExpiringJob, event: ControllerEvent, view: View) -> Step[ExpiringJob]:
        """Fold one event; then wait, or delete."""
        match event:
            case Observed(object=Job() as job):
                if event.change is Change.GONE or not _ttl_keys(job):
                    return Step(None)
                state = replace(state, job=job)
            case EffectFailed():
                return _delete_failed(state, event, view.now)
            case TimerFired():
                state = replace(state, due=0.0)
        deleting = any(isinstance(effect, Delete) for effect in view.in_flight.values())
        return Step(state) if not view.synced or deleting else _plan(state, view.now)


def expiry(job: Job) -> float | None:
    """Return when the Job's TTL ends, in epoch seconds; None while it has not finished."""
    finished = (
        epoch(job.status.state.last_transition_time) if job.status.state.phase in FINISHED_PHASES_WITH_TTL else None
    )
    ttl = job.spec.ttl_seconds_after_finished
    return None if finished is None or ttl is None else finished + ttl


def _plan(state: ExpiringJob, now: float) -> Step[ExpiringJob]:
    """Return the timer that the Job needs now, or its deletion."""
    meta, due = state.job.metadata, expiry(state.job)
    if due is None or meta.deletion_timestamp is not None:
        stop: Stages = ((StopTimer(name=TTL_TIMER),),) if state.due else ()
        return Step(replace(state, due=0.0), stop)
    if now < due:
        start: Stages = ((StartTimer(name=TTL_TIMER, due=due),),) if state.due != due else ()
        return Step(replace(state, due=due), start)
    if now < state.due:  # a deletion was refused recently
        return Step(state)
    deletion = Delete.of(kinds.JOB.resource, state.job, at_version=True, propagation="Foreground")
    return Step(state, ((deletion,),))


def _delete_failed(state: ExpiringJob, event: EffectFailed, now: float) -> Step[ExpiringJob]:
    """Try again: soon after a conflict, otherwise with growing delays."""
    failures = state.failures + (event.code != 409)
    due = now + BACKOFF.delay(max(failures, 1))
    return Step(replace(state, failures=failures, due=due), ((StartTimer(name=TTL_TIMER, due=due),),))
