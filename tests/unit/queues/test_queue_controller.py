"""The queue controller in a small world: states, parents, counts and Commands, through crashes and conflicts."""

from __future__ import annotations

import pytest

from tests.unit.queues.tree import Queues
from volcanoio.engine.queues.transitions import TRANSITIONS, QueueAction, is_satisfied, next_state
from volcanoio.model import kinds, names
from volcanoio.model.scheduling import QueueState


@pytest.fixture
def world() -> Queues:
    made = Queues()
    made.queue("root", parent="")
    return made


def test_a_new_queue_gets_a_parent_and_opens(world: Queues) -> None:
    world.queue("default", parent="", state="")
    assert world.writes == ["patch default parent=root", "patch default state=Open"]
    assert world.named("default").spec.parent == "root"
    assert world.named("root").spec.parent == ""


def test_counts_are_gathered_before_they_are_written(world: Queues) -> None:
    world.queue("q")
    for number in range(5):
        world.group(f"g{number}", "q", "Inqueue")
    world.group("g0", "q", "Running")
    assert world.writes == []
    world.wait(1)
    assert world.writes == ["patch q state=Open inqueue=4 running=1"]
    world.wait(60)
    assert len(world.writes) == 1


@pytest.mark.parametrize(
    ("phase", "field"),
    [
        ("", "pending"),
        ("Pending", "pending"),
        ("Inqueue", "inqueue"),
        ("Running", "running"),
        ("Unknown", "unknown"),
        ("Completed", "completed"),
    ],
)
def test_each_phase_has_its_count(world: Queues, phase: str, field: str) -> None:
    world.queue("q")
    world.group("g", "q", phase)
    world.wait(1)
    status = world.named("q").status
    counted = {name: getattr(status, name) for name in ("pending", "inqueue", "running", "unknown", "completed")}
    assert {name for name, count in counted.items() if count} == {field}


def test_a_group_that_names_no_queue_is_in_default_and_one_that_moves_leaves(world: Queues) -> None:
    world.queue("default")
    world.queue("q")
    world.group("g", "")
    world.wait(1)
    world.group("g", "q")
    world.wait(1)
    assert (world.named("default").status.running, world.named("q").status.running) == (0, 1)
    world.remove(kinds.POD_GROUP, "ns/g")
    world.wait(1)
    assert world.named("q").status.running == 0


def test_native_groups_count_beside_those_of_volcano(world: Queues) -> None:
    """Also one of the same name; a native group that the scheduler does not have is in no queue."""
    world.queue("default")
    world.queue("q")
    world.group("g", "q", "Inqueue")
    world.native_group("g", "q", "Inqueue")
    world.native_group("theirs", "")
    world.wait(1)
    assert (world.named("q").status.inqueue, world.named("default").status.running) == (2, 0)
    world.native_group("g", "default", "Running")
    world.wait(1)
    assert (world.named("q").status.inqueue, world.named("default").status.running) == (1, 1)
    world.command("c", "CloseQueue", "default")
    assert world.named("default").status.state == "Closing"
    world.remove(kinds.NATIVE_POD_GROUP, "ns/g")
    assert world.named("default").status.state == "Closed"


def test_closing_waits_for_the_last_group_completed_ones_too(world: Queues) -> None:
    world.queue("q")
    world.group("g", "q", "Completed")
    world.command("c", "CloseQueue", "q")
    assert world.named("q").status.state == "Closing"
    assert world.names(kinds.COMMAND) == []
    assert world.events == ["Normal CloseQueue: queue is now Closing until 1 PodGroup is gone"]
    world.remove(kinds.POD_GROUP, "ns/g")
    assert world.named("q").status.state == "Closed"


def test_an_empty_queue_closes_at_once_and_opens_again(world: Queues) -> None:
    world.queue("q")
    world.command("c", "CloseQueue", "q")
    world.command("o", "OpenQueue", "q")
    assert world.writes == [
        "patch q state=Closed",
        "delete c",
        "patch q state=Open",
        "delete o",
    ]


def test_children_follow_their_parent_and_only_those_it_closed_open_with_it(world: Queues) -> None:
    world.queue("parent")
    world.queue("open", parent="parent")
    world.queue("shut", parent="parent", state="Closed")
    world.queue("grandchild", parent="open")
    world.command("c", "CloseQueue", "parent")
    states = {name: world.named(name).status.state for name in ("parent", "open", "shut", "grandchild")}
    assert set(states.values()) == {"Closed"}
    assert world.named("open").metadata.annotations == {names.CLOSED_BY_PARENT: "true"}
    assert world.named("shut").metadata.annotations == {}
    world.command("o", "OpenQueue", "parent")
    assert {name: world.named(name).status.state for name in states} == {
        "parent": "Open",
        "open": "Open",
        "shut": "Closed",
        "grandchild": "Open",
    }
    assert world.named("open").metadata.annotations == {names.CLOSED_BY_PARENT: "false"}


def test_a_child_put_under_a_closed_parent_closes(world: Queues) -> None:
    world.queue("parent", state="Closed")
    world.queue("child", parent="parent", state="")
    assert world.named("child").status.state == "Closed"


def test_opening_below_a_closed_parent_waits_a_while_and_is_then_refused(world: Queues) -> None:
    world.queue("parent", state="Closed")
    world.queue("child", parent="parent", state="Closed")
    world.command("o", "OpenQueue", "child")
    world.wait(10)
    assert world.names(kinds.COMMAND) == ["o"]
    world.wait(30)
    assert world.names(kinds.COMMAND) == []
    assert world.events == [
        "Warning OpenQueue: queue child cannot open while its parent parent is closed; open that first"
    ]
    assert world.named("child").status.state == "Closed"


