"""Quotas of namespaces: what jobs may be admitted beside what is used."""

from __future__ import annotations

from typing import Any

from tests.scenario.scheduling.harness import World, group, node, pods

CONF = """
actions: "enqueue, allocate"
tiers:
- plugins:
  - name: gang
  - name: resourcequota
"""


def quota(name: str, hard: dict[str, str], used: dict[str, str] | None = None) -> dict[str, Any]:
    return {
        "apiVersion": "v1",
        "kind": "ResourceQuota",
        "metadata": {"name": name, "namespace": "ns", "uid": f"quota-{name}"},
        "spec": {"hard": hard},
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


def test_the_refusal_says_what_was_asked_used_and_allowed_of_the_resources_that_lack() -> None:
    world = World(
        quota("tight", {"cpu": "4", "memory": "8Gi"}, {"cpu": "3", "memory": "1Gi"}),
        group("a", 1, minResources={"cpu": "2", "memory": "1Gi"}),
        conf=CONF,
    )
    world.run(3)
    texts = {message for name, _, message in world.told if name == "a"}
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
