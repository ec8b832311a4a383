"""Plugin rescheduling with shuffle: tasks are evicted from nodes with high utilization, once in an interval."""

from __future__ import annotations

from typing import Any

import pytest
from volcanoio_plugins.scheduling.rescheduling import Rescheduling

from tests.scenario.scheduling.harness import World, group, node, pod
from tests.scenario.scheduling.node_usage import busy
from volcanoio.framework.arguments import ArgumentError
from volcanoio.model.base import Manifest

CONF = """
actions: "enqueue, allocate, shuffle"
tiers:
- plugins:
  - name: gang
  - name: rescheduling
    arguments:
      interval: 1m
      strategies:
      - name: lowNodeUtilization
        params: {params}
"""
PARAMS = "{thresholds: {cpu: 30, memory: 30, pods: 30}, targetThresholds: {cpu: 60, memory: 60, pods: 60}%s}"


def running(name: str, on: str = "n1", *, priority: int = 0, limit: str = "", **more: Any) -> Manifest:
    requests = {"cpu": more.pop("cpu", "2")}
    resources = {"requests": requests, "limits": {"cpu": limit, "memory": "1Gi"} if limit else {}}
    spec = {"priority": priority, "containers": [{"name": "main", "resources": resources}]}
    return pod(name, "g", on=on, phase="Running", spec=spec, **more)


def rescheduling_world(*objects: Manifest, more: str = "") -> World:
    jobs = group("g", 1, phase="Running")
    return World(*objects, jobs, conf=CONF.replace("{params}", PARAMS % more), period=30.0)


def evicted(world: World, cycles: int = 3, **figures: tuple[float, float]) -> list[str]:
    for _ in range(cycles):
        busy(world, **figures)
        world.cycle()
    return world.evictions


NODES = (node("n1", cpu="10"), node("n2", cpu="10"))


def test_tasks_of_lower_priority_are_evicted_first_until_the_node_is_at_its_target() -> None:
    world = rescheduling_world(
        *NODES, running("a", priority=5), running("b", priority=1), running("c", priority=3), running("d")
    )
    assert evicted(world, 2, n1=(80, 10), n2=(10, 10)) == [], "not before the interval has passed"
    assert evicted(world, 1, n1=(80, 10), n2=(10, 10)) == ["d"], "80 % less 2 of 10 cores is 60 %"


def test_of_tasks_of_equal_priority_those_with_smaller_limits_are_evicted_first() -> None:
    world = rescheduling_world(*NODES, running("a", limit="2"), running("b"), running("c", limit="3"))
    assert evicted(world, n1=(90, 10), n2=(10, 10)) == ["b", "c"]


def test_no_more_is_evicted_than_nodes_with_low_utilization_can_take() -> None:
    small = (node("n1", cpu="10"), node("n2", cpu="2"))
    world = rescheduling_world(*small, *[running(f"p{at}", cpu="1") for at in range(5)])
    assert len(evicted(world, n1=(100, 10), n2=(10, 10))) == 1, "60 % of 2 cores less 10 % is 1 core"


@pytest.mark.parametrize(
    "figures",
    [
        {"n1": (60.0, 10.0), "n2": (10.0, 10.0)},
        {"n1": (90.0, 10.0), "n2": (40.0, 10.0)},
        {"n1": (90.0, 10.0)},
        {},
    ],
)
def test_nothing_is_evicted_without_a_node_of_high_and_a_node_of_low_utilization(figures: Any) -> None:
    assert evicted(rescheduling_world(*NODES, running("a")), **figures) == []


def test_a_cordoned_node_does_not_count_as_low() -> None:
    nodes = (node("n1", cpu="10"), node("n2", cpu="10", unschedulable=True))
    assert evicted(rescheduling_world(*nodes, running("a")), n1=(90, 10), n2=(10, 10)) == []


def test_pods_that_are_not_preemptable_or_above_the_priority_threshold_are_not_evicted() -> None:
    firm = {"volcano.sh/preemptable": "false"}
    world = rescheduling_world(*NODES, running("a", annotations=firm), running("b"))
    assert evicted(world, n1=(90, 10), n2=(10, 10)) == ["b"]
    critical = {"priorityClassName": "important", "priority": 100, "nodeName": "n1"}
    world = rescheduling_world(
        *NODES,
        pod("a", "g", on="n1", phase="Running", spec=critical, cpu="2"),
        running("b", priority=99),
        more=", thresholdPriorityClassName: important",
    )
    assert evicted(world, n1=(95, 10), n2=(10, 10)) == ["b"]


def test_with_node_fit_a_pod_that_fits_on_no_low_node_is_not_evicted() -> None:
    low = (node("n1", cpu="10"), node("n2", cpu="10"), pod("idle", on="n2", phase="Running", cpu="9"))
    assert evicted(rescheduling_world(*low, running("a"), more=", nodeFit: true"), n1=(90, 10), n2=(10, 10)) == []
    assert evicted(rescheduling_world(*low, running("a")), n1=(90, 10), n2=(10, 10)) == ["a"]


def test_a_pod_of_the_same_name_in_another_namespace_is_not_evicted() -> None:
    other = running("a", on="n2")
    other["metadata"] = {**other["metadata"], "namespace": "other", "uid": "other-a"}
    world = rescheduling_world(*NODES, running("a"), other)
    assert evicted(world, n1=(90, 10), n2=(10, 10)) == ["a"]
    assert len(world.evictions) == 1


@pytest.mark.parametrize(
    "arguments",
    [
        {"interval": "0s"},
        {"interval": 5},
        {"strategies": [{"name": "highNodeUtilization"}]},
        {"strategies": [{"name": "lowNodeUtilization", "params": {"thresholds": {"gpu": 1}}}]},
        {"strategies": [{"name": "lowNodeUtilization", "params": {"thresholds": {"cpu": 120}}}]},
    ],
)
def test_invalid_arguments_are_rejected(arguments: dict[str, Any]) -> None:
    with pytest.raises(ArgumentError):
        Rescheduling(arguments)


def test_the_resource_pods_may_be_written_as_pod() -> None:
    def params(key: str) -> dict[str, Any]:
        return {"thresholds": {key: 20}, "targetThresholds": {key: 50}}

    for key in ("pods", "pod"):
        Rescheduling({"strategies": [{"name": "lowNodeUtilization", "params": params(key)}]})
