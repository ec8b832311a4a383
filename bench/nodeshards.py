"""Schedulers that divide a cluster: `python -m bench.nodeshards [--nodes 30000] [--pods 60000] [--schedulers 3]`.

A backlog of gangs of 8 is placed first by one scheduler on all nodes, then by several, each with its share of the gangs
and a NodeShard in mode hard, assigned as the sharding controller does. Each scheduler is a process of its own that
knows all nodes and places its gangs in cycles with the default configuration, as `bench.engine` does; all begin at the
same moment. Measured is the time until the last of them has placed its last pod; building the state is not. On a
machine with fewer cores than schedulers they compete for them; so they are also run one after another, as if each had a
core of its own. What all have placed is then checked together, as the kubelets would: nodes that hold too much and pods
placed twice are conflicts. Prints one JSON object.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import time
from collections.abc import Iterable, Sequence
from typing import Any

import msgspec

from bench.checker import check
from bench.engine import default_profile, schedule
from bench.machine import machine, software
from bench.scheduling.driving import fold, freeze_garbage
from bench.workload import SHAPES, Workload
from volcanoio.engine.scheduling.cluster.scope import Scope
from volcanoio.engine.scheduling.cluster.state import ClusterState, StateOptions
from volcanoio.engine.scheduling.sharding.node_shards import Sharding, ShardingMode
from volcanoio.engine.sharding.assignment import assign
from volcanoio.engine.sharding.configuration import SchedulerShard
from volcanoio.engine.sharding.policies import NodeFacts, NodeLimit, Policy
from volcanoio.framework.events import Synced
from volcanoio.model import kinds, names
from volcanoio.model.base import ApiObject, ObjectMeta
from volcanoio.model.nodes import NodeShard, NodeShardSpec
from volcanoio.runtime.scheduler.scheduler import BUDGET

GANG = 8
READY, GO = "ready", "go"


def scheduler_name(number: int) -> str:
    """Return the name of a scheduler and of its NodeShard."""
    return f"scheduler-{number}"


def shards(workload: Workload, schedulers: int) -> list[NodeShard]:
    """Return equal shards of all nodes."""
    limit = NodeLimit(max_nodes=-(-workload.nodes // schedulers))
    configured = [SchedulerShard(scheduler_name(number), (Policy(limit),)) for number in range(schedulers)]
    facts = (NodeFacts(node.metadata.name, node.metadata.labels, 0.0) for node in workload.node_objects())
    return [
        NodeShard(metadata=ObjectMeta(name=name, uid=name), spec=NodeShardSpec(nodes_desired=nodes))
        for name, nodes in assign(configured, facts).items()
    ]


def share_of(workload: Workload, number: int, schedulers: int) -> Iterable[ApiObject]:
    """Yield what a scheduler sees of the workload: all nodes and queues, its own gangs."""
    yield from workload.node_objects()
    yield from workload.queue_objects()
    for gang, group in enumerate(workload.group_objects()):
        if gang % schedulers == number:
            yield group
    for pod in workload.pod_objects():
        if int(pod.metadata.annotations[names.GROUP_NAME].rpartition("-")[2]) % schedulers == number:
            yield msgspec.structs.replace(
                pod, spec=msgspec.structs.replace(pod.spec, scheduler_name=scheduler_name(number))
            )


def work(workload: Workload, number: int, schedulers: int) -> None:
    """Place one scheduler's share, beginning at a signal; print the placements and when it began and ended."""
    name = scheduler_name(number)
    sharding = Sharding(ShardingMode.HARD, name) if schedulers > 1 else None
    scope = None if sharding is None else Scope(sharding=sharding)
    state = ClusterState(StateOptions(scheduler_names=frozenset({name}), scope=scope))
    objects = list(share_of(workload, number, schedulers))
    fold(state, [*(shards(workload, schedulers) if sharding else ()), *objects])
    state.fold(Synced(resource=kinds.NODE_SHARD.resource))
    profile = default_profile()
    freeze_garbage()
    print(READY, flush=True)
    assert sys.stdin.readline().strip() == GO
    began = time.time()
    run = schedule(state, profile, budget=BUDGET, pods=sum(kinds.of(obj) is kinds.POD for obj in objects))
    result = {"began": began, "ended": time.time(), "cpu_seconds": run.cpu_seconds, "placements": run.placements()}
    print(json.dumps(result), flush=True)


def measure(workload: Workload, schedulers: int, *, one_by_one: bool = False) -> dict[str, Any]:
    """Run schedulers side by side, or one after another as if side by side; return the figures of all together."""
    sizes = [str(workload.nodes), str(workload.pods), str(workload.shapes), str(schedulers)]
    command = [sys.executable, "-m", "bench.nodeshards", "--worker", *sizes]
    workers = [
        subprocess.Popen([*command, str(number)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        for number in range(schedulers)
    ]
    for worker in workers:
        assert worker.stdout is not None
        assert worker.stdout.readline().strip() == READY
    results = []
    for batch in [[worker] for worker in workers] if one_by_one else [workers]:
        for worker in batch:
            assert worker.stdin is not None
            worker.stdin.write(f"{GO}\n")
            worker.stdin.flush()
        results += [json.loads(worker.communicate()[0]) for worker in batch]
    if one_by_one:
        seconds = max(result["ended"] - result["began"] for result in results)
    else:
        seconds = max(result["ended"] for result in results) - min(result["began"] for result in results)
    placements = [(uid, node) for result in results for uid, node in result["placements"]]
    checked = check(workload.node_facts(), workload.pod_facts(), workload.group_facts(), workload.limits(), placements)
    return {
        "schedulers": schedulers,
        "placed": checked.placed,
        "seconds": round(seconds, 2),
        "placements_per_second": round(checked.placed / seconds),
        "cpu_seconds": [round(result["cpu_seconds"], 2) for result in results],
        "placements_per_cpu_second": [round(len(result["placements"]) / result["cpu_seconds"]) for result in results],
        "conflicts": len(checked.violations),
    }


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure and print; returns 1 if a conflict was left."""
    parser = argparse.ArgumentParser(prog="python -m bench.nodeshards", description=__doc__)
    parser.add_argument("--nodes", type=int, default=30_000)
    parser.add_argument("--pods", type=int, default=60_000)
    parser.add_argument("--shapes", type=int, default=len(SHAPES), help="different pods")
    parser.add_argument("--schedulers", type=int, default=3)
    parser.add_argument("--worker", type=int, nargs=5, help=argparse.SUPPRESS)
    given = parser.parse_args(arguments)
    if given.worker:
        nodes, pods, shapes, schedulers, number = given.worker
        work(Workload(nodes, pods, GANG, shapes), number, schedulers)
        return 0
    workload = Workload(given.nodes, given.pods, GANG, given.shapes)
    alone, together = measure(workload, 1), measure(workload, given.schedulers)
    one_by_one = measure(workload, given.schedulers, one_by_one=True)

    def times(several: dict[str, Any]) -> float:
        return round(float(several["placements_per_second"] / alone["placements_per_second"]), 2)

    result = {
        "bench": "nodeshards",
        "nodes": given.nodes,
        "pods": given.pods,
        "gang": GANG,
        "shapes": given.shapes,
        "alone": alone,
        "together": together,
        "one_after_another": one_by_one,
        "times_as_many_per_second": times(together),
        "times_as_many_per_second_with_a_core_each": times(one_by_one),
        "machine": machine(),
        "software": software(),
    }
    print(json.dumps(result, indent=2))
    return 1 if alone["conflicts"] or together["conflicts"] or one_by_one["conflicts"] else 0


if __name__ == "__main__":
    raise SystemExit(main())
