"""Order of jobs and queues: who is enqueued, allocated and evicted first, and what a job that waits does to others."""

from __future__ import annotations

from dataclasses import replace

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
    running,
    scenarios,
    with_uids,
)
from volcanoio.model.scheduling import PodGroupPhase

ALLOCATE = """
actions: "allocate"
tiers:
- plugins:
  - name: priority
  - name: gang
- plugins:
  - name: predicates
  - name: nodeorder
"""
NO_GANG = """
actions: "allocate, backfill"
tiers:
- plugins:
  - name: priority
  - name: predicates
"""
NAMES = ("first", "second", "third")


@scenarios(
    Scenario(
        name="the minimum of every job is placed before any job gets more",
        conf=ALLOCATE,
        cluster=[
            node("n1", cpu="8"),
            group("a", 2, phase="Inqueue"),
            group("b", 2, phase="Inqueue"),
            *pods("a", 4, "a", cpu="1"),
            *pods("b", 4, "b", cpu="1"),
        ],
        bind_order=["a-0", "a-1", "b-0", "b-1", "a-2", "a-3", "b-2", "b-3"],
    ),
    Scenario(
        name="queues share a full cluster by weight, task by task",
        cluster=[
            queue("gold", weight=3),
            queue("lead", weight=1),
            node("n1", cpu="8", memory="80Gi"),
            group("g", 1, queue="gold", phase="Inqueue"),
            group("l", 1, queue="lead", phase="Inqueue"),
            *pods("g", 8, "g", cpu="1", memory="1Gi"),
            *pods("l", 8, "l", cpu="1", memory="1Gi"),
        ],
        bind_counts={"g": 6, "l": 2},
    ),
    Scenario(
        name="a job of higher priority is placed first",
        conf=ALLOCATE,
        cluster=[
            priority_class("high", 10),
            node("n1", cpu="2"),
            group("a", 2, phase="Inqueue"),
            group("b", 2, phase="Inqueue", priorityClassName="high"),
            *pods("a", 2, "a", cpu="1"),
            *pods("b", 2, "b", cpu="1"),
        ],
        bind_order=["b-0", "b-1"],
    ),
    Scenario(
        name="a PodGroup without pods becomes Inqueue although the action enqueue is not configured",
        conf=ALLOCATE,
        cluster=[node("n1"), group("pg", 2)],
        phases={"pg": "Inqueue"},
    ),
    Scenario(
        name="a pending PodGroup is placed at once where the action enqueue is not configured",
        conf=ALLOCATE,
        cluster=[node("n1"), group("pg", 1), *pods("p", 1, "pg", cpu="1")],
        cycles=2,
        binds={"p-0": "n1"},
        phases={"pg": "Running"},
    ),
    Scenario(
        name="without the plugin gang tasks are placed one by one as far as they fit",
        conf=NO_GANG,
        cluster=[node("n1", cpu="3"), group("pg", 4, phase="Inqueue"), *pods("p", 4, "pg", cpu="1")],
        binds=on_node("n1", "p-0", "p-1", "p-2"),
    ),
)
def test_order_of_jobs_and_queues(scenario: Scenario) -> None:
    scenario.check()


@scenarios(
    Scenario(
        name="jobs created in the same second are placed in the order of their names",
        conf=ALLOCATE,
        cluster=[
            node("n1", cpu="3"),
            *(group(name, 1, phase="Inqueue") for name in NAMES),
            *(pod(f"{name}-0", name, cpu="1") for name in ("third", "first", "second")),
        ],
        bind_order=["first-0", "second-0", "third-0"],
    ),
    Scenario(
        name="jobs created in the same second are enqueued in the order of their names",
        cluster=[
            node("n1", cpu="2"),
            queue("q", capability={"cpu": "2"}),
            *(group(name, 1, queue="q", minResources={"cpu": "1"}) for name in NAMES),
        ],
        phases={"first": "Inqueue", "second": "Inqueue", "third": "Pending"},
    ),
    Scenario(
        name="of jobs created in the same second the one whose name comes last is evicted first",
        conf=ALLOCATE.replace("allocate", "allocate, preempt"),
        cluster=[
            priority_class("high", 10),
            node("n1", cpu="3"),
            *(group(name, 0, phase="Running") for name in NAMES),
            *(each for name in NAMES for each in running(name, 1)),
            group("urgent", 1, phase="Inqueue", priorityClassName="high"),
            pod("urgent-0", "urgent", cpu="1"),
        ],
        evicts=["third-0"],
    ),
)
@pytest.mark.parametrize("uids", ["abc", "cba", "bca"])
def test_names_decide_between_jobs_of_one_second_and_uids_do_not(scenario: Scenario, uids: str) -> None:
    replace(scenario, cluster=with_uids(scenario.cluster, NAMES, uids)).check()


