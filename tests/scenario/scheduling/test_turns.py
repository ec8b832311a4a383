"""Turns: queues and jobs are sorted anew for each; minimum first, then one task a turn."""

from __future__ import annotations

import pytest

from tests.scenario.scheduling.harness import World, group, node, pod, pods, queue
from volcanoio.engine.scheduling.offline.replay import CutAt
from volcanoio.framework.effects import Patch
from volcanoio.framework.scheduling_effects import BindBatch
from volcanoio.model import kinds
from volcanoio.model.base import Manifest
from volcanoio.model.scheduling import PodGroupPhase

ALLOCATE_ONLY = """
actions: "allocate"
tiers:
- plugins:
  - name: priority
  - name: gang
- plugins:
  - name: predicates
  - name: nodeorder
"""
ONE_BY_ONE = """
actions: "enqueue, allocate"
tiers:
- plugins:
  - name: priority
  - name: gang
  - name: sla
- plugins:
  - name: overcommit
  - name: predicates
  - name: proportion
  - name: nodeorder
"""
"""sla votes by time: every job is asked in its turn."""
NO_GANG = """
actions: "allocate, backfill"
tiers:
- plugins:
  - name: priority
  - name: predicates
"""


def class_(name: str, value: int) -> dict[str, object]:
    return {
        "apiVersion": "scheduling.k8s.io/v1",
        "kind": "PriorityClass",
        "metadata": {"name": name, "uid": name},
        "value": value,
    }


def order(world: World) -> list[str]:
    """Names of bound pods in the order in which they were decided."""
    return [bind.name for decision in world.decisions if isinstance(decision, BindBatch) for bind in decision.binds]


def test_jobs_of_one_queue_get_their_minimum_before_anyone_gets_more() -> None:
    world = World(
        node("n1", cpu="8"),
        group("a", 2, phase="Inqueue"),
        group("b", 2, phase="Inqueue"),
        *pods("a", 4, "a", cpu="1"),
        *pods("b", 4, "b", cpu="1"),
        conf=ALLOCATE_ONLY,
    )
    world.cycle()
    assert order(world)[:4] == ["a-0", "a-1", "b-0", "b-1"]
    assert len(order(world)) == 8


def test_queues_share_by_weight_task_by_task() -> None:
    world = World(
        queue("gold", weight=3),
        queue("lead", weight=1),
        node("n1", cpu="8", memory="80Gi"),
        group("g", 1, queue="gold", phase="Inqueue"),
        group("l", 1, queue="lead", phase="Inqueue"),
        *pods("g", 8, "g", cpu="1", memory="1Gi"),
        *pods("l", 8, "l", cpu="1", memory="1Gi"),
    )
    world.cycle()
    bound = order(world)
    assert sum(name.startswith("g") for name in bound) == 6
    assert sum(name.startswith("l") for name in bound) == 2


def test_a_job_of_higher_priority_goes_first() -> None:
    world = World(
        class_("high", 10),
        node("n1", cpu="2"),
        group("a", 2, phase="Inqueue"),
        group("b", 2, phase="Inqueue", priorityClassName="high"),
        *pods("a", 2, "a", cpu="1"),
        *pods("b", 2, "b", cpu="1"),
        conf=ALLOCATE_ONLY,
    )
    world.cycle()
    assert order(world) == ["b-0", "b-1"]


def with_uids(objects: list[Manifest], uids: str) -> list[Manifest]:
    """Objects with one letter of a text as uid each."""
    for each, uid in zip(objects, uids, strict=True):
        each["metadata"]["uid"] = uid
    return objects


@pytest.mark.parametrize("uids", ["abc", "cba", "bca"])
def test_jobs_of_one_second_start_in_the_order_of_their_names(uids: str) -> None:
    world = World(
        node("n1", cpu="3"),
        *with_uids([group(name, 1, phase="Inqueue") for name in ("first", "second", "third")], uids),
        *[pod(f"{name}-0", name, cpu="1") for name in ("third", "first", "second")],
        conf=ALLOCATE_ONLY,
    )
    world.cycle()
    assert order(world) == ["first-0", "second-0", "third-0"]


@pytest.mark.parametrize("uids", ["abc", "cba", "bca"])
def test_jobs_of_one_second_are_admitted_in_the_order_of_their_names(uids: str) -> None:
    names = ("first", "second", "third")
    world = World(
        node("n1", cpu="2"),
        queue("q", capability={"cpu": "2"}),
        *with_uids([group(name, 1, queue="q", minResources={"cpu": "1"}) for name in names], uids),
    )
    world.cycle()
    assert [world.phase(name) for name in names] == ["Inqueue", "Inqueue", "Pending"]


