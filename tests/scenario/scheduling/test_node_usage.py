"""Plugin usage: nodes above a threshold get no pods, less used nodes score higher, and new placements count."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from volcanoio_plugins.scheduling.usage import Estimator, EstimatorArguments, Usage

from tests.scenario.scheduling.harness import World, group, node, pod, pods, scenarios
from tests.scenario.scheduling.node_usage import MeasuredScenario, busy
from tests.unit.scheduling_plugins.views import make_shape
from volcanoio.engine.scheduling.cluster.rows import SingleRow
from volcanoio.framework.arguments import ArgumentError
from volcanoio.framework.scheduling.views import Shape
from volcanoio.model.base import Manifest

CONF = """
actions: "enqueue, allocate"
tiers:
- plugins:
  - name: gang
  - name: usage
    arguments: {arguments}
"""
NODES = (node("n1"), node("n2"))


def conf(arguments: str = "{}") -> str:
    """Return the configuration with arguments of the plugin."""
    return CONF.replace("{arguments}", arguments)


def usage_world(*objects: Manifest, arguments: str = "{}") -> World:
    return World(*objects, conf=conf(arguments))


def one(name: str = "p", **more: Any) -> tuple[Manifest, Manifest]:
    return group(name, 1), pod(name, name, **{"cpu": "1", **more})


@scenarios(
    MeasuredScenario(
        name="the less used node is chosen if it is n1",
        cluster=[*NODES, *one()],
        metrics={"n1": (10, 10), "n2": (50, 50)},
        binds={"p": "n1"},
    ),
    MeasuredScenario(
        name="the less used node is chosen if it is n2",
        cluster=[*NODES, *one()],
        metrics={"n2": (10, 10), "n1": (50, 50)},
        binds={"p": "n2"},
    ),
    MeasuredScenario(
        name="with a larger weight of cpu the node with less used cpu is chosen",
        conf=conf("{cpu.weight: 9}"),
        cluster=[*NODES, *one()],
        metrics={"n1": (10.0, 70.0), "n2": (70.0, 10.0)},
        binds={"p": "n1"},
    ),
    MeasuredScenario(
        name="with a larger weight of memory the node with less used memory is chosen",
        conf=conf("{memory.weight: 9}"),
        cluster=[*NODES, *one()],
        metrics={"n1": (10.0, 70.0), "n2": (70.0, 10.0)},
        binds={"p": "n2"},
    ),
    MeasuredScenario(
        name="a node whose CPU usage is above the threshold gets no pods",
        cluster=[node("n1"), *one()],
        metrics={"n1": (81, 0)},
        cycles=3,
        fit_errors={"p": "0/1 nodes are unavailable: 1 the CPU load of the node exceeds the upper limit.."},
    ),
    MeasuredScenario(
        name="a node whose memory usage is above the threshold gets no pods",
        cluster=[node("n1"), *one()],
        metrics={"n1": (0, 81)},
        cycles=3,
        fit_errors={"p": "0/1 nodes are unavailable: 1 the memory load of the node exceeds the upper limit.."},
    ),
    MeasuredScenario(
        name="usage equal to the threshold is allowed",
        cluster=[node("n1"), *one()],
        metrics={"n1": (80, 80)},
        binds={"p": "n1"},
    ),
    MeasuredScenario(
        name="tasks of a gang count for the tasks placed after them",
        cluster=[*NODES, group("g", 4), *pods("p", 4, "g", cpu="2")],
        metrics={"n1": (0, 0), "n2": (0, 0)},
        binds={"p-0": "n1", "p-1": "n2", "p-2": "n1", "p-3": "n2"},
    ),
    conf=conf(),
)
def test_nodes_chosen_by_usage(scenario: MeasuredScenario) -> None:
    scenario.check()


def test_old_metrics_are_ignored() -> None:
    world = usage_world(node("n1"), *one())
    busy(world, n1=(99, 99))
    world.now += 301
    assert world.run().binds == {"p": "n1"}


def test_a_placement_counts_before_metrics_include_it() -> None:
    world = usage_world(*NODES, *one("a", cpu="4"))
    busy(world, n1=(10, 10), n2=(20, 10))
    assert world.run(phase="Pending").binds == {"a": "n1"}
    for manifest in one("b", cpu="1"):
        world.put(manifest)
    assert world.run().binds["b"] == "n2", "10 % and 4 of 8 cores x 0.7 are more than 20 %"


def test_a_placement_counts_before_the_bind_is_confirmed() -> None:
    world = usage_world(*NODES, *one("a", cpu="4"))
    busy(world, n1=(10, 10), n2=(20, 10))
    world.cycle()
    for manifest in one("b", cpu="1"):
        world.put(manifest)
    world.cycle()
    assert world.binds == {"a": "n1", "b": "n2"}


def test_a_node_is_at_risk_only_by_cpu_and_memory_together() -> None:
    estimator = "estimator: {request_ratio: 0.5, risk_factor: 2.0, risk_threshold: 0.6}"
    for memory, best in ((10.0, "n1"), (70.0, "n2")):  # n1 with one task: 40 + 25 % of cpu, or 40 + 50 % at risk
        world = usage_world(*NODES, *one("a", cpu="4"), *one("b", cpu="1"), arguments=f"{{{estimator}}}")
        busy(world, n1=(40, memory), n2=(75, memory))
        world.run(phase="Pending")
        assert world.binds == {"a": "n1", "b": best}


def test_the_estimate_of_a_pod_is_larger_on_a_node_at_risk() -> None:
    estimator = Estimator(EstimatorArguments())
    shape = Shape(id=0, requests={"cpu": 1000, "pods": 1}, best_effort=False, limits={"cpu": 2000})
    assert estimator.of(shape)[::2] == pytest.approx((700, 840))
    bursting = Estimator(EstimatorArguments(burst_ratio=1.0, request_ratio=1.0))
    assert bursting.of(shape)[::2] == (2000, 2000), "not above the limit"
    whole = Estimator(EstimatorArguments(request_ratio=1.0))
    unlimited = Shape(id=2, requests={"cpu": 1000, "pods": 1}, best_effort=False)
    assert whole.of(unlimited)[::2] == (1000, 1000), "not above the request without a limit"
    nothing = Shape(id=1, requests={"pods": 1}, best_effort=True)
    assert estimator.of(nothing)[:2] == (250, 200 << 20)


@pytest.mark.parametrize(
    "arguments",
    [{"thresholds": {"cpu": 101}}, {"thresholds": {"memory": 5}}, {"estimator": {"risk_factor": 0.5}}, {"usage": 1}],
)
def test_invalid_arguments_are_rejected(arguments: dict[str, Any]) -> None:
    with pytest.raises(ArgumentError):
        Usage(arguments)


figures = st.tuples(st.floats(0, 100), st.floats(0, 100), st.integers(0, 8))


@given(st.lists(figures, min_size=1, max_size=5), st.integers(0, 2))
def test_scores_of_all_nodes_at_once_equal_those_of_each_node(
    rows: list[tuple[float, float, int]], placed: int
) -> None:
    nodes = [node(f"n{at}") for at in range(len(rows))]
    running = [pod(f"r{at}", on=f"n{at}", phase="Running", cpu=str(row[2])) for at, row in enumerate(rows)]
    world = usage_world(*nodes, *running, group("g", 0), *pods("p", placed, "g", cpu="2"))
    busy(world, **{f"n{at}": row[:2] for at, row in enumerate(rows)})
    world.run()
    plugin = next(each.plugin for each in world.profile.tiers[0] if each.plugin.name == "usage")
    assert isinstance(plugin, Usage)
    columns = world.state.ledger.columns
    at = SingleRow(columns)
    shape = make_shape({"cpu": 1})
    together = plugin.score(shape, columns, np.ones(len(rows), np.bool_))
    for row in range(len(rows)):
        at.load(row)
        assert together[row] == plugin.score_on(shape, at)


def test_answers_are_cached_until_placements_or_metrics_change() -> None:
    world = usage_world(node("n1"), *one("a", cpu="4"), *one("b", cpu="100"))
    busy(world, n1=(10, 10))
    plugin = next(each.plugin for each in world.profile.tiers[0] if each.plugin.name == "usage")
    assert isinstance(plugin, Usage)
    moments = []
    for _ in range(4):
        world.cycle()
        world.echo(phase="Pending")
        moments.append(plugin.moment)
    busy(world, n1=(11, 10))
    world.cycle()
    moments.append(plugin.moment)
    world.now += 300
    world.cycle()
    moments.append(plugin.moment)
    assert [later - before for before, later in itertools.pairwise(moments)] == [1, 0, 0, 1, 1]
