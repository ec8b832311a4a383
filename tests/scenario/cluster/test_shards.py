"""The sharding controller and a sharded scheduler in a whole cluster; the harness replays both."""

from __future__ import annotations

from tests.scenario.cluster.harness import cluster, job_manifest
from volcanoio.engine.scheduling.cluster.scope import Scope
from volcanoio.engine.scheduling.sharding.node_shards import Sharding, ShardingMode
from volcanoio.model import kinds
from volcanoio.model.nodes import NodeShard

CONFIGURATION = """
schedulerConfigs:
- name: other
  policies: [{name: node-limit, arguments: {maxNodes: 1}}]
- name: volcano
"""


async def test_a_scheduler_uses_the_nodes_that_the_controller_gives_it_and_reports_them() -> None:
    scope = Scope(sharding=Sharding(ShardingMode.HARD))
    async with cluster(nodes=3, scope=scope, controllers=("*",)) as c:
        meta = {"name": "volcano-sharding-configmap", "namespace": "volcano-system"}
        await c.create(
            {"apiVersion": "v1", "kind": "ConfigMap", "metadata": meta, "data": {"sharding.yaml": CONFIGURATION}}
        )

        def is_divided(shards: dict[str, NodeShard]) -> bool:
            return {name: each.spec.nodes_desired for name, each in shards.items()} == {
                "other": ("node-0",),
                "volcano": ("node-1", "node-2"),
            } and shards["volcano"].status.nodes_in_use == ("node-1", "node-2")

        await c.until(kinds.NODE_SHARD, NodeShard, is_divided, "the nodes in two shards, those of ours in use")
        await c.create(job_manifest("wide", replicas=17, minimum=1, run="1h"))
        await c.job("wide", "Running")
        assert {pod.spec.node_name for pod in await c.pods("wide")} == {"node-1", "node-2", ""}
