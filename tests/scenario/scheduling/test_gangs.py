"""Gangs: a job gets its whole minimum in one batch or nothing, and the reason is written where it gets nothing."""

from __future__ import annotations

import pytest

from tests.scenario.scheduling.harness import (
    Scenario,
    World,
    group,
    node,
    on_node,
    pod,
    pods,
    priority_class,
    queue,
    scenarios,
)
from volcanoio.framework.effects import Patch
from volcanoio.model import kinds


@scenarios(
    Scenario(
        name="an elastic job is bound as far as it fits",
        cluster=[node("n1", cpu="5"), group("pg", 1), *pods("p", 8, "pg", cpu="1")],
        cycles=2,
        binds=on_node("n1", "p-0", "p-1", "p-2", "p-3", "p-4"),
        batches=[["p-0", "p-1", "p-2", "p-3", "p-4"]],
        phases={"pg": "Running"},
    ),
    Scenario(
        name="of a gang that fits in part tasks of higher priority are placed first",
        cluster=[
            priority_class("high", 1000),
            node("n1", cpu="3"),
            group("pg", 3),
            *pods("executor", 5, "pg", role="executor", cpu="1"),
            pod("driver", "pg", role="driver", cpu="1", spec={"priority": 1000}),
        ],
        cycles=2,
        binds=on_node("n1", "driver", "executor-0", "executor-1"),
    ),
)
def test_elastic_jobs(scenario: Scenario) -> None:
    scenario.check()


def test_a_gang_that_fits_is_bound_as_one_batch_and_runs() -> None:
    world = World(node("n1"), group("pg", 3), *pods("p", 3, "pg", cpu="1"))
    world.cycle()
    assert world.batches == [["p-0", "p-1", "p-2"]]
    assert world.phase("pg") == "Inqueue"
    world.echo()
    world.run()
    status = world.group("pg").status
    assert status.phase == "Running"
    assert status.running == 3
    assert status.conditions[-1].type == "Scheduled"
    assert status.conditions[-1].reason == "tasks in gang are ready to be scheduled"
    assert ("pg", "Scheduled", "pod group is ready") in world.recorded


def test_no_pod_of_a_gang_that_does_not_fit_is_bound_and_the_reason_counts_the_nodes() -> None:
    nodes = [node(f"n{index}", cpu="1") for index in range(4)]
    world = World(*nodes, group("pg", 3, phase="Inqueue"), *pods("p", 3, "pg", cpu="2"))
    world.run(2)
    assert world.binds == {}
    text = (
        "3/3 tasks in gang unschedulable: pod group is not ready, 3 Pending, 3 minAvailable; Pending: 3 Unschedulable."
        " Origin reason is p-0: 0/4 nodes are unavailable: 4 Insufficient cpu."
        " (LargerThanAnyNode: a pod requests more than any node has that it may run on)"
    )
    assert world.condition("pg") == ("Unschedulable", "NotEnoughResources", text)
    assert world.group("pg").status.conditions[-1].status == "True"
    assert ("pg", "Unschedulable", text) in world.recorded
    assert ("p-0", "FailedScheduling", "0/4 nodes are unavailable: 4 Insufficient cpu.") in world.recorded


def test_no_reason_is_written_while_pods_of_a_gang_are_still_being_created() -> None:
    world = World(node("n1", cpu="9"), group("pg", 9, phase="Inqueue"))
    for index in range(6):
        world.put(pod(f"p-{index}", "pg", cpu="1"))
        world.run()
    assert not [name for name, reason, _ in world.recorded if reason == "FailedScheduling"]
    world.run(2)
    assert not [name for name, reason, _ in world.recorded if reason == "FailedScheduling"]
    world.run(5)
    failed = {name for name, reason, _ in world.recorded if reason == "FailedScheduling"}
    assert failed == {f"p-{index}" for index in range(6)}


def test_the_reason_distinguishes_tasks_that_found_a_node_from_those_that_did_not() -> None:
    world = World(node("n1", cpu="2"), node("n2", cpu="2"), group("pg", 3, phase="Inqueue"))
    for index in range(3):
        world.put(pod(f"p-{index}", "pg", cpu="1", spec={"nodeSelector": {"zone": "a"}}))
    world.put(node("n1", cpu="2", labels={"zone": "a"}))
    world.run(2)
    assert world.binds == {}
    assert world.statuses("pg") == {"PENDING": 3}
    assert world.state.ledger.columns.used("cpu").tolist() == [0, 0]
    why = "0/2 nodes are unavailable: 1 Insufficient cpu, 1 node(s) didn't match Pod's node affinity/selector."
    assert world.group("pg").status.conditions[0].message == (
        "1/3 tasks in gang unschedulable: pod group is not ready, 3 Pending, 3 minAvailable;"
        f" Pending: 1 Unschedulable, 2 Schedulable. Origin reason is p-2: {why}"
        " (InsufficientResource: the nodes that a pod may run on are in use)"
    )
    hint = "Pod ns/p-0 can possibly be assigned to n1, once minAvailable is satisfied"
    assert ("p-0", "FailedScheduling", hint) in world.recorded
    assert ("p-2", "FailedScheduling", why) in world.recorded


def test_two_gangs_that_do_not_fit_together_run_one_after_the_other() -> None:
    world = World(
        node("n1", cpu="3"),
        group("a", 3, minResources={"cpu": "3"}),
        group("b", 3, minResources={"cpu": "3"}),
        *pods("a", 3, "a", cpu="1"),
        *pods("b", 3, "b", cpu="1"),
    )
    world.run(3)
    assert set(world.binds) == {"a-0", "a-1", "a-2"}
    for name in ("a-0", "a-1", "a-2"):
        world.set_pod(name, phase="Succeeded")
    world.run(3)
    assert len(world.binds) == 6
    assert world.phase("a") == "Completed"
    assert world.phase("b") == "Running"


