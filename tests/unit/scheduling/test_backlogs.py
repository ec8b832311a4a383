"""Cached backlogs: after any changes they order jobs as newly built ones do."""

from __future__ import annotations

from collections.abc import Generator, Iterable, Iterator
from typing import Any, TypeVar

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.examples import examples
from tests.scenario.scheduling.harness import World, group, node, pods, priority_class, queue
from volcanoio.engine.scheduling.cluster import ledger
from volcanoio.engine.scheduling.cluster.jobs import JobInfo
from volcanoio.engine.scheduling.ordering import backlogs
from volcanoio.engine.scheduling.session.session import CycleSession
from volcanoio.framework.scheduling_events import CycleOpened
from volcanoio.model import kinds
from volcanoio.model.scheduling import PodGroupPhase

Result = TypeVar("Result")
STEPS = st.lists(
    st.tuples(
        st.sampled_from(
            ["group", "pods", "cycle", "end", "gone", "nogroup", "queue", "noqueue", "class", "node", "refuse", "take"]
        ),
        st.integers(0, 3),
    ),
    max_size=30,
)


def ended(steps: Generator[None, None, Result]) -> Result:
    """Run a generator to its end, and return what it returns."""
    while True:
        try:
            next(steps)
        except StopIteration as stop:
            result: Result = stop.value
            return result


def opened(world: World) -> CycleSession:
    """Open a session on the current state."""
    return CycleSession(world.state, world.profile, CycleOpened(cycle=1, upto=0, seed=1, at=world.now))


def order(session: CycleSession, *, admitted: bool) -> dict[str, list[str]]:
    """Return the keys of the jobs in their order, by queue."""
    found: dict[str, list[str]] = {}
    for name, backlog in ended(session.backlogs(admitted=admitted)).items():
        while (job := backlog.pop()) is not None:
            found.setdefault(name, []).append(job.key)
    return found


def order_of_all_jobs(session: CycleSession, *, admitted: bool) -> dict[str, list[str]]:
    """Return the same as `order`, computed from all jobs."""
    found: dict[str, list[JobInfo]] = {}
    for job in session.jobs_with_pending_tasks() if admitted else session.jobs_to_enqueue():
        if (job.phase != PodGroupPhase.PENDING) is admitted:
            found.setdefault(job.queue, []).append(job)
    return {name: [job.key for job in sorted(jobs, key=session.job_key)] for name, jobs in found.items()}


