"""Plugin capacity: limits, deserved amounts and guarantees of queues, flat and as a tree."""

from __future__ import annotations

from typing import Any, cast

import pytest

from tests.scenario.scheduling.harness import World, group, node, pod, pods, queue
from volcanoio.engine.scheduling.configuration import ConfigurationError
from volcanoio.engine.scheduling.cycle import Unlimited
from volcanoio.engine.scheduling.session import CycleSession
from volcanoio.framework.scheduling.session import Session
from volcanoio.framework.scheduling_events import CycleOpened

FLAT = """
actions: "enqueue, allocate, reclaim"
tiers:
- plugins:
  - name: gang
    enableReclaimable: false
  - name: capacity
"""
TREE = FLAT + "    enableHierarchy: true\n"
ADMIT = FLAT.replace(", reclaim", "")


def level(number: int) -> str:
    return TREE + f"    arguments: {{ancestorReclaimLevel: {number}}}\n"


def root(**spec: Any) -> dict[str, Any]:
    return queue("root", **spec)


GPU: dict[str, Any] = {"nvidia.com/gpu": "1"}


def ask(name: str, where: str, count: int = 1, minimum: int = 1, **requests: str) -> list[dict[str, Any]]:
    """A job in a queue whose pods wait."""
    return [group(name, minimum, queue=where, phase="Inqueue"), *pods(name, count, name, **requests)]


def run(name: str, where: str, count: int = 1, minimum: int = 0, **more: str) -> list[dict[str, Any]]:
    """A job in a queue whose pods run on n1."""
    running = pods(name, count, name, on="n1", phase="Running", **more)
    return [group(name, minimum, queue=where, phase="Running"), *running]


def guarantee(**resources: str) -> dict[str, Any]:
    return {"resource": resources}


# Limits.


def test_a_queue_holds_no_more_than_its_capability() -> None:
    world = World(node("n1"), queue("q", capability={"cpu": "3"}), *ask("a", "q", 5, cpu="1", memory="1Gi"), conf=FLAT)
    world.run(2)
    assert len(world.binds) == 3


def test_what_others_are_guaranteed_is_out_of_reach() -> None:
    world = World(
        node("n1"), queue("q"), queue("other", guarantee=guarantee(cpu="5")), *ask("a", "q", 8, cpu="1"), conf=FLAT
    )
    world.run(2)
    assert len(world.binds) == 3


def test_a_capability_that_is_not_named_is_no_limit_and_deserved_is_none_either() -> None:
    world = World(
        node("n1"),
        queue("q", capability={"memory": "64Gi"}, deserved={"cpu": "1"}),
        *ask("a", "q", 8, cpu="1"),
        conf=FLAT,
    )
    world.run(2)
    assert len(world.binds) == 8


def test_a_closed_queue_places_nothing() -> None:
    closed = queue("q")
    closed["status"]["state"] = "Closed"
    world = World(node("n1"), closed, *ask("a", "q", cpu="1"), conf=FLAT)
    world.run(2)
    assert not world.binds


def test_every_ancestor_limits_what_its_queues_hold_together() -> None:
    world = World(
        node("n1", cpu="16"),
        root(),
        queue("top", capability={"cpu": "6"}),
        queue("mid", parent="top", capability={"cpu": "5"}),
        queue("a", parent="mid", capability={"cpu": "4"}),
        queue("b", parent="mid", capability={"cpu": "4"}),
        queue("c", parent="top"),
        *ask("a", "a", 8, cpu="1"),
        *ask("b", "b", 8, cpu="1"),
        *ask("c", "c", 8, cpu="1"),
        conf=TREE,
    )
    world.run(3)
    counts = {name: sum(key.startswith(name) for key in world.binds) for name in "abc"}
    assert counts["a"] <= 4
    assert counts["b"] <= 4
    assert counts["a"] + counts["b"] <= 5
    assert sum(counts.values()) == 6


def test_a_capability_is_inherited_by_resource() -> None:
    world = World(
        node("n1", cpu="16", memory="64Gi"),
        root(),
        queue("top", capability={"cpu": "3", "memory": "8Gi"}),
        queue("a", parent="top", capability={"memory": "6Gi"}),
        *ask("a", "a", 8, cpu="1", memory="1Gi"),
        conf=TREE,
    )
    world.run(2)
    assert len(world.binds) == 3