def test_the_example_of_kuberays_guide_to_volcano() -> None:
    demand = {"cpu": "3", "memory": "4Gi"}
    world = World(
        node("n1", cpu="8", memory="16Gi"),
        queue("kuberay", weight=1, capability={"cpu": "4", "memory": "6Gi"}),
        *(group(name, 3, queue="kuberay", minResources=demand) for name in ("first", "second")),
    )
    for name in ("first", "second"):
        world.put(pod(f"{name}-head", name, cpu="1", memory="2Gi"))
        for worker in pods(f"{name}-worker", 2, name, cpu="1", memory="1Gi"):
            world.put(worker)
    world.run(3)
    assert {name.partition("-")[0] for name in world.binds} == {"first"}
    first, second = world.group("first").status, world.group("second").status
    assert (first.phase, first.running, first.conditions[-1].type) == ("Running", 3, "Scheduled")
    assert second.phase == "Pending"
    assert (second.conditions[-1].type, second.conditions[-1].reason) == ("Unschedulable", "NotEnoughResources")
    refused = "queue resource quota insufficient: insufficient cpu, insufficient memory"
    gang = (
        "3/3 tasks in gang unschedulable: pod group is not ready, 3 Pending, 3 minAvailable; Pending: 3 Unschedulable."
        f" Origin reason is {refused}"
    )
    amounts = "(queue kuberay: needs cpu 3, in use 3, limit 4; needs memory 4Gi, in use 4Gi, limit 6Gi)"
    assert second.conditions[-1].message == f"{gang} {amounts}"
    assert ("second-head", "FailedScheduling", gang) in world.recorded
    assert ("second", "Unschedulable", f"{refused} {amounts}") in world.recorded
    assert world.queue("kuberay").status.allocated == {"cpu": "3", "memory": "4Gi", "pods": "3"}

    for name in ("first-head", "first-worker-0", "first-worker-1"):
        world.remove(kinds.POD, f"ns/{name}")
    world.remove(kinds.POD_GROUP, "ns/first")
    world.run(3)
    assert world.phase("second") == "Running"


def test_best_effort_pods_are_bound_as_a_whole_gang() -> None:
    world = World(node("n1", pods="2"), group("pg", 3), *pods("p", 3, "pg"))
    world.run(3)
    assert world.binds == {}
    text = "0/1 nodes are unavailable: 1 node(s) pod number exceeded."
    assert ("p-2", "FailedScheduling", text) in world.recorded
    world.put(node("n2", pods="1"))
    world.run(1)
    assert len(world.binds) == 3


def test_a_gang_with_a_role_below_its_minimum_is_not_bound() -> None:
    world = World(
        node("n1", cpu="3"),
        group("pg", 3, minTaskMember={"ps": 1, "worker": 2}),
        *pods("pg-worker", 3, "pg", role="worker", cpu="1"),
        pod("pg-ps-9", "pg", role="ps", cpu="1"),
    )
    world.run(2)
    assert world.binds == {}, "tasks are placed by index: three workers use the room"
    world.put(node("n2", cpu="1"))
    world.run(1)
    assert len(world.binds) == 4


@pytest.mark.parametrize("phase", ["Succeeded", "Failed"])
def test_a_finished_gang_is_completed(phase: str) -> None:
    world = World(node("n1"), group("pg", 2), *pods("p", 2, "pg", cpu="1")).run(2)
    for name in ("p-0", "p-1"):
        world.set_pod(name, phase=phase)
    world.run()
    assert world.group("pg").status.phase == "Completed"
    assert world.state.ledger.columns.used("cpu").tolist() == [0]


def group_writes(world: World, cycles: int = 1) -> list[object]:
    """Run cycles and return the patches of PodGroups' statuses."""
    written = []
    for _ in range(cycles):
        world.run()
        written += [effect.patch["status"] for effect in world.last if isinstance(effect, Patch)]
    return written


def test_counts_of_a_gang_that_starts_are_written_once_it_runs() -> None:
    world = World(node("n1"), group("pg", 3), *pods("p", 3, "pg", cpu="1"))
    world.run(4, phase="Pending")
    assert (world.phase("pg"), world.group("pg").status.running) == ("Running", 0)
    for name in ("p-0", "p-1"):
        world.set_pod(name, phase="Running")
        assert group_writes(world, 2) == []
    world.set_pod("p-2", phase="Running")
    assert group_writes(world, 3) == [{"running": 3}]


def test_counts_of_a_gang_of_which_a_pod_does_not_start_are_written_later() -> None:
    world = World(node("n1"), group("pg", 3), *pods("p", 3, "pg", cpu="1"))
    world.run(4, phase="Pending")
    world.set_pod("p-0", phase="Running")
    assert group_writes(world, 12) == [{"running": 1}]


def test_counts_of_many_gangs_are_written_at_a_limited_rate() -> None:
    names = [f"pg-{index}" for index in range(40)]
    world = World(node("n1", cpu="80", pods="200"))
    for name in names:
        world.put(group(name, 1))
        world.put(pod(f"{name}-a", name, cpu="1"))
    world.run(4, phase="Pending")
    assert {world.phase(name) for name in names} == {"Running"}
    for name in names:
        world.set_pod(f"{name}-a", phase="Running")
    written = [len(group_writes(world)) for _ in range(12)]
    assert sum(written) == len(names)
    assert max(written) <= 20 + 5