@pytest.mark.parametrize("uids", ["abc", "cba", "bca"])
def test_the_job_whose_name_comes_last_is_the_first_to_lose_its_room(uids: str) -> None:
    names = ("first", "second", "third")
    world = World(
        class_("high", 10),
        node("n1", cpu="3"),
        *with_uids([group(name, 0, phase="Running") for name in names], uids),
        *[pod(f"{name}-0", name, on="n1", phase="Running", cpu="1") for name in names],
        group("urgent", 1, phase="Inqueue", priorityClassName="high"),
        pod("urgent-0", "urgent", cpu="1"),
        conf=ALLOCATE_ONLY.replace("allocate", "allocate, preempt"),
    )
    world.cycle()
    assert world.evictions == ["third-0"]


@pytest.mark.parametrize("plugin", ["priority", "proportion", "capacity", "capacity, enableHierarchy: true"])
@pytest.mark.parametrize("uids", ["abc", "cba", "bca"])
def test_queues_of_one_second_have_their_turns_in_the_order_of_their_names(plugin: str, uids: str) -> None:
    names = ("first", "second", "third")
    world = World(
        node("n1", cpu="3"),
        queue("root"),
        *with_uids([queue(name, parent="root") for name in names], uids),
        *[group(name, 1, queue=name, phase="Inqueue") for name in names],
        *[pod(f"{name}-0", name, cpu="1") for name in ("second", "third", "first")],
        conf=f"actions: allocate\ntiers: [{{plugins: [{{name: gang}}, {{name: {plugin}}}]}}]",
    )
    world.cycle()
    assert order(world) == ["first-0", "second-0", "third-0"]


def test_a_big_job_that_is_refused_does_not_block_a_small_one() -> None:
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
    assert set(world.binds) == {"small-0"}
    reason = world.state.ledger.jobs["ns/big"].attempts.reason
    assert reason.code == "QueueQuotaInsufficient"
    assert "insufficient cpu" in reason.text


def test_without_the_enqueue_action_a_group_is_let_in_before_it_has_pods() -> None:
    """The job controller makes pods only once the PodGroup has left Pending."""
    world = World(node("n1"), group("pg", 2), conf=ALLOCATE_ONLY).run()
    assert world.group("pg").status.phase == "Inqueue"


def test_without_the_enqueue_action_a_pending_group_is_placed_at_once() -> None:
    world = World(node("n1"), group("pg", 1), *pods("p", 1, "pg", cpu="1"), conf=ALLOCATE_ONLY)
    world.run(2)
    assert world.group("pg").status.phase == "Running"


def test_without_gang_each_turn_places_one_task() -> None:
    world = World(node("n1", cpu="3"), group("pg", 4, phase="Inqueue"), *pods("p", 4, "pg", cpu="1"), conf=NO_GANG)
    world.run()
    assert len(world.binds) == 3


def test_a_missing_queue_leaves_the_job_waiting_until_it_appears() -> None:
    world = World(node("n1"), group("pg", 1, queue="later"), *pods("p", 1, "pg", cpu="1"))
    world.run(2)
    assert world.binds == {}
    text = 'queue "later" does not exist; create it, or name another in spec.queue'
    condition = world.group("pg").status.conditions[-1]
    assert (condition.type, condition.reason, condition.message) == ("Unschedulable", "QueueNotFound", text)
    assert ("pg", "Unschedulable", text) in world.recorded
    assert ("p-0", "FailedScheduling", text) in world.recorded
    assert world.group("pg").status.phase == "Pending"
    world.put(queue("later"))
    world.run(2)
    assert set(world.binds) == {"p-0"}
    assert world.group("pg").status.phase == "Running"


