"""Plugin usage: busy nodes get nothing more, less busy ones come first, and what was just placed counts."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from volcanoio_plugins.scheduling.usage import Estimator, EstimatorArguments, Usage

from tests.scenario.scheduling.harness import World, group, node, pod, pods
from tests.scenario.scheduling.node_usage import busy
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


def world(*objects: Manifest, arguments: str = "{}") -> World:
    return World(*objects, conf=CONF.replace("{arguments}", arguments))


def one(name: str = "p", **more: Any) -> tuple[Manifest, Manifest]:
    return group(name, 1), pod(name, name, **{"cpu": "1", **more})


def test_the_less_busy_node_comes_first() -> None:
    for first, second in (("n1", "n2"), ("n2", "n1")):
        of = world(*NODES, *one())
        busy(of, **{first: (10, 10), second: (50, 50)})
        assert of.run().binds == {"p": first}


def test_weights_say_what_counts() -> None:
    figures = {"n1": (10.0, 70.0), "n2": (70.0, 10.0)}
    for arguments, best in (("{cpu.weight: 9}", "n1"), ("{memory.weight: 9}", "n2")):
        of = world(*NODES, *one(), arguments=arguments)
        busy(of, **figures)
        assert of.run().binds == {"p": best}


@pytest.mark.parametrize(("figures", "what"), [((81, 0), "CPU"), ((0, 81), "memory")])
def test_nodes_above_a_threshold_get_nothing(figures: tuple[float, float], what: str) -> None:
    of = world(node("n1"), *one())
    busy(of, n1=figures)
    of.run(3)
    assert of.binds == {}
    assert any(f"the {what} load of the node exceeds the upper limit." in text for _, _, text in of.recorded)
    busy(of, n1=(80, 80))
    assert of.run().binds == {"p": "n1"}, "at the limit is within it"


def test_old_figures_say_nothing() -> None:
    of = world(node("n1"), *one())
    busy(of, n1=(99, 99))
    of.now += 301
    assert of.run().binds == {"p": "n1"}


def test_what_was_just_placed_counts_before_figures_show_it() -> None:
    of = world(*NODES, *one("a", cpu="4"))
    busy(of, n1=(10, 10), n2=(20, 10))
    assert of.run(phase="Pending").binds == {"a": "n1"}
    for manifest in one("b", cpu="1"):
        of.put(manifest)
    assert of.run().binds["b"] == "n2", "10 % and 4 of 8 cores x 0.7 are more than 20 %"


def test_what_was_placed_counts_before_anything_came_back() -> None:
    of = world(*NODES, *one("a", cpu="4"))
    busy(of, n1=(10, 10), n2=(20, 10))
    of.cycle()
    for manifest in one("b", cpu="1"):
        of.put(manifest)
    of.cycle()
    assert of.binds == {"a": "n1", "b": "n2"}


def test_a_gang_in_one_turn_spreads_by_what_it_has_placed() -> None:
    of = world(*NODES, group("g", 4), *pods("p", 4, "g", cpu="2"))
    busy(of, n1=(0, 0), n2=(0, 0))
    assert sorted(of.run().binds.values()) == ["n1", "n1", "n2", "n2"]


def test_risk_is_of_cpu_and_memory_together() -> None:
    estimator = "estimator: {request_ratio: 0.5, risk_factor: 2.0, risk_threshold: 0.6}"
    for memory, best in ((10.0, "n1"), (70.0, "n2")):  # n1 with one task: 40 + 25 % of cpu, or 40 + 50 % at risk
        of = world(*NODES, *one("a", cpu="4"), *one("b", cpu="1"), arguments=f"{{{estimator}}}")
        busy(of, n1=(40, memory), n2=(75, memory))
        of.run(phase="Pending")
        assert of.binds == {"a": "n1", "b": best}


def test_a_node_at_risk_is_taken_for_fuller_than_it_is() -> None:
    estimator = Estimator(EstimatorArguments())
    shape = Shape(id=0, requests={"cpu": 1000, "pods": 1}, best_effort=False, limits={"cpu": 2000})
    assert estimator.of(shape)[::2] == pytest.approx((700, 840))
    bursting = Estimator(EstimatorArguments(burst_ratio=1.0, request_ratio=1.0))
    assert bursting.of(shape)[::2] == (2000, 2000), "never above the limit"
    whole = Estimator(EstimatorArguments(request_ratio=1.0))
    unlimited = Shape(id=2, requests={"cpu": 1000, "pods": 1}, best_effort=False)
    assert whole.of(unlimited)[::2] == (1000, 1000), "nor, without one, above the request"
    nothing = Shape(id=1, requests={"pods": 1}, best_effort=True)
    assert estimator.of(nothing)[:2] == (250, 200 << 20)


@pytest.mark.parametrize(
    "arguments",
    [{"thresholds": {"cpu": 101}}, {"thresholds": {"memory": 5}}, {"estimator": {"risk_factor": 0.5}}, {"usage": 1}],
)
def test_invalid_arguments_are_reported(arguments: dict[str, Any]) -> None:
    with pytest.raises(ArgumentError):
        Usage(arguments)


figures = st.tuples(st.floats(0, 100), st.floats(0, 100), st.integers(0, 8))


@given(st.lists(figures, min_size=1, max_size=5), st.integers(0, 2))
def test_one_node_scores_as_all_at_once(rows: list[tuple[float, float, int]], placed: int) -> None:
    nodes = [node(f"n{at}") for at in range(len(rows))]
    running = [pod(f"r{at}", on=f"n{at}", phase="Running", cpu=str(row[2])) for at, row in enumerate(rows)]
    of = world(*nodes, *running, group("g", 0), *pods("p", placed, "g", cpu="2"))
    busy(of, **{f"n{at}": row[:2] for at, row in enumerate(rows)})
    of.run()
    plugin = next(each.plugin for each in of.profile.tiers[0] if each.plugin.name == "usage")
    assert isinstance(plugin, Usage)
    columns = of.state.ledger.columns
    at = SingleRow(columns)
    shape = make_shape({"cpu": 1})
    together = plugin.score(shape, columns, np.ones(len(rows), np.bool_))
    for row in range(len(rows)):
        at.load(row)
        assert together[row] == plugin.score_on(shape, at)


def test_answers_are_kept_while_nothing_has_moved_and_are_others_once_something_has() -> None:
    of = world(node("n1"), *one("a", cpu="4"), *one("b", cpu="100"))
    busy(of, n1=(10, 10))
    plugin = next(each.plugin for each in of.profile.tiers[0] if each.plugin.name == "usage")
    assert isinstance(plugin, Usage)
    moments = []
    for _ in range(4):
        of.cycle()
        of.echo(phase="Pending")
        moments.append(plugin.moment)
    busy(of, n1=(11, 10))
    of.cycle()
    moments.append(plugin.moment)
    of.now += 300
    of.cycle()
    moments.append(plugin.moment)
    assert [later - before for before, later in itertools.pairwise(moments)] == [1, 0, 0, 1, 1]
