"""Why a gang waits: what its PodGroup shows, with which amounts, when, and what takes it back."""

from __future__ import annotations

from tests.scenario.scheduling.harness import World, group, node, pods, queue
from volcanoio.engine.scheduling.cluster.state import ClusterState
from volcanoio.engine.scheduling.status.closing import REPEAT_SECONDS
from volcanoio.framework.effects import Patch
from volcanoio.model import kinds
from volcanoio.model.base import Manifest

FOUR = tuple(node(f"n{at}") for at in range(4))
"""32 cores."""
ADMIT_AND_PLACE = """
actions: "enqueue, allocate"
tiers:
- plugins: [{name: overcommit}, {name: proportion}]
"""
ALLOCATE_ONLY = """
actions: "allocate"
tiers:
- plugins: [{name: gang}, {name: predicates}, {name: PLUGIN}]
"""


def why(world: World, name: str) -> tuple[str, str]:
    """Reason and message of a PodGroup's condition Unschedulable, "" for both where it is not the newest."""
    conditions = world.group(name).status.conditions
    if not conditions or conditions[-1].type != "Unschedulable":
        return "", ""
    return conditions[-1].reason, conditions[-1].message


def writes(world: World, name: str) -> list[Patch]:
    """The writes of a PodGroup's status so far."""
    return [each for each in world.decisions if isinstance(each, Patch) and each.name == name]


def running(name: str, cores: int, on: str = "n0", queue: str = "default") -> list[Manifest]:
    """A gang that runs on a node, of one core each."""
    return [
        group(name, cores, queue=queue, phase="Running", minResources={"cpu": str(cores)}),
        *pods(name, cores, name, cpu="1", on=on, phase="Running"),
    ]


def test_a_gang_beyond_its_queues_capability_shows_queue_need_use_and_limit() -> None:
    world = World(
        *FOUR,
        queue("small", capability={"cpu": "2"}),
        *running("old", 1, queue="small"),
        group("new", 4, queue="small", minResources={"cpu": "4"}),
    )
    world.run(3)
    text = "queue resource quota insufficient: insufficient cpu (queue small: needs cpu 4, in use 1, limit 2)"
    assert why(world, "new") == ("QueueQuotaInsufficient", text)
    assert [told for told in world.recorded if told[0] == "new"] == [("new", "Unschedulable", text)]


def test_an_idle_cluster_is_too_small_and_not_overused() -> None:
    world = World(*FOUR, group("new", 99, minResources={"cpu": "99", "memory": "1Gi"}))
    world.run(3)
    reason, message = why(world, "new")
    assert reason == "ClusterInsufficient"
    assert message == (
        "resource in cluster is insufficient: insufficient cpu"
        " (queue default: needs cpu 99; the cluster has 32, its largest node 8)"
    )


def test_an_idle_cluster_whose_room_is_reserved_is_not_overused_either() -> None:
    world = World(*FOUR, *(group(name, 30, minResources={"cpu": "30"}) for name in ("a", "b")))
    world.run(3)
    assert why(world, "b")[1] == (
        "resource in cluster is insufficient: insufficient cpu"
        " (queue default: needs cpu 30; the cluster has 32, in use 0, admitted 30, limit 38.4)"
    )


def test_a_cluster_in_use_is_overused_in_volcanos_words_and_then_ours() -> None:
    old = [each for at in range(4) for each in running(f"old{at}", 8, on=f"n{at}")]
    world = World(*FOUR, *old, group("new", 8, minResources={"cpu": "8"}))
    world.run(3)
    amounts = "queue default: needs cpu 8; the cluster has 32, in use 32, admitted 0, limit 38.4"
    assert why(world, "new") == (
        "ClusterOverused",
        f"resource in cluster is overused: overused cpu ({amounts})",
    )


def test_once_admitted_a_gang_shows_no_more_why_it_was_not() -> None:
    for conf in (None, ADMIT_AND_PLACE):
        world = World(*FOUR, queue("small", capability={"cpu": "2"}), conf=conf)
        world.put(group("new", 4, queue="small", minResources={"cpu": "4"}))
        world.run(3)
        assert why(world, "new")[0] == "QueueQuotaInsufficient"
        world.put(queue("small", capability={"cpu": "4"}))
        world.run()
        assert (world.phase("new"), why(world, "new")) == ("Inqueue", ("", ""))


