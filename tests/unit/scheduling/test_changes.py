"""Sums over jobs that are updated from session to session equal newly computed ones after any changes."""

from __future__ import annotations

import gc

import pytest
from hypothesis import given
from hypothesis import strategies as st
from volcanoio_plugins.scheduling.queues import attributes
from volcanoio_plugins.scheduling.queues.attributes import DemandSums, admitted, elastic, queue_of

from tests.examples import examples
from tests.scenario.scheduling.harness import World, group, node, pods, queue
from volcanoio.engine.scheduling.cluster import ledger
from volcanoio.engine.scheduling.cluster.jobs import JobInfo
from volcanoio.engine.scheduling.cluster.ledger import JobChanges
from volcanoio.engine.scheduling.session.session import CycleSession
from volcanoio.framework.scheduling_events import CycleOpened
from volcanoio.model import kinds

STEPS = st.lists(
    st.tuples(
        st.sampled_from(["group", "pods", "cycle", "end", "gone", "nogroup", "queue", "noqueue"]), st.integers(0, 3)
    ),
    max_size=30,
)


@examples(60)
@given(steps=STEPS)
def test_updated_sums_equal_newly_computed_ones(steps: list[tuple[str, int]]) -> None:
    world = World(node("n1", cpu="6"), queue("q0"))
    kept: DemandSums[str] = DemandSums(queue_of, elastic, admitted)
    for step, number in steps:
        name, where = f"j{number}", f"q{number % 2}"
        groups = {key for (kind, key) in world.objects if kind == kinds.POD_GROUP.resource}
        members = sorted(key for (kind, key) in world.objects if kind == kinds.POD.resource)
        if step == "group":
            world.put(group(name, 1, queue=where, minResources={"cpu": "2"}))
        elif step == "pods":
            for member in pods(name, 3, name, cpu="1"):
                world.put(member)
        elif step == "cycle":
            world.run()
        elif step == "end" and members:
            world.set_pod(members[number % len(members)].partition("/")[2], phase="Succeeded")
        elif step == "gone" and members:
            world.remove(kinds.POD, members[number % len(members)])
        elif step == "nogroup" and f"ns/{name}" in groups:
            world.remove(kinds.POD_GROUP, f"ns/{name}")
        elif step == "queue":
            world.put(queue(where))
        elif step == "noqueue" and (kinds.QUEUE.resource, where) in world.objects:
            world.remove(kinds.QUEUE, where)
        opening = CycleOpened(cycle=1, upto=0, seed=1, at=world.now)
        session = CycleSession(world.state, world.profile, opening)
        fresh: DemandSums[str] = DemandSums(queue_of, elastic, admitted)
        for one in (kept, kept, fresh):
            for _ in one.update(session):
                pass
        for queue_name in ("q0", "q1", "default"):
            assert kept.of(queue_name) == fresh.of(queue_name)


def test_a_reader_that_missed_too_many_changes_gets_all_jobs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ledger, "MAX_PENDING_CHANGES", 2)
    jobs = [JobInfo(f"ns/{index}") for index in range(5)]
    everything = {job.key: job for job in jobs}
    marks, owner = JobChanges(), DemandSums(queue_of)
    assert marks.since(owner, everything) == jobs
    marks.mark(jobs[0])
    marks.mark(jobs[0])
    assert marks.since(owner, everything) == jobs[:1]
    for job in jobs[:4]:
        marks.mark(job)
    assert marks.since(owner, everything, 3) == jobs[:3]
    marks.mark(jobs[0])
    assert marks.since(owner, everything, 3) == [jobs[3], jobs[0]]
    for index in range(8):
        marks.mark(JobInfo(f"ns/other-{index}"))
    assert marks.since(owner, everything) == jobs


def test_jobs_deleted_among_too_many_changes_are_no_longer_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ledger, "MAX_PENDING_CHANGES", 1)
    monkeypatch.setattr(attributes, "BATCH_SIZE", 2)
    names = [f"j{number}" for number in range(6)]
    world = World(*(group(name, 1, phase="Inqueue", minResources={"cpu": "2"}) for name in names))
    kept: DemandSums[str] = DemandSums(queue_of, admitted)

    def follow() -> dict[str, int]:
        world.put(group("asks", 1, minResources={"cpu": "2"}))
        opening = CycleOpened(cycle=1, upto=0, seed=1, at=world.now)
        for _ in kept.update(CycleSession(world.state, world.profile, opening)):
            pass
        return kept.of("default")[0]

    assert follow() == {"cpu": 12_000}
    for name in names[1:]:
        world.remove(kinds.POD_GROUP, f"ns/{name}")
    for number in range(9):
        world.put(group(f"other-{number}", 1, phase="Inqueue", minResources={"cpu": "1"}))
    assert follow() == {"cpu": 11_000}


def test_a_reader_that_was_garbage_collected_is_removed() -> None:
    marks, owner = JobChanges(), DemandSums(queue_of)
    marks.since(owner, {})
    assert len(marks._readers) == 1
    del owner
    gc.collect()
    assert not marks._readers
