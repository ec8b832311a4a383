"""Rows of network topology: gangs of 8 to 512 pods in a tree of three tiers, and one gang of 512 nodes.

Racks have 16 nodes, spines 16 racks, zones 10 spines. A pod takes a node of its own. A third of the nodes, in whole and
in broken racks, is in use, so that gangs find racks of every size. `worst_tiers` counts gangs by the tier of the lowest
HyperNode that contains all their pods; `least_tiers` by the tier that the gang's size allows on an empty cluster.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterator
from typing import Any

import msgspec

from bench.scheduling.driving import Driven, drive, fold, freeze_garbage
from volcanoio.engine.scheduling.cluster.state import ClusterState
from volcanoio.engine.scheduling.config.configuration import parse
from volcanoio.engine.scheduling.config.profile import Profile
from volcanoio.framework import entrypoints
from volcanoio.framework.scheduling_effects import BindBatch
from volcanoio.model import kinds
from volcanoio.model.base import ApiObject, Manifest
from volcanoio.model.packaged import config_path
from volcanoio.runtime.loading.registry import discover

RACK, SPINE, ZONE = 16, 16, 10
"""Nodes of a rack, racks of a spine, spines of a zone."""
SIZES = (8, 16, 32, 64, 128, 256, 512)
"""Pods of the gangs, each on a node of its own."""
CREATED = "2026-01-01T00:00:00Z"


def topology(nodes: int, pods: int) -> dict[str, Any]:
    """Measure gangs of all sizes with a soft topology, as many as fill half of the free nodes, at most `pods` pods."""
    sizes: list[int] = []
    dice = random.Random(7)
    free = nodes - sum(_used(nodes))
    while sum(sizes) < min(free // 2, pods):
        sizes.append(dice.choice(SIZES))
    state, driven = _placed(nodes, sizes, {"mode": "soft"})
    return {"nodes": nodes, "gangs": len(sizes), **_figures(state, driven, sizes)}


def large_gang(nodes: int, pods: int) -> dict[str, Any]:  # noqa: ARG001 - always one gang of 512
    """Measure one gang of 512 pods, each on a node of its own, that must be within one zone (hard)."""
    state, driven = _placed(nodes, [512], {"mode": "hard", "highestTierAllowed": 3})
    return {"nodes": nodes, "gangs": 1, **_figures(state, driven, [512])}


def _placed(nodes: int, sizes: list[int], topology: Manifest) -> tuple[ClusterState, Driven]:
    state = ClusterState()
    registry = discover()
    plugins, actions = registry.factories(entrypoints.SCHEDULER_PLUGINS), registry.factories(entrypoints.ACTIONS)
    conf = config_path("scheduler", "network-topology.conf").read_text(encoding="utf-8")
    profile = Profile.build(parse(conf, actions=actions, plugins=plugins), plugins, actions)
    fold(state, _decoded(_objects(nodes, sizes, topology)))
    freeze_garbage()
    return state, drive(state, profile, 1, 1000.0)


def _figures(state: ClusterState, driven: Driven, sizes: list[int]) -> dict[str, Any]:
    tree = state.ledger.hyper_nodes.tree()
    batches = [decision for decision in driven.decisions if isinstance(decision, BindBatch)]
    nodes_of: dict[str, list[str]] = {}
    for batch in batches:
        nodes_of.setdefault(batch.group, []).extend(bind.node for bind in batch.binds)
    worst = Counter(tree.tier(tree.enclosing(nodes)) for nodes in nodes_of.values())
    least = Counter(1 if size <= RACK else 2 if size <= RACK * SPINE else 3 for size in sizes)
    placed = sum(map(len, nodes_of.values()))
    return {
        "pods": sum(sizes),
        "placed": placed,
        "seconds": round(driven.seconds, 3),
        "cpu_seconds": round(driven.cpu_seconds, 3),
        "per_second": round(placed / driven.seconds),
        "longest_hold_ms": round(1000 * driven.longest_hold, 1),
        "worst_tiers": {str(tier): count for tier, count in sorted(worst.items())},
        "least_tiers": {str(tier): count for tier, count in sorted(least.items())},
        "violations": sum(1 for key, nodes in nodes_of.items() if len(set(nodes)) != len(nodes) or not key),
    }


def _used(nodes: int) -> list[bool]:
    """Return which nodes are in use: of every six racks one wholly, and one in six nodes of the others."""
    dice = random.Random(11)
    return [node // RACK % 6 == 5 or dice.random() < 1 / 6 for node in range(nodes)]


def _objects(nodes: int, sizes: list[int], topology: Manifest) -> Iterator[Manifest]:
    """Yield nodes, HyperNodes, running pods of others, the queue, and one PodGroup with its pods for each size."""
    resources = {"cpu": "8", "memory": "32Gi", "pods": "110"}
    for at in range(nodes):
        labels = {"rack": str(at // RACK)}
        yield _object(kinds.NODE, f"n{at}", labels=labels, status={"allocatable": resources, "capacity": resources})
    racks = -(-nodes // RACK)
    spines = -(-racks // SPINE)
    for at in range(racks):
        yield _hyper_node(f"rack-{at}", 1, [{"labelMatch": {"matchLabels": {"rack": str(at)}}}])
    for at in range(spines):
        yield _hyper_node(f"spine-{at}", 2, _named("rack", at * SPINE, min((at + 1) * SPINE, racks)))
    for at in range(-(-spines // ZONE)):
        yield _hyper_node(f"zone-{at}", 3, _named("spine", at * ZONE, min((at + 1) * ZONE, spines)))
    for at, is_used in enumerate(_used(nodes)):
        if is_used:
            spec = {"schedulerName": "other", "nodeName": f"n{at}", "containers": [_container("6")]}
            yield _object(kinds.POD, f"other-{at}", namespace="others", spec=spec, status={"phase": "Running"})
    yield _object(kinds.QUEUE, "default", spec={"weight": 1}, status={"state": "Open"})
    for at, size in enumerate(sizes):
        minimum: Manifest = {"minMember": size, "queue": "default", "minResources": {"cpu": str(6 * size)}}
        group = {**minimum, "networkTopology": topology}
        yield _object(kinds.POD_GROUP, f"gang-{at}", namespace="bench", spec=group, status={"phase": "Inqueue"})
        for member in range(size):
            spec = {"schedulerName": "volcano", "containers": [_container("6")]}
            annotations = {"scheduling.k8s.io/group-name": f"gang-{at}"}
            yield _object(
                kinds.POD,
                f"gang-{at}-{member}",
                namespace="bench",
                annotations=annotations,
                spec=spec,
                status={"phase": "Pending"},
            )


def _object(kind: kinds.Kind, name: str, **more: Any) -> Manifest:
    meta: Manifest = {key: more.pop(key) for key in ("namespace", "labels", "annotations") if key in more}
    named = {"name": name, "uid": f"uid-{name}", "creationTimestamp": CREATED, **meta}
    return {"apiVersion": kind.api_version, "kind": kind.kind, "metadata": named, **more}


def _hyper_node(name: str, tier: int, selectors: list[Manifest]) -> Manifest:
    member = "Node" if tier == 1 else "HyperNode"
    members = [{"type": member, "selector": selector} for selector in selectors]
    return _object(kinds.HYPER_NODE, name, spec={"tier": tier, "members": members})


def _named(prefix: str, start: int, end: int) -> list[Manifest]:
    return [{"exactMatch": {"name": f"{prefix}-{at}"}} for at in range(start, end)]


def _container(cpu: str) -> Manifest:
    return {"name": "main", "image": "bench", "resources": {"requests": {"cpu": cpu, "memory": "1Gi"}}}


def _decoded(manifests: Iterator[Manifest]) -> Iterator[ApiObject]:
    for manifest in manifests:
        kind = kinds.named(manifest["apiVersion"], manifest["kind"])
        assert kind is not None
        yield msgspec.convert(manifest, kind.type)
