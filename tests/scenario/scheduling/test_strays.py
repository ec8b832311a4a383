"""Pods that name a PodGroup which does not exist: they are told so, once, until it appears."""

from __future__ import annotations

from tests.scenario.scheduling.harness import World, group, node, pod, pods
from volcanoio.framework.effects import Patch, Record
from volcanoio.model import kinds

TEXT = (
    'PodGroup "lost" does not exist in namespace "ns"; create it, '
    "or name another in the annotation scheduling.k8s.io/group-name of the pod"
)


def told(world: World) -> list[str]:
    """The pods that were told."""
    return [name for name, reason, text in world.recorded if (reason, text) == ("FailedScheduling", TEXT)]


def test_each_pod_gets_the_reason_once_when_it_has_lasted_a_period() -> None:
    world = World(node("n1"), *pods("p", 2, "lost", cpu="1"))
    world.run()
    assert told(world) == [], "a PodGroup may be made right after its pods"
    world.run(200)
    assert told(world) == ["p-0", "p-1"]
    warning = next(decision for decision in world.decisions if isinstance(decision, Record))
    assert warning.type == "Warning"
    conditions = world.pod("p-0").status.conditions
    assert [(each.type, each.status, each.message) for each in conditions] == [("PodScheduled", "False", TEXT)]


def test_a_later_pod_gets_the_reason_too() -> None:
    world = World(node("n1"), pod("p-0", "lost", cpu="1"))
    world.run(3)
    world.put(pod("p-1", "lost", cpu="1"))
    world.run(3)
    assert told(world) == ["p-0", "p-1"]


def test_they_run_once_it_is_there() -> None:
    world = World(node("n1"), *pods("p", 2, "lost", cpu="1"))
    world.run(3)
    world.put(group("lost", 2))
    world.run(3)
    assert world.binds == {"p-0": "n1", "p-1": "n1"}
    assert told(world) == ["p-0", "p-1"]
    assert not world.state.ledger.jobs_without_group


def test_when_it_is_deleted_its_waiting_pods_get_the_reason_and_no_others() -> None:
    there = pod("there", "lost", on="n1", phase="Running", cpu="1")
    world = World(node("n1"), group("lost", 3), there, *pods("p", 2, "lost", cpu="6"))
    world.run(3)
    world.remove(kinds.POD_GROUP, "ns/lost")
    world.run(3)
    assert told(world) == ["p-0", "p-1"]


def test_a_gated_pod_or_one_of_another_scheduler_gets_no_reason() -> None:
    world = World(
        node("n1"),
        pod("gated", "lost", cpu="1", spec={"schedulingGates": [{"name": "x"}]}),
        pod("other", "lost", cpu="1", spec={"schedulerName": "another"}),
    )
    world.run(5)
    assert told(world) == []
    assert not any(isinstance(decision, Patch) for decision in world.decisions)


def test_a_simulation_says_why() -> None:
    world = World(node("n1"), *pods("p", 2, "lost", cpu="1"))
    world.run()
    assert world.snapshot is not None
    assert world.snapshot.reasons == {"ns/lost": TEXT}
    assert world.snapshot.phases == {}


def test_nothing_is_left_of_pods_that_are_gone() -> None:
    world = World(node("n1"), pod("p", "lost", cpu="1"))
    world.run()
    world.remove(kinds.POD, "ns/p")
    assert not world.state.ledger.jobs_without_group
    world.run(3)
    assert told(world) == []
