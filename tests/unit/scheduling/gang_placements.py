"""Gangs of different pods in small networks, and a solver that tries every assignment of pods to nodes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Any

from tests.scenario.scheduling.harness import World, group, labelled, node, pod
from tests.scenario.scheduling.networks import hyper_node
from volcanoio.model.base import Manifest

CONF = """
actions: "allocate"
tiers:
- plugins: [{name: gang}, {name: predicates}, {name: nodeorder}, {name: network-topology-aware}]
"""
PART, KIND = "part", "kind"


@dataclass(frozen=True)
class Member:
    """A pod: its cores, the sub-group it is in, whether it needs a fast node, and whether it repels its like."""

    cpu: int
    part: int = 0
    fast: bool = False
    apart: bool = False


@dataclass(frozen=True)
class Case:
    """A network and a gang.

    `network` has spines of racks of nodes, each node as its number of cores and whether it is fast. `tier` is the
    highest tier for the gang, `part_tier` that of each of its sub-groups: 0 where it has none.
    """

    network: Sequence[Sequence[Sequence[tuple[int, bool]]]]
    members: Sequence[Member]
    minimum: int
    tier: int = 1
    part_tier: int = 0
    part_size: int = 1

    def cluster(self) -> list[Manifest]:
        """Return nodes and HyperNodes; node `s0-1-2` is in rack `s0-1`, which is in spine `s0`."""
        made: list[Manifest] = []
        for at, spine in enumerate(self.network):
            for number, rack in enumerate(spine):
                names = [f"s{at}-{number}-{index}" for index in range(len(rack))]
                for name, (cores, fast) in zip(names, rack, strict=True):
                    made.append(node(name, str(cores), labels={"kubernetes.io/hostname": name, "fast": str(fast)}))
                made.append(hyper_node(f"s{at}-{number}", 1, *names))
            made.append(hyper_node(f"s{at}", 2, *[f"s{at}-{number}" for number in range(len(spine))]))
        return made

    def gang(self) -> list[Manifest]:
        """Return the PodGroup and its pods."""
        more: Manifest = {}
        if self.tier:
            more["networkTopology"] = {"mode": "hard", "highestTierAllowed": self.tier}
        if self.part_tier:
            topology = {"mode": "hard", "highestTierAllowed": self.part_tier}
            policy = {"name": "p", "matchLabelKeys": [PART], "subGroupSize": self.part_size}
            more["subGroupPolicy"] = [{**policy, "networkTopology": topology}]
        pods = [self._pod(f"a-{at}", member) for at, member in enumerate(self.members)]
        return [group("a", self.minimum, phase="Inqueue", **more), *pods]

    def _pod(self, name: str, member: Member) -> Manifest:
        spec: dict[str, Any] = {}
        if member.fast:
            spec["nodeSelector"] = {"fast": "True"}
        if member.apart:
            term = {"topologyKey": "kubernetes.io/hostname", "labelSelector": {"matchLabels": {KIND: "apart"}}}
            spec["affinity"] = {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}
        made = pod(name, "a", cpu=str(member.cpu), spec=spec)
        return labelled(made, **{PART: str(member.part), KIND: "apart" if member.apart else "any"})

    def world(self) -> World:
        """Return the cluster with the gang waiting."""
        return World(*self.cluster(), *self.gang(), conf=CONF)


class Solver:
    """Decides by trying everything whether a gang has a place; shares no code with the scheduler."""

    def __init__(self, case: Case) -> None:
        self._case = case
        self._nodes = {
            (at, number, index): one
            for at, spine in enumerate(case.network)
            for number, rack in enumerate(spine)
            for index, one in enumerate(rack)
        }

    def has_place(self) -> bool:
        """Return whether the minimum of the gang can be placed."""
        case = self._case
        for size in range(case.minimum, len(case.members) + 1):
            for chosen in combinations(case.members, size):
                if self._has_whole_parts(chosen) and any(
                    self._fits(chosen, nodes) for nodes in self._places(case.tier)
                ):
                    return True
        return False

    def keeps_rules(self, nodes: Sequence[str]) -> bool:
        """Return whether nodes, by their names, are in one HyperNode of the gang's tier."""
        return len({_prefix(tuple(map(int, name[1:].split("-"))), self._case.tier) for name in nodes}) <= 1

    def _has_whole_parts(self, chosen: Sequence[Member]) -> bool:
        counts = [sum(1 for one in chosen if one.part == part) for part in {one.part for one in chosen}]
        return not self._case.part_tier or min(counts) >= self._case.part_size

    def _has_room_for_all(self, part: int, place: tuple[int, ...]) -> bool:
        """Return whether a HyperNode has as many cores as all pods of a sub-group request, as Volcano demands."""
        if not self._case.part_tier:
            return True
        cores = sum(one for name, (one, _) in self._nodes.items() if name[: len(place)] == place)
        return cores >= sum(one.cpu for one in self._case.members if one.part == part)

    def _places(self, tier: int) -> Iterator[list[tuple[int, int, int]]]:
        for prefix in sorted({_prefix(name, tier) for name in self._nodes}):
            yield [name for name in self._nodes if _prefix(name, tier) == prefix]

    def _fits(self, chosen: Sequence[Member], nodes: Sequence[tuple[int, int, int]]) -> bool:
        return self._assign(list(chosen), dict.fromkeys(nodes, 0), set(), {})

    def _assign(
        self,
        left: list[Member],
        used: dict[tuple[int, int, int], int],
        repelling: set[tuple[int, int, int]],
        parts: dict[int, tuple[int, ...]],
    ) -> bool:
        if not left:
            return True
        member, *rest = left
        for name, amount in used.items():
            cores, fast = self._nodes[name]
            place = _prefix(name, self._case.part_tier)
            if (
                amount + member.cpu > cores
                or (member.fast and not fast)
                or (member.apart and name in repelling)
                or parts.get(member.part, place) != place
                or not self._has_room_for_all(member.part, place)
            ):
                continue
            if self._assign(
                rest,
                {**used, name: amount + member.cpu},
                repelling | {name} if member.apart else repelling,
                {**parts, member.part: place},
            ):
                return True
        return False


def _prefix(name: tuple[int, ...], tier: int) -> tuple[int, ...]:
    """Return the spine or rack of a node: what its name begins with; nothing for tier 0, the whole cluster."""
    return () if not tier else tuple(name[: max(3 - tier, 0)])
