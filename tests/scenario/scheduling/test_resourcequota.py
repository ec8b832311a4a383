"""Quotas of namespaces: what jobs may be admitted beside what is used."""

from __future__ import annotations

from typing import Any

import pytest

from tests.scenario.scheduling.harness import World, group, node, pods

CONF = """
actions: "enqueue, allocate"
tiers:
- plugins:
  - name: gang
  - name: resourcequota
"""


def quota(name: str, hard: dict[str, str], used: dict[str, str] | None = None, **spec: Any) -> dict[str, Any]:
    return {
        "apiVersion": "v1",
        "kind": "ResourceQuota",
        "metadata": {"name": name, "namespace": "ns", "uid": f"quota-{name}"},
        "spec": {"hard": hard, **spec},
        "status": {"hard": hard, "used": used or dict.fromkeys(hard, "0")},
    }


def test_a_job_waits_while_its_minimum_does_not_fit_beside_what_is_used() -> None:
    world = World(
        node("n1"),
        quota("tight", {"cpu": "4", "memory": "8Gi"}, {"cpu": "3", "memory": "0"}),
        group("a", 1, minResources={"cpu": "2", "memory": "1Gi"}),
        conf=CONF,
    )
    world.run()
    assert world.phase("a") == "Pending"
    world.put(quota("tight", {"cpu": "4", "memory": "8Gi"}, {"cpu": "1", "memory": "0"}))
    world.run()
    assert world.phase("a") == "Inqueue"


def test_the_refusal_contains_requested_used_and_allowed_amounts_of_missing_resources() -> None:
    world = World(
        quota("tight", {"cpu": "4", "memory": "8Gi"}, {"cpu": "3", "memory": "1Gi"}),
        group("a", 1, minResources={"cpu": "2", "memory": "1Gi"}),
        conf=CONF,
    )
    world.run(3)
    texts = {message for name, _, message in world.recorded if name == "a"}
    assert "resource quota insufficient, requested: cpu=2, used: cpu=3, limited: cpu=4" in texts


def test_jobs_of_one_session_are_counted_one_after_the_other() -> None:
    world = World(
        quota("tight", {"cpu": "4"}),
        *(group(name, 1, minResources={"cpu": "2"}) for name in ("a", "b", "c")),
        conf=CONF,
    )
    world.cycle()
    assert [world.phase(name) for name in ("a", "b", "c")] == ["Inqueue", "Inqueue", "Pending"]


def test_what_was_admitted_and_has_no_pods_yet_counts_in_later_sessions() -> None:
    world = World(
        quota("tight", {"cpu": "4"}),
        group("a", 2, phase="Inqueue", minResources={"cpu": "4"}),
        group("b", 1, minResources={"cpu": "2"}),
        conf=CONF,
    )
    world.run()
    assert world.phase("b") == "Pending"
    for member in pods("a", 2, "a", cpu="2"):  # they are made, and the quota has not counted them: it will be told
        world.put(member)
    world.run()
    assert world.phase("b") == "Inqueue"


def test_names_are_compared_as_they_are_written() -> None:
    world = World(
        quota("requests", {"requests.cpu": "1"}),
        group("a", 1, minResources={"cpu": "2"}),
        group("b", 1, minResources={"cpu": "2", "requests.cpu": "2"}),
        conf=CONF,
    )
    world.cycle()
    assert (world.phase("a"), world.phase("b")) == ("Inqueue", "Pending")


def test_other_namespaces_and_jobs_without_a_minimum_are_free() -> None:
    elsewhere = group("c", 1, minResources={"cpu": "2"})
    elsewhere["metadata"]["namespace"] = "other"
    world = World(quota("none", {"cpu": "0"}), group("a", 1), elsewhere, conf=CONF)
    world.cycle()
    assert world.phase("a") == "Inqueue"
    assert world.state.ledger.jobs["other/c"].phase == "Inqueue"


def one_scope(name: str, operator: str, *values: str) -> dict[str, Any]:
    """A scopeSelector of one expression."""
    return {"scopeSelector": {"matchExpressions": [{"scopeName": name, "operator": operator, "values": list(values)}]}}


