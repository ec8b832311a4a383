"""Required pod affinity and anti-affinity: the nodes that a pod may use, and the fit errors."""

from __future__ import annotations

from typing import Any

from tests.scenario.scheduling.harness import (
    Scenario,
    World,
    group,
    on_node,
    priority_class,
    scenarios,
)
from tests.scenario.scheduling.podrules import (
    HOST,
    ZONE,
    apart,
    asking,
    gang,
    near,
    running,
    term,
    terminating,
    zoned,
)
from volcanoio.engine.scheduling.cluster.state import ClusterState, StateOptions
from volcanoio.model import kinds
from volcanoio.model.base import Manifest

NODES = (zoned("n1", "a"), zoned("n2", "a"), zoned("n3", "b"), zoned("n4"))
WITHOUT_FILTER = """
actions: "enqueue, allocate, backfill"
tiers:
- plugins:
  - name: gang
  - name: predicates
    arguments:
      predicate.PodAffinityEnable: false
"""


def pg(minimum: int = 1) -> Manifest:
    """Return the PodGroup of the pending pods."""
    return group("pg", minimum, phase="Inqueue")


def namespace(name: str, **labels: str) -> Manifest:
    """Return a namespace."""
    return {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name, "uid": name, "labels": labels}}


def unwelcome(**labels: str) -> Manifest:
    """Return a pod that runs on n1 and has anti-affinity to pods with label app=a in its zone."""
    return running("guard", "n1", labels=labels, affinity=apart(term(ZONE, app="a")))


TWO_TERMS = near(term(HOST, app="b"), term(ZONE, tier="x"))


@scenarios(
    Scenario(
        name="no pod of a gang with anti-affinity to itself is bound if there are too few nodes",
        cluster=[*NODES, pg(5), *gang("p", 5, "pg", affinity=apart(term(app="a")))],
        fit_errors={"pg": "0/4 nodes are unavailable: 4 node(s) didn't match pod anti-affinity rules."},
    ),
    Scenario(
        name="a running pod with anti-affinity to the pod excludes its whole zone",
        cluster=[zoned("n1", "a"), zoned("n2", "a"), unwelcome(app="guard"), pg(), asking("p", "pg")],
        fit_errors={"pg": "0/2 nodes are unavailable: 2 node(s) didn't satisfy existing pods anti-affinity rules."},
    ),
    Scenario(
        name="a running pod with anti-affinity to the pod does not exclude another zone",
        cluster=[*NODES[:3], unwelcome(app="guard"), pg(), asking("p", "pg")],
        binds={"p": "n3"},
    ),
    Scenario(
        name="a running pod with anti-affinity to other labels excludes nothing",
        cluster=[zoned("n1", "a"), unwelcome(app="guard"), pg(), asking("p", "pg", labels={"app": "b"})],
        binds={"p": "n1"},
    ),
    Scenario(
        name="two terms of affinity that different pods satisfy are not satisfied",
        cluster=[
            *NODES,
            running("b", "n1", labels={"app": "b"}),
            running("x", "n1", labels={"tier": "x"}),
            pg(),
            asking("p", "pg", affinity=TWO_TERMS),
        ],
    ),
    Scenario(
        name="two terms of affinity that one pod satisfies are satisfied beside it",
        cluster=[
            *NODES,
            running("b", "n1", labels={"app": "b"}),
            running("x", "n1", labels={"tier": "x"}),
            running("both", "n3", labels={"app": "b", "tier": "x"}),
            pg(),
            asking("p", "pg", affinity=TWO_TERMS),
        ],
        binds={"p": "n3"},
    ),
    Scenario(
        name="a terminating pod still counts",
        cluster=[
            zoned("n1", "a"),
            terminating(running("old", "n1")),
            pg(),
            asking("p", "pg", affinity=apart(term(app="a"))),
        ],
    ),
    Scenario(
        name="a term without selector selects no pod",
        cluster=[
            zoned("n1"),
            running("old", "n1", labels={}),
            pg(),
            asking("p", "pg", affinity=apart({"topologyKey": HOST})),
        ],
        binds={"p": "n1"},
    ),
    Scenario(
        name="a term with an empty selector selects every pod",
        cluster=[
            zoned("n1"),
            running("old", "n1", labels={}),
            pg(),
            asking("p", "pg", affinity=apart({"topologyKey": HOST, "labelSelector": {}})),
        ],
    ),
    Scenario(
        name="a disabled filter excludes nothing",
        conf=WITHOUT_FILTER,
        cluster=[zoned("n1"), pg(2), *gang("p", 2, "pg", affinity=apart(term(app="a")))],
        binds=on_node("n1", "p-0", "p-1"),
    ),
    Scenario(
        name="placements of a gang that did not fit have no effect on other gangs",
        cluster=[
            *NODES[:3],
            group("big", 3, phase="Inqueue"),
            *gang("b", 3, "big", affinity=apart(term(ZONE, app="a"))),
            group("small", 2, phase="Inqueue"),
            *gang("s", 2, "small", affinity=apart(term(ZONE, app="a"))),
        ],
        bind_counts={"s": 2},
    ),
)
def test_required_affinity(scenario: Scenario) -> None:
    scenario.check()


