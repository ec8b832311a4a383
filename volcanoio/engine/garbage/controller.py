"""`GarbageController`: deletes a finished Job `ttlSecondsAfterFinished` after it finished (Volcano:
pkg/controllers/garbagecollector).

The time is counted from what is stored, so a restart delays nothing. A Job is deleted at the very version whose phase
and time to live were looked at: one that changed meanwhile is looked at again. Jobs without a time to live cost
nothing.
"""

from __future__ import annotations

from collections.abc import Iterable

import msgspec
from msgspec.structs import replace

from volcanoio.framework.controller import Input, Reference, Rule, Step, View
from volcanoio.framework.effects import Delete, Stages, StartTimer, StopTimer
from volcanoio.framework.events import Change, ControllerEvent, EffectFailed, Observed, TimerFired
from volcanoio.model import kinds
from volcanoio.model.base import ApiObject
from volcanoio.model.batch import Job, JobPhase
from volcanoio.model.times import epoch

TTL = "ttl"
FINISHED = frozenset({JobPhase.COMPLETED, JobPhase.FAILED, JobPhase.TERMINATED})
"""Phases that end a Job's life; an Aborted one may be resumed."""
LONGEST_BACKOFF = 60.0
"""Seconds."""


class Mortal(msgspec.Struct, frozen=True):
    """A Job with a time to live. `due` is when its timer fires (epoch seconds), 0 without one; `failures` counts
    deletes that were refused.
    """

    job: Job
    due: float = 0.0
    failures: int = 0


def _mortal(job: ApiObject) -> Iterable[str]:
    """The key of a Job that has a time to live."""
    return (job.metadata.key,) if isinstance(job, Job) and job.spec.ttl_seconds_after_finished is not None else ()


class GarbageController:
    """Deletes finished Jobs whose time to live is over, with all that they own."""

    name = "gc-controller"
    inputs = (Input(kinds.JOB, _mortal),)
    references: tuple[Reference, ...] = ()
    rules = (Rule(kinds.JOB.group, ("jobs",), ("get", "list", "watch", "delete")),)

    def start(self, key: str) -> Mortal:  # noqa: ARG002 - the same for every key
        """Nothing is known."""
        return Mortal(Job())

    def reduce(self, state: Mortal, event: ControllerEvent, view: View) -> Step[Mortal]:
        """Fold one event; then wait, or delete."""
        match event:
            case Observed(object=Job() as job):
                if event.change is Change.GONE or not _mortal(job):
                    return Step(None)
                state = replace(state, job=job)
            case EffectFailed():
                return _refused(state, event, view.now)
            case TimerFired():
                state = replace(state, due=0.0)
            case _:
                pass
        deleting = any(isinstance(effect, Delete) for effect in view.in_flight.values())
        if not view.synced or deleting:
            return Step(state)
        return _planned(state, view.now)


def expiry(job: Job) -> float | None:
    """When the Job's time to live is over, in epoch seconds; None while it has not finished."""
    finished = epoch(job.status.state.last_transition_time) if job.status.state.phase in FINISHED else None
    lives = job.spec.ttl_seconds_after_finished
    return None if finished is None or lives is None else finished + lives


def _planned(state: Mortal, now: float) -> Step[Mortal]:
    """The timer that the Job needs now, or its end."""
    meta, due = state.job.metadata, expiry(state.job)
    if due is None or meta.deletion_timestamp is not None:
        stop: Stages = ((StopTimer(name=TTL),),) if state.due else ()
        return Step(replace(state, due=0.0), stop)
    if now < due:
        start: Stages = ((StartTimer(name=TTL, due=due),),) if state.due != due else ()
        return Step(replace(state, due=due), start)
    if now < state.due:  # it was refused a moment ago
        return Step(state)
    end = Delete(
        resource=kinds.JOB.resource,
        namespace=meta.namespace,
        name=meta.name,
        uid=meta.uid,
        resource_version=meta.resource_version,
        propagation="Foreground",
    )
    return Step(state, ((end,),))


def _refused(state: Mortal, event: EffectFailed, now: float) -> Step[Mortal]:
    """Look again: soon when the Job has but changed meanwhile, and else later and later."""
    failures = state.failures + (event.code != 409)
    due = now + min(2.0 ** max(failures - 1, 0), LONGEST_BACKOFF)
    return Step(replace(state, failures=failures, due=due), ((StartTimer(name=TTL, due=due),),))
