"""The lifecycle table against Volcano's (reference: pkg/controllers/job/state), row by row."""

from __future__ import annotations

from typing import Any

import pytest

from volcanoio.engine.jobs.table import SETTLES_AS, TABLE, UPKEEP, Move, Upkeep, move_for, phase_of
from volcanoio.model.batch import FINISHED_PHASES, JobAction, JobPhase

A, P = JobAction, JobPhase
TARGETED = (A.RESTART_TASK, A.RESTART_POD, A.RESTART_PARTITION)

ROWS: list[tuple[JobPhase, JobAction, Move | None]] = [
    *[
        row
        for phase in (P.PENDING, P.RUNNING)
        for row in (
            (phase, A.RESTART_JOB, Move(P.RESTARTING, version=True, retry=True)),
            *((phase, action, Move(P.RESTARTING, retry=True)) for action in TARGETED),
            (phase, A.ABORT_JOB, Move(P.ABORTING, version=True)),
            (phase, A.COMPLETE_JOB, Move(P.COMPLETING, version=True)),
            (phase, A.TERMINATE_JOB, Move(P.TERMINATING, version=True)),
            (phase, A.RESUME_JOB, None),
            (phase, A.SYNC_JOB, None),
        )
    ],
    # Mended: in Volcano these three only restart once more, and the request is lost.
    (P.RESTARTING, A.ABORT_JOB, Move(P.ABORTING, version=True)),
    (P.RESTARTING, A.COMPLETE_JOB, Move(P.COMPLETING, version=True)),
    (P.RESTARTING, A.TERMINATE_JOB, Move(P.TERMINATING, version=True)),
    (P.RESTARTING, A.RESTART_JOB, Move(P.RESTARTING, version=True)),
    *((P.RESTARTING, action, Move(P.RESTARTING)) for action in TARGETED),
    (P.RESTARTING, A.RESUME_JOB, None),
    (P.RESTARTING, A.SYNC_JOB, None),
    # Mended: in Volcano a resume costs a retry.
    *[(phase, A.RESUME_JOB, Move(P.RESTARTING, version=True)) for phase in (P.ABORTING, P.ABORTED)],
    *[(phase, action, None) for phase in (P.ABORTING, P.ABORTED) for action in A if action is not A.RESUME_JOB],
    *[
        (phase, action, None)
        for phase in (P.COMPLETING, P.TERMINATING, P.COMPLETED, P.TERMINATED, P.FAILED)
        for action in A
    ],
]


@pytest.mark.parametrize(("phase", "action", "move"), ROWS, ids=lambda value: str(value) if value else "nothing")
def test_row(phase: Any, action: Any, move: Any) -> None:
    assert move_for(phase, action) == move


def test_every_phase_and_action_has_a_row_here_and_every_phase_in_the_table() -> None:
    assert {(phase, action) for phase, action, _ in ROWS} == {(phase, action) for phase in P for action in A}
    assert set(TABLE) == set(UPKEEP) == set(P)


def test_a_new_job_counts_as_pending() -> None:
    assert phase_of("") is P.PENDING


def test_a_finished_job_is_never_left() -> None:
    assert all(
        not TABLE[phase] and phase not in SETTLES_AS and UPKEEP[phase] is Upkeep.STOP for phase in FINISHED_PHASES
    )
