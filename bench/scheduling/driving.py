"""Parts that several rows use: a loaded state, one cycle, and the figures of both."""

from __future__ import annotations

import gc
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field

from bench.engine import default_profile, load, observed
from bench.workload import Workload
from volcanoio.engine.scheduling.cluster.state import REQUIRED_RESOURCES, ClusterState
from volcanoio.engine.scheduling.config.profile import WATCHABLE, Profile
from volcanoio.engine.scheduling.session.cycle import CycleResult, run_cycle
from volcanoio.engine.scheduling.session.session import CycleSession
from volcanoio.framework.events import Synced
from volcanoio.framework.scheduling_effects import SchedulerEffect
from volcanoio.framework.scheduling_events import CycleOpened
from volcanoio.model.base import ApiObject
from volcanoio.runtime.garbage_collection import tune_garbage_collector

LATE = 10**9
"""A sequence number above those of all folded events."""


@dataclass(slots=True)
class Driven:
    """One cycle: seconds, CPU seconds, the longest time between two checkpoints, and the decisions."""

    seconds: float
    cpu_seconds: float
    longest_hold: float
    decisions: list[SchedulerEffect] = field(default_factory=list)
    result: CycleResult = field(default_factory=CycleResult)


def freeze_garbage() -> None:
    """Set up the garbage collector as a process does once it has listed everything."""
    tune_garbage_collector()
    gc.collect()
    gc.freeze()


def loaded(workload: Workload) -> tuple[ClusterState, Profile]:
    """Return a state with the workload, and the default profile."""
    state, profile = ClusterState(), default_profile()
    load(state, workload)
    freeze_garbage()
    return state, profile


def fold(state: ClusterState, objects: Iterable[ApiObject]) -> None:
    """Fold objects, and mark everything as listed."""
    for event in observed(objects, 1):
        state.fold(event)
    for resource in (*REQUIRED_RESOURCES, *sorted(WATCHABLE)):
        state.fold(Synced(resource=resource))


def drive(  # noqa: PLR0913 - the last two are for one row
    state: ClusterState,
    profile: Profile,
    number: int,
    at: float,
    *,
    between: Callable[[], object] | None = None,
    inspect: Callable[[CycleSession], Iterator[None]] | None = None,
) -> Driven:
    """Run one cycle without a time budget, opened at that time (epoch seconds).

    `between` is called at each checkpoint, as other work of the event loop; `inspect` reads the closed session.
    """
    opening = CycleOpened(seq=LATE + number, at=at, cycle=number, upto=LATE, seed=1)
    driven = Driven(0.0, 0.0, 0.0)
    before = started = time.perf_counter()
    cpu = time.process_time()
    steps = run_cycle(state, profile, opening, inspect=inspect)
    try:
        while True:
            point = next(steps)
            now = time.perf_counter()
            driven.longest_hold, before = max(driven.longest_hold, now - before), now
            driven.decisions.extend(point.decisions)
            if between is not None:
                between()
                before = time.perf_counter()
    except StopIteration as stop:
        driven.result = stop.value
    ended = time.perf_counter()
    driven.longest_hold = max(driven.longest_hold, ended - before)
    driven.seconds, driven.cpu_seconds = ended - started, time.process_time() - cpu
    return driven