@pytest.mark.parametrize("bind_phase", ["Pending", "Running"])
def test_releasing_room_is_reserved_and_not_bound(bind_phase: str) -> None:
    """A pipelined gang waits in the session for what is being released, and nothing of it is sent."""
    world = World(
        node("n1", cpu="2"),
        group("old", 1, phase="Inqueue"),
        *pods("old", 2, "old", cpu="1"),
        conf=ALLOCATE_ONLY,
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


def test_the_budget_cuts_at_a_gang_boundary_and_the_next_cycle_goes_on() -> None:
    class Once:
        def __init__(self) -> None:
            self.asked = 0

        def exhausted(self) -> bool:
            self.asked += 1
            return self.asked > 1

    world = World(
        node("n1"),
        group("a", 2, phase="Inqueue"),
        group("b", 2, phase="Inqueue"),
        *pods("a", 2, "a", cpu="1"),
        *pods("b", 2, "b", cpu="1"),
    )
    result = world.cycle(budget=Once())
    assert (result.cut_at, world.batches) == ("allocate", [["a-0", "a-1"]])
    world.echo()
    world.run()
    assert world.batches == [["a-0", "a-1"], ["b-0", "b-1"]]


class After:
    """A budget that ends after so many jobs."""

    def __init__(self, jobs: int) -> None:
        self.left = jobs

    def exhausted(self) -> bool:
        self.left -= 1
        return self.left < 0


def test_groups_that_wait_to_be_let_in_cannot_use_up_every_cycle() -> None:
    """After a cycle that was cut in enqueue, allocate comes first."""
    world = World(
        node("n1", cpu="4"),
        group("in", 1, phase="Inqueue"),
        *pods("in", 1, "in", cpu="1"),
        *(group(f"big-{at}", 1, minResources={"cpu": "40"}) for at in range(5)),
        conf=ONE_BY_ONE,
    )
    assert world.cycle(budget=After(3)).cut_at == "enqueue"
    assert not world.batches
    world.cycle(budget=After(3))
    assert world.batches == [["in-0"]]


def test_every_waiting_group_is_asked_though_no_cycle_asks_all() -> None:
    """Enqueue goes on after a cut where it was, past those who were refused."""
    world = World(
        node("n1", cpu="4"),
        *(group(f"big-{at}", 1, minResources={"cpu": "40"}) for at in range(9)),
        group("small", 1, minResources={"cpu": "1"}),
        *pods("small", 1, "small", cpu="1"),
        conf=ONE_BY_ONE,
    )
    for _ in range(12):
        world.cycle(budget=After(3))
        world.echo()
    assert set(world.binds) == {"small-0"}


def test_what_is_certain_to_be_refused_takes_no_turn() -> None:
    world = World(
        node("n1", cpu="4"),
        group("in", 1, phase="Inqueue"),
        *pods("in", 1, "in", cpu="1"),
        *(group(f"big-{at}", 1, minResources={"cpu": "40"}) for at in range(50)),
    )
    assert world.cycle(budget=After(3)).cut_at == ""
    assert world.batches == [["in-0"]]
    assert all(world.state.ledger.jobs[f"ns/big-{at}"].attempts.enqueue_refusal for at in range(50))


def test_a_gang_that_found_no_room_is_tried_as_soon_as_room_appears() -> None:
    world = World(
        node("n1", cpu="3"),
        group("a", 3),
        group("b", 3),
        *pods("a", 3, "a", cpu="1"),
        conf=ALLOCATE_ONLY,
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


@pytest.mark.parametrize("actions", ["enqueue, allocate", "preempt, enqueue, allocate"])
def test_gangs_that_use_up_the_budget_without_success_do_not_block_others(actions: str) -> None:
    """Those that are cut off go first in the next cycle; tried again each time would be whoever stands first."""
    world = World(
        node("n1", cpu="8"),
        class_("high", 9),
        *(group(f"big-{at}", 2, priorityClassName="high") for at in range(3)),
        *(made for at in range(3) for made in pods(f"big-{at}-a", 1, f"big-{at}", cpu="7")),
        *(made for at in range(3) for made in pods(f"big-{at}-b", 1, f"big-{at}", cpu="6")),
        group("small", 1),
        *pods("small", 1, "small", cpu="1"),
        conf=ALLOCATE_ONLY.replace('"allocate"', f'"{actions}"'),
    )
    for _ in range(12):
        world.cycle(budget=CutAt(2))
        world.echo()
    assert world.binds == {"small-0": "n1"}


def test_of_tasks_whose_turn_is_still_to_come_nothing_is_said() -> None:
    """Nor is a job looked at that gets on in every cycle, each of which is cut: that would be every job each time."""
    world = World(
        node("n1", cpu="16"),
        group("a", 1, phase="Inqueue"),
        *pods("a", 4, "a", cpu="1"),
        *pods("b", 1, "b", cpu="1"),
        group("b", 1, phase="Inqueue"),
        conf=ALLOCATE_ONLY,
        period=0.25,
    )
    for number in range(1, 4):
        world.cycle(budget=CutAt(2))
        assert [bind.name for batch in world.last if isinstance(batch, BindBatch) for bind in batch.binds]
        assert len(order(world)) == number
        assert not [patch for patch in world.last if isinstance(patch, Patch) and patch.resource == kinds.POD.resource]
        world.now += 2.0  # long enough for what lasts to be said
    assert world.group("a").status.phase == PodGroupPhase.INQUEUE
    for _ in range(3):
        world.cycle()
        world.echo()
    assert len(order(world)) == 5
    assert world.group("a").status.phase == PodGroupPhase.RUNNING


def test_a_job_that_gets_on_in_cycles_that_are_cut_is_looked_at_at_last() -> None:
    world = World(
        node("n1", cpu="64"),
        group("a", 1, phase="Inqueue"),
        *pods("a", 40, "a", cpu="1"),
        conf=ALLOCATE_ONLY,
    )
    phases = []
    for _ in range(20):
        world.cycle(budget=CutAt(2))
        world.echo()
        phases.append(world.group("a").status.phase)
    assert len(order(world)) < 40
    assert phases[-1] == PodGroupPhase.RUNNING
