"""The condition and Events of a gang that waits: reason, amounts, when they are written, and when they end."""

from __future__ import annotations

from tests.scenario.scheduling.harness import Scenario, World, group, node, pods, queue, scenarios
from volcanoio.engine.scheduling.cluster.state import ClusterState
from volcanoio.engine.scheduling.status.closing import REPEAT_SECONDS
from volcanoio.framework.effects import Patch
from volcanoio.model import kinds
from volcanoio.model.base import Manifest

FOUR = tuple(node(f"n{at}") for at in range(4))
"""Nodes with 32 cores in all."""
ENQUEUE_AND_ALLOCATE = """
actions: "enqueue, allocate"
tiers:
- plugins: [{name: overcommit}, {name: proportion}]
"""
ALLOCATE = """
actions: "allocate"
tiers:
- plugins: [{name: gang}, {name: predicates}, {name: PLUGIN}]
"""


def why(world: World, name: str) -> tuple[str, str]:
    """Return reason and message of a PodGroup's condition; both are "" if the newest is not Unschedulable."""
    conditions = world.group(name).status.conditions
    if not conditions or conditions[-1].type != "Unschedulable":
        return "", ""
    return conditions[-1].reason, conditions[-1].message


def writes(world: World, name: str) -> list[Patch]:
    """Return the patches of a PodGroup's status so far."""
    return [each for each in world.decisions if isinstance(each, Patch) and each.name == name]


def running_gang(name: str, cores: int, on: str = "n0", queue: str = "default") -> list[Manifest]:
    """Return a gang of pods with one core each that runs on a node."""
    return [
        group(name, cores, queue=queue, phase="Running", minResources={"cpu": str(cores)}),
        *pods(name, cores, name, cpu="1", on=on, phase="Running"),
    ]


def closed(manifest: Manifest) -> Manifest:
    """Set the state of a queue to Closed, and return it."""
    manifest["status"]["state"] = "Closed"
    return manifest


@scenarios(
    Scenario(
        name="a gang larger than the idle cluster waits because the cluster is too small",
        cluster=[*FOUR, group("new", 99, minResources={"cpu": "99", "memory": "1Gi"})],
        cycles=3,
        conditions={
            "new": (
                "Unschedulable",
                "ClusterInsufficient",
                (
                    "resource in cluster is insufficient: insufficient cpu"
                    " (queue default: needs cpu 99; the cluster has 32, its largest node 8)"
                ),
            )
        },
    ),
    Scenario(
        name="a gang waits because the cluster is too small for it beside an enqueued gang",
        cluster=[*FOUR, *(group(name, 30, minResources={"cpu": "30"}) for name in ("a", "b"))],
        cycles=3,
        conditions={
            "b": (
                "Unschedulable",
                "ClusterInsufficient",
                (
                    "resource in cluster is insufficient: insufficient cpu"
                    " (queue default: needs cpu 30; the cluster has 32, in use 0, admitted 30, limit 38.4)"
                ),
            )
        },
    ),
    Scenario(
        name="a gang in a cluster that is in use gets volcanos reason and the amounts",
        cluster=[
            *FOUR,
            *(each for at in range(4) for each in running_gang(f"old{at}", 8, on=f"n{at}")),
            group("new", 8, minResources={"cpu": "8"}),
        ],
        cycles=3,
        conditions={
            "new": (
                "Unschedulable",
                "ClusterOverused",
                (
                    "resource in cluster is overused: overused cpu"
                    " (queue default: needs cpu 8; the cluster has 32, in use 32, admitted 0, limit 38.4)"
                ),
            )
        },
    ),
    Scenario(
        name="a gang in a closed queue waits because the queue is closed",
        cluster=[*FOUR, closed(queue("closed")), group("new", 4, queue="closed", minResources={"cpu": "4"})],
        cycles=3,
        conditions={"new": ("Unschedulable", "QueueClosed", "queue closed is not open")},
    ),
)
def test_the_condition_names_the_reason_and_the_amounts(scenario: Scenario) -> None:
    scenario.check()


