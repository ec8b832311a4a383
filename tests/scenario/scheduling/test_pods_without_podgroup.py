"""Pods whose PodGroup does not exist: each gets the reason once, and runs when the PodGroup is created."""

from __future__ import annotations

from tests.scenario.scheduling.harness import World, group, node, pod, pods
from volcanoio.framework.effects import Patch, Record
from volcanoio.model import kinds

TEXT = (
    'PodGroup "lost" does not exist in namespace "ns"; create it, '
    "or name another in the annotation scheduling.k8s.io/group-name of the pod"
)


def warned_pods(world: World) -> list[str]:
    """Return the pods for which the reason was recorded."""
    return [name for name, reason, text in world.recorded if (reason, text) == ("FailedScheduling", TEXT)]


def test_each_pod_gets_the_reason_once_and_only_after_a_period() -> None:
    world = World(node("n1"), *pods("p", 2, "lost", cpu="1"))
    world.run()
    assert warned_pods(world) == [], "a PodGroup may be created right after its pods"
    world.run(200)
    assert warned_pods(world) == ["p-0", "p-1"]
    warning = next(decision for decision in world.decisions if isinstance(decision, Record))
    assert warning.type == "Warning"
    conditions = world.pod("p-0").status.conditions
    assert [(each.type, each.status, each.message) for each in conditions] == [("PodScheduled", "False", TEXT)]


def test_a_later_pod_gets_the_reason_too() -> None:
    world = World(node("n1"), pod("p-0", "lost", cpu="1"))
    world.run(3)
    world.put(pod("p-1", "lost", cpu="1"))
    world.run(3)
    assert warned_pods(world) == ["p-0", "p-1"]


def test_pods_are_bound_once_their_podgroup_is_created() -> None:
    world = World(node("n1"), *pods("p", 2, "lost", cpu="1"))
    world.run(3)
    world.put(group("lost", 2))
    world.run(3)
    assert world.binds == {"p-0": "n1", "p-1": "n1"}
    assert warned_pods(world) == ["p-0", "p-1"]
    assert not world.state.ledger.jobs_without_group


def test_only_pending_pods_of_a_deleted_podgroup_get_the_reason() -> None:
    there = pod("there", "lost", on="n1", phase="Running", cpu="1")
    world = World(node("n1"), group("lost", 3), there, *pods("p", 2, "lost", cpu="6"))
    world.run(3)
    world.remove(kinds.POD_GROUP, "ns/lost")
    world.run(3)
    assert warned_pods(world) == ["p-0", "p-1"]


def test_gated_pods_and_pods_of_other_schedulers_get_no_reason() -> None:
    world = World(
        node("n1"),
        pod("gated", "lost", cpu="1", spec={"schedulingGates": [{"name": "x"}]}),
        pod("other", "lost", cpu="1", spec={"schedulerName": "another"}),
    )
    world.run(5)
    assert warned_pods(world) == []
    assert not any(isinstance(decision, Patch) for decision in world.decisions)


def test_the_snapshot_of_a_cycle_has_the_reason() -> None:
    world = World(node("n1"), *pods("p", 2, "lost", cpu="1"))
    world.run()
    assert world.snapshot is not None
    assert world.snapshot.reasons == {"ns/lost": TEXT}
    assert world.snapshot.phases == {}


def test_a_deleted_pod_gets_no_reason() -> None:
    world = World(node("n1"), pod("p", "lost", cpu="1"))
    world.run()
    world.remove(kinds.POD, "ns/p")
    assert not world.state.ledger.jobs_without_group
    world.run(3)
    assert warned_pods(world) == []