def test_siblings_guarantees_are_out_of_reach_below_a_limited_parent() -> None:
    world = World(
        node("n1", cpu="16"),
        root(),
        queue("top", capability={"cpu": "8"}),
        queue("a", parent="top"),
        queue("b", parent="top", guarantee=guarantee(cpu="3")),
        *ask("a", "a", 16, cpu="1"),
        conf=TREE,
    )
    world.run(2)
    assert len(world.binds) == 5


# A tree that is broken.


@pytest.mark.parametrize(
    ("bad", "reason"),
    [
        ([queue("bad", parent="nowhere")], 'queue "bad" has the parent "nowhere", which does not exist'),
        (
            [queue("bad", parent="b1"), queue("b1", parent="b2"), queue("b2", parent="b1")],
            "queues are their own ancestors: b1 -> b2 -> b1",
        ),
        (
            [queue("bad"), queue("below", parent="bad")],
            'queue "bad" has queues below it; submit to one of these: below',
        ),
    ],
)
def test_a_broken_branch_stops_alone_and_says_why(bad: list[dict[str, Any]], reason: str) -> None:
    world = World(
        node("n1"),
        root(),
        *bad,
        queue("good", parent="root"),
        *ask("bad", "bad", cpu="1"),
        *ask("good", "good", cpu="1"),
        conf=TREE,
    )
    world.run(4)
    assert world.binds == {"good-0": "n1"}
    assert reason in world.state.ledger.jobs["ns/bad"].attempts.reason.text


def test_without_a_root_nothing_runs_until_it_is_there() -> None:
    world = World(node("n1"), queue("q"), *ask("a", "q", cpu="1"), conf=TREE)
    world.run(2)
    assert not world.binds
    world.put(root())
    world.run(2)
    assert world.binds == {"a-0": "n1"}


def test_a_branch_that_is_mended_runs() -> None:
    world = World(node("n1"), root(), queue("q", parent="later"), *ask("a", "q", cpu="1"), conf=TREE)
    world.run(2)
    world.put(queue("later"))
    world.run(2)
    assert world.binds == {"a-0": "n1"}


# Admission.


def test_a_job_is_admitted_beside_what_is_held_and_admitted_less_what_is_elastic() -> None:
    world = World(
        node("n1"),
        queue("q", capability={"cpu": "4"}),
        group("old", 1, queue="q", phase="Running", minResources={"cpu": "1"}),
        *pods("old", 3, "old", on="n1", phase="Running", cpu="1"),
        group("a", 1, queue="q", minResources={"cpu": "3"}),
        group("b", 1, queue="q", minResources={"cpu": "1"}),
        conf=ADMIT,
    )
    world.cycle()
    assert (world.phase("a"), world.phase("b")) == ("Inqueue", "Pending")


def test_every_ancestor_has_a_say_in_admission_and_the_event_names_the_resource() -> None:
    world = World(
        node("n1"),
        root(),
        queue("top", capability={"cpu": "4"}),
        queue("a", parent="top"),
        queue("b", parent="top"),
        group("a", 1, queue="a", minResources={"cpu": "3"}),
        group("b", 1, queue="b", minResources={"cpu": "3"}),
        conf=ADMIT + "    enableHierarchy: true\n",
    )
    world.run(3)
    assert (world.phase("a"), world.phase("b")) == ("Inqueue", "Pending")
    assert ("b", "Unschedulable", "queue resource quota insufficient: insufficient cpu") in world.told


def test_what_waits_behind_gates_is_no_demand() -> None:
    gated = pods("a", 3, "a", cpu="1", spec={"schedulingGates": [{"name": "example.com/later"}]})
    world = World(
        node("n1"),
        queue("q", capability={"cpu": "3"}),
        group("a", 1, queue="q", phase="Inqueue", minResources={"cpu": "3"}),
        *gated,
        group("b", 1, queue="q", minResources={"cpu": "3"}),
        conf=ADMIT,
    )
    world.cycle()
    assert world.phase("b") == "Inqueue"


