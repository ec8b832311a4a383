"""Plugin capacity: trees of queues, broken ones too, who is admitted there, and whose turn it is."""

from __future__ import annotations

from typing import Any

import pytest

from tests.scenario.scheduling.capacityworlds import ADMIT, FLAT, TREE, ask, root
from tests.scenario.scheduling.harness import World, group, node, pods, queue


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


def test_a_branch_that_is_fixed_runs() -> None:
    world = World(node("n1"), root(), queue("q", parent="later"), *ask("a", "q", cpu="1"), conf=TREE)
    world.run(2)
    world.put(queue("later"))
    world.run(2)
    assert world.binds == {"a-0": "n1"}


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
    amounts = "queue top, above queue b: needs cpu 3, in use 0, admitted 3, limit 4"
    assert ("b", "Unschedulable", f"queue resource quota insufficient: insufficient cpu ({amounts})") in world.recorded


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