def test_other_amounts_alone_are_written_after_a_minute_or_two() -> None:
    world = World(
        *FOUR,
        queue("small", capability={"cpu": "4"}),
        *running("a", 3, queue="small"),
        group("new", 4, queue="small", minResources={"cpu": "4"}),
    )
    world.run(3)
    assert why(world, "new")[1].endswith("in use 3, limit 4)")
    for manifest in running("b", 1, on="n1", queue="small"):
        world.put(manifest)
    before = len(writes(world, "new"))
    world.run(5)
    assert len(writes(world, "new")) == before
    world.now += 2 * REPEAT_SECONDS
    world.run()
    assert why(world, "new")[1].endswith("in use 4, limit 4)")
    assert len(writes(world, "new")) == before + 1


def test_a_restarted_scheduler_does_not_write_all_reasons_again() -> None:
    world = World(*FOUR, queue("small", capability={"cpu": "2"}), group("new", 4, queue="small"))
    world.put(group("new", 4, queue="small", minResources={"cpu": "4"}))
    world.run(3)
    successor = World(state=ClusterState(), synced=False, now=world.now)
    for obj in world.objects.values():
        successor.put(obj)
    successor.put(queue("small", capability={"cpu": "3"}))
    successor.sync()
    successor.run(5)
    assert why(successor, "new")[1].endswith("limit 2)")
    assert writes(successor, "new") == []


def test_a_closed_queue_is_the_reason() -> None:
    closed = queue("closed")
    closed["status"] = {"state": "Closed"}
    world = World(*FOUR, closed, group("new", 4, queue="closed", minResources={"cpu": "4"}))
    world.run(3)
    assert why(world, "new") == ("QueueClosed", "queue closed is not open")


def test_who_waits_in_a_queue_that_is_deleted_says_so_at_once() -> None:
    world = World(
        *FOUR,
        queue("gone", capability={"cpu": "4"}),
        group("refused", 9, queue="gone", minResources={"cpu": "9"}),
        group("wide", 1, queue="gone"),
        *pods("wide", 1, "wide", cpu="12"),
        *running("runs", 1, queue="gone"),
    )
    world.run(3)
    assert {name: why(world, name)[0] for name in ("refused", "wide", "runs")} == {
        "refused": "QueueQuotaInsufficient",
        "wide": "NotEnoughResources",
        "runs": "",
    }
    world.remove(kinds.QUEUE, "gone")
    world.run()
    text = 'queue "gone" does not exist; create it, or name another in spec.queue'
    assert why(world, "refused") == why(world, "wide") == ("QueueNotFound", text)
    assert why(world, "runs") == ("", ""), "it waits for nothing"
    told = {name for name, _, message in world.recorded if message == text}
    assert told == {"refused", "wide", "wide-0"}
    world.set_pod("runs-0", phase="Failed")
    world.put(pods("more", 1, "runs", cpu="1")[0])
    world.run()
    assert why(world, "runs")[0] == "QueueNotFound", "one of its pods waits by now"
    world.put(queue("gone", capability={"cpu": "4"}))
    world.run(2)
    assert [why(world, name)[0] for name in ("refused", "wide", "runs")] == [
        "QueueQuotaInsufficient",
        "NotEnoughResources",
        "",
    ]


def test_events_and_condition_of_a_gang_count_the_same_tasks() -> None:
    """Volcano's condition counts those that miss a place, its event all that are pending."""
    world = World(node("n1", cpu="3"), group("new", 4, phase="Inqueue"), *pods("new", 4, "new", cpu="1"))
    world.run(3)
    reason, message = why(world, "new")
    assert reason == "NotEnoughResources"
    assert message.startswith("1/4 tasks in gang unschedulable: pod group is not ready, 4 Pending, 4 minAvailable")
    assert [told for told in world.recorded if told[0] == "new"] == [("new", "Unschedulable", message)]


def test_without_admission_a_queue_without_room_is_the_origin() -> None:
    capped = queue("small", capability={"cpu": "2"}, deserved={"cpu": "2"})
    for plugin, limit in (("capacity", "limit 2"), ("proportion", "deserved 2")):
        world = World(
            *FOUR,
            capped,
            *running("old", 1, queue="small"),
            group("new", 2, queue="small", phase="Inqueue"),
            *pods("new", 2, "new", cpu="1"),
            conf=ALLOCATE_ONLY.replace("PLUGIN", plugin),
        )
        world.run(3)
        reason, message = why(world, "new")
        assert reason == "NotEnoughResources"
        assert message.endswith(
            "Origin reason is queue small has no room left for 1 of its tasks"
            f" (queue small: needs cpu 2, in use 1, {limit})"
        )
