"""The capability of a queue follows the nodes: within 30 s, within bounds, never below the guarantee."""

from __future__ import annotations

from typing import Any

import pytest

from tests.scenario.cluster.harness import Cluster, cluster
from volcanoio.model import kinds
from volcanoio.model.base import Manifest


def queue(rule: str, **spec: Any) -> Manifest:
    return {
        "apiVersion": kinds.QUEUE.api_version,
        "kind": "Queue",
        "metadata": {"name": "share", "annotations": {"volcanoio.dev/capability-rule": rule}},
        "spec": {"weight": 1, **spec},
    }


async def leaves(c: Cluster, node: str) -> None:
    await c.client.delete(kinds.NODE, node)


async def test_it_follows_a_node_that_leaves() -> None:
    async with cluster(nodes=4) as c:  # of 8 cpus
        await c.create(queue("{share: 0.5}"))
        await c.queue("share", lambda q: q.spec.capability.get("cpu") == "16", "half of 32 cpus")
        before = c.local.clock.now()
        await leaves(c, "node-3")
        changed = await c.queue("share", lambda q: q.spec.capability.get("cpu") == "12", "half of 24 cpus")
        assert c.local.clock.now() - before < 30
        assert changed.spec.capability["memory"] == "48Gi"
        events = await c.events("share", "CapabilityChanged")
        assert any("cpu 16 -> 12" in event.message for event in events)


@pytest.mark.parametrize(
    ("rule", "spec", "cpu"),
    [
        ("{share: {cpu: 0.5}, max: {cpu: 10}}", {}, "10"),
        ("{share: {cpu: 0.01}, min: {cpu: 2}}", {}, "2"),
        ("{share: {cpu: 0.01}}", {"guarantee": {"resource": {"cpu": "3"}}, "deserved": {"cpu": "3"}}, "3"),
        ("{share: {cpu: 0.5}, hysteresis: 0.3}", {"capability": {"cpu": "20"}}, "20"),
    ],
)
async def test_bounds_guarantee_and_hysteresis_hold(rule: str, spec: dict[str, Any], cpu: str) -> None:
    async with cluster(nodes=4) as c:
        await c.create(queue(rule, **spec))
        other = queue("{share: {cpu: 0.25}}")
        other["metadata"]["name"] = "other"
        await c.create(other)
        await c.queue("other", lambda q: q.spec.capability.get("cpu") == "8", "the other queue was looked at")
        await c.queue("share", lambda q: q.spec.capability.get("cpu") == cpu, f"{cpu} cpus")


async def test_a_dry_run_and_a_bad_rule_are_only_reported() -> None:
    async with cluster(nodes=4) as c:
        await c.create(queue("{share: 0.5, dryRun: true}", capability={"cpu": "1"}))
        bad = queue("{share: 2}")
        bad["metadata"]["name"] = "bad"
        await c.create(bad)
        assert any("cpu 1 -> 16" in event.message for event in await c.events("share", "CapabilityWouldChange"))
        found = await c.queue("share", bool, "the queue")
        assert found.spec.capability == {"cpu": "1"}
        assert any('"share" must be' in event.message for event in await c.events("bad", "CapabilityRuleInvalid"))
