"""Placement alone: nodes are found and counted in the columns, without queues, statements and binds."""

from __future__ import annotations

import time
from typing import Any

from bench.scheduling.driving import LATE, loaded
from bench.workload import Workload
from volcanoio.engine.scheduling.placement.placer import PlacementRequest
from volcanoio.engine.scheduling.session.cycle import open_session
from volcanoio.engine.scheduling.session.session import CycleSession
from volcanoio.framework.scheduling_events import CycleOpened


def placements_per_second(workload: Workload) -> float:
    """Measure the tasks per CPU second for which `Placer.place` finds nodes, gang by gang in order of their names."""
    state, profile = loaded(workload)
    session = CycleSession(state, profile, CycleOpened(seq=LATE, cycle=1, upto=LATE, seed=1))
    for _ in open_session(session):
        pass
    ledger: Any = state.ledger
    ledger.record_assumed = _unheard
    gangs = [list(job.pending.values()) for job in ledger.schedulable_jobs.values()]
    placer, placed, started = state.placer, 0, time.process_time()
    for tasks in gangs:
        number, _ = placer.place(PlacementRequest(tasks, []))
        placed += number
    return placed / (time.process_time() - started)


def _unheard(*_: Any) -> None:
    """Ignore the changes of tasks."""
