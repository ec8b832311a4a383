"""Evictions on a full cluster: `python -m bench.victims --action reclaim --nodes 1000 --worth 1000`.

Every node is full of two-core pods of elastic jobs (eight members, of which one must run). Gangs of eight such pods
request the room of `--worth` nodes: in the same queue with a higher priority (preempt), or in a queue without usage
that may have half of the cluster (reclaim). Measured are the cycle that evicts, with predicates, proportion and
nodeorder, and two more, a tenth of a second apart, in which nothing changed: the victims terminate. With `--helpless
N`, N more gangs wait that may not evict any pod. Prints JSON; the exit status is 1 if a gang was served in part, an
eviction served no gang, or a victim was evicted twice.
"""

from __future__ import annotations

import argparse
import gc
import json
import sys
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any

from bench.engine import observed
from bench.machine import machine
from bench.workload import NODE_TYPES, TYPE_OF_TEN
from volcanoio.engine.scheduling.cluster.state import ClusterState
from volcanoio.engine.scheduling.config.configuration import parse
from volcanoio.engine.scheduling.config.profile import Profile
from volcanoio.engine.scheduling.session.cycle import CycleResult, run_cycle
from volcanoio.framework import entrypoints
from volcanoio.framework.events import Synced
from volcanoio.framework.scheduling_effects import Evict
from volcanoio.framework.scheduling_events import CycleOpened
from volcanoio.model import names
from volcanoio.model.base import ApiObject, ObjectMeta
from volcanoio.model.core import (
    Container,
    Node,
    NodeStatus,
    Pod,
    PodSpec,
    PodStatus,
    PriorityClass,
    ResourceList,
    ResourceRequirements,
)
from volcanoio.model.scheduling import PodGroup, PodGroupSpec, PodGroupStatus, Queue, QueueSpec, QueueStatus
from volcanoio.runtime.garbage_collection import tune_garbage_collector
from volcanoio.runtime.loading.registry import discover

CONF = """
actions: "enqueue, allocate, {action}"
tiers:
- plugins: [{{name: priority}}, {{name: gang}}, {{name: conformance}}]
- plugins: [{{name: predicates}}, {{name: proportion}}, {{name: nodeorder}}]
"""
GANG = 8
CORES = 2
"""Cores of one pod."""


def profile_of(action: str) -> Profile:
    """Return the profile of the cycle."""
    registry = discover()
    plugins, actions = registry.factories(entrypoints.SCHEDULER_PLUGINS), registry.factories(entrypoints.ACTIONS)
    return Profile.build(parse(CONF.format(action=action), actions=actions, plugins=plugins), plugins, actions)


