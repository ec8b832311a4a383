"""The scheduling engine alone: `python -m bench.engine --nodes 10000 --pods 100000 --gang 8`.

A backlog of gangs is folded into a ClusterState and placed by `run_cycle` with the default configuration: the same
entry point and rules as live, cut into cycles by the same time budget. Prints JSON. The checker's time, and that of
building the objects, is not counted; folding them in is measured separately.
"""

from __future__ import annotations

import argparse
import gc
import json
import sys
import time
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from bench.checker import Report, check
from bench.machine import machine, peak_memory
from bench.workload import SHAPES, Workload
from volcanoio.engine.scheduling.cluster.state import REQUIRED_RESOURCES, ClusterState
from volcanoio.engine.scheduling.config.configuration import default_configuration
from volcanoio.engine.scheduling.config.profile import WATCHABLE, Profile
from volcanoio.engine.scheduling.session.cycle import CycleResult, run_cycle
from volcanoio.framework import entrypoints
from volcanoio.framework.events import Change, Observed, Synced
from volcanoio.framework.scheduling_effects import BindBatch, SchedulerEffect
from volcanoio.framework.scheduling_events import CycleOpened
from volcanoio.kube.clock import WallClock
from volcanoio.model import kinds
from volcanoio.model.base import ApiObject
from volcanoio.runtime.garbage_collection import tune_garbage_collector
from volcanoio.runtime.loading.registry import discover
from volcanoio.runtime.scheduler.cycle_timing import TimeBudget
from volcanoio.runtime.scheduler.scheduler import BUDGET

SHOWN = 10
"""Violations printed in full."""


@dataclass(slots=True)
class Run:
    """Decisions and seconds of a run; `longest_hold` is the longest time between two checkpoints."""

    seconds: float = 0.0
    cpu_seconds: float = 0.0
    longest_cycle: float = 0.0
    longest_hold: float = 0.0
    cycles: int = 0
    checkpoints: int = 0
    peak_memory: int = 0
    decisions: list[SchedulerEffect] = field(default_factory=list)

    def placements(self) -> list[tuple[str, str]]:
        """Yield (pod uid, node) of every bind."""
        batches = (effect for effect in self.decisions if isinstance(effect, BindBatch))
        return [(bind.uid, bind.node) for batch in batches for bind in batch.binds]


def default_profile() -> Profile:
    """Return the profile of live scheduling without a configuration file."""
    registry = discover()
    plugins, actions = registry.factories(entrypoints.SCHEDULER_PLUGINS), registry.factories(entrypoints.ACTIONS)
    return Profile.build(default_configuration(actions=actions, plugins=plugins), plugins, actions)


def observed(objects: Iterable[ApiObject], seq: int) -> list[Observed]:
    """Return the objects as the events that informers would publish."""
    return [
        Observed(seq=seq + index, resource=kinds.of(obj).resource, change=Change.APPEARED, object=obj)
        for index, obj in enumerate(objects)
    ]


def load(state: ClusterState, workload: Workload) -> tuple[int, float]:
    """Fold the whole workload; returns the number of events and the seconds."""
    count, seconds = 0, 0.0
    for objects in (
        workload.node_objects(),
        workload.other_objects(),
        workload.class_objects(),
        workload.queue_objects(),
        workload.group_objects(),
        workload.pod_objects(),
    ):
        events = observed(objects, count + 1)
        started = time.perf_counter()
        for event in events:
            state.fold(event)
        seconds += time.perf_counter() - started
        count += len(events)
    for resource in (*REQUIRED_RESOURCES, *sorted(WATCHABLE)):
        state.fold(Synced(seq=count + 1, resource=resource))
    return count, seconds


def schedule(state: ClusterState, profile: Profile, *, budget: float, pods: int) -> Run:
    """Run cycles until all pods are placed, or a complete cycle places none."""
    run, bound, clock = Run(), 0, WallClock()
    while True:
        run.cycles += 1
        opening = CycleOpened(seq=10**9 + run.cycles, at=clock.now(), cycle=run.cycles, upto=10**9, seed=1)
        before = started = time.perf_counter()
        cpu = time.process_time()
        cycle, result = run_cycle(state, profile, opening, budget=TimeBudget(clock, budget)), CycleResult()
        try:
            while True:
                point = next(cycle)
                run.checkpoints += 1
                run.decisions.extend(point.decisions)
                now = time.perf_counter()
                run.longest_hold, before = max(run.longest_hold, now - before), now
        except StopIteration as stop:
            result = stop.value
        ended = time.perf_counter()
        run.cpu_seconds += time.process_time() - cpu
        run.longest_hold = max(run.longest_hold, ended - before)
        run.longest_cycle = max(run.longest_cycle, ended - started)
        run.seconds += ended - started
        bound += result.stats.bound
        if bound >= pods or (not result.cut_action and not result.stats.bound):
            run.peak_memory = peak_memory()
            return run


def report(workload: Workload, run: Run, events: int, load_seconds: float, checked: Report) -> dict[str, Any]:
    """Return the figures of a run."""
    return {
        "bench": "engine",
        "machine": machine(),
        "workload": asdict(workload),
        "placed": checked.placed,
        "placements_per_second": round(checked.placed / run.seconds),
        "placements_per_cpu_second": round(checked.placed / run.cpu_seconds),
        "seconds": round(run.seconds, 3),
        "cycles": run.cycles,
        "checkpoints": run.checkpoints,
        "longest_cycle_seconds": round(run.longest_cycle, 4),
        "longest_hold_seconds": round(run.longest_hold, 4),
        "folded_events_per_second": round(events / load_seconds),
        "peak_memory_bytes": run.peak_memory,
        "gangs_placed": checked.gangs_placed,
        "gangs_unplaced": checked.gangs_unplaced,
        "violations": len(checked.violations),
    }


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure, check, print; returns 1 if a placement was wrong."""
    parser = argparse.ArgumentParser(prog="python -m bench.engine", description=__doc__)
    parser.add_argument("--nodes", type=int, default=10_000)
    parser.add_argument("--pods", type=int, default=100_000)
    parser.add_argument("--gang", type=int, default=8, help="pods in a gang")
    parser.add_argument("--shapes", type=int, default=len(SHAPES), help="different pods")
    parser.add_argument("--budget", type=float, default=BUDGET, help="seconds of a cycle")
    given = parser.parse_args(arguments)
    workload = Workload(given.nodes, given.pods, given.gang, given.shapes)
    state, profile = ClusterState(), default_profile()
    events, load_seconds = load(state, workload)
    tune_garbage_collector()
    gc.collect()
    gc.freeze()
    run = schedule(state, profile, budget=given.budget, pods=workload.pods)
    figures = report(
        workload,
        run,
        events,
        load_seconds,
        checked := check(
            workload.node_facts(),
            workload.pod_facts(),
            workload.group_facts(),
            workload.limits(),
            run.placements(),
        ),
    )
    print(json.dumps(figures, indent=2))
    for violation in checked.violations[:SHOWN]:
        print(violation, file=sys.stderr)
    return 1 if checked.violations else 0


if __name__ == "__main__":
    sys.exit(main())
