"""The lifecycle of a Job as data: what each action does in each phase, and what each phase keeps up.

Source: Volcano, pkg/controllers/job/state/*.go, with our mends: Abort, Terminate and Complete are not lost while
Restarting, a resume costs no retry (issue 3067), and the version moves once per decided action instead of at every
event of a finished job. `docs/job-lifecycle.md` prints it.
"""

from __future__ import annotations

from enum import StrEnum

import msgspec

from volcanoio.model.batch import JobAction, JobPhase


class Move(msgspec.Struct, frozen=True):
    """What an action writes to the status: the next phase, and which counters it moves.

    A move of the version is a full kill: every pod of an older version has to go. Without it only targets go.
    """

    to: JobPhase
    version: bool = False
    retry: bool = False


class Upkeep(StrEnum):
    """What a phase keeps up until something happens."""

    SYNC = "sync"
    """Pods, PodGroup and support objects as the spec wants them."""
    RESTART = "restart"
    """Old or targeted pods go; then the restart rule decides."""
    STOP = "stop"
    """Live pods, PodGroup and support objects go; finished pods are kept and counted."""


TARGETED = frozenset({JobAction.RESTART_TASK, JobAction.RESTART_POD, JobAction.RESTART_PARTITION})
USER_ACTIONS = frozenset(JobAction) - {JobAction.SYNC_JOB}

_RESTART = Move(JobPhase.RESTARTING, version=True, retry=True)
_RESTART_TARGET = Move(JobPhase.RESTARTING, retry=True)
_ABORT = Move(JobPhase.ABORTING, version=True)
_COMPLETE = Move(JobPhase.COMPLETING, version=True)
_TERMINATE = Move(JobPhase.TERMINATING, version=True)

_LIVE: dict[JobAction, Move] = {
    JobAction.RESTART_JOB: _RESTART,
    JobAction.RESTART_TASK: _RESTART_TARGET,
    JobAction.RESTART_POD: _RESTART_TARGET,
    JobAction.RESTART_PARTITION: _RESTART_TARGET,
    JobAction.ABORT_JOB: _ABORT,
    JobAction.COMPLETE_JOB: _COMPLETE,
    JobAction.TERMINATE_JOB: _TERMINATE,
}
_RESTARTING: dict[JobAction, Move] = {
    JobAction.RESTART_JOB: Move(JobPhase.RESTARTING, version=True),
    JobAction.RESTART_TASK: Move(JobPhase.RESTARTING),
    JobAction.RESTART_POD: Move(JobPhase.RESTARTING),
    JobAction.RESTART_PARTITION: Move(JobPhase.RESTARTING),
    JobAction.ABORT_JOB: _ABORT,
    JobAction.COMPLETE_JOB: _COMPLETE,
    JobAction.TERMINATE_JOB: _TERMINATE,
}
_ABORTED: dict[JobAction, Move] = {JobAction.RESUME_JOB: Move(JobPhase.RESTARTING, version=True)}

TABLE: dict[JobPhase, dict[JobAction, Move]] = {
    JobPhase.PENDING: _LIVE,
    JobPhase.RUNNING: _LIVE,
    JobPhase.RESTARTING: _RESTARTING,
    JobPhase.ABORTING: _ABORTED,
    JobPhase.ABORTED: _ABORTED,
    JobPhase.COMPLETING: {},
    JobPhase.TERMINATING: {},
    JobPhase.COMPLETED: {},
    JobPhase.TERMINATED: {},
    JobPhase.FAILED: {},
}
"""Phase and action to move; an action without a row changes nothing."""

UPKEEP: dict[JobPhase, Upkeep] = {
    JobPhase.PENDING: Upkeep.SYNC,
    JobPhase.RUNNING: Upkeep.SYNC,
    JobPhase.RESTARTING: Upkeep.RESTART,
    JobPhase.ABORTING: Upkeep.STOP,
    JobPhase.ABORTED: Upkeep.STOP,
    JobPhase.COMPLETING: Upkeep.STOP,
    JobPhase.TERMINATING: Upkeep.STOP,
    JobPhase.COMPLETED: Upkeep.STOP,
    JobPhase.TERMINATED: Upkeep.STOP,
    JobPhase.FAILED: Upkeep.STOP,
}

SETTLES_AS: dict[JobPhase, JobPhase] = {
    JobPhase.ABORTING: JobPhase.ABORTED,
    JobPhase.COMPLETING: JobPhase.COMPLETED,
    JobPhase.TERMINATING: JobPhase.TERMINATED,
}
"""What a stopping phase becomes when no pod is pending, running or terminating any more."""


_PHASES: dict[str, JobPhase] = {"": JobPhase.PENDING, **{str(phase): phase for phase in JobPhase}}


def phase_of(text: str) -> JobPhase:
    """The phase a status names; a new job's empty one is Pending."""
    return _PHASES[text]


def move_for(phase: str, action: JobAction) -> Move | None:
    """The row of the table; None when the action changes nothing in that phase."""
    return TABLE[phase_of(phase)].get(action)
