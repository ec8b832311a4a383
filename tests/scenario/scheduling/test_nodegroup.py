"""Plugin nodegroup: node groups that a queue must, should, should not and must not use."""

from __future__ import annotations

from tests.scenario.scheduling.harness import Scenario, World, group, pod, pods, scenarios
from tests.scenario.scheduling.node_groups import affine, conf, grouped

NOT_STRICT = conf("arguments: {strict: false}")


GROUPS = {"n1": "g1", "n2": "g2", "n3": "g3", "n4": "g4", "bare": ""}
NODES = tuple(grouped(name, of) for name, of in GROUPS.items())
SMALL_NODES = tuple(grouped(name, of, cpu="1") for name, of in GROUPS.items())
"""Nodes with room for one pod each."""
FIVE = (group("g", 0, queue="q"), *pods("p", 5, "g", cpu="1"))
ONE = (group("g", 1, queue="q"), pod("p", "g", cpu="1"))


@scenarios(
    Scenario(
        name="a queue uses nodes of its required and preferred groups",
        cluster=[*SMALL_NODES, affine("q", required=["g1"], preferred=["g2"]), *FIVE],
        binds={"p-0": "n1", "p-1": "n2"},
    ),
    Scenario(
        name="a queue does not use a forbidden group even if it is required",
        cluster=[*SMALL_NODES, affine("q", required=["g1", "g2"], forbidden=["g2"]), *FIVE],
        binds={"p-0": "n1"},
    ),
    Scenario(
        name="a queue uses a forbidden group that it avoids too",
        cluster=[*SMALL_NODES, affine("q", required=["g1"], forbidden=["g4"], avoided=["g4"]), *FIVE],
        binds={"p-0": "n1", "p-1": "n4"},
    ),
    Scenario(
        name="a queue without affinity uses no node",
        cluster=[*SMALL_NODES, affine("q"), *FIVE],
    ),
    Scenario(
        name="a queue without affinity uses nodes without group if not strict",
        conf=NOT_STRICT,
        cluster=[*SMALL_NODES, affine("q"), *FIVE],
        binds={"p-0": "bare"},
    ),
    Scenario(
        name="a queue with affinity uses no nodes without group even if not strict",
        conf=NOT_STRICT,
        cluster=[*SMALL_NODES, affine("q", required=["g1"]), *FIVE],
        binds={"p-0": "n1"},
    ),
    Scenario(
        name="a queue uses no more of a group than its limit",
        cluster=[
            *NODES,
            affine("q", required=["g1", "g2"], preferred=["g1"], limits='{"g1": {"cpu": "3"}}'),
            *(group("old", 1, queue="q", phase="Running"), pod("old", "old", on="n1", phase="Running", cpu="1")),
            *(group("g", 4, queue="q"), *pods("p", 4, "g", cpu="1")),
        ],
        binds={"p-0": "n1", "p-1": "n1", "p-2": "n2", "p-3": "n2"},
    ),
    Scenario(
        name="fit errors distinguish nodes without group from nodes of other groups",
        cluster=[*NODES, affine("q", required=["g9"]), *ONE],
        fit_errors={
            "g": "0/5 nodes are unavailable: 1 node group label not found, "
            "4 node does not satisfy the node group affinity."
        },
    ),
    Scenario(
        name="the fit error of a queue without affinity differs from that of nodes without group",
        cluster=[*NODES, affine("q"), *ONE],
        fit_errors={
            "g": "0/5 nodes are unavailable: 1 node group label not found, 4 node group affinity not specified."
        },
    ),
    conf=conf(),
)
def test_nodes_that_a_queue_uses(scenario: Scenario) -> None:
    scenario.check()


@scenarios(
    Scenario(
        name="a required group is better than a preferred one",
        cluster=[*NODES, affine("q", required=["g1"], preferred=["g2"]), *ONE],
        binds={"p": "n1"},
    ),
    Scenario(
        name="a group that is required and preferred is best",
        cluster=[*NODES, affine("q", required=["g1", "g2"], preferred=["g2"]), *ONE],
        binds={"p": "n2"},
    ),
    Scenario(
        name="a preferred group is better than one that is avoided too",
        cluster=[*NODES, affine("q", required=["g1"], preferred=["g1", "g2"], avoided=["g1"]), *ONE],
        binds={"p": "n2"},
    ),
    Scenario(
        name="with enablePreferredOrder the first preferred group is best",
        conf=conf("arguments: {enablePreferredOrder: true}"),
        cluster=[*NODES, affine("q", preferred=["g3", "g1"]), *ONE],
        binds={"p": "n3"},
    ),
    Scenario(
        name="with enableHierarchy a queue inherits the affinity of its nearest ancestor that has one",
        conf=conf("enableHierarchy: true"),
        cluster=[
            *NODES,
            affine("root", required=["g1"]),
            affine("mid", parent="root"),
            affine("q", parent="mid"),
            *ONE,
        ],
        binds={"p": "n1"},
    ),
    Scenario(
        name="without enableHierarchy a queue inherits no affinity",
        cluster=[
            *NODES,
            affine("root", required=["g1"]),
            affine("mid", parent="root"),
            affine("q", parent="mid"),
            *ONE,
        ],
    ),
    Scenario(
        name="placements of a gang that did not fit do not count towards the limit of the queue",
        cluster=[
            *NODES,
            affine("q", required=["g1"], limits='{"g1": {"cpu": "3"}}'),
            group("big", 4, queue="q"),
            *pods("big", 4, "big", cpu="1"),
            group("fits", 3, queue="q"),
            *pods("fits", 3, "fits", cpu="1"),
        ],
        binds={"fits-0": "n1", "fits-1": "n1", "fits-2": "n1"},
    ),
    Scenario(
        name="a queue whose limits cannot be parsed uses no node",
        cluster=[*NODES, affine("q", required=["g1"], limits='{"g1":'), *ONE],
    ),
    conf=conf(),
)
def test_nodegroup(scenario: Scenario) -> None:
    scenario.check()


def test_a_changed_affinity_takes_effect_in_the_next_cycle() -> None:
    world = World(*NODES, affine("q", required=["g9"]), *ONE, conf=conf())
    world.cycle()
    assert world.binds == {}
    world.put(affine("q", required=["g2"]))
    world.cycle()
    assert world.binds == {"p": "n2"}
