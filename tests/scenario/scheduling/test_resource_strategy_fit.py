"""Plugin resource-strategy-fit: packs or spreads by resource, and keeps scarce resources free."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from volcanoio_plugins.scheduling.strategyfit import ResourceStrategyFit

from tests.scenario.scheduling.harness import Scenario, World, group, node, pod, scenarios
from tests.unit.scheduling_plugins.nodeviews import NodesView, make_node
from tests.unit.scheduling_plugins.views import make_shape
from volcanoio.framework.arguments import ArgumentError

GPU, T4 = "nvidia.com/gpu", "nvidia.com/t4"
CONF = """
actions: "enqueue, allocate"
tiers:
- plugins:
  - name: gang
  - name: resource-strategy-fit
    arguments: {arguments}
"""


def conf(arguments: str) -> str:
    return CONF.replace("{arguments}", arguments)


SPREAD_CPU_PACK_GPU = conf("""{resources: {cpu: {type: LeastAllocated}, "nvidia.com/*": {type: MostAllocated,
      weight: 3}}}""")


SCARCE_T4 = conf(f"{{resourceStrategyFitWeight: 0, sra: {{enable: true, resources: {T4}, weight: 5}}}}")


MORE_USED_N1 = (node("n1"), node("n2"), pod("old", on="n1", phase="Running", cpu="2"), group("g", 1))
T4_ON_N1 = (node("n1", **{T4: "4"}), node("n2"), group("g", 1))


def strategy(scoring_type: str, weight: str) -> dict[str, str]:
    """Return annotations that override the strategy."""
    return {
        "volcano.sh/resource-strategy-scoring-type": scoring_type,
        "volcano.sh/resource-strategy-weight": weight,
    }


@scenarios(
    Scenario(
        name="with LeastAllocated the less used node is chosen",
        cluster=[*MORE_USED_N1, pod("p", "g", cpu="1")],
        binds={"p": "n2"},
    ),
    Scenario(
        name="with MostAllocated for a prefix of resource names the more used node is chosen",
        cluster=[
            node("n1", **{GPU: "8"}),
            node("n2", **{GPU: "8"}),
            pod("old", on="n1", phase="Running", cpu="2", **{GPU: "4"}),
            group("g", 1),
            pod("p", "g", cpu="1", **{GPU: "1"}),
        ],
        binds={"p": "n1"},
    ),
    Scenario(
        name="an annotation of the pod overrides the strategy",
        cluster=[*MORE_USED_N1, pod("p", "g", cpu="1", annotations=strategy("MostAllocated", '{"cpu": 1}'))],
        binds={"p": "n1"},
    ),
    Scenario(
        name="an annotation that cannot be parsed is ignored",
        cluster=[*MORE_USED_N1, pod("p", "g", cpu="1", annotations=strategy("MostAllocated", "{"))],
        binds={"p": "n2"},
    ),
    Scenario(
        name="a pod that does not request a scarce resource avoids its nodes",
        conf=SCARCE_T4,
        cluster=[*T4_ON_N1, pod("p", "g", cpu="1")],
        binds={"p": "n2"},
    ),
    Scenario(
        name="a pod that requests a scarce resource uses its nodes",
        conf=SCARCE_T4,
        cluster=[*T4_ON_N1, pod("p", "g", cpu="1", **{T4: "1"})],
        binds={"p": "n1"},
    ),
    conf=SPREAD_CPU_PACK_GPU,
)
def test_resource_strategy_fit(scenario: Scenario) -> None:
    scenario.check()


def test_cpu_is_kept_free_in_proportion_to_an_idle_scarce_resource() -> None:
    ratios = f'{{"{GPU}.cpu": 4, "{GPU}.memory": 8}}'
    text = conf(f"{{proportional: {{enable: true, resources: {GPU}, resourceProportion: {ratios}}}}}")
    nodes = (node("n1", cpu="10", memory="64Gi", **{GPU: "2"}),)
    pods = [pod(name, name, cpu="1", memory="1Gi") for name in ("a", "b", "c")]
    world = World(*nodes, *(group(name, 1) for name in ("a", "b", "c")), *pods, conf=text)
    world.cycle()
    assert len(world.binds) == 2, "2 GPUs x 4 cores stay free"
    world.put(group("g", 1))
    world.put(pod("with", "g", cpu="8", **{GPU: "2"}))
    world.cycle()
    assert world.binds["with"] == "n1", "a pod that requests it may use all"


@pytest.mark.parametrize("arguments", [{}, {"resources": {}}, {"resourceStrategyFitWeight": -1}])
def test_missing_arguments_have_defaults(arguments: dict[str, object]) -> None:
    nodes = NodesView(
        [make_node("n")], offered={"cpu": [4000], "memory": [4 << 30], GPU: [2000]}, taken={"cpu": [1000]}
    )
    shape = make_shape({"cpu": 1, "memory": "1Gi"})
    everywhere = np.ones(1, np.bool_)
    least = pytest.approx((0.5 + 0.75) / 2 * 100 * 10)
    assert ResourceStrategyFit(arguments).score(shape, nodes, everywhere)[0] == least
    unweighed = ResourceStrategyFit({"resources": {"cpu": {"weight": 0}, "memory": {"weight": -3}}})
    assert unweighed.score(shape, nodes, everywhere)[0] == least
    guarded = ResourceStrategyFit({"proportional": {"enable": True, "resources": GPU}})
    assert guarded.feasible(shape, nodes).ok.tolist() == [True], "2 cores and 2 GB beside 2 GPUs"
    assert guarded.feasible(make_shape({"cpu": 2}), nodes).ok.tolist() == [False]


@pytest.mark.parametrize(
    ("arguments", "word"),
    [
        ({"resources": {"cpu": {"type": "Most"}}}, "Most"),
        ({"resources": {"cpu": 3}}, "object"),
        ({"sra": {"enabled": True}}, "enabled"),
        ({"resourceStrategyFitWeigth": 3}, "resourceStrategyFitWeight"),
        ({"proportional": {"resources": GPU, "resourceProportion": {"gpu.cpu": 1}}}, "gpu.cpu"),
    ],
)
def test_invalid_arguments_are_rejected(arguments: dict[str, object], word: str) -> None:
    with pytest.raises(ArgumentError, match=word):
        ResourceStrategyFit(arguments)


@given(
    st.lists(st.tuples(st.integers(0, 16), st.integers(0, 16), st.integers(0, 4)), min_size=1, max_size=6),
    st.integers(0, 4),
    st.integers(0, 2),
)
def test_scores_of_all_nodes_at_once_equal_those_of_each_node(
    rows: list[tuple[int, int, int]], cpu: int, gpu: int
) -> None:
    nodes = NodesView(
        [make_node(f"n{at}") for at in range(len(rows))],
        offered={"cpu": [row[0] * 1000 for row in rows], GPU: [row[2] * 1000 for row in rows], "pods": [9] * len(rows)},
        taken={"cpu": [row[1] * 500 for row in rows]},
    )
    plugin = ResourceStrategyFit(
        {
            "resources": {"cpu": {"type": "LeastAllocated", "weight": 2}, "nvidia*": {"type": "MostAllocated"}},
            "sra": {"enable": True, "resources": GPU, "weight": 3},
        }
    )
    shape = make_shape({"cpu": cpu, GPU: gpu})
    everywhere = np.ones(len(rows), np.bool_)
    assert list(plugin.score(shape, nodes, everywhere)) == [
        plugin.score_on(shape, nodes.row(at)) for at in range(len(rows))
    ]
