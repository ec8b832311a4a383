"""Topology spread constraints with DoNotSchedule: the nodes that a pod may use, and the fit errors."""

from __future__ import annotations

from collections import Counter
from typing import Any

from tests.scenario.scheduling.harness import Scenario, World, group, scenarios
from tests.scenario.scheduling.podrules import HOST, asking, gang, running, spread, terminating, zoned
from volcanoio.model.base import Manifest

NODES = tuple(zoned(f"n{at}", "ab"[at % 2]) for at in range(4))
"""n0 and n2 are in zone a, n1 and n3 in zone b."""
LARGE_A_SMALL_B = (zoned("n0", "a", cpu="64"), zoned("n1", "b", cpu="1"))


def pg(minimum: int = 1) -> Manifest:
    """Return the PodGroup of the pending pods."""
    return group("pg", minimum, phase="Inqueue")


def zones(*objects: Manifest, minimum: int = 1) -> Counter[str]:
    """Run a cycle, and return the number of bound pods in each zone."""
    world = World(pg(minimum), *objects).run()
    return Counter("ab"[int(where[1:]) % 2] for where in world.binds.values())


@scenarios(
    Scenario(
        name="no pod of a gang is bound if a full zone keeps the others from being used",
        cluster=[*LARGE_A_SMALL_B, pg(4), *gang("p", 4, "pg", constraints=(spread(),))],
        fit_errors={
            "pg": "0/2 nodes are unavailable: 1 Insufficient cpu,"
            " 1 node(s) didn't match pod topology spread constraints."
        },
    ),
    Scenario(
        name="a node without the topology label is not used",
        cluster=[zoned("n0"), pg(), *gang("p", 1, "pg", constraints=(spread(),))],
        fit_errors={
            "pg": "0/1 nodes are unavailable:"
            " 1 node(s) didn't match pod topology spread constraints (missing required label)."
        },
    ),
    Scenario(
        name="without minDomains pods are spread over the zones that there are",
        cluster=[*NODES, pg(), *gang("p", 4, "pg", constraints=(spread(),))],
        bind_counts={"p": 4},
    ),
    Scenario(
        name="with as many zones as minDomains pods are spread over them",
        cluster=[*NODES, pg(), *gang("p", 4, "pg", constraints=(spread(minDomains=2),))],
        bind_counts={"p": 4},
    ),
    Scenario(
        name="with fewer zones than minDomains the smallest count is zero",
        cluster=[*NODES, pg(), *gang("p", 4, "pg", constraints=(spread(minDomains=3),))],
        bind_counts={"p": 2},
    ),
    Scenario(
        name="with an empty selector no pod is counted",
        cluster=[
            zoned("n0", "a"),
            zoned("n1", "b"),
            pg(3),
            *gang("p", 3, "pg", constraints=(spread(labelSelector={}),)),
        ],
        bind_counts={"p": 3},
    ),
)
def test_required_spread(scenario: Scenario) -> None:
    scenario.check()


def test_a_gang_is_spread_evenly() -> None:
    assert zones(*NODES, *gang("p", 6, "pg", constraints=(spread(),)), minimum=6) == {"a": 3, "b": 3}


def test_zones_may_differ_by_max_skew() -> None:
    pods = gang("p", 4, "pg", constraints=(spread(skew=2),))
    assert zones(*LARGE_A_SMALL_B, *pods, minimum=4) == {"a": 3, "b": 1}


def test_running_pods_of_the_namespace_count_and_terminating_ones_do_not() -> None:
    pending = asking("p", "pg", constraints=(spread(),))
    assert zones(*NODES, running("x", "n0"), running("y", "n2"), pending) == {"b": 1}
    leaving = [terminating(running("x", "n0")), terminating(running("y", "n2"))]
    assert zones(*NODES, *leaving, running("z", "n1"), pending) == {"a": 1}
    assert zones(*NODES, running("x", "n0", namespace="other"), running("y", "n1"), pending) == {"a": 1}


def test_a_selector_that_does_not_select_the_pod_counts_only_other_pods() -> None:
    pods = gang("p", 3, "pg", labels={"app": "b"}, constraints=(spread(),))
    assert zones(*NODES, running("x", "n0"), running("y", "n0"), *pods, minimum=3) == {"b": 3}


def test_with_match_label_keys_only_pods_with_the_pods_own_value_count() -> None:
    old = [running("x", "n1", labels={"app": "a", "v": "1"}), running("y", "n0", labels={"app": "a", "v": "2"})]
    new = asking("p", "pg", labels={"app": "a", "v": "2"}, constraints=(spread(matchLabelKeys=["v"]),))
    assert zones(*NODES, *old, new) == {"b": 1}


def with_policy(**policy: Any) -> list[Manifest]:
    """Return three pods with a node selector and a constraint with that policy."""
    return gang("p", 3, "pg", constraints=(spread(**policy),), spec={"nodeSelector": {"disk": "ssd"}})


@scenarios(
    Scenario(
        name="zones that the node selector excludes are not counted with nodeAffinityPolicy Honor",
        cluster=[
            zoned("n0", "a", labels={"disk": "ssd"}),
            zoned("n1", "b"),
            pg(),
            *with_policy(nodeAffinityPolicy="Honor"),
        ],
        bind_counts={"p": 3},
    ),
    Scenario(
        name="zones that the node selector excludes are counted with nodeAffinityPolicy Ignore",
        cluster=[
            zoned("n0", "a", labels={"disk": "ssd"}),
            zoned("n1", "b"),
            pg(),
            *with_policy(nodeAffinityPolicy="Ignore"),
        ],
        bind_counts={"p": 1},
    ),
    Scenario(
        name="tainted zones are not counted with nodeTaintsPolicy Honor",
        cluster=[
            zoned("n0", "a"),
            zoned("n1", "b", taints=[{"key": "k", "effect": "NoSchedule"}]),
            pg(),
            *gang("p", 3, "pg", constraints=(spread(nodeTaintsPolicy="Honor"),)),
        ],
        bind_counts={"p": 3},
    ),
    Scenario(
        name="tainted zones are counted with nodeTaintsPolicy Ignore",
        cluster=[
            zoned("n0", "a"),
            zoned("n1", "b", taints=[{"key": "k", "effect": "NoSchedule"}]),
            pg(),
            *gang("p", 3, "pg", constraints=(spread(nodeTaintsPolicy="Ignore"),)),
        ],
        bind_counts={"p": 1},
    ),
)
def test_inclusion_policies(scenario: Scenario) -> None:
    scenario.check()


def test_all_constraints_of_a_pod_hold_together() -> None:
    world = World(*NODES, pg(4), *gang("p", 4, "pg", constraints=(spread(), spread(HOST)))).run()
    assert set(world.binds.values()) == {"n0", "n1", "n2", "n3"}