def test_a_gang_beyond_the_capability_of_its_queue_shows_need_use_and_limit() -> None:
    world = World(
        *FOUR,
        queue("small", capability={"cpu": "2"}),
        *running_gang("old", 1, queue="small"),
        group("new", 4, queue="small", minResources={"cpu": "4"}),
    )
    world.run(3)
    text = "queue resource quota insufficient: insufficient cpu (queue small: needs cpu 4, in use 1, limit 2)"
    assert why(world, "new") == ("QueueQuotaInsufficient", text)
    assert [event for event in world.recorded if event[0] == "new"] == [("new", "Unschedulable", text)]


def test_the_condition_ends_once_the_gang_is_enqueued() -> None:
    for conf in (None, ENQUEUE_AND_ALLOCATE):
        world = World(*FOUR, queue("small", capability={"cpu": "2"}), conf=conf)
        world.put(group("new", 4, queue="small", minResources={"cpu": "4"}))
        world.run(3)
        assert why(world, "new")[0] == "QueueQuotaInsufficient"
        world.put(queue("small", capability={"cpu": "4"}))
        world.run()
        assert (world.phase("new"), why(world, "new")) == ("Inqueue", ("", ""))


def test_a_message_whose_amounts_alone_changed_is_written_again_only_after_a_while() -> None:
    world = World(
        *FOUR,
        queue("small", capability={"cpu": "4"}),
        *running_gang("a", 3, queue="small"),
        group("new", 4, queue="small", minResources={"cpu": "4"}),
    )
    world.run(3)
    assert why(world, "new")[1].endswith("in use 3, limit 4)")
    for manifest in running_gang("b", 1, on="n1", queue="small"):
        world.put(manifest)
    before = len(writes(world, "new"))
    world.run(5)
    assert len(writes(world, "new")) == before
    world.now += 2 * REPEAT_SECONDS
    world.run()
    assert why(world, "new")[1].endswith("in use 4, limit 4)")
    assert len(writes(world, "new")) == before + 1


def test_a_restarted_scheduler_does_not_write_all_conditions_again() -> None:
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


