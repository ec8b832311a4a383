"""A nominatedNodeName that another process wrote is a nomination while pods that terminate there can make room."""

from __future__ import annotations

from typing import Any

from tests.scenario.scheduling.harness import CREATED, World, group, node, pod, priority_class
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
PREEMPTED = {"conditions": [{"type": "DisruptionTarget", "status": "True", "reason": "PreemptionByScheduler"}]}


def running(name: str, *, deleting: bool = False, **more: Any) -> Manifest:
    """Return a pod that runs on n1."""
    made = pod(name, "old", on="n1", phase="Running", cpu="1", **more)
    if deleting:
        made["metadata"]["deletionTimestamp"] = CREATED
    return made


def cycle_with_nominated_pod(*objects: Manifest, cpu: str = "2") -> World:
    """Run a cycle with a pod of high priority that is nominated to n1, which has two CPUs."""
    new = pod("new", "new", cpu=cpu, spec={"priority": 1000}, status={"nominatedNodeName": "n1"})
    jobs = group("old", 0, phase="Running"), group("new", 1, phase="Inqueue", priorityClassName="high")
    world = World(priority_class("high", 1000), node("n1", cpu="2"), *jobs, *objects, new, conf=CONF)
    world.cycle()
    return world


def test_a_nominated_pod_waits_for_terminating_pods_that_make_enough_room() -> None:
    world = cycle_with_nominated_pod(running("a", deleting=True), running("b", deleting=True))
    assert world.evictions == []
    assert world.pipelines == {"new": "n1"}


def test_a_nominated_pod_waits_for_preempted_pods_even_if_their_room_is_not_enough() -> None:
    assert cycle_with_nominated_pod(running("a", deleting=True, status=PREEMPTED), running("b")).evictions == []


def test_a_nominated_pod_evicts_where_no_pod_terminates() -> None:
    assert cycle_with_nominated_pod(running("a"), running("b"), cpu="1").evictions == ["b"]


def test_a_nominated_pod_evicts_where_terminating_pods_that_were_not_preempted_make_too_little_room() -> None:
    assert cycle_with_nominated_pod(running("a", deleting=True), running("b")).evictions == ["b"]