# Order of queues.


def test_queues_without_a_deserved_amount_come_after_those_that_do_not_hold_more_than_theirs() -> None:
    world = World(
        node("n1", cpu="5"),
        queue("a"),
        queue("b", deserved={"cpu": "3"}),
        *ask("a", "a", 4, cpu="1"),
        *ask("b", "b", 4, cpu="1"),
        conf=FLAT,
    )
    world.cycle()
    assert [request.name[0] for request in world.requests] == ["b", "b", "b", "b", "a"]


def test_branches_take_turns_by_what_each_holds_of_what_it_deserves() -> None:
    """Two queues of one branch together have as much as the one of the other."""
    world = World(
        node("n1", cpu="8"),
        root(),
        queue("x", deserved={"cpu": "4"}),
        queue("x1", parent="x", deserved={"cpu": "4"}),
        queue("x2", parent="x", deserved={"cpu": "4"}),
        queue("y", deserved={"cpu": "4"}),
        queue("y1", parent="y", deserved={"cpu": "4"}),
        *ask("one", "x1", 8, cpu="1"),
        *ask("two", "x2", 8, cpu="1"),
        *ask("why", "y1", 8, cpu="1"),
        conf=TREE,
    )
    world.cycle()
    counts = {name: sum(key.startswith(name) for key in world.binds) for name in ("one", "two", "why")}
    assert counts == {"one": 2, "two": 2, "why": 4}


# Taking back.


def test_a_queue_below_what_it_deserves_takes_from_one_above() -> None:
    world = World(
        node("n1", cpu="4"),
        queue("a", deserved={"cpu": "2"}),
        queue("b", deserved={"cpu": "2"}),
        *run("a", "a", 4, cpu="1"),
        *ask("b", "b", 4, 2, cpu="1"),
        conf=FLAT,
    )
    world.cycle()
    assert len(world.evictions) == 2


def test_a_guarantee_is_never_taken() -> None:
    world = World(
        node("n1", cpu="4"),
        queue("a", deserved={"cpu": "1"}, guarantee=guarantee(cpu="3")),
        queue("b", deserved={"cpu": "3"}),
        *run("a", "a", 4, cpu="1"),
        *ask("b", "b", 3, 1, cpu="1"),
        conf=FLAT,
    )
    world.run(5)
    assert len(world.evictions) == 1


def test_a_guarantee_of_a_branch_is_never_taken_either() -> None:
    world = World(
        node("n1", cpu="4"),
        root(),
        queue("x", deserved={"cpu": "1"}, guarantee=guarantee(cpu="3")),
        queue("x1", parent="x"),
        queue("b", deserved={"cpu": "3"}),
        *run("a", "x1", 4, cpu="1"),
        *ask("b", "b", 3, 1, cpu="1"),
        conf=TREE,
    )
    world.run(5)
    assert len(world.evictions) == 1


def test_a_task_that_has_nothing_the_taker_needs_stays() -> None:
    world = World(
        node("n1", cpu="4", memory="4Gi", **GPU),
        queue("a"),
        queue("b", deserved={"nvidia.com/gpu": "1"}),
        *run("a", "a", 1, cpu="4"),
        *run("g", "a", 1, **GPU),
        *ask("b", "b", 1, **GPU),
        conf=FLAT,
    )
    world.cycle()
    assert world.evictions == ["g-0"]


def test_a_queue_that_would_pass_its_limit_takes_nothing() -> None:
    world = World(
        node("n1", cpu="4"),
        queue("a"),
        queue("b", deserved={"cpu": "4"}, capability={"cpu": "1"}),
        *run("a", "a", 4, cpu="1"),
        *ask("b", "b", 1, cpu="2"),
        conf=FLAT,
    )
    world.cycle()
    assert not world.evictions


@pytest.mark.parametrize(("ancestors", "evicted"), [(0, 0), (1, 1)])
def test_a_parent_below_what_it_deserves_lends_its_standing_where_that_counts(ancestors: int, evicted: int) -> None:
    world = World(
        node("n1", cpu="2"),
        root(),
        queue("x", deserved={"cpu": "1"}),
        queue("x1", parent="x"),
        queue("y"),
        *run("y", "y", 2, cpu="1"),
        *ask("a", "x1", 1, cpu="1"),
        conf=level(ancestors),
    )
    world.cycle()
    assert len(world.evictions) == evicted