def cluster(action: str, nodes: int, worth: int, helpless: int = 0) -> Iterator[ApiObject]:
    """Yield all objects: nodes, queues, running and waiting pods."""
    for queue in ("held", "wants"):
        yield Queue(metadata=_meta(queue), spec=QueueSpec(weight=1, reclaimable=True), status=QueueStatus(state="Open"))
    yield PriorityClass(metadata=_meta("high"), value=1000)
    places: list[str] = []
    for index in range(nodes):
        kind, cores, gib, _ = NODE_TYPES[TYPE_OF_TEN[index % len(TYPE_OF_TEN)]]
        offered: ResourceList = {"cpu": str(cores), "memory": f"{gib}Gi", "pods": "110"}
        yield Node(
            metadata=_meta(f"node-{index}", labels={"type": kind}),
            status=NodeStatus(capacity=offered, allocatable=offered),
        )
        places += [f"node-{index}"] * (cores // CORES)
    for at in range(0, len(places), GANG):
        yield from job(f"old-{at}", "held", places[at : at + GANG], minimum=1)
    wanted = len(places) * min(worth, nodes) // nodes // GANG
    for number in range(wanted):
        queue = "held" if action.endswith("preempt") else "wants"
        yield from job(f"new-{number}", queue, [""] * GANG, minimum=GANG, priority="high")
    for number in range(helpless):
        yield from job(f"stuck-{number}", "held", [""] * GANG, minimum=GANG)


def job(name: str, queue: str, places: Sequence[str], *, minimum: int, priority: str = "") -> Iterator[ApiObject]:
    """Yield a PodGroup and its pods, which run on the given nodes."""
    running = bool(places[0])
    yield PodGroup(
        metadata=_meta(name, namespace="bench"),
        spec=PodGroupSpec(min_member=minimum, queue=queue, priority_class_name=priority),
        status=PodGroupStatus(phase="Running" if running else "Inqueue"),
    )
    requests = ResourceRequirements(requests={"cpu": str(CORES), "memory": "4Gi"})
    for index, place in enumerate(places):
        yield Pod(
            metadata=_meta(f"{name}-worker-{index}", namespace="bench", annotations={names.GROUP_NAME: name}),
            spec=PodSpec(
                node_name=place,
                scheduler_name=names.SCHEDULER_NAME,
                containers=(Container(name="main", resources=requests),),
            ),
            status=PodStatus(phase="Running" if running else "Pending"),
        )


def cycle(state: ClusterState, profile: Profile, number: int) -> dict[str, Any]:
    """Run one cycle to its end; returns figures, with its decisions under `evicted` and `pipelined`."""
    opening = CycleOpened(seq=10**9 + number, at=1e9 + number / 10, cycle=number, upto=10**9, seed=1)
    evicted: list[Evict] = []
    hold, result = 0.0, CycleResult()
    before = started = time.perf_counter()
    cpu = time.process_time()
    steps = run_cycle(state, profile, opening)
    try:
        while True:
            point = next(steps)
            now = time.perf_counter()
            hold, before = max(hold, now - before), now
            evicted += [each for each in point.decisions if isinstance(each, Evict)]
    except StopIteration as stop:
        result = stop.value
    ended = time.perf_counter()
    return {
        "seconds": round(ended - started, 3),
        "cpu_seconds": round(time.process_time() - cpu, 3),
        "longest_hold_seconds": round(max(hold, ended - before), 4),
        "nodes_tried": result.stats.searched_nodes,
        "evicted": evicted,
        "pipelined": {uid: claim.node for uid, claim in state.nominations.by_task.items()},
    }


def faults(first: dict[str, Any], *later: dict[str, Any]) -> list[str]:
    """Return wrong results."""
    found = []
    members = Counter(pod.rpartition("-worker-")[0] for pod in first["pipelined"])
    found += [f"{name}: {count} of {GANG} have a place" for name, count in members.items() if count != GANG]
    if {each.node for each in first["evicted"]} - set(first["pipelined"].values()):
        found.append("evictions on nodes that no preemptor was nominated to")
    if len({each.uid for each in first["evicted"]}) != len(first["evicted"]):
        found.append("a victim was evicted twice")
    found += [f"{len(each['evicted'])} more were evicted while victims terminate" for each in later if each["evicted"]]
    return found


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure, check, print; returns 1 if something was wrong."""
    parser = argparse.ArgumentParser(prog="python -m bench.victims", description=__doc__)
    parser.add_argument("--action", choices=("preempt", "reclaim", "gangpreempt", "gangreclaim"), default="preempt")
    parser.add_argument("--nodes", type=int, default=1000)
    parser.add_argument("--worth", type=int, default=1000, help="nodes' worth of pods that wait")
    parser.add_argument("--helpless", type=int, default=0, help="number of additional gangs that may not evict any pod")
    given = parser.parse_args(arguments)
    state, profile = ClusterState(), profile_of(given.action)
    for event in observed(cluster(given.action, given.nodes, given.worth, given.helpless), 1):
        state.fold(event)
    state.require_resources(profile.watches)
    for resource in state.missing:
        state.fold(Synced(resource=resource))
    tune_garbage_collector()
    gc.collect()
    gc.freeze()
    cycles = [cycle(state, profile, number) for number in (1, 2, 3)]
    wrong = faults(*cycles)
    for figures in cycles:
        figures["evicted"], figures["pipelined"] = len(figures["evicted"]), len(figures["pipelined"])
    print(
        json.dumps(
            {
                "bench": "victims",
                "machine": machine(),
                "workload": {
                    "action": given.action,
                    "nodes": given.nodes,
                    "worth": given.worth,
                    "gang": GANG,
                    "helpless": given.helpless,
                },
                "evicting": cycles[0],
                "while_victims_terminate": cycles[1],
                "nothing_changed": cycles[2],
                "violations": len(wrong),
            },
            indent=2,
        )
    )
    for fault in wrong:
        print(fault, file=sys.stderr)
    return 1 if wrong else 0


def _meta(name: str, namespace: str = "", **more: Any) -> ObjectMeta:
    return ObjectMeta(
        name=name, namespace=namespace, uid=f"uid-{name}", creation_timestamp="2026-01-01T00:00:00Z", **more
    )


if __name__ == "__main__":
    sys.exit(main())
