"""Several schedulers that divide a cluster by NodeShards, each with its own view of it.

NodeShards are seen at once, nodes and pods after a scheduler's delay, as if its watch of them were slower.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import msgspec

from tests.scenario.scheduling.harness import decoded, node
from tests.scenario.scheduling.zones import SharedCluster, ZoneScheduler
from volcanoio.engine.scheduling.cluster.scope import Scope
from volcanoio.engine.scheduling.cluster.state import StateOptions
from volcanoio.engine.scheduling.sharding.node_shards import Sharding, ShardingMode
from volcanoio.framework.effects import Patch
from volcanoio.framework.scheduling_effects import SchedulerEffect
from volcanoio.model import kinds
from volcanoio.model.base import Manifest
from volcanoio.model.nodes import NodeShard

HARD = StateOptions(scope=Scope(sharding=Sharding(ShardingMode.HARD)))
SOFT = StateOptions(scope=Scope(sharding=Sharding(ShardingMode.SOFT)))


def shard(name: str, *desired: str, in_use: Iterable[str] = (), **status: Any) -> Manifest:
    """Return a NodeShard."""
    return {
        "apiVersion": "shard.volcano.sh/v1alpha1",
        "kind": "NodeShard",
        "metadata": {"name": name, "uid": f"shard-{name}"},
        "spec": {"nodesDesired": list(desired)},
        "status": {"nodesInUse": list(in_use), **status},
    }


class ShardedCluster(SharedCluster):
    """A SharedCluster of which each zone is a NodeShard."""

    def __init__(self, zones: Mapping[str, int], *, release: float, **more: Any) -> None:
        self._release = release
        self.shards: dict[str, NodeShard] = {}
        super().__init__(zones, **more)

    def scope_of(self, zone: str) -> Scope:
        return Scope(sharding=Sharding(ShardingMode.HARD, zone, self._release, self._release))

    def place_node(self, name: str, zone: str) -> None:
        before = self.zone_of.get(name)
        self.zone_of[name] = zone
        for scheduler in self.schedulers.values() if before is None else ():
            scheduler.put(decoded(node(name, cpu=str(self.slots), pods="1000")))
        for changed in {zone, before or zone}:
            desired = [name for name, owner in self.zone_of.items() if owner == changed]
            made = decoded(shard(changed, *desired))
            assert isinstance(made, NodeShard)
            if (known := self.shards.get(changed)) is not None:
                made = msgspec.structs.replace(made, status=known.status)
            self._show_shard(made)

    def carry_out(self, scheduler: ZoneScheduler, decision: SchedulerEffect) -> None:
        scheduler.carry_out(decision)
        if isinstance(decision, Patch) and decision.resource == kinds.NODE_SHARD.resource:
            stored = scheduler.objects[decision.resource, decision.name]
            assert isinstance(stored, NodeShard)
            self._show_shard(msgspec.structs.replace(self.shards[decision.name], status=stored.status))

    def _show_shard(self, shown: NodeShard) -> None:
        self.shards[shown.metadata.name] = shown
        for scheduler in self.schedulers.values():
            scheduler.now = self.now
            scheduler.put(shown)
