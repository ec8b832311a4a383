"""Topology spread constraints with DoNotSchedule."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest

from tests.scenario.scheduling.harness import World, group
from tests.scenario.scheduling.podrules import HOST, asking, gang, spread, why, zoned
from volcanoio.model.base import Manifest

NODES = tuple(zoned(f"n{at}", "ab"[at % 2]) for at in range(4))


def world(*objects: Manifest, minimum: int = 1) -> World:
    return World(group("pg", minimum, phase="Inqueue"), *objects).run()


def running(name: str, on: str, **more: Any) -> Manifest:
    return asking(name, on=on, phase="Running", **more)


def zones(of: World) -> Counter[str]:
    """Bound pods by zone."""
    return Counter("ab"[int(where[1:]) % 2] for where in of.binds.values())


def test_a_gang_is_spread_evenly() -> None:
    even = world(*NODES, *gang("p", 6, "pg", constraints=(spread(),)), minimum=6)
    assert zones(even) == {"a": 3, "b": 3}


def test_a_full_zone_stops_the_other() -> None:
    nodes = (zoned("n0", "a", cpu="64"), zoned("n1", "b", cpu="1"))
    lopsided = world(*nodes, *gang("p", 4, "pg", constraints=(spread(),)), minimum=4)
    assert lopsided.binds == {}
    expected = "0/2 nodes are unavailable: 1 Insufficient cpu, 1 node(s) didn't match pod topology spread constraints."
    assert why(lopsided, "pg") == expected
    wider = world(*nodes, *gang("p", 4, "pg", constraints=(spread(skew=2),)), minimum=4)
    assert zones(wider) == {"a": 3, "b": 1}


def test_nodes_without_the_label_are_no_place() -> None:
    lost = world(zoned("n0"), *gang("p", 1, "pg", constraints=(spread(),)))
    text = "1 node(s) didn't match pod topology spread constraints (missing required label)"
    assert why(lost, "pg") == f"0/1 nodes are unavailable: {text}."


@pytest.mark.parametrize(("domains", "number"), [(None, 4), (2, 4), (3, 2)])
def test_too_few_domains_count_as_if_an_empty_one_was_there(domains: int | None, number: int) -> None:
    more: dict[str, Any] = {} if domains is None else {"minDomains": domains}
    few = world(*NODES, *gang("p", 4, "pg", constraints=(spread(**more),)))
    assert len(few.binds) == number


def test_pods_there_count_but_not_those_that_leave_or_are_elsewhere() -> None:
    there = [running("x", "n0"), running("y", "n2")]
    assert zones(world(*NODES, *there, asking("p", "pg", constraints=(spread(),)))) == {"b": 1}
    for old in there:
        old["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    left = world(*NODES, *there, running("z", "n1"), asking("p", "pg", constraints=(spread(),)))
    assert zones(left) == {"a": 1}
    foreign = [running("x", "n0", namespace="other"), running("y", "n1")]
    assert zones(world(*NODES, *foreign, asking("p", "pg", constraints=(spread(),)))) == {"a": 1}


def test_a_selector_that_does_not_select_the_pod_asks_for_others_only() -> None:
    there = [running("x", "n0"), running("y", "n0")]
    pods = gang("p", 3, "pg", labels={"app": "b"}, constraints=(spread(),))
    assert zones(world(*NODES, *there, *pods, minimum=3)) == {"b": 3}


def test_label_keys_distinguish_versions() -> None:
    old = [running("x", "n1", labels={"app": "a", "v": "1"}), running("y", "n0", labels={"app": "a", "v": "2"})]
    new = asking("p", "pg", labels={"app": "a", "v": "2"}, constraints=(spread(matchLabelKeys=["v"]),))
    assert zones(world(*NODES, *old, new)) == {"b": 1}


def test_an_empty_selector_counts_no_pod() -> None:
    pods = gang("p", 3, "pg", constraints=(spread(labelSelector={}),))
    assert len(world(zoned("n0", "a"), zoned("n1", "b"), *pods, minimum=3).binds) == 3


@pytest.mark.parametrize(("policy", "bound"), [("Honor", 3), ("Ignore", 1)])
def test_zones_that_the_pod_may_not_go_to_count_by_policy(policy: str, bound: int) -> None:
    nodes = (zoned("n0", "a", labels={"disk": "ssd"}), zoned("n1", "b"))
    constraint = spread(nodeAffinityPolicy=policy)
    picky = gang("p", 3, "pg", constraints=(constraint,), spec={"nodeSelector": {"disk": "ssd"}})
    assert len(world(*nodes, *picky).binds) == bound


@pytest.mark.parametrize(("policy", "bound"), [("Honor", 3), ("Ignore", 1)])
def test_tainted_zones_count_by_policy(policy: str, bound: int) -> None:
    nodes = (zoned("n0", "a"), zoned("n1", "b", taints=[{"key": "k", "effect": "NoSchedule"}]))
    pods = gang("p", 3, "pg", constraints=(spread(nodeTaintsPolicy=policy),))
    assert len(world(*nodes, *pods).binds) == bound


def test_several_constraints_hold_together() -> None:
    both = world(*NODES, *gang("p", 4, "pg", constraints=(spread(), spread(HOST))), minimum=4)
    assert set(both.binds.values()) == {"n0", "n1", "n2", "n3"}
