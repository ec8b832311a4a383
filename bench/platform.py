"""A day of a platform in virtual time: `python -m bench.platform [--pods 300000] [--uncounted]`.

200 nodes whose kubelets see changes late; gangs that run for a week use most of the cores, and one-minute pods arrive
all day, each created, bound, run and deleted. No node may have to refuse a pod because of its resources (OutOf*), and
no job may be lost. With fewer pods the day is shorter; the load stays the same. `--uncounted` is the negative control:
the scheduler does not count a bound pod until it sees it, and the nodes must refuse pods.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import math
import sys
import time
from collections.abc import Sequence
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

from bench.day.arrivals import MEMBERS, NODE, NODE_CORES, NODES, PODS, Arrival, arrivals, gangs, length
from bench.day.onlooker import Onlooker
from bench.day.uncounted import binding_tasks_not_counted
from bench.machine import machine, peak_memory, software
from bench.statistics import percentile
from bench.writes import CountedRequests
from volcanoio.compose.local import LocalCluster
from volcanoio.compose.options import LocalOptions
from volcanoio.model import kinds
from volcanoio.runtime.garbage_collection import tune_garbage_collector

LAG = 1.0
"""Seconds after which a kubelet sees a change, and for which it still counts a pod that has ended."""
PATIENCE = 3600.0
"""Seconds of the cluster's time for jobs to finish after the last one arrived."""
LOOK = 5.0


async def day(
    pods: int, nodes: int = NODES, *, seed: int = 0, uncounted: bool = False, journal: Path | None = None
) -> dict[str, Any]:
    """Run a day with so many short pods; `uncounted` starts the negative control at its beginning."""
    requests = CountedRequests()
    weeks = gangs(nodes)
    options = LocalOptions.parse(nodes=nodes, node_resources=NODE, speed=math.inf, kubelet_lag=LAG, journal=journal)
    async with LocalCluster(options, faults=requests) as cluster:
        clock = cluster.clock
        seen = Onlooker(clock.now)
        async with AsyncExitStack() as stack:
            await stack.enter_async_context(cluster.observing((kinds.POD, kinds.JOB), seen.fold))
            for manifest in weeks:
                await cluster.submit(manifest)
            while sum(seen.running.values()) < len(weeks) * MEMBERS:
                await clock.sleep(LOOK)
            if uncounted:
                stack.enter_context(binding_tasks_not_counted())
            requests.forget()
            began, wall, cpu = clock.now(), time.perf_counter(), time.process_time()
            seen.begin()
            seen.waits.clear()
            sent: list[Arrival] = []
            for arrival in arrivals(pods, nodes, seed):
                await clock.sleep_until(began + arrival.at)
                await cluster.submit(arrival.manifest)
                sent.append(arrival)
            arrived = clock.now()
            core_seconds = seen.core_seconds
            while len(seen.ended) < len(sent) and clock.now() < arrived + PATIENCE:
                await clock.sleep(LOOK)
            lost = [each.name for each in sent if seen.completed.get(each.name) != each.pods]
            whole = sum(count == MEMBERS for name, count in seen.running.items() if name.startswith("week-"))
            spent = time.process_time() - cpu
            return {
                "pods": pods,
                "jobs": len(sent),
                "nodes": nodes,
                "hours": round(length(pods, nodes) / 3600, 2),
                "week_long_gangs": len(weeks),
                "week_long_gangs_broken": len(weeks) - whole,
                "out_of": sum(seen.refused.values()),
                "out_of_by_reason": dict(seen.refused),
                "refused_by_nodes": len(cluster.fleet.overcommitted),
                "times_a_node_was_overfull": seen.overfull,
                "lost_jobs": len(lost),
                "lost": lost[:5],
                "utilisation": round(core_seconds / (nodes * NODE_CORES * (arrived - began)), 4),
                "wait_seconds": {
                    name: round(percentile(seen.waits, part), 3)
                    for name, part in (("p50", 0.5), ("p99", 0.99), ("max", 1.0))
                },
                "cluster_seconds": round(clock.now() - began),
                "wall_seconds": round(time.perf_counter() - wall, 1),
                "cpu_seconds": round(spent, 1),
                "cpu_ms_per_pod": round(1000 * spent / pods, 3),
                "writes_per_pod": requests.per(pods),
                "peak_memory_mib": round(peak_memory() / 2**20),
            }


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the day and print its figures; returns 1 if the platform failed, or the negative control did not."""
    parser = argparse.ArgumentParser(prog="python -m bench.platform", description=__doc__)
    parser.add_argument("--pods", type=int, default=PODS, help="one-minute pods; 300000 make a whole day")
    parser.add_argument("--nodes", type=int, default=NODES)
    parser.add_argument("--uncounted", action="store_true", help="the negative control")
    given = parser.parse_args(arguments)
    tune_garbage_collector()
    figures = asyncio.run(day(given.pods, given.nodes, uncounted=given.uncounted))
    about = {
        "bench": "platform",
        "machine": machine(),
        "software": software(),
        "node": NODE,
        "kubelet_lag_seconds": LAG,
        "binding_tasks_counted": not given.uncounted,
    }
    print(json.dumps({**about, **figures}, indent=2))
    return 0 if passed(figures, uncounted=given.uncounted) else 1


def passed(figures: dict[str, Any], *, uncounted: bool) -> bool:
    """Return whether nothing was refused or lost; for the negative control, whether something was refused."""
    if uncounted:
        return bool(figures["out_of"])
    faults = ("out_of", "refused_by_nodes", "times_a_node_was_overfull", "lost_jobs", "week_long_gangs_broken")
    return not any(figures[fault] for fault in faults)


if __name__ == "__main__":
    sys.exit(main())
