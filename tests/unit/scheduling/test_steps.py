"""Work for very many jobs, after an event or at the close of a session, is done in steps with the same result."""

from __future__ import annotations

from itertools import chain
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.scenario.scheduling.harness import World, group, node, pods, priority_class, queue
from volcanoio.engine.scheduling.cluster import state
from volcanoio.engine.scheduling.session.session import CycleSession
from volcanoio.engine.scheduling.status import closing
from volcanoio.framework.scheduling_events import CycleOpened

JOBS = 7
HIGH = priority_class("high", 100)


@pytest.fixture
def few_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(state, "JOBS_PER_STEP", 2)
    monkeypatch.setattr(closing, "KEYS_PER_STEP", 3)


def waiting(where: str) -> World:
    """Return a world of jobs with one pod each, in a queue that may not exist."""
    jobs = [
        [group(f"j{at}", 1, queue=where, priorityClassName="high"), *pods(f"j{at}", 1, f"j{at}")] for at in range(JOBS)
    ]
    return World(node("n1", cpu="2"), *chain(*jobs))


@pytest.mark.usefixtures("few_at_once")
def test_jobs_become_schedulable_in_steps_when_their_queue_is_created() -> None:
    world = waiting("late")
    world.put(queue("late"))
    assert len(world.state.ledger.schedulable_jobs) == 2
    steps = sum(1 for _ in world.state.finish_fold())
    assert steps == 2
    assert len(world.state.ledger.schedulable_jobs) == JOBS
    assert not world.state.ledger.jobs_without_queue


def test_reset_attempts_of_jobs_are_the_same_objects() -> None:
    """100,000 new objects at once would start a collection of the youngest generation."""
    world = waiting("late")
    world.run()
    before = {key: job.attempts for key, job in world.state.ledger.jobs_without_queue.items()}
    world.put(queue("late"))
    for _ in world.state.finish_fold():
        pass
    after = {key: job.attempts for key, job in world.state.ledger.schedulable_jobs.items()}
    assert len(after) == JOBS
    assert all(after[key] is before[key] and after[key].is_empty for key in before)


@pytest.mark.usefixtures("few_at_once")
def test_the_rest_of_an_event_is_processed_before_the_next_event_and_before_a_cycle() -> None:
    world = waiting("late")
    world.put(queue("late"))
    world.put(HIGH)
    assert len(world.state.ledger.schedulable_jobs) == JOBS
    assert sum(job.priority == 100 for job in world.state.ledger.schedulable_jobs.values()) == 2
    world.run()
    assert {job.priority for job in world.state.ledger.schedulable_jobs.values()} == {100}


@pytest.mark.usefixtures("few_at_once")
def test_all_jobs_of_a_missing_queue_get_the_reason() -> None:
    world = waiting("none")
    world.run()
    reasons = [job.attempts.reason.text for job in world.state.ledger.jobs_without_queue.values()]
    assert len(reasons) == JOBS
    assert set(reasons) == {'queue "none" does not exist; create it, or name another in spec.queue'}


@given(st.lists(st.tuples(st.lists(st.text("abc", max_size=3)), st.sets(st.text("abc", max_size=3)))))
def test_keys_of_several_sources_are_merged_in_order_without_duplicates(
    sources: list[tuple[list[str], set[str]]],
) -> None:
    world = World(node("n1"))
    session = CycleSession(world.state, world.profile, CycleOpened(cycle=1, upto=0, seed=1))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(closing, "KEYS_PER_STEP", 2)
        steps = closing.in_order(session, [(keys, meant.intersection) for keys, meant in sources])
        found: Any = None
        while found is None:
            try:
                next(steps)
            except StopIteration as stop:
                found = list(stop.value)
    assert found == sorted({key for keys, meant in sources for key in keys if key in meant})
