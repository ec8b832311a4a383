"""Pod affinity and anti-affinity that are required: where pods may go, and what they are told."""

from __future__ import annotations

from typing import Any

import pytest

from tests.scenario.scheduling.harness import World, group
from tests.scenario.scheduling.podrules import HOST, ZONE, apart, asking, gang, near, term, why, zoned
from volcanoio.engine.scheduling.cluster.state import ClusterState, StateOptions
from volcanoio.model import kinds
from volcanoio.model.base import Manifest

NODES = (zoned("n1", "a"), zoned("n2", "a"), zoned("n3", "b"), zoned("n4"))


def placed(*objects: Manifest, minimum: int = 1, cycles: int = 1, **more: Any) -> World:
    """One cycle with a group `pg` of that minimum."""
    return World(group("pg", minimum, phase="Inqueue"), *objects, **more).run(cycles)


def running(name: str, on: str, **more: Any) -> Manifest:
    return asking(name, on=on, phase="Running", **more)


def namespace(labels: dict[str, str]) -> Manifest:
    """The namespace `other`."""
    return {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "other", "uid": "o", "labels": labels}}


def test_a_gang_of_pods_that_avoid_each_other_takes_a_node_each() -> None:
    world = placed(*NODES, *gang("p", 4, "pg", affinity=apart(term(app="a"))), minimum=4)
    assert sorted(world.binds.values()) == ["n1", "n2", "n3", "n4"]


def test_one_pod_more_than_nodes_gets_the_reason_and_none_of_the_gang_is_bound() -> None:
    world = placed(*NODES, *gang("p", 5, "pg", affinity=apart(term(app="a"))), minimum=5)
    assert world.binds == {}
    assert why(world, "pg") == "0/4 nodes are unavailable: 4 node(s) didn't match pod anti-affinity rules."


def test_anti_affinity_in_a_zone_leaves_nodes_without_zone_open() -> None:
    world = placed(*NODES, *gang("p", 3, "pg", affinity=apart(term(ZONE, app="a"))), minimum=3)
    assert len({"n1", "n2"} & set(world.binds.values())) == 1
    assert {"n3", "n4"} < set(world.binds.values())


def test_who_is_there_already_keeps_others_away() -> None:
    guard = running("guard", "n1", labels={"app": "guard"}, affinity=apart(term(ZONE, app="a")))
    world = placed(zoned("n1", "a"), zoned("n2", "a"), guard, asking("p", "pg"))
    assert world.binds == {}
    expected = "0/2 nodes are unavailable: 2 node(s) didn't satisfy existing pods anti-affinity rules."
    assert why(world, "pg") == expected
    assert placed(*NODES[:3], guard, asking("p", "pg")).binds == {"p": "n3"}
    assert placed(zoned("n1", "a"), guard, asking("p", "pg", labels={"app": "b"})).binds == {"p": "n1"}


def test_the_first_of_a_gang_starts_a_zone_and_the_others_follow() -> None:
    nodes = [zoned(f"n{at}", "abc"[at % 3], cpu="2") for at in range(9)]
    world = placed(*nodes, zoned("n9", cpu="64"), *gang("p", 6, "pg", affinity=near(term(ZONE, app="a"))), minimum=6)
    zones = {"abc"[int(where[1:]) % 3] for where in world.binds.values()}
    assert len(world.binds) == 6
    assert len(zones) == 1


def test_a_gang_that_does_not_fit_one_zone_waits() -> None:
    nodes = [zoned(f"n{at}", "ab"[at % 2], cpu="2") for at in range(4)]
    world = placed(*nodes, *gang("p", 5, "pg", affinity=near(term(ZONE, app="a"))), minimum=5)
    assert world.binds == {}
    text = why(world, "pg")
    assert "2 Insufficient cpu" in text
    assert "2 node(s) didn't match pod affinity rules" in text