def beside_pod_of_other_namespace(**namespaces: Any) -> list[Manifest]:
    """Return a pod of namespace `other` on the only node, and a pod whose anti-affinity has these namespace fields."""
    return [
        namespace("other", team="x"),
        zoned("n1"),
        running("there", "n1", namespace="other"),
        pg(),
        asking("p", "pg", affinity=apart(term(app="a") | namespaces)),
    ]


@scenarios(
    Scenario(
        name="without namespace fields only the own namespace counts",
        cluster=beside_pod_of_other_namespace(),
        binds={"p": "n1"},
    ),
    Scenario(
        name="a listed namespace counts",
        cluster=beside_pod_of_other_namespace(namespaces=["other"]),
    ),
    Scenario(
        name="a namespace that is not listed does not count",
        cluster=beside_pod_of_other_namespace(namespaces=["third"]),
        binds={"p": "n1"},
    ),
    Scenario(
        name="an empty namespace selector selects every namespace",
        cluster=beside_pod_of_other_namespace(namespaceSelector={}),
    ),
    Scenario(
        name="a namespace with the selected label counts",
        cluster=beside_pod_of_other_namespace(namespaceSelector={"matchLabels": {"team": "x"}}),
    ),
    Scenario(
        name="a namespace without the selected label does not count",
        cluster=beside_pod_of_other_namespace(namespaceSelector={"matchLabels": {"team": "y"}}),
        binds={"p": "n1"},
    ),
    Scenario(
        name="a namespace that is selected but not listed counts",
        cluster=beside_pod_of_other_namespace(namespaces=["third"], namespaceSelector={"matchLabels": {"team": "x"}}),
    ),
)
def test_namespaces_of_a_term(scenario: Scenario) -> None:
    scenario.check()


def other_version_beside_old_one(**keys: Any) -> list[Manifest]:
    """Return version 1 of an app on the only node, and a pod of version 2 whose anti-affinity has these label keys."""
    return [
        zoned("n1"),
        running("old", "n1", labels={"app": "a", "version": "1"}),
        pg(),
        asking("p", "pg", labels={"app": "a", "version": "2"}, affinity=apart(term(app="a") | keys)),
    ]


@scenarios(
    Scenario(
        name="with matchLabelKeys only pods with the pod's own value count",
        cluster=other_version_beside_old_one(matchLabelKeys=["version"]),
        binds={"p": "n1"},
    ),
    Scenario(
        name="with mismatchLabelKeys only pods with another value count",
        cluster=other_version_beside_old_one(mismatchLabelKeys=["version"]),
    ),
    Scenario(
        name="without label keys all selected pods count",
        cluster=other_version_beside_old_one(),
    ),
)
def test_label_keys_of_a_term(scenario: Scenario) -> None:
    scenario.check()


def beside_app_a(**requirement: Any) -> list[Manifest]:
    """Return a pod with label app=a on the only node, and a pod with anti-affinity by that requirement."""
    selecting = {"topologyKey": HOST, "labelSelector": {"matchExpressions": [requirement]}}
    return [zoned("n1"), running("old", "n1"), pg(), asking("p", "pg", affinity=apart(selecting))]


@scenarios(
    Scenario(
        name="In selects a pod with one of the values",
        cluster=beside_app_a(key="app", operator="In", values=["a", "z"]),
    ),
    Scenario(
        name="NotIn does not select a pod with one of the values",
        cluster=beside_app_a(key="app", operator="NotIn", values=["a"]),
        binds={"p": "n1"},
    ),
    Scenario(
        name="NotIn selects a pod with another value",
        cluster=beside_app_a(key="app", operator="NotIn", values=["b"]),
    ),
    Scenario(
        name="Exists selects a pod with the label",
        cluster=beside_app_a(key="app", operator="Exists"),
    ),
    Scenario(
        name="DoesNotExist selects a pod without the label",
        cluster=beside_app_a(key="gpu", operator="DoesNotExist"),
    ),
    Scenario(
        name="Exists does not select a pod without the label",
        cluster=beside_app_a(key="gpu", operator="Exists"),
        binds={"p": "n1"},
    ),
)
def test_selectors_of_a_term(scenario: Scenario) -> None:
    scenario.check()


