"""The engine with constrained pods: `python -m bench.constraints --nodes 10000 --pods 20000 --part 20`.

The workload of `bench.engine`, in which that percentage of the gangs has a constraint, in turn: preferred and required
node affinity with tolerated taints, anti-affinity to its own pods by host, hard spread over zones, soft spread over
zones and hosts, one zone for all. The placements are checked. Prints JSON.
"""

from __future__ import annotations

import argparse
import gc
import json
import sys
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import msgspec

from bench.checker import check
from bench.engine import default_profile, load, report, schedule
from bench.workload import SHAPES, Workload
from volcanoio.engine.scheduling.cluster.state import ClusterState
from volcanoio.model.core import (
    Affinity,
    LabelSelector,
    Node,
    NodeAffinity,
    NodeSelector,
    NodeSelectorTerm,
    Pod,
    PodAffinity,
    PodAffinityTerm,
    PodSpec,
    PreferredSchedulingTerm,
    Requirement,
    Taint,
    Toleration,
    TopologySpreadConstraint,
)
from volcanoio.runtime.garbage_collection import tune_garbage_collector
from volcanoio.runtime.scheduler.scheduler import BUDGET

ZONES = 10
HOST, ZONE, RACK = "kubernetes.io/hostname", "topology.kubernetes.io/zone", "rack"
GANG = "volcano.sh/job-name"
KINDS = ("node affinity", "anti-affinity", "spread", "soft spread", "zone affinity")


class Constrained(Workload):
    """The workload with labels on nodes and pods, every 20th node tainted, and constraints on a part of the gangs."""

    part = 20

    def kind(self, gang: int) -> str:
        """Return the constraint of a gang, "" for none."""
        number, rest = divmod(gang * self.part, 100)
        return KINDS[number % len(KINDS)] if rest < self.part else ""

    def node_objects(self) -> Iterator[Node]:
        """Yield the nodes in zones and racks."""
        for index, node in enumerate(super().node_objects()):
            labels = {HOST: f"node-{index}", ZONE: f"zone-{index % ZONES}", RACK: f"rack-{index // 40}"}
            taints = (Taint(key="spare", effect="NoSchedule"),) if not index % 20 else ()
            meta = msgspec.structs.replace(node.metadata, labels={**node.metadata.labels, **labels})
            spec = msgspec.structs.replace(node.spec, taints=taints)
            yield msgspec.structs.replace(node, metadata=meta, spec=spec)

    def pod_objects(self) -> Iterator[Pod]:
        """Yield the pods, labelled with their gang and index as the job controller does."""
        pods = super().pod_objects()
        for gang in range(self.gangs):
            for member in range(self.members(gang)):
                pod = next(pods)
                labels = {GANG: f"gang-{gang}", "volcano.sh/task-index": str(member)}
                meta = msgspec.structs.replace(pod.metadata, labels=labels)
                spec = _asking(pod.spec, self.kind(gang), labels[GANG])
                yield msgspec.structs.replace(pod, metadata=meta, spec=spec)

    def broken(self, placements: Mapping[str, str]) -> list[str]:
        """Return the gangs whose constraint is violated, by the nodes of their pods."""
        wrong = []
        for gang in range(self.gangs):
            uids = (f"uid-gang-{gang}-worker-{member}" for member in range(self.members(gang)))
            rows = [int(placements[uid].removeprefix("node-")) for uid in uids if uid in placements]
            zones = Counter(row % ZONES for row in rows)
            kind = self.kind(gang)
            if (
                (kind == "anti-affinity" and len(set(rows)) < len(rows))
                or (kind == "zone affinity" and len(zones) > 1)
                or (kind == "spread" and rows and max(zones.values()) - min(zones[zone] for zone in range(ZONES)) > 1)
                or (kind != "node affinity" and any(not row % 20 for row in rows))
            ):
                wrong.append(f"gang-{gang} asks for {kind or 'nothing'} and is on {rows}")
        return wrong


def _asking(spec: PodSpec, kind: str, gang: str) -> PodSpec:
    """Return a pod's spec with the constraint of its gang."""
    own = LabelSelector(match_labels={GANG: gang})
    match kind:
        case "node affinity":
            required = NodeSelectorTerm(
                match_expressions=(Requirement(key=ZONE, operator="NotIn", values=("zone-3",)),)
            )
            wish = NodeSelectorTerm(match_expressions=(Requirement(key=RACK, operator="In", values=("rack-7",)),))
            nodes = NodeAffinity(
                required_during_scheduling_ignored_during_execution=NodeSelector(node_selector_terms=(required,)),
                preferred_during_scheduling_ignored_during_execution=(
                    PreferredSchedulingTerm(weight=10, preference=wish),
                ),
            )
            tolerant = (Toleration(key="spare", operator="Exists"),)
            return msgspec.structs.replace(spec, affinity=Affinity(node_affinity=nodes), tolerations=tolerant)
        case "anti-affinity" | "zone affinity":
            term = PodAffinityTerm(label_selector=own, topology_key=HOST if kind == "anti-affinity" else ZONE)
            side = PodAffinity(required_during_scheduling_ignored_during_execution=(term,))
            affinity = Affinity(pod_anti_affinity=side) if kind == "anti-affinity" else Affinity(pod_affinity=side)
            return msgspec.structs.replace(spec, affinity=affinity)
        case "spread" | "soft spread":
            soft = "ScheduleAnyway" if kind == "soft spread" else "DoNotSchedule"
            keys = (ZONE, HOST) if kind == "soft spread" else (ZONE,)
            constraints = tuple(
                TopologySpreadConstraint(topology_key=key, when_unsatisfiable=soft, label_selector=own) for key in keys
            )
            return msgspec.structs.replace(spec, topology_spread_constraints=constraints)
    return spec


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure, check, print; returns 1 if a placement was wrong."""
    parser = argparse.ArgumentParser(prog="python -m bench.constraints", description=__doc__)
    parser.add_argument("--nodes", type=int, default=10_000)
    parser.add_argument("--pods", type=int, default=20_000)
    parser.add_argument("--gang", type=int, default=8, help="pods in a gang")
    parser.add_argument("--part", type=int, default=20, help="gangs that ask for something, in hundredths")
    parser.add_argument("--shapes", type=int, default=len(SHAPES), help="different pods")
    parser.add_argument("--budget", type=float, default=BUDGET, help="seconds of a cycle")
    given = parser.parse_args(arguments)
    Constrained.part = given.part
    workload = Constrained(given.nodes, given.pods, given.gang, given.shapes)
    state, profile = ClusterState(), default_profile()
    events, load_seconds = load(state, workload)
    tune_garbage_collector()
    gc.collect()
    gc.freeze()
    run = schedule(state, profile, budget=given.budget, pods=workload.pods)
    placements = run.placements()
    checked = check(workload.node_facts(), workload.pod_facts(), workload.group_facts(), workload.limits(), placements)
    broken = workload.broken(dict(placements))
    figures: dict[str, Any] = report(workload, run, events, load_seconds, checked)
    figures |= {"bench": "constraints", "part": given.part, "broken": len(broken)}
    print(json.dumps(figures, indent=2))
    for violation in (*checked.violations[:10], *broken[:10]):
        print(violation, file=sys.stderr)
    return 1 if checked.violations or broken else 0


if __name__ == "__main__":
    sys.exit(main())