@scenarios(
    Scenario(
        name="queues created in the same second are served in the order of their names",
        cluster=[
            node("n1", cpu="3"),
            queue("root"),
            *(queue(name, parent="root") for name in NAMES),
            *(group(f"job-{name}", 1, queue=name, phase="Inqueue") for name in NAMES),
            *(pod(f"{name}-0", f"job-{name}", cpu="1") for name in ("second", "third", "first")),
        ],
        bind_order=["first-0", "second-0", "third-0"],
    ),
)
@pytest.mark.parametrize("plugin", ["priority", "proportion", "capacity", "capacity, enableHierarchy: true"])
@pytest.mark.parametrize("uids", ["abc", "cba", "bca"])
def test_names_decide_between_queues_of_one_second_and_uids_do_not(scenario: Scenario, plugin: str, uids: str) -> None:
    conf = f"actions: allocate\ntiers: [{{plugins: [{{name: gang}}, {{name: {plugin}}}]}}]"
    replace(scenario, conf=conf, cluster=with_uids(scenario.cluster, NAMES, uids)).check()


def test_a_large_job_that_is_not_enqueued_does_not_block_a_small_one() -> None:
    world = World(
        queue("q", capability={"cpu": "4"}),
        node("n1", cpu="64"),
        group("big", 1, queue="q", minResources={"cpu": "16"}),
        group("small", 1, queue="q", minResources={"cpu": "1"}),
        *pods("big", 1, "big", cpu="16"),
        *pods("small", 1, "small", cpu="1"),
    )
    world.run(2)
    assert world.phase("big") == PodGroupPhase.PENDING
    assert world.binds == {"small-0": "n1"}
    reason = world.state.ledger.jobs["ns/big"].attempts.reason
    assert reason.code == "QueueQuotaInsufficient"
    assert "insufficient cpu" in reason.text


def test_a_job_of_a_missing_queue_waits_until_the_queue_is_created() -> None:
    world = World(node("n1"), group("pg", 1, queue="later"), *pods("p", 1, "pg", cpu="1"))
    world.run(2)
    assert world.binds == {}
    text = 'queue "later" does not exist; create it, or name another in spec.queue'
    assert world.condition("pg") == ("Unschedulable", "QueueNotFound", text)
    assert ("pg", "Unschedulable", text) in world.recorded
    assert ("p-0", "FailedScheduling", text) in world.recorded
    assert world.group("pg").status.phase == "Pending"
    world.put(queue("later"))
    world.run(2)
    assert set(world.binds) == {"p-0"}
    assert world.group("pg").status.phase == "Running"


@pytest.mark.parametrize("bind_phase", ["Pending", "Running"])
def test_a_gang_that_waits_for_terminating_pods_is_pipelined_and_not_bound(bind_phase: str) -> None:
    world = World(
        node("n1", cpu="2"),
        group("old", 1, phase="Inqueue"),
        *pods("old", 2, "old", cpu="1"),
        conf=ALLOCATE,
    ).run(phase=bind_phase)
    for name in ("old-0", "old-1"):
        world.set_pod(name, deleting=True)
    world.put(group("new", 2, phase="Inqueue"))
    for manifest in pods("new", 2, "new", cpu="1"):
        world.put(manifest)
    world.cycle()
    assert set(world.binds) == {"old-0", "old-1"}
    assert world.statuses("new") == {"PENDING": 2}
    assert world.state.ledger.columns.future_idle("cpu").tolist() == [2000]


def test_a_gang_without_room_is_retried_as_soon_as_room_appears() -> None:
    world = World(
        node("n1", cpu="3"),
        group("a", 3),
        group("b", 3),
        *pods("a", 3, "a", cpu="1"),
        conf=ALLOCATE,
    ).run(2)
    for manifest in pods("b", 3, "b", cpu="1"):
        world.put(manifest)
    world.run()
    world.now -= 0.99
    assert world.state.ledger.jobs["ns/b"].attempts.unschedulable_until is not None
    world.run()
    world.now -= 0.99
    for name in ("a-0", "a-1", "a-2"):
        world.set_pod(name, phase="Succeeded")
    world.run()
    assert {"b-0", "b-1", "b-2"} <= set(world.binds)
