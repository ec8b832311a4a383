"""The lifecycle table against Volcano's (reference: pkg/controllers/job/state), row by row."""

from __future__ import annotations

from typing import Any

import pytest

from volcanoio.engine.jobs.state.transitions import (
    RECONCILE_MODES,
    STOPPED_PHASES,
    TRANSITIONS,
    ReconcileMode,
    Transition,
    phase_of,
    transition_for,
)
from volcanoio.model.batch import FINISHED_PHASES, JobAction, JobPhase

A, P = JobAction, JobPhase
TARGETED = (A.RESTART_TASK, A.RESTART_POD, A.RESTART_PARTITION)

ROWS: list[tuple[JobPhase, JobAction, Transition | None]] = [
    *[
        row
        for phase in (P.PENDING, P.RUNNING)
        for row in (
            (phase, A.RESTART_JOB, Transition(P.RESTARTING, bumps_version=True, counts_retry=True)),
            *((phase, action, Transition(P.RESTARTING, counts_retry=True)) for action in TARGETED),
            (phase, A.ABORT_JOB, Transition(P.ABORTING, bumps_version=True)),
            (phase, A.COMPLETE_JOB, Transition(P.COMPLETING, bumps_version=True)),
            (phase, A.TERMINATE_JOB, Transition(P.TERMINATING, bumps_version=True)),
            (phase, A.RESUME_JOB, None),
            (phase, A.SYNC_JOB, None),
        )
    ],
    # Fixed: in Volcano these three only restart once more, and the request is lost.
    (P.RESTARTING, A.ABORT_JOB, Transition(P.ABORTING, bumps_version=True)),
    (P.RESTARTING, A.COMPLETE_JOB, Transition(P.COMPLETING, bumps_version=True)),
    (P.RESTARTING, A.TERMINATE_JOB, Transition(P.TERMINATING, bumps_version=True)),
    (P.RESTARTING, A.RESTART_JOB, Transition(P.RESTARTING, bumps_version=True)),
    *((P.RESTARTING, action, Transition(P.RESTARTING)) for action in TARGETED),
    (P.RESTARTING, A.RESUME_JOB, None),
    (P.RESTARTING, A.SYNC_JOB, None),
    # Fixed: in Volcano a resume costs a retry.
    *[(phase, A.RESUME_JOB, Transition(P.RESTARTING, bumps_version=True)) for phase in (P.ABORTING, P.ABORTED)],
    *[(phase, action, None) for phase in (P.ABORTING, P.ABORTED) for action in A if action is not A.RESUME_JOB],
    *[
        (phase, action, None)
        for phase in (P.COMPLETING, P.TERMINATING, P.COMPLETED, P.TERMINATED, P.FAILED)
        for action in A
    ],
]


@pytest.mark.parametrize(("phase", "action", "transition"), ROWS, ids=lambda value: str(value) if value else "nothing")
def test_row(phase: Any, action: Any, transition: Any) -> None:
    assert transition_for(phase, action) == transition


def test_every_phase_and_action_has_a_row_here_and_every_phase_in_the_table() -> None:
    assert {(phase, action) for phase, action, _ in ROWS} == {(phase, action) for phase in P for action in A}
    assert set(TRANSITIONS) == set(RECONCILE_MODES) == set(P)


def test_a_new_job_counts_as_pending() -> None:
    assert phase_of("") is P.PENDING


def test_a_finished_job_is_never_left() -> None:
    assert all(
        not TRANSITIONS[phase] and phase not in STOPPED_PHASES and RECONCILE_MODES[phase] is ReconcileMode.STOP
        for phase in FINISHED_PHASES
    )
