"""Plugins nodeorder and binpack: scores as in Kubernetes and Volcano, for all nodes at once and for one."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from volcanoio_plugins.scheduling.binpack import Binpack
from volcanoio_plugins.scheduling.nodeorder import Nodeorder

from tests.unit.scheduling_plugins.nodeviews import Flat, NodesView, make_node
from tests.unit.scheduling_plugins.views import SessionData, make_shape
from volcanoio.framework.arguments import ArgumentError
from volcanoio.framework.scheduling.points import Scorer, ScorerOfAmounts
from volcanoio.framework.scheduling.verdicts import Depends
from volcanoio.framework.scheduling.views import Shape
from volcanoio.model.core import (
    Affinity,
    NodeAffinity,
    NodeSelectorTerm,
    PreferredSchedulingTerm,
    Requirement,
    Taint,
    Toleration,
)

GI = 1 << 30
GPU = "nvidia.com/gpu"
OFF = {
    "leastrequested.weight": 0,
    "balancedresource.weight": 0,
    "nodeaffinity.weight": 0,
    "tainttoleration.weight": 0,
    "podaffinity.weight": 0,
    "podtopologyspread.weight": 0,
    "imagelocality.weight": 0,
}


def scores(
    plugin: Scorer | Nodeorder, shape: Shape, nodes: NodesView, feasible: list[bool] | None = None
) -> list[float]:
    mask = np.array(feasible or [True] * len(nodes))
    fractions = [part.score(shape, nodes, mask) for part in parts_of(plugin)]
    return list(sum(fractions, np.zeros(len(nodes))))


def parts_of(plugin: Scorer | Nodeorder) -> Sequence[Scorer]:
    return plugin.scorers if isinstance(plugin, Nodeorder) else [plugin]


def is_relative(plugin: Nodeorder, shape: Shape) -> bool:
    return any(Depends.FEASIBLE_SET in part.score_depends(shape) for part in plugin.scorers)


def one_node(cpu: int, memory: int, used_cpu: int = 0, used_memory: int = 0) -> NodesView:
    return NodesView(
        [make_node("n")],
        offered={"cpu": [cpu], "memory": [memory]},
        taken={"cpu": [used_cpu], "memory": [used_memory]},
    )


def test_least_requested_scores_the_idle_share() -> None:
    plugin = Nodeorder({**OFF, "leastrequested.weight": 1})
    shape = make_shape({"cpu": 1, "memory": "1Gi"})
    assert scores(plugin, shape, one_node(8000, 3 * GI, 1000)) == [(75 + 66) // 2]
    assert scores(plugin, shape, one_node(1000, 4 * GI, 1000)) == [(0 + 75) // 2], "beyond capacity counts 0"
    assert scores(plugin, shape, one_node(0, 4 * GI)) == [75], "a resource that the node does not have is ignored"


def test_most_requested_scores_the_used_share() -> None:
    plugin = Nodeorder({**OFF, "mostrequested.weight": 2})
    assert scores(plugin, make_shape({"cpu": 1, "memory": "1Gi"}), one_node(8000, 3 * GI, 1000)) == [(25 + 33) // 2 * 2]


def test_a_best_effort_pod_counts_with_default_amounts() -> None:
    plugin = Nodeorder({**OFF, "leastrequested.weight": 1})
    assert scores(plugin, make_shape({}), one_node(1000, 1_000_000_000)) == [(90 + 80) // 2]


def test_balanced_resource_scores_equal_use_of_cpu_and_memory() -> None:
    plugin = Nodeorder({**OFF, "balancedresource.weight": 1})
    shape = make_shape({"cpu": 1, "memory": "1Gi"})
    even = int((1 - (0.5 - 0.25) / 2) * 100)
    assert scores(plugin, shape, one_node(2000, 4 * GI)) == [50 + (50 + even - 100) // 2], "it was perfectly even"
    assert scores(plugin, shape, one_node(2000, 4 * GI, 0, GI)) == [50 + (50 + 100 - int((1 - 0.125) * 100)) // 2]
    assert scores(plugin, shape, one_node(0, 4 * GI)) == [75], "one resource is always even"
    assert scores(plugin, shape, one_node(2000, 4 * GI, 1500, 4 * GI)) == [
        50 + (50 + 100 - int((1 - 0.125) * 100)) // 2
    ]
    with_gpu = NodesView(
        [make_node("gpu"), make_node("plain")],
        offered={"cpu": [2000, 2000], "memory": [4 * GI, 4 * GI], GPU: [1000, 0]},
    )
    deviation = np.std([0.5, 0.25, 1.0])
    assert scores(plugin, make_shape({"cpu": 1, "memory": "1Gi", GPU: 1}), with_gpu) == [
        50 + (50 + int((1 - deviation) * 100) - 100) // 2,
        50 + (50 + even - 100) // 2,
    ]


def preferring(*terms: tuple[int, str, str]) -> Affinity:
    return Affinity(
        node_affinity=NodeAffinity(
            preferred_during_scheduling_ignored_during_execution=tuple(
                PreferredSchedulingTerm(
                    weight=weight,
                    preference=NodeSelectorTerm(
                        match_expressions=(Requirement(key=key, operator="In", values=(value,)),) if key else ()
                    ),
                )
                for weight, key, value in terms
            )
        )
    )


def test_preferences_are_relative_to_the_best_feasible_node() -> None:
    plugin = Nodeorder({**OFF, "nodeaffinity.weight": 2})
    nodes = NodesView([make_node("a", {"zone": "1", "disk": "ssd"}), make_node("b", {"zone": "1"}), make_node("c")])
    shape = make_shape({}, affinity=preferring((20, "zone", "1"), (10, "disk", "ssd"), (100, "", "")))
    assert scores(plugin, shape, nodes) == [200, 132, 0]
    assert scores(plugin, shape, nodes, [False, True, True])[1:] == [200, 0]
    assert is_relative(plugin, shape)


def test_taints_with_prefer_no_schedule_lower_the_score() -> None:
    plugin = Nodeorder({**OFF, "tainttoleration.weight": 3})
    soft = tuple(Taint(key=key, effect="PreferNoSchedule") for key in "ab")
    nodes = NodesView([make_node("a", taints=soft), make_node("b", taints=soft[:1]), make_node("c")])
    assert list(plugin.open(SessionData(nodes=nodes))) == [None], "one step for the taints"
    assert scores(plugin, make_shape({}), nodes) == [0, 150, 300]
    assert is_relative(plugin, make_shape({}))
    tolerant = make_shape({}, number=1, tolerations=(Toleration(operator="Exists"),))
    assert scores(plugin, tolerant, nodes) == [300, 300, 300]
    assert not is_relative(plugin, tolerant)


def test_binpack_scores_the_used_share_by_weight() -> None:
    shape = make_shape({"cpu": 1, "memory": "1Gi"})
    node = one_node(4000, 8 * GI, 1000, GI)
    assert scores(Binpack({}), shape, node) == [(0.5 + 0.25) / 2 * 100]
    assert scores(Binpack({"binpack.weight": 5, "binpack.cpu": 3}), shape, node) == [(0.5 * 3 + 0.25) / 4 * 500]
    assert scores(Binpack({"binpack.weight": 0}), shape, node) == [0]
    assert scores(Binpack({}), shape, one_node(4000, 8 * GI, 3500)) == [0], "would overflow"
    listed = {"binpack.resources": f"{GPU}, x/y", f"binpack.resources.{GPU}": 2}
    gpus = NodesView([make_node("n")], offered={"cpu": [4000], GPU: [4000]}, taken={GPU: [1000]})
    assert scores(Binpack(listed), make_shape({"cpu": 1, GPU: 1}), gpus) == [(0.25 + 0.5 * 2) / 3 * 100]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"binpack.wieght": 1}, 'did you mean "binpack.weight"'),
        ({"binpack.weight": "5"}, 'takes a whole number, not the string "5"'),
        ({"binpack.resources.x": 1}, "which binpack.resources does not list|does not list"),
        ({"binpack.resources": "x", "binpack.resources.x": "1"}, "takes a whole number"),
    ],
)
def test_binpack_rejects_invalid_arguments(arguments: dict[str, object], message: str) -> None:
    with pytest.raises(ArgumentError, match=message):
        Binpack(arguments)


AMOUNTS = st.integers(0, 2**40)
COLUMN = st.lists(AMOUNTS, min_size=4, max_size=4)


@given(
    offered=st.fixed_dictionaries({"cpu": COLUMN, "memory": COLUMN, GPU: COLUMN}),
    taken=st.fixed_dictionaries({"cpu": COLUMN, "memory": COLUMN, GPU: COLUMN}),
    asked=st.fixed_dictionaries({}, optional={"cpu": AMOUNTS, "memory": AMOUNTS, GPU: AMOUNTS}),
    weights=st.tuples(*[st.integers(0, 3)] * 5),
)
def test_scores_of_all_nodes_at_once_equal_those_of_each_node(
    offered: dict[str, list[int]],
    taken: dict[str, list[int]],
    asked: dict[str, int],
    weights: tuple[int, int, int, int, int],
) -> None:
    least, most, balanced, pack, gpu = weights
    nodeorder = Nodeorder(
        {**OFF, "leastrequested.weight": least, "mostrequested.weight": most, "balancedresource.weight": balanced}
    )
    binpack = Binpack(
        {"binpack.weight": pack, "binpack.cpu": most, "binpack.resources": GPU, f"binpack.resources.{GPU}": gpu}
    )
    nodes = NodesView([make_node(str(index)) for index in range(4)], offered, taken)
    shape = Shape(id=0, requests={**asked, "pods": 1}, best_effort=not asked, nonzero_requests=asked)
    for plugin in (*nodeorder.scorers, binpack):
        assert isinstance(plugin, Scorer)
        assert isinstance(plugin, ScorerOfAmounts)
        ask = plugin.score_from(shape, Flat())
        assert scores(plugin, shape, nodes) == [ask(Flat.amounts(nodes, row)) for row in range(4)]


ROOM = st.lists(st.tuples(*[st.integers(0, 2**40)] * 2), min_size=4, max_size=4)


@given(
    rooms=st.fixed_dictionaries({"cpu": ROOM, "memory": ROOM, GPU: ROOM}),
    asked=st.fixed_dictionaries({"cpu": AMOUNTS, "memory": AMOUNTS}, optional={GPU: AMOUNTS}),
)
def test_scores_are_the_same_where_nodes_are_known_to_have_room(
    rooms: dict[str, list[tuple[int, int]]], asked: dict[str, int]
) -> None:
    taken = {name: [used for used, _ in room] for name, room in rooms.items()}
    offered = {
        name: [max(used + asked.get(name, 0) + spare, 1) for used, spare in room] for name, room in rooms.items()
    }
    nodes = NodesView([make_node(str(index)) for index in range(4)], offered, taken)
    shape = Shape(id=0, requests=asked, best_effort=False, nonzero_requests=asked)
    for plugin in (Nodeorder({**OFF, "leastrequested.weight": 1, "balancedresource.weight": 1}), Binpack({})):
        nodes.all_fit = False
        unknown = scores(plugin, shape, nodes)
        nodes.all_fit = True
        assert scores(plugin, shape, nodes) == unknown