def test_each_pod_of_a_gang_with_anti_affinity_to_itself_gets_a_node_of_its_own() -> None:
    world = World(*NODES, pg(4), *gang("p", 4, "pg", affinity=apart(term(app="a")))).run()
    assert sorted(world.binds.values()) == ["n1", "n2", "n3", "n4"]


def test_anti_affinity_in_a_zone_does_not_exclude_nodes_without_zone() -> None:
    world = World(*NODES, pg(3), *gang("p", 3, "pg", affinity=apart(term(ZONE, app="a")))).run()
    assert len({"n1", "n2"} & set(world.binds.values())) == 1
    assert {"n3", "n4"} < set(world.binds.values())


def test_the_first_pod_of_a_gang_with_affinity_to_itself_chooses_the_zone() -> None:
    nodes = [zoned(f"n{at}", "abc"[at % 3], cpu="2") for at in range(9)]
    pods = gang("p", 6, "pg", affinity=near(term(ZONE, app="a")))
    world = World(*nodes, zoned("n9", cpu="64"), pg(6), *pods).run()
    zones = {"abc"[int(where[1:]) % 3] for where in world.binds.values()}
    assert len(world.binds) == 6
    assert len(zones) == 1


def test_a_gang_with_affinity_to_itself_that_does_not_fit_into_one_zone_waits() -> None:
    nodes = [zoned(f"n{at}", "ab"[at % 2], cpu="2") for at in range(4)]
    world = World(*nodes, pg(5), *gang("p", 5, "pg", affinity=near(term(ZONE, app="a")))).run()
    assert world.binds == {}
    text = world.fit_error("pg")
    assert "2 Insufficient cpu" in text
    assert "2 node(s) didn't match pod affinity rules" in text


def test_a_pod_with_affinity_waits_for_a_pod_that_satisfies_it() -> None:
    world = World(*NODES, pg(), asking("p", "pg", affinity=near(term(app="b")))).run()
    assert world.binds == {}
    assert world.fit_error("pg") == "0/4 nodes are unavailable: 4 node(s) didn't match pod affinity rules."
    world.put(running("other", "n3", labels={"app": "b"}))
    assert world.run().binds == {"p": "n3"}


def test_a_changed_label_of_a_namespace_takes_effect_in_the_next_cycle() -> None:
    world = World(*beside_pod_of_other_namespace(namespaceSelector={"matchLabels": {"team": "x"}})).run()
    assert world.binds == {}
    world.put(namespace("other"))
    assert world.run().binds == {"p": "n1"}


def test_a_finished_pod_no_longer_counts() -> None:
    world = World(zoned("n1"), running("old", "n1"), pg(), asking("p", "pg", affinity=apart(term(app="a")))).run()
    assert world.binds == {}
    world.set_pod("old", phase="Succeeded")
    assert world.run().binds == {"p": "n1"}


def test_single_pods_have_the_same_rules() -> None:
    single = {"schedulerName": "default-scheduler"}
    pods = [asking(f"p{at}", affinity=apart(term(app="a")), spec=single) for at in range(2)]
    world = World(
        zoned("n1"), *pods, state=ClusterState(StateOptions(single_pod_schedulers=frozenset({"default-scheduler"})))
    ).run(2)
    assert len(world.binds) == 1
    reasons = [text for _, reason, text in world.recorded if reason == "FailedScheduling"]
    assert any("didn't match pod anti-affinity rules" in text for text in reasons)


PREEMPT = """
actions: "enqueue, allocate, preempt"
tiers:
- plugins:
  - name: priority
  - name: gang
  - name: conformance
- plugins:
  - name: predicates
"""


def test_a_pod_with_anti_affinity_is_evicted_for_one_of_higher_priority_and_counts_until_it_is_gone() -> None:
    guard = running("guard", "n1", labels={"app": "guard"}, affinity=apart(term(app="a")), spec={"priority": 1})
    guard["metadata"]["annotations"] = {"scheduling.k8s.io/group-name": "old"}
    world = World(
        zoned("n1"),
        priority_class("low", 1),
        priority_class("high", 100),
        group("old", 0, phase="Running", priorityClassName="low"),
        guard,
        group("pg", 1, phase="Inqueue", priorityClassName="high"),
        asking("p", "pg", spec={"priority": 100}),
        conf=PREEMPT,
    ).run()
    assert world.evictions == ["guard"]
    assert world.binds == {}
    world.set_pod("guard", deleting=True)
    assert world.run(2).binds == {}
    world.remove(kinds.POD, "ns/guard")
    assert world.run(2).binds == {"p": "n1"}
    assert world.evictions == ["guard"]