def test_who_wants_another_waits_for_it() -> None:
    lonely = asking("p", "pg", affinity=near(term(app="b")))
    world = placed(*NODES, lonely)
    assert world.binds == {}
    assert why(world, "pg") == "0/4 nodes are unavailable: 4 node(s) didn't match pod affinity rules."
    world.put(running("other", "n3", labels={"app": "b"}))
    assert world.run().binds == {"p": "n3"}


def test_all_terms_must_be_met_by_one_and_the_same_pod() -> None:
    wants = near(term(HOST, app="b"), term(ZONE, tier="x"))
    both = running("both", "n3", labels={"app": "b", "tier": "x"})
    halves = [running("b", "n1", labels={"app": "b"}), running("x", "n1", labels={"tier": "x"})]
    assert placed(*NODES, *halves, asking("p", "pg", affinity=wants)).binds == {}
    assert placed(*NODES, *halves, both, asking("p", "pg", affinity=wants)).binds == {"p": "n3"}


def test_a_terminating_pod_still_counts() -> None:
    leaving = running("old", "n1")
    leaving["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    world = placed(zoned("n1", "a"), leaving, asking("p", "pg", affinity=apart(term(app="a"))))
    assert world.binds == {}


@pytest.mark.parametrize(
    ("where", "free"),
    [
        ({}, True),
        ({"namespaces": ["other"]}, False),
        ({"namespaces": ["third"]}, True),
        ({"namespaceSelector": {}}, False),
        ({"namespaceSelector": {"matchLabels": {"team": "x"}}}, False),
        ({"namespaceSelector": {"matchLabels": {"team": "y"}}}, True),
        ({"namespaces": ["third"], "namespaceSelector": {"matchLabels": {"team": "x"}}}, False),
    ],
)
def test_other_namespaces_count_where_they_are_named_or_selected(where: dict[str, Any], free: bool) -> None:
    space = {
        "apiVersion": "v1",
        "kind": "Namespace",
        "metadata": {"name": "other", "uid": "o", "labels": {"team": "x"}},
    }
    there = running("there", "n1", namespace="other")
    mine = asking("p", "pg", affinity=apart(term(app="a") | where))
    world = placed(zoned("n1"), space, there, mine)
    assert (world.binds == {"p": "n1"}) is free


def test_a_namespace_that_gets_another_label_is_seen() -> None:
    space = {
        "apiVersion": "v1",
        "kind": "Namespace",
        "metadata": {"name": "other", "uid": "o", "labels": {"team": "x"}},
    }
    wants = apart(term(app="a") | {"namespaceSelector": {"matchLabels": {"team": "x"}}})
    world = placed(zoned("n1"), space, running("there", "n1", namespace="other"), asking("p", "pg", affinity=wants))
    assert world.binds == {}
    world.put(namespace({}))
    assert world.run().binds == {"p": "n1"}


@pytest.mark.parametrize(
    ("keys", "free"),
    [({"matchLabelKeys": ["version"]}, True), ({"mismatchLabelKeys": ["version"]}, False), ({}, False)],
)
def test_label_keys_compare_with_the_pod_itself(keys: dict[str, Any], free: bool) -> None:
    old = running("old", "n1", labels={"app": "a", "version": "1"})
    new = asking("p", "pg", labels={"app": "a", "version": "2"}, affinity=apart(term(app="a") | keys))
    assert (placed(zoned("n1"), old, new).binds == {"p": "n1"}) is free


@pytest.mark.parametrize(
    ("requirement", "free"),
    [
        ({"key": "app", "operator": "In", "values": ["a", "z"]}, False),
        ({"key": "app", "operator": "NotIn", "values": ["a"]}, True),
        ({"key": "app", "operator": "NotIn", "values": ["b"]}, False),
        ({"key": "app", "operator": "Exists"}, False),
        ({"key": "gpu", "operator": "DoesNotExist"}, False),
        ({"key": "gpu", "operator": "Exists"}, True),
    ],
)
def test_selectors_are_kubernetes_ones(requirement: dict[str, Any], free: bool) -> None:
    wants = apart({"topologyKey": HOST, "labelSelector": {"matchExpressions": [requirement]}})
    world = placed(zoned("n1"), running("old", "n1"), asking("p", "pg", affinity=wants))
    assert (world.binds == {"p": "n1"}) is free


def test_a_term_without_selector_selects_nothing_and_an_empty_one_everything() -> None:
    old = running("old", "n1", labels={})
    nothing, everything = {"topologyKey": HOST}, {"topologyKey": HOST, "labelSelector": {}}
    assert placed(zoned("n1"), old, asking("p", "pg", affinity=apart(nothing))).binds == {"p": "n1"}
    assert placed(zoned("n1"), old, asking("p", "pg", affinity=apart(everything))).binds == {}


def test_what_ended_or_went_away_frees_its_domain() -> None:
    world = placed(zoned("n1"), running("old", "n1"), asking("p", "pg", affinity=apart(term(app="a"))))
    assert world.binds == {}
    world.set_pod("old", phase="Succeeded")
    assert world.run().binds == {"p": "n1"}


def test_the_filter_can_be_switched_off() -> None:
    conf = """
actions: "enqueue, allocate, backfill"
tiers:
- plugins:
  - name: gang
  - name: predicates
    arguments:
      predicate.PodAffinityEnable: false
"""
    pods = gang("p", 2, "pg", affinity=apart(term(app="a")))
    assert len(placed(zoned("n1"), *pods, minimum=2, conf=conf).binds) == 2


def test_pods_of_the_default_scheduler_are_held_to_the_same_rules() -> None:
    single = {"schedulerName": "default-scheduler"}
    pods = [asking(f"p{at}", affinity=apart(term(app="a")), spec=single) for at in range(2)]
    world = World(
        zoned("n1"), *pods, state=ClusterState(StateOptions(single_pod_schedulers=frozenset({"default-scheduler"})))
    ).run(2)
    assert len(world.binds) == 1
    told = [text for _, reason, text in world.recorded if reason == "FailedScheduling"]
    assert any("didn't match pod anti-affinity rules" in text for text in told)


def test_a_discarded_gang_leaves_no_trace() -> None:
    rules = {"affinity": apart(term(ZONE, app="a"))}
    world = World(
        *NODES[:3],
        group("big", 3, phase="Inqueue"),
        *gang("b", 3, "big", **rules),
        group("small", 2, phase="Inqueue"),
        *gang("s", 2, "small", **rules),
    ).run()
    assert sorted(world.binds) == ["s-0", "s-1"]


PREEMPTING = """
actions: "enqueue, allocate, preempt"
tiers:
- plugins:
  - name: priority
  - name: gang
  - name: conformance
- plugins:
  - name: predicates
"""


def test_who_keeps_a_more_important_pod_away_is_evicted_for_it_and_counts_until_it_is_gone() -> None:
    classes = [
        {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": {"name": name}, "value": value}
        for name, value in (("low", 1), ("high", 100))
    ]
    guard = running("guard", "n1", labels={"app": "guard"}, affinity=apart(term(app="a")), spec={"priority": 1})
    guard["metadata"]["annotations"] = {"scheduling.k8s.io/group-name": "old"}
    world = World(
        zoned("n1"),
        *classes,
        group("old", 0, phase="Running", priorityClassName="low"),
        guard,
        group("pg", 1, phase="Inqueue", priorityClassName="high"),
        asking("p", "pg", spec={"priority": 100}),
        conf=PREEMPTING,
    ).run()
    assert world.evictions == ["guard"]
    assert world.binds == {}
    world.set_pod("guard", deleting=True)
    assert world.run(2).binds == {}
    world.remove(kinds.POD, "ns/guard")
    assert world.run(2).binds == {"p": "n1"}
    assert world.evictions == ["guard"]
