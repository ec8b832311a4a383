"""A diagnosis stays as precise as the last attempt was, whatever later cycles leave undecided."""

from __future__ import annotations

from tests.scenario.scheduling.harness import World, group, node, pods, running
from tests.scenario.why.cases import ALLOCATE
from volcanoio.engine.scheduling.diagnosis.diagnosis import Diagnosis, diagnose
from volcanoio.engine.scheduling.session.context import Budget


class Spent(Budget):
    """A time budget that is used up at the first look."""

    def check(self) -> bool:
        return True


def world() -> World:
    """A gang that finds no node, and another one of which each cycle could place nothing either."""
    return World(
        node("n1", cpu="4"),
        group("old", 1, phase="Running"),
        *running("old", 1, on="n1", cpu="3"),
        group("g", 1, phase="Inqueue"),
        *pods("g", 1, "g", cpu="2"),
        conf=ALLOCATE,
    )


def diagnosis(some: World, budget: Spent | None = None) -> Diagnosis:
    return some.ask(diagnose, budget=budget)["ns/g"]


def test_a_cycle_that_does_not_come_to_the_job_keeps_what_the_last_attempt_found() -> None:
    some = world()
    first = diagnosis(some)
    assert (first.code, [short.missing for short in first.nearest]) == ("InsufficientResource", ["1"])
    assert diagnosis(some, Spent()) == first


def test_a_job_that_is_not_tried_again_before_room_is_freed_keeps_it() -> None:
    some = world()
    first = diagnosis(some)
    assert some.state.ledger.jobs["ns/g"].attempts.unschedulable_until is not None
    assert diagnosis(some) == first


def test_without_an_attempt_it_is_said_that_there_was_none() -> None:
    assert diagnosis(world(), Spent()).code == "NotTried"


def test_a_newer_attempt_replaces_it() -> None:
    some = world()
    diagnosis(some)
    some.put(node("n1", cpu="1"))
    assert diagnosis(some).code == "LargerThanAnyNode"