ACROSS = {
    "podAffinity": {
        "preferredDuringSchedulingIgnoredDuringExecution": [
            {"weight": 1, "podAffinityTerm": {"topologyKey": "zone", "namespaces": ["other"]}}
        ]
    }
}
SCOPES: dict[str, tuple[dict[str, Any], dict[str, Any], bool]] = {
    "pods with a deadline": ({"scopes": ["Terminating"]}, {"spec": {"activeDeadlineSeconds": 9}}, True),
    "no pods with a deadline": ({"scopes": ["Terminating"]}, {}, False),
    "pods without a deadline": ({"scopes": ["NotTerminating"]}, {}, True),
    "no pods without a deadline": ({"scopes": ["NotTerminating"]}, {"spec": {"activeDeadlineSeconds": 9}}, False),
    "pods that request": ({"scopes": ["NotBestEffort"]}, {"cpu": "1"}, True),
    "no pods that request": ({"scopes": ["BestEffort"]}, {"cpu": "1"}, False),
    "pods of a class": (
        one_scope("PriorityClass", "In", "high"),
        {"spec": {"priorityClassName": "high"}},
        True,
    ),
    "no pods of a class": (one_scope("PriorityClass", "In", "high"), {}, False),
    "pods of any class": (one_scope("PriorityClass", "Exists"), {"spec": {"priorityClassName": "low"}}, True),
    "pods of no class": (one_scope("PriorityClass", "DoesNotExist"), {"spec": {"priorityClassName": "low"}}, False),
    "pods not of a class": (one_scope("PriorityClass", "NotIn", "high"), {"spec": {"priorityClassName": "low"}}, True),
    "pods with terms across namespaces": (
        {"scopes": ["CrossNamespacePodAffinity"]},
        {"spec": {"affinity": ACROSS}},
        True,
    ),
    "no pods with terms across namespaces": ({"scopes": ["CrossNamespacePodAffinity"]}, {}, False),
    "all scopes must hold": (
        {"scopes": ["NotTerminating", "NotBestEffort"]},
        {"spec": {"activeDeadlineSeconds": 9}},
        False,
    ),
}


@pytest.mark.parametrize(("scopes", "member", "counts"), SCOPES.values(), ids=SCOPES)
def test_a_quota_counts_the_pods_that_it_is_about(scopes: dict[str, Any], member: dict[str, Any], counts: bool) -> None:
    members = pods("a", 2, "a", **{"cpu": "1", **member})
    world = World(quota("q", {"cpu": "1"}, **scopes), group("a", 2, minResources={"cpu": "2"}), *members, conf=CONF)
    world.cycle()
    assert world.phase("a") == ("Pending" if counts else "Inqueue")


def test_of_a_job_some_of_whose_pods_a_quota_is_about_these_count() -> None:
    objects = [
        group("a", 3, minResources={"pods": "3", "cpu": "2"}),
        *pods("worker", 2, "a", cpu="1"),
        *pods("driver", 1, "a"),
    ]
    for most, phase in (("1", "Inqueue"), ("0", "Pending")):
        world = World(quota("q", {"pods": most}, scopes=["BestEffort"]), *objects, conf=CONF)
        world.cycle()
        assert world.phase("a") == phase
    world = World(quota("q", {"cpu": "2", "pods": "2"}, scopes=["NotBestEffort"]), *objects, conf=CONF)
    world.cycle()
    assert world.phase("a") == "Inqueue"


@pytest.mark.parametrize(
    ("scopes", "counts"),
    [
        ({"scopes": ["NotTerminating"]}, True),
        ({"scopes": ["Terminating"]}, False),
        ({"scopes": ["NotBestEffort"]}, True),
        ({"scopes": ["BestEffort"]}, False),
        (one_scope("PriorityClass", "In", "high"), True),
        (one_scope("PriorityClass", "In", "low"), False),
        ({"scopes": ["CrossNamespacePodAffinity"]}, False),
        ({"scopes": ["VolumeAttributesClass"]}, False),
    ],
)
def test_before_there_are_pods_the_group_says_what_is_known_of_them(scopes: dict[str, Any], counts: bool) -> None:
    asking = group("a", 1, minResources={"cpu": "2"}, priorityClassName="high")
    world = World(quota("q", {"cpu": "1"}, **scopes), asking, conf=CONF)
    world.cycle()
    assert world.phase("a") == ("Pending" if counts else "Inqueue")


def test_what_is_admitted_beside_a_quota_leaves_it_its_room() -> None:
    world = World(
        quota("high", {"cpu": "2"}, **one_scope("PriorityClass", "In", "high")),
        group("a", 1, minResources={"cpu": "2"}),
        group("b", 1, minResources={"cpu": "2"}, priorityClassName="high"),
        group("c", 1, minResources={"cpu": "1"}, priorityClassName="high"),
        conf=CONF,
    )
    world.cycle()
    assert [world.phase(name) for name in ("a", "b", "c")] == ["Inqueue", "Inqueue", "Pending"]