def test_waiting_gangs_of_a_deleted_queue_get_the_reason_at_once() -> None:
    world = World(
        *FOUR,
        queue("gone", capability={"cpu": "4"}),
        group("refused", 9, queue="gone", minResources={"cpu": "9"}),
        group("wide", 1, queue="gone"),
        *pods("wide", 1, "wide", cpu="12"),
        *running_gang("runs", 1, queue="gone"),
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
    assert why(world, "runs") == ("", ""), "it does not wait"
    named = {name for name, _, message in world.recorded if message == text}
    assert named == {"refused", "wide", "wide-0"}
    world.set_pod("runs-0", phase="Failed")
    world.put(pods("more", 1, "runs", cpu="1")[0])
    world.run()
    assert why(world, "runs")[0] == "QueueNotFound", "one of its pods is pending now"
    world.put(queue("gone", capability={"cpu": "4"}))
    world.run(2)
    assert [why(world, name)[0] for name in ("refused", "wide", "runs")] == [
        "QueueQuotaInsufficient",
        "NotEnoughResources",
        "",
    ]


def test_event_and_condition_of_a_gang_count_the_same_tasks() -> None:
    """In Volcano the condition counts the tasks without a node, the Event all pending ones."""
    world = World(node("n1", cpu="3"), group("new", 4, phase="Inqueue"), *pods("new", 4, "new", cpu="1"))
    world.run(3)
    reason, message = why(world, "new")
    assert reason == "NotEnoughResources"
    assert message.startswith("1/4 tasks in gang unschedulable: pod group is not ready, 4 Pending, 4 minAvailable")
    assert [event for event in world.recorded if event[0] == "new"] == [("new", "Unschedulable", message)]


def test_without_enqueue_plugins_the_origin_of_the_reason_is_the_queue_without_room() -> None:
    capped = queue("small", capability={"cpu": "2"}, deserved={"cpu": "2"})
    for plugin, limit in (("capacity", "limit 2"), ("proportion", "deserved 2")):
        world = World(
            *FOUR,
            capped,
            *running_gang("old", 1, queue="small"),
            group("new", 2, queue="small", phase="Inqueue"),
            *pods("new", 2, "new", cpu="1"),
            conf=ALLOCATE.replace("PLUGIN", plugin),
        )
        world.run(3)
        reason, message = why(world, "new")
        assert reason == "NotEnoughResources"
        assert message.endswith(
            "Origin reason is queue small has no room left for 1 of its tasks"
            f" (queue small: needs cpu 2, in use 1, {limit})"
        )


def test_pods_whose_reason_keeps_changing_are_written_ever_less_often() -> None:
    """A busy cluster finds room for another number of pods of a gang in each cycle."""
    world = World(node("n1", cpu="8"), group("gang", 9), *pods("p", 9, "gang", cpu="1"))
    written: list[int] = []
    for second in range(240):
        other = pods("other", 1, "other", cpu=str(1 + second % 2), on="n1", phase="Running")[0]
        other["metadata"]["uid"] = other["metadata"]["name"] = f"other-{second}"
        world.put(other)
        world.run()
        world.remove(kinds.POD, f"ns/other-{second}")
        written.append(sum(isinstance(each, Patch) and each.name.startswith("p-") for each in world.decisions))
    minute = written[59], written[119] - written[59], written[239] - written[119]
    assert written[1] >= 9, "each pod has a reason once its wait has lasted"
    assert minute[0] <= 9 + 8, "not one write in each cycle"
    assert minute[2] <= 3, "about one in a minute in the end"


def test_the_last_reason_of_a_pod_is_written_once_it_stays() -> None:
    world = World(node("n1", cpu="8"), group("gang", 9), *pods("p", 9, "gang", cpu="1"))
    for second in range(30):
        other = pods("other", 1, "other", cpu=str(1 + second % 2), on="n1", phase="Running")[0]
        other["metadata"]["uid"] = other["metadata"]["name"] = f"other-{second}"
        world.put(other)
        world.run()
        world.remove(kinds.POD, f"ns/other-{second}")
    world.run(120)
    reasons = sorted(world.pod(f"p-{at}").status.conditions[0].reason for at in range(9))
    assert reasons == ["Schedulable"] * 8 + ["Unschedulable"]


def test_the_reason_of_a_pod_is_not_written_to_a_later_version_of_it() -> None:
    """It may be sent after the pod was bound."""
    world = World(node("n1"), group("gang", 1), *pods("p", 1, "gang", cpu="99"))
    seen = world.pod("p-0").metadata.resource_version
    world.run(3)
    (patch,) = [each for each in world.decisions if isinstance(each, Patch) and each.name == "p-0"]
    assert patch.resource_version == seen


def test_our_sentence_follows_volcanos_text_and_changes_with_the_code_alone() -> None:
    cluster = (node("n0", cpu="4"), node("n1", cpu="4"), group("g", 1, phase="Inqueue"), *pods("g", 1, "g", cpu="3"))
    world = World(*cluster, conf=ALLOCATE.replace("PLUGIN", "nodeorder"))
    for manifest in (*running_gang("a", 2, on="n0"), *running_gang("b", 3, on="n1")):
        world.put(manifest)
    world.run(2)
    meaning = "(InsufficientResource: the nodes that a pod may run on are in use)"
    assert why(world, "g") == ("NotEnoughResources", why(world, "g")[1])
    assert why(world, "g")[1].endswith(f"0/2 nodes are unavailable: 2 Insufficient cpu. {meaning}")
    before = len(writes(world, "g"))
    world.remove(kinds.POD, "ns/b-0")  # enough is free in all now, but not on one node
    world.run(2)
    world.now += 2 * REPEAT_SECONDS
    world.run(2)
    assert len(writes(world, "g")) == before
    world.put(node("n0", cpu="2"))
    world.put(node("n1", cpu="2"))
    world.now += 2 * REPEAT_SECONDS
    world.run(2)
    assert why(world, "g")[1].endswith("(LargerThanAnyNode: a pod requests more than any node has that it may run on)")


def test_of_thousands_of_pods_that_begin_to_wait_some_get_a_reason_each_second() -> None:
    world = World(*FOUR, group("big", 1200, phase="Inqueue"), *pods("big", 1200, "big", cpu="1"))
    written = []
    for _ in range(6):
        before = len(world.decisions)
        world.run()
        patches = [each for each in world.decisions[before:] if isinstance(each, Patch)]
        written.append(sum(each.resource == kinds.POD.resource for each in patches))
    assert written == [0, 1000, 50, 50, 50, 50]
