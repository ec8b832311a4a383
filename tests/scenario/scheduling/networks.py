"""HyperNodes, and clusters of racks, for scenarios."""

from __future__ import annotations

from typing import Any

from tests.scenario.scheduling.harness import node
from volcanoio.model.base import Manifest


def hyper_node(name: str, tier: int, *members: str, tier_name: str = "", **selector: Any) -> Manifest:
    """Return a HyperNode: of HyperNodes if its tier is above 1, else of nodes; `selector` replaces the members."""
    kind = "HyperNode" if tier > 1 else "Node"
    selectors = [selector] if selector else [{"exactMatch": {"name": member}} for member in members]
    return {
        "apiVersion": "topology.volcano.sh/v1alpha1",
        "kind": "HyperNode",
        "metadata": {"name": name, "uid": f"hypernode-{name}"},
        "spec": {
            "tier": tier,
            "tierName": tier_name,
            "members": [{"type": kind, "selector": one} for one in selectors],
        },
    }


def racks(*sizes: int, cpu: str = "1", spines: int = 0) -> list[Manifest]:
    """Return racks r0, r1 … with that many nodes of one core, named r0-0 …; `spines` racks each form s0, s1 …"""
    made: list[Manifest] = []
    for at, size in enumerate(sizes):
        names = [f"r{at}-{index}" for index in range(size)]
        made += [node(name, cpu, labels={"rack": f"r{at}"}) for name in names]
        made.append(hyper_node(f"r{at}", 1, *names, tier_name="rack"))
    if spines:
        for number, start in enumerate(range(0, len(sizes), spines)):
            members = [f"r{at}" for at in range(start, min(start + spines, len(sizes)))]
            made.append(hyper_node(f"s{number}", 2, *members, tier_name="spine"))
    return made