def test_a_child_opens_once_its_parent_is_open(world: Queues) -> None:
    world.queue("parent", state="Closed")
    world.queue("child", parent="parent", state="Closed")
    world.command("o", "OpenQueue", "child")
    world.command("p", "OpenQueue", "parent")
    assert world.named("child").status.state == "Open"
    assert world.names(kinds.COMMAND) == []


def test_the_root_cannot_be_closed(world: Queues) -> None:
    world.command("c", "CloseQueue", "root")
    assert (world.named("root").status.state, world.names(kinds.COMMAND)) == ("Open", [])
    assert world.events == ["Warning CloseQueue: the root queue cannot be closed; close the queues below it"]


def test_commands_that_can_never_be_done_are_taken_away_with_the_reason(world: Queues) -> None:
    world.queue("q")
    world.command("a", "AbortJob", "q")
    world.command("b", "CloseQueue", "q", uid="uid-of-an-earlier-q")
    world.command("c", "CloseQueue", "absent")
    assert world.names(kinds.COMMAND) == []
    assert [event.partition(":")[0] for event in world.events] == ["Warning AbortJob", "Warning CloseQueue"]
    assert world.named("q").status.state == "Open"


def test_a_missing_parent_stops_only_its_example(world: Queues) -> None:
    world.queue("q", parent="absent", state="")
    world.group("g", "q")
    world.wait(1)
    assert (world.named("q").status.state, world.named("q").status.running) == ("Open", 1)
    world.queue("absent", state="Closed")
    assert world.named("q").status.state == "Closing"


def test_a_conflict_is_planned_again_from_the_newer_version(world: Queues) -> None:
    world.queue("q")
    world.held = []
    world.command("c", "CloseQueue", "q")
    world.queue("q")  # the scheduler's write
    world.release()
    assert world.writes == ["409 Patch", "patch q state=Closed", "delete c"]


@pytest.mark.parametrize("code", [403, 422, 404, 500, 0])
def test_a_refused_write_is_tried_again_later_and_later(world: Queues, code: int) -> None:
    world.refuse = [(code or 599, "refused")] * 3
    world.queue("q", state="")
    assert len(world.writes) == 1
    world.wait(2 + 4 + 8)
    assert world.named("q").status.state == "Open"


def test_nothing_is_decided_before_everything_is_listed(world: Queues) -> None:
    """A closing queue that seems empty because its PodGroups are not listed yet stays closing."""
    world.group("g", "q")
    world.queue("q", state="Closing")
    world.wait(1)
    world.writes.clear()
    world.start()
    world.wait(1)
    assert world.writes == []
    assert world.named("q").status.state == "Closing"


@pytest.mark.parametrize("survives", range(5))
def test_a_process_killed_between_any_two_writes_is_resumed(survives: int) -> None:
    """A crash after any number of writes of a close and a restart lead to the same end as no crash."""
    world = Queues()
    world.queue("root", parent="")
    world.queue("parent")
    world.queue("child", parent="parent")
    world.held = []
    world.command("c", "CloseQueue", "parent")
    for _ in range(survives):
        held, world.held = world.held, []
        world.carry_out(held or [])
    world.held = None
    world.start()
    assert (world.named("parent").status.state, world.named("child").status.state) == ("Closed", "Closed")
    assert world.named("child").metadata.annotations == {names.CLOSED_BY_PARENT: "true"}
    assert world.names(kinds.COMMAND) == []


def test_a_queue_that_is_created_again_counts_existing_groups(world: Queues) -> None:
    world.queue("q")
    world.group("g", "q")
    world.wait(1)
    world.remove(kinds.QUEUE, "q")
    world.group("h", "q")
    world.queue("q", state="")
    assert world.named("q").status.running == 2


def test_figures_come_and_go_with_the_queue(world: Queues) -> None:
    there = dict(world.gauges)
    world.group("early", "q", "Pending")
    assert world.gauges == there
    world.queue("q")
    world.group("one", "q", "Inqueue")
    world.group("one", "q", "Running")
    names = ("pending", "inqueue", "running", "unknown", "completed")
    counts = [world.gauges["q", f"volcano_queue_pod_group_{name}_count"] for name in names]
    assert counts == [1, 0, 1, 0, 0]
    world.remove(kinds.QUEUE, "q")
    assert world.gauges == there


def test_a_queue_without_objects_is_dropped(world: Queues) -> None:
    world.queue("q")
    world.group("g", "q")
    world.wait(1)
    world.remove(kinds.QUEUE, "q")
    world.remove(kinds.POD_GROUP, "ns/g")
    assert world.host["queue-controller"].keys == ["root"]


def test_every_state_has_a_rule_for_every_action() -> None:
    for state in ("", *QueueState):
        for action in QueueAction:
            assert (state, action) in TRANSITIONS
            for empty in (True, False):
                assert next_state(state, action, empty=empty) in tuple(QueueState)


@pytest.mark.parametrize("state", ["", *QueueState])
@pytest.mark.parametrize("empty", [True, False])
def test_an_action_carried_out_is_satisfied(state: str, empty: bool) -> None:
    for action in QueueAction:
        assert is_satisfied(next_state(state, action, empty=empty), action)


def test_an_unknown_state_is_treated_as_unknown() -> None:
    assert next_state("Weird", QueueAction.OPEN, empty=True) == "Open"
