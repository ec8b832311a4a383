"""Carrying out a decided action: the one status write that records the intent, from which any process goes on."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from volcanoio.engine.jobs import targets
from volcanoio.engine.jobs.delayed import surviving
from volcanoio.engine.jobs.ledger import Delayed, Ledger, Target
from volcanoio.engine.jobs.ownership import tasks_by_name
from volcanoio.engine.jobs.ranges import compact, expand
from volcanoio.engine.jobs.status import enter
from volcanoio.engine.jobs.table import TARGETED, Move, move_for, phase_of
from volcanoio.framework.lifecycle import LifecycleEvent
from volcanoio.model.batch import Job, JobAction, JobEvent, JobPhase, JobStatus
from volcanoio.model.core import Pod

FREE_CAUSES = frozenset({JobEvent.POD_EVICTED})
"""Events whose restarts cost no retry: an eviction is not the job's fault."""


class Cause(msgspec.Struct, frozen=True, kw_only=True):
    """Why an action is carried out and what it is about; `version` is the job version it was decided for.

    `indexes` are the pods of `task`, `there` those of them that may be restarted: the very pods that the event was
    about. `free` says that the action costs no retry whatever caused it.
    """

    event: str
    version: int
    task: str = ""
    indexes: frozenset[int] = frozenset()
    there: frozenset[int] = frozenset()
    free: bool = False


def cause_of(event: LifecycleEvent, held: Mapping[str, Pod], *, free: bool = False) -> Cause:
    """The cause that an event is; `held` are the known pods by uid."""
    indexes = frozenset() if event.index is None else frozenset({event.index})
    there = indexes if event.pod_uid in held else frozenset()
    return Cause(event=event.name, version=event.version, task=event.task, indexes=indexes, there=there, free=free)


def cause_of_delayed(entry: Delayed) -> Cause:
    """The cause of an action whose time has come: what `delayed.standing` left of it is what it is about."""
    indexes = frozenset(expand(entry.pods))
    return Cause(event=entry.cause, version=entry.version, task=entry.task, indexes=indexes, there=indexes)


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
    size = _partition_size(job, cause.task)
    if action in TARGETED and not _has_target(action, cause, size):
        return None
    counted = move.retry and not cause.free and cause.event not in FREE_CAUSES
    moved = msgspec.structs.replace(
        status,
        version=status.version + int(move.version),
        retry_count=status.retry_count + int(counted),
    )
    after = msgspec.structs.replace(
        ledger,
        targets=_targets(ledger, phase, move, action, cause, size),
        delayed=surviving(ledger.delayed, action, cause.task, cause.indexes, size),
        counted={} if move.version else ledger.counted,
        leaving={} if move.version else ledger.leaving,
        hold=None,
    )
    return enter(job, moved, move.to, now), after


def _partition_size(job: Job, task: str) -> int:
    spec = tasks_by_name(job).get(task)
    return spec.partition_policy.partition_size if spec is not None and spec.partition_policy is not None else 0


def _has_target(action: JobAction, cause: Cause, size: int) -> bool:
    """Whether the cause names what a targeted action needs; a partition restart without one changes nothing."""
    if action is JobAction.RESTART_PARTITION:
        return bool(cause.task and cause.indexes and size)
    return bool(cause.task)


def _targets(
    ledger: Ledger, phase: JobPhase, move: Move, action: JobAction, cause: Cause, size: int
) -> tuple[Target, ...] | None:
    """What a Restarting job has to lose; None for all of it, () for only what is alive and old (a resume)."""
    if move.to is not JobPhase.RESTARTING:
        return None
    if action is JobAction.RESUME_JOB:
        return ()
    if action not in TARGETED:
        return None
    if phase is JobPhase.RESTARTING and ledger.targets is None:
        return None
    match action:
        case JobAction.RESTART_TASK:
            new = [Target(task=cause.task)]
        case JobAction.RESTART_PARTITION:
            parts = sorted({index // size for index in cause.indexes})
            new = [Target(task=cause.task, partition=str(part)) for part in parts]
        case _:
            new = [Target(task=cause.task, pods=compact(cause.there))] if cause.there else []
    return targets.merged(ledger.targets or (), new)