@examples(60)
@given(steps=STEPS, kept=st.integers(1, 8), spare=st.integers(0, 4))
def test_cached_backlogs_equal_newly_built_ones(steps: list[tuple[str, int]], kept: int, spare: int) -> None:
    """This includes more changes than are recorded, and frequent removal of stale entries."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(ledger, "MAX_PENDING_CHANGES", kept)
        patch.setattr(backlogs, "_STALE_ALLOWANCE", spare)
        patch.setattr(backlogs, "ENTRIES_PER_STEP", 2)
        patch.setattr(backlogs, "SORT_CHUNK", 3)
        patch.setattr(backlogs, "JOBS_PER_STEP", 2)
        world = World(node("n1", cpu="6"), queue("q0"), priority_class("c1", 10))
        for step, number in steps:
            _apply_step(world, step, number)
            session = opened(world)
            _interrupt_update(session, number)
            for admitted in (True, False, True):
                assert order(session, admitted=admitted) == order_of_all_jobs(session, admitted=admitted)
            session.undo()


def _interrupt_update(session: CycleSession, number: int) -> None:
    """End a cycle while the backlogs are being updated."""
    steps = session.backlogs(admitted=True)
    for _ in range(number):
        next(steps, None)
    steps.close()


def _apply_step(world: World, step: str, number: int) -> None:
    name, where = f"j{number}", f"q{number % 2}"
    groups = {key for (kind, key) in world.objects if kind == kinds.POD_GROUP.resource}
    members = sorted(key for (kind, key) in world.objects if kind == kinds.POD.resource)
    match step:
        case "group":
            phase = ("Pending", "Inqueue")[number % 2]
            world.put(group(name, 1, queue=where, phase=phase, priorityClassName=f"c{number % 2}"))
        case "pods":
            for member in pods(name, 3, name, cpu="1"):
                world.put(member)
        case "cycle":
            world.run()
        case "end" if members:
            world.set_pod(members[number % len(members)].partition("/")[2], phase="Succeeded")
        case "gone" if members:
            world.remove(kinds.POD, members[number % len(members)])
        case "nogroup" if f"ns/{name}" in groups:
            world.remove(kinds.POD_GROUP, f"ns/{name}")
        case "queue":
            world.put(queue(where))
        case "noqueue" if (kinds.QUEUE.resource, where) in world.objects:
            world.remove(kinds.QUEUE, where)
        case "class":
            world.put(priority_class("c1", 10 * number - 10))
        case "node":
            world.put(node(f"n{number}", cpu="2"))
        case "refuse":
            _make_urgent(world, name)
        case "take":
            _place_some(world, number)
        case _:
            pass


def _make_urgent(world: World, name: str) -> None:
    """As a refused bind does."""
    job = world.state.ledger.jobs.get(f"ns/{name}")
    if job is not None and job.pending:
        job.urgent_until = world.now + 3
        world.state.bind_refused_jobs[job.key] = job


def _place_some(world: World, number: int) -> None:
    """Jobs have their turns and are placed, put back, or left as they are."""
    session = opened(world)
    waiting = ended(session.backlogs(admitted=True))
    for backlog in waiting.values():
        for turn in range(number):
            if (job := backlog.pop()) is None:
                break
            runs = session.runs(job, best_effort=False)
            if runs and turn != 1:
                statement = session.statement(job)
                statement.allocate(runs[0], 0, 1, until_ready=False)
                if turn:
                    statement.keep_until_close()
                else:
                    statement.discard()
                backlog.push(job)
    for _ in session.undo_in_steps():
        pass
    session.undo()


def test_a_job_that_is_pushed_again_comes_first_among_the_remaining_ones() -> None:
    """The next session begins with all jobs."""
    world = World(node("n1"), queue("q0"), priority_class("c1", 10))
    for number in range(4):
        name = f"j{number}"
        world.put(group(name, 1, queue="q0", phase="Inqueue"))
        for member in pods(name, 2, name, cpu="1"):
            world.put(member)
    session = opened(world)
    backlog = ended(session.backlogs(admitted=True))["q0"]
    first, second = backlog.pop(), backlog.pop()
    assert first is not None
    assert second is not None
    assert (first.key, second.key) == ("ns/j0", "ns/j1")
    backlog.push(first)
    rest = [job.key for job in iter(backlog.pop, None)]
    assert rest == ["ns/j0", "ns/j2", "ns/j3"]
    session.undo()
    assert order(opened(world), admitted=True) == {"q0": ["ns/j0", "ns/j1", "ns/j2", "ns/j3"]}


def test_a_reported_job_is_reported_again_after_a_change_or_an_attempt() -> None:
    world = World(node("n1"), queue("q0"))
    for number in range(3):
        world.put(group(f"j{number}", 1, queue="q0", phase="Inqueue"))
        world.put(pods(f"j{number}", 1, f"j{number}", cpu="1")[0])
    session = opened(world)
    backlog = ended(session.backlogs(admitted=True))["q0"]
    assert sorted(job.key for job in backlog.changed_jobs()) == ["ns/j0", "ns/j1", "ns/j2"]
    assert list(backlog.changed_jobs()) == []
    backlog.pop()
    session.undo()
    world.put(pods("j2", 2, "j2", cpu="1")[1])
    session = opened(world)
    assert sorted(job.key for job in ended(session.backlogs(admitted=True))["q0"].changed_jobs()) == ["ns/j0", "ns/j2"]


def _with_result(steps: Generator[None, None, Result]) -> Iterator[Result | None]:
    """Yield what a generator yields, and then what it returns."""
    yield (yield from steps)


@pytest.mark.parametrize("number", [6, 24])
def test_the_number_of_jobs_processed_in_a_step_does_not_grow_with_the_backlog(
    monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    """The sessions are: all jobs new, all jobs popped before, and nothing changed since."""
    for where, name in ((backlogs, "JOBS_PER_STEP"), (backlogs, "ENTRIES_PER_STEP"), (backlogs, "SORT_CHUNK")):
        monkeypatch.setattr(where, name, 2)
    monkeypatch.setattr(backlogs, "_STALE_ALLOWANCE", 0)
    handled = 0
    in_parts, put = backlogs._chunks, backlogs.QueueBacklog.put

    def counted_parts(places: Iterable[Any], size: int) -> Iterator[list[Any]]:
        nonlocal handled
        for some in in_parts(places, size):
            handled += len(some)
            yield some

    def counted_put(backlog: backlogs.QueueBacklog, key: tuple[Any, ...], job: JobInfo) -> None:
        nonlocal handled
        handled += 1
        put(backlog, key, job)

    monkeypatch.setattr(backlogs, "_chunks", counted_parts)
    monkeypatch.setattr(backlogs.QueueBacklog, "put", counted_put)
    world = World(node("n1"), queue("q0"))
    for at in range(number):
        world.put(group(f"j{at}", 1, queue="q0", phase="Inqueue"))
        world.put(pods(f"j{at}", 1, f"j{at}", cpu="1")[0])
    for _ in range(3):
        session = opened(world)
        steps, before = session.backlogs(admitted=True), handled
        found = None
        for found in _with_result(steps):
            assert found is not None or handled - before <= 2
            before = handled
        assert found is not None
        assert len(list(iter(found["q0"].pop, None))) == number
        session.undo()
