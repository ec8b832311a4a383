"""Phase transitions of a Job as data: what each action does in each phase, and what each phase requires.

Source: Volcano, pkg/controllers/job/state/*.go, with our fixes: Abort, Terminate and Complete are not lost while
Restarting, a resume costs no retry (issue 3067), and the version changes once per decided action instead of at every
event of a finished job. `docs/job-lifecycle.md` shows the table.
"""

from enum import StrEnum

import msgspec

from volcanoio.model.batch import JobAction, JobPhase


class Transition(msgspec.Struct, frozen=True):
    """What an action writes to the status: the next phase, and which counters it increases.

    A new version replaces every pod of older versions; without one only the targets are deleted.
    """

    to: JobPhase
    bumps_version: bool = False
    counts_retry: bool = False


class ReconcileMode(StrEnum):
    """How the objects of a job are reconciled in a phase."""

    SYNC = "sync"
    """Pods, PodGroup and support objects follow the spec."""
    RESTART = "restart"
    """Outdated or targeted pods are deleted; then the restart rule decides."""
    STOP = "stop"
    """Live pods, PodGroup and support objects are deleted; finished pods are kept and counted."""


TARGETED_ACTIONS = frozenset({JobAction.RESTART_TASK, JobAction.RESTART_POD, JobAction.RESTART_PARTITION})
USER_ACTIONS = frozenset(JobAction) - {JobAction.SYNC_JOB}

_RESTART = Transition(JobPhase.RESTARTING, bumps_version=True, counts_retry=True)
_RESTART_TARGET = Transition(JobPhase.RESTARTING, counts_retry=True)
_ABORT = Transition(JobPhase.ABORTING, bumps_version=True)
_COMPLETE = Transition(JobPhase.COMPLETING, bumps_version=True)
_TERMINATE = Transition(JobPhase.TERMINATING, bumps_version=True)

_ACTIVE_TRANSITIONS: dict[JobAction, Transition] = {
    JobAction.RESTART_JOB: _RESTART,
    JobAction.RESTART_TASK: _RESTART_TARGET,
    JobAction.RESTART_POD: _RESTART_TARGET,
    JobAction.RESTART_PARTITION: _RESTART_TARGET,
    JobAction.ABORT_JOB: _ABORT,
    JobAction.COMPLETE_JOB: _COMPLETE,
    JobAction.TERMINATE_JOB: _TERMINATE,
}
_RESTARTING_TRANSITIONS: dict[JobAction, Transition] = {
    JobAction.RESTART_JOB: Transition(JobPhase.RESTARTING, bumps_version=True),
    JobAction.RESTART_TASK: Transition(JobPhase.RESTARTING),
    JobAction.RESTART_POD: Transition(JobPhase.RESTARTING),
    JobAction.RESTART_PARTITION: Transition(JobPhase.RESTARTING),
    JobAction.ABORT_JOB: _ABORT,
    JobAction.COMPLETE_JOB: _COMPLETE,
    JobAction.TERMINATE_JOB: _TERMINATE,
}
_ABORTED_TRANSITIONS: dict[JobAction, Transition] = {
    JobAction.RESUME_JOB: Transition(JobPhase.RESTARTING, bumps_version=True)
}

TRANSITIONS: dict[JobPhase, dict[JobAction, Transition]] = {
    JobPhase.PENDING: _ACTIVE_TRANSITIONS,
    JobPhase.RUNNING: _ACTIVE_TRANSITIONS,
    JobPhase.RESTARTING: _RESTARTING_TRANSITIONS,
    JobPhase.ABORTING: _ABORTED_TRANSITIONS,
    JobPhase.ABORTED: _ABORTED_TRANSITIONS,
    JobPhase.COMPLETING: {},
    JobPhase.TERMINATING: {},
    JobPhase.COMPLETED: {},
    JobPhase.TERMINATED: {},
    JobPhase.FAILED: {},
}
"""Transition by phase and action; an action that is missing changes nothing."""

RECONCILE_MODES: dict[JobPhase, ReconcileMode] = {
    JobPhase.PENDING: ReconcileMode.SYNC,
    JobPhase.RUNNING: ReconcileMode.SYNC,
    JobPhase.RESTARTING: ReconcileMode.RESTART,
    JobPhase.ABORTING: ReconcileMode.STOP,
    JobPhase.ABORTED: ReconcileMode.STOP,
    JobPhase.COMPLETING: ReconcileMode.STOP,
    JobPhase.TERMINATING: ReconcileMode.STOP,
    JobPhase.COMPLETED: ReconcileMode.STOP,
    JobPhase.TERMINATED: ReconcileMode.STOP,
    JobPhase.FAILED: ReconcileMode.STOP,
}

STOPPED_PHASES: dict[JobPhase, JobPhase] = {
    JobPhase.ABORTING: JobPhase.ABORTED,
    JobPhase.COMPLETING: JobPhase.COMPLETED,
    JobPhase.TERMINATING: JobPhase.TERMINATED,
}
"""Phase that follows a stopping phase when no pod is pending, running or terminating any more."""


_PHASES: dict[str, JobPhase] = {"": JobPhase.PENDING, **{str(phase): phase for phase in JobPhase}}


def phase_of(text: str) -> JobPhase:
    """Return the phase of a status; a new job's empty one is Pending."""
    return _PHASES[text]


def transition_for(phase: str, action: JobAction) -> Transition | None:
    """Return the transition; None when the action changes nothing in that phase."""
    return TRANSITIONS[phase_of(phase)].get(action)
