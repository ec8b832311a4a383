"""Outcomes of binds and what the watch says: Binding, refusals, holds, terminating pods, periods."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import msgspec
import pytest

from tests.scenario.scheduling.harness import World, group, node, pod, pods
from volcanoio.engine.scheduling.config.profile import Profile
from volcanoio.framework.effects import Patch
from volcanoio.framework.events import EffectFailed, EffectSucceeded, Relisting, Synced
from volcanoio.framework.scheduling.session import Session
from volcanoio.framework.scheduling.views import TaskStatus
from volcanoio.framework.scheduling_events import BindRefused, BindUnknown
from volcanoio.model import kinds
from volcanoio.model.scheduling import PodGroupStatus


def gang() -> World:
    return World(node("n1", cpu="3"), group("pg", 3), *pods("p", 3, "pg", cpu="1"))


def outcome(name: str, node: str = "n1", at: float = 1000.5) -> dict[str, Any]:
    return {"at": at, "group": "ns/pg", "uid": f"ns-{name}", "namespace": "ns", "name": name, "node": node}


def test_no_decision_before_everything_is_listed() -> None:
    world = World(node("n1"), group("pg", 1), *pods("p", 1, "pg", cpu="1"), synced=False)
    assert not world.state.is_ready
    with pytest.raises(RuntimeError, match=r"before these are listed: .*namespaces, nodes, .*podgroups"):
        world.cycle()
    world.sync()
    assert world.state.is_ready
    world.fold(Relisting(resource=kinds.POD.resource))
    assert not world.state.is_ready
    assert world.fold(Synced(resource=kinds.POD.resource))


def test_binding_stays_binding_whatever_an_older_pod_says() -> None:
    world = gang()
    world.cycle()
    assert world.statuses("pg") == {"BINDING": 3}
    world.put(world.pod("p-0"))
    world.fold(BindUnknown(**outcome("p-1")))
    assert world.statuses("pg") == {"BINDING": 3}
    before = world.batches
    world.cycle()
    assert world.batches == before


def test_a_refused_bind_is_sent_again_with_its_room_held() -> None:
    world = gang()
    world.put(group("other", 1, phase="Inqueue"))
    world.cycle()
    world.put(pod("thief", "other", cpu="1"))
    world.echo(refuse={"p-2": 409})
    assert world.statuses("pg") == {"PENDING": 1, "RUNNING": 2}
    assert world.state.ledger.columns.idle("cpu").tolist() == [0]
    world.run()
    assert world.batches[-1] == ["p-2"]
    assert "thief" not in world.binds
    assert ("p-2", "FailedScheduling", "failed to bind to node n1: refused") not in world.recorded
    assert world.statuses("pg") == {"RUNNING": 3}
    assert not world.state.reservations.by_job


def test_room_is_held_for_a_stated_time_only() -> None:
    world = gang()
    world.put(group("other", 1, phase="Inqueue"))
    world.cycle()
    world.put(pod("thief", "other", cpu="1"))
    world.echo(refuse={"p-2": 422})
    world.put(node("n1", cpu="3", unschedulable=True))
    world.run()
    assert world.statuses("pg") == {"PENDING": 1, "RUNNING": 2}
    assert world.state.ledger.columns.idle("cpu").tolist() == [0]
    world.now += 31
    world.cycle()
    assert world.state.ledger.columns.idle("cpu").tolist() == [1000]


def test_a_bind_refused_again_and_again_is_not_retried_in_a_hot_loop() -> None:
    world = World(node("n1"), group("pg", 1), *pods("p", 1, "pg", cpu="1"), period=0.001)
    for _ in range(20):
        world.cycle()
        world.echo(refuse={"p-0": 422})
    assert len(world.batches) == 2
    assert ("p-0", "FailedScheduling", "failed to bind to node n1: refused") in world.recorded


def test_a_refusal_of_another_node_or_pod_changes_nothing() -> None:
    world = gang()
    world.cycle()
    world.fold(BindRefused(code=409, **outcome("p-0", node="n9")))
    world.fold(BindRefused(code=404, **outcome("stranger")))
    assert world.statuses("pg") == {"BINDING": 3}


def test_terminating_pods_count_until_they_are_gone() -> None:
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


def test_running_becomes_unknown_only_when_the_shortage_lasts_a_period() -> None:
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
def test_a_gang_some_of_whose_pods_terminate_stays_running(deleted: int) -> None:
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
    assert ("pg", "Unschedulable") not in {told[:2] for told in world.recorded}


def test_a_gang_becomes_unknown_where_a_pod_waits_beside_the_terminating_one() -> None:
    world = gang().run(2)
    world.set_pod("p-0", deleting=True)
    world.put(pod("again", "pg", cpu="2"))
    world.run(3)
    status = world.group("pg").status
    assert (status.phase, status.conditions[-1].type) == ("Unknown", "Unschedulable")


def test_a_terminating_pod_that_never_had_a_node_does_not_count_for_its_gang() -> None:
    world = gang().run(2)
    world.remove(kinds.POD, "ns/p-0")
    world.put(pod("again", "pg", cpu="2"))
    world.set_pod("again", deleting=True)
    world.run(3)
    status = world.group("pg").status
    assert (status.phase, status.conditions[-1].type) == ("Unknown", "Unschedulable")


def test_a_gang_that_lost_all_of_a_role_is_unknown_though_enough_others_run() -> None:
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
def test_a_gang_whose_lost_pods_have_successors_need_not_queue_again(lost: int) -> None:
    """A full cluster would refuse it, and the controller makes no pod while its PodGroup is Pending."""
    world = World(node("n1", cpu="3"), group("pg", 3, minResources={"cpu": "3"}), *pods("p", 3, "pg", cpu="1")).run(2)
    for index in range(lost):
        world.remove(kinds.POD, f"ns/p-{index}")
        world.put(pod(f"again-{index}", "pg", cpu="1"))
    phases = []
    for _ in range(4):
        world.run(phase="Pending")
        phases.append(world.group("pg").status.phase)
    assert phases == ["Running"] * 4


def test_the_last_pod_of_a_gang_that_is_otherwise_done_needs_room_for_itself_alone() -> None:
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


def test_a_group_made_for_a_gang_that_runs_is_running_and_need_not_queue() -> None:
    """As when somebody deleted the PodGroup of a running job: its own use of a full cluster would refuse it."""
    runs = [pod(f"p-{index}", "pg", cpu="1", on="n1", phase="Running") for index in range(3)]
    world = World(node("n1", cpu="3"), *runs, group("pg", 3, minResources={"cpu": "3"})).run(2)
    assert world.group("pg").status.phase == "Running"


def test_a_status_in_flight_is_not_sent_again_unless_it_failed() -> None:
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


def test_a_wrong_result_of_concurrent_writes_is_written_again() -> None:
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
        """The server merges one patch into what it has."""
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
    assert "running" not in second.patch["status"], "it is none, as in the one that was seen last"
    answered(1, first)
    answered(2, second)
    assert status["running"] == 2
    world.cycle()
    assert [one.patch["status"] for one in sent()] == [{"running": None}]


def test_pods_of_others_only_count_on_their_node() -> None:
    world = World(
        node("n1", cpu="2"),
        pod("theirs", "pg", cpu="1", on="n1", phase="Running", spec={"schedulerName": "default-scheduler"}),
        pod("free", cpu="1"),
        group("pg", 1),
        *pods("p", 2, "pg", cpu="1"),
    ).run(2)
    assert len(world.binds) == 1
    assert world.state.ledger.jobs["ns/pg"].counts[TaskStatus.RUNNING] == 1


def test_a_node_that_comes_back_finds_its_pods_counted() -> None:
    world = gang().run(1)
    world.remove(kinds.NODE, "n1")
    assert len(world.state.ledger.columns) == 0
    world.put(node("n1", cpu="3"))
    assert world.state.ledger.columns.used("cpu").tolist() == [3000]


def test_heartbeats_start_no_cycle() -> None:
    world = gang()
    assert not world.put(node("n1", cpu="3"))
    assert world.put(node("n1", cpu="4"))


def test_counts_alone_are_written_once_a_period() -> None:
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


def test_a_cycle_that_fails_leaves_nothing_behind() -> None:
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
