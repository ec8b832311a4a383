"""Rows that place a backlog: gangs, single turns, single pods of many shapes, constrained pods; and growth."""

from __future__ import annotations

from typing import Any

from bench import constraints
from bench.checker import check
from bench.engine import schedule
from bench.scheduling import kernel, perpod
from bench.scheduling.driving import loaded
from bench.workload import Workload
from volcanoio.runtime.scheduler.scheduler import BUDGET

PLAIN_SECONDS = 4.0
"""Seconds for which the plain loop runs."""


def placed(workload: Workload) -> dict[str, Any]:
    """Place a workload on an empty cluster and check it."""
    state, profile = loaded(workload)
    run = schedule(state, profile, budget=BUDGET, pods=workload.pods)
    placements = run.placements()
    checked = check(workload.node_facts(), workload.pod_facts(), workload.group_facts(), workload.limits(), placements)
    wrong = checked.violations
    if isinstance(workload, constraints.Constrained):
        wrong = wrong + workload.broken(dict(placements))
    return {
        "nodes": workload.nodes,
        "pods": workload.pods,
        "placed": checked.placed,
        "per_second": round(checked.placed / run.seconds),
        "per_cpu_second": round(checked.placed / run.cpu_seconds),
        "longest_hold_ms": round(1000 * run.longest_hold, 1),
        "cycles": run.cycles,
        "peak_memory_mib": round(run.peak_memory / 2**20),
        "violations": len(wrong),
    }


def gangs(nodes: int, pods: int) -> dict[str, Any]:
    """Measure gangs of 8 of 20 shapes; also placement alone and the plain loop on the same workload."""
    workload = Workload(nodes, pods, 8, used=True)
    plain = perpod.placements_per_second(workload, PLAIN_SECONDS)
    bare = kernel.placements_per_second(workload)
    figures = placed(workload)
    return {
        **figures,
        "kernel_per_cpu_second": round(bare),
        "plain_loop_per_cpu_second": round(plain, 1),
        "times_plain_loop": round(figures["per_cpu_second"] / plain, 1),
    }


def turns(nodes: int, pods: int) -> dict[str, Any]:
    """Measure jobs of 8 with one required member, in queues of unequal weight and three priorities."""
    return placed(Workload(nodes, pods, 8, minimum=1, priorities=3, used=True))


def single_pods(nodes: int, pods: int) -> dict[str, Any]:
    """Measure jobs of one pod, of 1,000 shapes."""
    return placed(Workload(nodes, pods, 1, shapes=1000, used=True))


def constrained(nodes: int, pods: int) -> dict[str, Any]:
    """Measure gangs of 8, a fifth with node affinity and taints, spread, anti-affinity or affinity to each other."""
    return placed(constraints.Constrained(nodes, pods, 8, used=True))


def growth(nodes: int, pods: int) -> dict[str, Any]:
    """Measure the CPU time of a placement on all nodes relative to a tenth of them, with the same pods per node."""
    small, large = (placed(Workload(size, pods // 10, 8, used=True)) for size in (nodes // 10, nodes))
    return {
        "small": small,
        "large": large,
        "times": round(small["per_cpu_second"] / large["per_cpu_second"], 2),
    }
