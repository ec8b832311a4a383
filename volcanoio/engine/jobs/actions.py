"""Carrying out a decided action: the one status write that records the intent, from which any process goes on."""

from __future__ import annotations

import msgspec

from volcanoio.engine.jobs.delayed import surviving
from volcanoio.engine.jobs.ledger import Ledger, Target
from volcanoio.engine.jobs.status import enter
from volcanoio.engine.jobs.table import TARGETED, Move, move_for, phase_of
from volcanoio.framework.lifecycle import LifecycleEvent
from volcanoio.model.batch import Job, JobAction, JobEvent, JobPhase, JobStatus

FREE_CAUSES = frozenset({JobEvent.POD_EVICTED})
"""Events whose restarts cost no retry: an eviction is not the job's fault."""


class Cause(msgspec.Struct, frozen=True, kw_only=True):
    """Why an action is carried out and what it is about; `version` is the job version it was decided for."""

    event: str
    version: int
    task: str = ""
    pod: str = ""
    pod_uid: str = ""
    partition: str = ""


def cause_of(event: LifecycleEvent) -> Cause:
    """The cause that an event is."""
    return Cause(
        event=event.name,
        version=event.version,
        task=event.task,
        pod=event.pod,
        pod_uid=event.pod_uid,
        partition=event.partition,
    )


def intent(
    job: Job, status: JobStatus, ledger: Ledger, action: JobAction, cause: Cause, now: float
) -> tuple[JobStatus, Ledger] | None:
    """Status and bookkeeping after the action was decided; None when the table has no row for it.

    The caller writes both together. Delayed actions that the action makes pointless are dropped with it.
    """
    move = move_for(status.state.phase, action)
    if move is None:
        return None
    phase = phase_of(status.state.phase)
    if action in TARGETED and not _has_target(action, cause):
        return None
    counted = move.retry and cause.event not in FREE_CAUSES
    moved = msgspec.structs.replace(
        status,
        version=status.version + int(move.version),
        retry_count=status.retry_count + int(counted),
    )
    after = msgspec.structs.replace(
        ledger,
        targets=_targets(ledger, phase, move, action, cause),
        delayed=surviving(ledger.delayed, action, cause.task, cause.pod, cause.partition),
        counted={} if move.version else ledger.counted,
        leaving=() if move.version else ledger.leaving,
        hold=None,
    )
    return enter(job, moved, move.to, now), after


def _has_target(action: JobAction, cause: Cause) -> bool:
    """Whether the cause names what a targeted action needs; a partition restart without one changes nothing."""
    if action is JobAction.RESTART_PARTITION:
        return bool(cause.task and cause.partition)
    return bool(cause.task)


def _targets(ledger: Ledger, phase: JobPhase, move: Move, action: JobAction, cause: Cause) -> tuple[Target, ...] | None:
    """What a Restarting job has to lose; None for all of it, () for only what is alive and old (a resume)."""
    if move.to is not JobPhase.RESTARTING:
        return None
    if action is JobAction.RESUME_JOB:
        return ()
    if action not in TARGETED:
        return None
    if phase is JobPhase.RESTARTING and ledger.targets is None:
        return None
    earlier = ledger.targets or ()
    if action is JobAction.RESTART_POD and not cause.pod_uid:
        return earlier
    target = {
        JobAction.RESTART_TASK: Target(task=cause.task),
        JobAction.RESTART_PARTITION: Target(task=cause.task, partition=cause.partition),
        JobAction.RESTART_POD: Target(task=cause.task, pod_uid=cause.pod_uid),
    }[action]
    return earlier if target in earlier else (*earlier, target)
