"""Plugin rescheduling with shuffle: tasks are evicted from nodes with high utilization, once in an interval."""

from __future__ import annotations

from typing import Any

import pytest
from volcanoio_plugins.scheduling.rescheduling import Rescheduling

from tests.scenario.scheduling.harness import World, group, node, pod, scenarios
from tests.scenario.scheduling.node_usage import MeasuredScenario, busy
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


def conf(more: str = "") -> str:
    """Return the configuration with further parameters of the strategy."""
    return CONF.replace("{params}", PARAMS % more)


def rescheduling_world(*objects: Manifest) -> World:
    return World(*objects, JOB, conf=conf(), period=30.0)


def evicted(world: World, cycles: int = 3, **figures: tuple[float, float]) -> list[str]:
    for _ in range(cycles):
        busy(world, **figures)
        world.cycle()
    return world.evictions


NODES = (node("n1", cpu="10"), node("n2", cpu="10"))
JOB = group("g", 1, phase="Running")
IMPORTANT = {"priorityClassName": "important", "priority": 100, "nodeName": "n1"}


def test_tasks_of_lower_priority_are_evicted_first_until_the_node_is_at_its_target() -> None:
    world = rescheduling_world(
        *NODES, running("a", priority=5), running("b", priority=1), running("c", priority=3), running("d")
    )
    assert evicted(world, 2, n1=(80, 10), n2=(10, 10)) == [], "not before the interval has passed"
    assert evicted(world, 1, n1=(80, 10), n2=(10, 10)) == ["d"], "80 % less 2 of 10 cores is 60 %"


@scenarios(
    MeasuredScenario(
        name="of tasks of equal priority those with smaller limits are evicted first",
        cluster=[JOB, *NODES, running("a", limit="2"), running("b"), running("c", limit="3")],
        metrics={"n1": (90, 10), "n2": (10, 10)},
        period=30.0,
        cycles=3,
        evicts=["b", "c"],
        evict_order=["b", "c"],
    ),
    MeasuredScenario(
        name="no more is evicted than nodes with low utilization can take",
        cluster=[JOB, node("n1", cpu="10"), node("n2", cpu="2"), *[running(f"p{at}", cpu="1") for at in range(5)]],
        metrics={"n1": (100, 10), "n2": (10, 10)},
        period=30.0,
        cycles=3,
        # 60 % of 2 cores minus 10 % is 1 core
        evicts=["p0"],
    ),
    MeasuredScenario(
        name="nothing is evicted if no node is above its target",
        cluster=[JOB, *NODES, running("a")],
        metrics={"n1": (60, 10), "n2": (10, 10)},
        period=30.0,
        cycles=3,
    ),
    MeasuredScenario(
        name="nothing is evicted if no node has low utilization",
        cluster=[JOB, *NODES, running("a")],
        metrics={"n1": (90, 10), "n2": (40, 10)},
        period=30.0,
        cycles=3,
    ),
    MeasuredScenario(
        name="nothing is evicted if the other node has no metrics",
        cluster=[JOB, *NODES, running("a")],
        metrics={"n1": (90, 10)},
        period=30.0,
        cycles=3,
    ),
    MeasuredScenario(
        name="nothing is evicted without metrics",
        cluster=[JOB, *NODES, running("a")],
        metrics={},
        period=30.0,
        cycles=3,
    ),
    MeasuredScenario(
        name="a cordoned node does not count as low",
        cluster=[JOB, node("n1", cpu="10"), node("n2", cpu="10", unschedulable=True), running("a")],
        metrics={"n1": (90, 10), "n2": (10, 10)},
        period=30.0,
        cycles=3,
    ),
    MeasuredScenario(
        name="a pod that is not preemptable is not evicted",
        cluster=[JOB, *NODES, running("a", annotations={"volcano.sh/preemptable": "false"}), running("b")],
        metrics={"n1": (90, 10), "n2": (10, 10)},
        period=30.0,
        cycles=3,
        evicts=["b"],
    ),
    MeasuredScenario(
        name="a pod above the priority threshold is not evicted",
        conf=conf(", thresholdPriorityClassName: important"),
        cluster=[
            JOB,
            *NODES,
            pod("a", "g", on="n1", phase="Running", spec=IMPORTANT, cpu="2"),
            running("b", priority=99),
        ],
        metrics={"n1": (95, 10), "n2": (10, 10)},
        period=30.0,
        cycles=3,
        evicts=["b"],
    ),
    MeasuredScenario(
        name="with nodeFit a pod that fits on no low node is not evicted",
        conf=conf(", nodeFit: true"),
        cluster=[JOB, *NODES, pod("idle", on="n2", phase="Running", cpu="9"), running("a")],
        metrics={"n1": (90, 10), "n2": (10, 10)},
        period=30.0,
        cycles=3,
    ),
    MeasuredScenario(
        name="without nodeFit a pod that fits on no low node is evicted",
        cluster=[JOB, *NODES, pod("idle", on="n2", phase="Running", cpu="9"), running("a")],
        metrics={"n1": (90, 10), "n2": (10, 10)},
        period=30.0,
        cycles=3,
        evicts=["a"],
    ),
    conf=conf(),
)
def test_evictions_from_nodes_with_high_utilization(scenario: MeasuredScenario) -> None:
    scenario.check()


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
