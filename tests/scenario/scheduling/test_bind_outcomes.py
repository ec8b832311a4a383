"""After a decision: bind outcomes, reservations, terminating pods, and the status of PodGroups over cycles."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import msgspec
import pytest

from tests.scenario.scheduling.harness import Scenario, World, group, node, pod, pods, scenarios
from volcanoio.engine.scheduling.config.profile import Profile
from volcanoio.framework.effects import Patch
from volcanoio.framework.events import EffectFailed, EffectSucceeded, Relisting, Synced
from volcanoio.framework.scheduling.session import Session
from volcanoio.framework.scheduling_events import BindRefused, BindUnknown
from volcanoio.model import kinds
from volcanoio.model.scheduling import PodGroupStatus


def gang() -> World:
    return World(node("n1", cpu="3"), group("pg", 3), *pods("p", 3, "pg", cpu="1"))


def outcome(name: str, node: str = "n1", at: float = 1000.5) -> dict[str, Any]:
    return {"at": at, "group": "ns/pg", "uid": f"ns-{name}", "namespace": "ns", "name": name, "node": node}


@scenarios(
    # The PodGroup of a running job may have been deleted; in a full cluster it would not be enqueued again.
    Scenario(
        name="a PodGroup that is created for running pods is running at once",
        cluster=[
            node("n1", cpu="3"),
            *(pod(f"p-{index}", "pg", cpu="1", on="n1", phase="Running") for index in range(3)),
            group("pg", 3, minResources={"cpu": "3"}),
        ],
        cycles=2,
        written_phases={"pg": "Running"},
    ),
    Scenario(
        name="pods of other schedulers count on their node only",
        cluster=[
            node("n1", cpu="2"),
            pod("theirs", "pg", cpu="1", on="n1", phase="Running", spec={"schedulerName": "default-scheduler"}),
            pod("free", cpu="1"),
            *(group("pg", 1), *pods("p", 2, "pg", cpu="1")),
        ],
        cycles=2,
        binds={"p-0": "n1"},
        statuses={"pg": {"PENDING": 1, "RUNNING": 1}},
    ),
)
def test_pods_that_run_already(scenario: Scenario) -> None:
    scenario.check()


def test_no_cycle_runs_before_all_objects_are_listed() -> None:
    world = World(node("n1"), group("pg", 1), *pods("p", 1, "pg", cpu="1"), synced=False)
    assert not world.state.is_ready
    with pytest.raises(RuntimeError, match=r"before these are listed: .*namespaces, nodes, .*podgroups"):
        world.cycle()
    world.sync()
    assert world.state.is_ready
    world.fold(Relisting(resource=kinds.POD.resource))
    assert not world.state.is_ready
    assert world.fold(Synced(resource=kinds.POD.resource))


def test_a_task_stays_binding_after_an_older_watch_event_and_an_unknown_outcome() -> None:
    world = gang()
    world.cycle()
    assert world.statuses("pg") == {"BINDING": 3}
    world.put(world.pod("p-0"))
    world.fold(BindUnknown(**outcome("p-1")))
    assert world.statuses("pg") == {"BINDING": 3}
    before = world.batches
    world.cycle()
    assert world.batches == before


def test_a_refused_bind_is_retried_and_its_room_is_reserved_meanwhile() -> None:
    world = gang()
    world.put(group("other", 1, phase="Inqueue"))
    world.cycle()
    world.put(pod("rival", "other", cpu="1"))
    world.echo(refuse={"p-2": 409})
    assert world.statuses("pg") == {"PENDING": 1, "RUNNING": 2}
    assert world.state.ledger.columns.idle("cpu").tolist() == [0]
    world.run()
    assert world.batches[-1] == ["p-2"]
    assert "rival" not in world.binds
    assert ("p-2", "FailedScheduling", "failed to bind to node n1: refused") not in world.recorded
    assert world.statuses("pg") == {"RUNNING": 3}
    assert not world.state.reservations.by_job


def test_a_reservation_expires() -> None:
    world = gang()
    world.put(group("other", 1, phase="Inqueue"))
    world.cycle()
    world.put(pod("rival", "other", cpu="1"))
    world.echo(refuse={"p-2": 422})
    world.put(node("n1", cpu="3", unschedulable=True))
    world.run()
    assert world.statuses("pg") == {"PENDING": 1, "RUNNING": 2}
    assert world.state.ledger.columns.idle("cpu").tolist() == [0]
    world.now += 31
    world.cycle()
    assert world.state.ledger.columns.idle("cpu").tolist() == [1000]


def test_a_bind_that_is_refused_repeatedly_is_retried_with_back_off() -> None:
    world = World(node("n1"), group("pg", 1), *pods("p", 1, "pg", cpu="1"), period=0.001)
    for _ in range(20):
        world.cycle()
        world.echo(refuse={"p-0": 422})
    assert len(world.batches) == 2
    assert ("p-0", "FailedScheduling", "failed to bind to node n1: refused") in world.recorded


def test_a_refusal_for_another_node_or_pod_is_ignored() -> None:
    world = gang()
    world.cycle()
    world.fold(BindRefused(code=409, **outcome("p-0", node="n9")))
    world.fold(BindRefused(code=404, **outcome("other")))
    assert world.statuses("pg") == {"BINDING": 3}


def test_a_terminating_pod_uses_its_room_until_it_is_gone() -> None:
    world = gang().run(2)
    world.set_pod("p-0", deleting=True)
    columns = world.state.ledger.columns
    assert (columns.used("cpu").tolist(), columns.future_idle("cpu").tolist()) == ([3000], [1000])
    world.cycle()
    assert world.phase("pg") == "Running"
    world.remove(kinds.POD, "ns/p-0")
    assert columns.used("cpu").tolist() == [2000]


def test_a_pod_deleted_while_binding_keeps_its_node_until_it_is_gone() -> None:
    world = gang()
    world.cycle()
    world.set_pod("p-0", deleting=True)
    assert world.statuses("pg") == {"BINDING": 2, "RELEASING": 1}
    assert world.state.ledger.columns.used("cpu").tolist() == [3000]


def test_a_running_gang_becomes_unknown_only_if_it_misses_pods_for_a_period() -> None:
    world = gang().run(2)
    world.remove(kinds.POD, "ns/p-0")
    world.period = 0.01
    world.run()
    world.period = 1.0
    assert world.phase("pg") == "Running"
    world.put(pod("p-9", "pg", cpu="1"))
    world.run(2)
    assert world.group("pg").status.phase == "Running"
    assert all(entry.type == "Scheduled" for entry in world.group("pg").status.conditions)

    world.remove(kinds.POD, "ns/p-9")
    world.run(2)
    assert world.group("pg").status.phase == "Unknown"
    assert world.group("pg").status.conditions[-1].type == "Unschedulable"
    world.put(pod("p-10", "pg", cpu="1"))
    world.run(2)
    assert world.group("pg").status.phase == "Running"
    assert world.group("pg").status.conditions[-1].type == "Scheduled"


@pytest.mark.parametrize("deleted", [1, 2, 3])
def test_a_gang_stays_running_while_some_of_its_pods_terminate(deleted: int) -> None:
    world = gang().run(2)
    for index in range(deleted):
        world.set_pod(f"p-{index}", deleting=True)
    world.run(5)
    assert world.group("pg").status.phase == "Running"
    assert [entry.type for entry in world.group("pg").status.conditions] == ["Scheduled"]
    for index in range(deleted):
        world.remove(kinds.POD, f"ns/p-{index}")
        world.put(pod(f"again-{index}", "pg", cpu="1"))
    world.run(2)
    status = world.group("pg").status
    assert (status.phase, status.running) == ("Running", 3)
    assert ("pg", "Unschedulable") not in {(name, reason) for name, reason, _ in world.recorded}


def test_a_gang_becomes_unknown_if_a_pod_is_pending_beside_the_terminating_one() -> None:
    world = gang().run(2)
    world.set_pod("p-0", deleting=True)
    world.put(pod("again", "pg", cpu="2"))
    world.run(3)
    status = world.group("pg").status
    assert (status.phase, status.conditions[-1].type) == ("Unknown", "Unschedulable")


def test_a_terminating_pod_without_node_does_not_count_for_its_gang() -> None:
    world = gang().run(2)
    world.remove(kinds.POD, "ns/p-0")
    world.put(pod("again", "pg", cpu="2"))
    world.set_pod("again", deleting=True)
    world.run(3)
    status = world.group("pg").status
    assert (status.phase, status.conditions[-1].type) == ("Unknown", "Unschedulable")


def test_a_gang_that_lost_all_pods_of_a_role_is_unknown_although_enough_others_run() -> None:
    world = World(
        node("n1", cpu="4"),
        group("pg", 2, minTaskMember={"ps": 1, "worker": 1}),
        pod("ps", "pg", role="ps", cpu="1"),
        *pods("worker", 3, "pg", role="worker", cpu="1"),
    ).run(2)
    world.remove(kinds.POD, "ns/ps")
    world.run(3)
    assert world.group("pg").status.phase == "Unknown"


@pytest.mark.parametrize("lost", [1, 3], ids=["part", "all"])
def test_a_gang_whose_lost_pods_are_created_again_stays_running(lost: int) -> None:
    """A full cluster would not enqueue it again, and the controller creates no pod while the PodGroup is Pending."""
    world = World(node("n1", cpu="3"), group("pg", 3, minResources={"cpu": "3"}), *pods("p", 3, "pg", cpu="1")).run(2)
    for index in range(lost):
        world.remove(kinds.POD, f"ns/p-{index}")
        world.put(pod(f"again-{index}", "pg", cpu="1"))
    phases = []
    for _ in range(4):
        world.run(phase="Pending")
        phases.append(world.group("pg").status.phase)
    assert phases == ["Running"] * 4


def test_the_only_unfinished_pod_of_a_gang_needs_room_for_itself_only() -> None:
    world = World(node("n1", cpu="3"), group("pg", 3, minResources={"cpu": "3"}), *pods("p", 3, "pg", cpu="1")).run(2)
    for name in ("p-0", "p-1"):
        world.set_pod(name, phase="Succeeded")
    world.remove(kinds.POD, "ns/p-2")
    world.put(pod("other", cpu="2", on="n1", phase="Running"))
    world.run(2)
    world.put(pod("again", "pg", cpu="1"))
    world.run(2)
    assert world.binds["again"] == "n1"
    assert world.group("pg").status.phase == "Running"


def test_a_status_patch_in_flight_is_sent_again_only_if_it_failed() -> None:
    world = World(group("pg", 1), *pods("p", 1, "pg", cpu="1"))
    world.cycle()
    sent = [decision for decision in world.last if getattr(decision, "resource", "") == kinds.POD_GROUP.resource]
    world.now -= world.period
    world.cycle()
    assert not [item for item in world.last if getattr(item, "resource", "") == kinds.POD_GROUP.resource]
    key = f"{kinds.POD_GROUP.resource}/ns/pg"
    world.fold(EffectFailed(controller="scheduler", key=key, effect_id=1, code=500))
    assert world.phase("pg") == "Pending"
    world.now -= world.period
    world.cycle()
    assert len(sent) == 1
    again = [item for item in world.last if getattr(item, "resource", "") == kinds.POD_GROUP.resource]
    assert again == sent


def test_a_status_that_concurrent_patches_left_wrong_is_corrected() -> None:
    world = World(
        node("n1", cpu="4"),
        group("pg", 1, phase="Running"),
        *(pod(f"p-{at}", "pg", cpu="1", on="n1", phase="Running") for at in range(2)),
    )
    stored, key = world.group("pg"), f"{kinds.POD_GROUP.resource}/ns/pg"
    status = msgspec.to_builtins(stored.status)

    def sent() -> list[Patch]:
        return [item for item in world.last if isinstance(item, Patch) and item.resource == kinds.POD_GROUP.resource]

    def answered(number: int, patch: Patch) -> None:
        """Merge a patch into the stored status as the API server does."""
        status.update(patch.patch["status"])
        meta = msgspec.structs.replace(stored.metadata, resource_version=str(number))
        merged = msgspec.convert(status, PodGroupStatus)
        group = msgspec.structs.replace(stored, metadata=meta, status=merged)
        world.fold(EffectSucceeded(controller="scheduler", key=key, effect_id=number, object=group))

    world.cycle()
    first = sent()[0]
    assert first.patch["status"]["running"] == 2
    for name in ("p-0", "p-1"):
        world.set_pod(name, phase="Succeeded")
    world.cycle()
    second = sent()[0]
    assert "running" not in second.patch["status"], "the count is none, as in the last object seen"
    answered(1, first)
    answered(2, second)
    assert status["running"] == 2
    world.cycle()
    assert [one.patch["status"] for one in sent()] == [{"running": None}]


def test_the_pods_of_a_node_that_is_created_again_are_counted() -> None:
    world = gang().run(1)
    world.remove(kinds.NODE, "n1")
    assert len(world.state.ledger.columns) == 0
    world.put(node("n1", cpu="3"))
    assert world.state.ledger.columns.used("cpu").tolist() == [3000]


def test_a_node_heartbeat_starts_no_cycle() -> None:
    world = gang()
    assert not world.put(node("n1", cpu="3"))
    assert world.put(node("n1", cpu="4"))


def test_a_status_whose_counts_alone_changed_is_written_once_a_period() -> None:
    world = World(node("n1"), group("pg", 1), *pods("p", 4, "pg", cpu="1"))
    world.run(2)
    sent = 0
    for name in ("p-0", "p-1", "p-2"):
        world.set_pod(name, phase="Succeeded")
        world.run()
        world.now -= 0.9
        sent += sum(getattr(item, "resource", "") == kinds.POD_GROUP.resource for item in world.last)
    assert sent == 1
    world.run(2)
    assert (world.group("pg").status.running, world.group("pg").status.succeeded) == (1, 3)


def test_a_cycle_that_raises_undoes_its_placements() -> None:
    class Failing:
        name = "failing"

        def run(self, session: Session) -> Iterator[None]:
            for job in session.jobs_with_pending_tasks():
                statement = session.statement(job)
                statement.allocate(session.runs(job, best_effort=False)[0], 0, 3)
                statement.commit()
                yield
                session.statement(job).allocate(session.runs(job, best_effort=False)[0], 0, 1)
            msg = "broken"
            raise ValueError(msg)

    world = World(node("n1", cpu="4"), group("pg", 3, phase="Inqueue"), *pods("p", 4, "pg", cpu="1"))
    whole = world.profile
    world.profile = Profile(whole.tiers, (Failing(),))
    with pytest.raises(ValueError, match="broken"):
        world.cycle()
    assert world.binds == {}
    assert world.statuses("pg") == {"PENDING": 4}
    assert world.state.ledger.columns.used("cpu").tolist() == [0]
    world.profile = whole
    world.run()
    assert len(world.binds) == 4
