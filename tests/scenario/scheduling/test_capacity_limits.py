"""Plugin capacity: what a queue may hold, flat and below its ancestors, and what becomes of jobs it cannot take."""

from __future__ import annotations

from typing import cast

import pytest

from tests.scenario.scheduling.capacityworlds import FLAT, TREE, ask, guarantee, root, run
from tests.scenario.scheduling.harness import World, group, node, pod, queue
from volcanoio.engine.scheduling.config.configuration import ConfigurationError
from volcanoio.engine.scheduling.session.cycle import Unlimited
from volcanoio.engine.scheduling.session.session import CycleSession
from volcanoio.framework.scheduling.session import Session
from volcanoio.framework.scheduling_events import CycleOpened


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
    amounts = "(queue q: needs cpu 3, in use 3, limit 4)"
    assert world.group("b").status.conditions[-1].message.endswith(f". Origin reason is {why} {amounts}")
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
    return session.attempted_jobs


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
