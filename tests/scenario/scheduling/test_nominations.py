"""What a scheduler makes of nominatedNodeName that another process wrote: a promise, while it can come true."""

from __future__ import annotations

from typing import Any

from tests.scenario.scheduling.harness import CREATED, World, group, node, pod
from volcanoio.model.base import Manifest

CONF = """
actions: "enqueue, allocate, preempt"
tiers:
- plugins:
  - name: priority
  - name: gang
- plugins:
  - name: predicates
  - name: proportion
"""
HIGH = {
    "apiVersion": "scheduling.k8s.io/v1",
    "kind": "PriorityClass",
    "metadata": {"name": "high", "uid": "high"},
    "value": 1000,
}
PREEMPTED = {"conditions": [{"type": "DisruptionTarget", "status": "True", "reason": "PreemptionByScheduler"}]}


def there(name: str, *, deleting: bool = False, **more: Any) -> Manifest:
    """A pod that runs on n1."""
    made = pod(name, "old", on="n1", phase="Running", cpu="1", **more)
    if deleting:
        made["metadata"]["deletionTimestamp"] = CREATED
    return made


def after(*objects: Manifest, cpu: str = "2") -> World:
    """A cycle with a pod of high priority that is nominated for n1, which has two CPUs."""
    new = pod("new", "new", cpu=cpu, spec={"priority": 1000}, status={"nominatedNodeName": "n1"})
    jobs = group("old", 0, phase="Running"), group("new", 1, phase="Inqueue", priorityClassName="high")
    world = World(HIGH, node("n1", cpu="2"), *jobs, *objects, new, conf=CONF)
    world.cycle()
    return world


def test_it_waits_for_what_ends_there() -> None:
    world = after(there("a", deleting=True), there("b", deleting=True))
    assert world.evictions == []
    assert world.snapshot is not None
    assert world.snapshot.pipelined == {"ns/new": "n1"}


def test_it_waits_while_pods_that_were_preempted_end_though_their_room_is_not_enough() -> None:
    assert after(there("a", deleting=True, status=PREEMPTED), there("b")).evictions == []


def test_where_nothing_ends_it_may_evict() -> None:
    assert after(there("a"), there("b"), cpu="1").evictions == ["b"]


def test_it_may_evict_when_ending_pods_that_were_not_preempted_free_too_little() -> None:
    assert after(there("a", deleting=True), there("b")).evictions == ["b"]