@pytest.mark.parametrize(("ancestors", "evicted"), [(0, 1), (1, 0)])
def test_a_queue_whose_parent_is_within_what_it_deserves_is_spared_where_that_counts(
    ancestors: int, evicted: int
) -> None:
    world = World(
        node("n1", cpu="2"),
        root(),
        queue("x", deserved={"cpu": "1"}),
        queue("y", deserved={"cpu": "2"}),
        queue("y1", parent="y", deserved={"cpu": "1"}),
        *run("y", "y1", 2, cpu="1"),
        *ask("a", "x", 1, cpu="1"),
        conf=level(ancestors),
    )
    world.cycle()
    assert len(world.evictions) == evicted


def test_the_nearest_relatives_lose_first() -> None:
    """X1 takes from its sibling rather than from another branch."""
    world = World(
        node("n1", cpu="2"),
        root(),
        queue("x"),
        queue("x1", parent="x", deserved={"cpu": "1"}),
        queue("x2", parent="x"),
        queue("y"),
        *run("far", "y", 1, cpu="1"),
        *run("near", "x2", 1, cpu="1"),
        *ask("a", "x1", 1, cpu="1"),
        conf=TREE,
    )
    world.cycle()
    assert world.evictions == ["near-0"]


# Arguments.


@pytest.mark.parametrize("key", ["capacity.DynamicResourceAllocationEnable", "capacity.DRAConsumableCapacityEnable"])
def test_claimed_devices_are_not_available_yet(key: str) -> None:
    with pytest.raises(ConfigurationError, match="not available yet"):
        World(conf=FLAT + f"    arguments: {{{key}: true}}\n")
    World(conf=FLAT + f"    arguments: {{{key}: false, ancestorReclaimLevel: -1}}\n")


def test_a_pod_without_requests_needs_no_room_in_its_queue() -> None:
    conf = FLAT.replace("allocate", "allocate, backfill")
    world = World(node("n1"), queue("q", capability={"cpu": "1"}), group("a", 1, queue="q"), pod("a-0", "a"), conf=conf)
    world.run(2)
    assert world.binds == {"a-0": "n1"}


# What the queue cannot take.


def test_a_gang_its_queue_cannot_take_is_not_tried_again_until_the_queue_can() -> None:
    world = World(
        node("n1"),
        queue("q", capability={"cpu": "4"}),
        *run("a", "q", 3, cpu="1"),
        *ask("b", "q", 3, 3, cpu="1"),
        conf=FLAT,
    )
    world.run(2)
    world.now -= world.period  # within the period it is known
    assert "ns/b" not in tried(world)
    why = "queue q has no room left for 2 of its tasks"
    assert world.state.ledger.jobs["ns/b"].attempts.reason.text == why
    assert [entry.message for entry in world.pod("b-1").status.conditions] == [why]
    assert world.group("b").status.conditions[-1].message.endswith(f". Origin reason is {why}")
    world.set_pod("a-0", phase="Succeeded")
    world.run()
    assert not world.binds, "two of three"
    world.set_pod("a-1", phase="Succeeded")
    world.now -= world.period
    world.run()
    assert len(world.binds) == 3


def test_a_limit_that_is_raised_counts_at_once() -> None:
    world = World(node("n1"), queue("q", capability={"cpu": "2"}), *ask("b", "q", 3, 3, cpu="1"), conf=FLAT)
    world.run(2)
    world.now -= world.period
    world.put(queue("q", capability={"cpu": "3"}))
    world.run()
    assert len(world.binds) == 3


def tried(world: World) -> set[str]:
    """The jobs that a cycle, which is run, came to."""
    opening = CycleOpened(cycle=99, upto=0, seed=1, at=world.now)
    session = CycleSession(world.state, world.profile, opening, Unlimited(), world.period)
    for _ in session.open():
        pass
    action = next(action for action in world.profile.actions if action.name == "allocate")
    for _ in action.run(cast("Session", session)):
        pass
    session.undo()
    return session.tried
