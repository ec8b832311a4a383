"""Invariants of the cluster state: updated totals equal computed ones, and a discard restores every column."""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.examples import examples
from tests.scenario.scheduling.harness import World, group, node, pod, pods
from tests.unit.scheduling.invariants import check
from volcanoio.engine.scheduling.session.cycle import open_session
from volcanoio.engine.scheduling.session.session import CycleSession
from volcanoio.framework.scheduling.views import TaskStatus
from volcanoio.framework.scheduling_effects import BindBatch
from volcanoio.framework.scheduling_events import CycleOpened
from volcanoio.model import kinds

STEPS = st.lists(
    st.tuples(
        st.sampled_from(["pod", "run", "end", "delete", "gone", "node", "nonode", "group", "nogroup", "cycle"]),
        st.integers(0, 5),
    ),
    max_size=40,
)


@examples(150)
@given(steps=STEPS, minimum=st.integers(0, 3))
def test_updated_totals_equal_newly_computed_ones(steps: list[tuple[str, int]], minimum: int) -> None:
    world = World(node("n0", cpu="2"), group("g0", minimum, phase="Inqueue"))
    for kind, number in steps:
        _step(world, kind, number, minimum)
        check(world.state)
        for batch in world.state.ledger.tasks.values():
            assert batch.status not in (TaskStatus.ALLOCATED, TaskStatus.PIPELINED)


def _step(world: World, kind: str, number: int, minimum: int) -> None:
    name, owner = f"p-{number}", f"g{number % 2}"
    exists = (kinds.POD.resource, f"ns/{name}") in world.objects
    match kind:
        case "pod":
            world.put(pod(name, owner, **({} if number == 5 else {"cpu": "1"})))
        case "run" if exists and world.pod(name).spec.node_name:
            world.set_pod(name, phase="Running")
        case "end" if exists:
            world.set_pod(name, phase="Succeeded")
        case "delete" if exists:
            world.set_pod(name, deleting=True)
        case "gone" if exists:
            world.remove(kinds.POD, f"ns/{name}")
        case "node":
            world.put(node(f"n{number % 3}", cpu=str(1 + number)))
        case "nonode" if (kinds.NODE.resource, f"n{number % 3}") in world.objects:
            world.remove(kinds.NODE, f"n{number % 3}")
        case "group":
            world.put(group(owner, minimum, phase="Inqueue"))
        case "nogroup" if (kinds.POD_GROUP.resource, f"ns/{owner}") in world.objects:
            world.remove(kinds.POD_GROUP, f"ns/{owner}")
        case "cycle":
            world.cycle()
            world.echo(refuse={name: 409} if number == 3 else None)
        case _:
            pass


GANGS = st.lists(
    st.tuples(st.integers(1, 5), st.integers(0, 2), st.sampled_from(["1", "2", ""])), min_size=1, max_size=6
)


@examples(150)
@given(nodes=st.lists(st.integers(1, 5), min_size=1, max_size=4), gangs=GANGS, cycles=st.integers(1, 3))
def test_no_node_is_overcommitted_and_no_gang_is_bound_in_part(
    nodes: list[int], gangs: list[tuple[int, int, str]], cycles: int
) -> None:
    objects: list[dict[str, Any]] = [node(f"n{at}", cpu=str(cpu), pods="4") for at, cpu in enumerate(nodes)]
    sizes = {}
    for at, (size, extra, cpu) in enumerate(gangs):
        objects.append(group(f"g{at}", size, phase="Inqueue"))
        objects.extend(pods(f"g{at}", size + extra, f"g{at}", **({"cpu": cpu} if cpu else {})))
        sizes[f"ns/g{at}"] = size
    world = World(*objects)
    world.run(cycles)
    columns = world.state.ledger.columns
    for name in columns.resources:
        assert (columns.used(name) <= columns.allocatable(name)).all()
    bound: Counter[str] = Counter()
    for decision in world.decisions:
        if isinstance(decision, BindBatch):
            bound[decision.group] += len(decision.binds)
            assert bound[decision.group] >= sizes[decision.group]
    assert len({request.uid for request in world.requests}) == len(world.requests)


@examples(100)
@given(nodes=st.lists(st.integers(1, 5), min_size=1, max_size=4), counts=st.lists(st.integers(1, 4), max_size=4))
def test_a_discard_restores_every_column(nodes: list[int], counts: list[int]) -> None:
    world = World(
        *(node(f"n{at}", cpu=str(cpu)) for at, cpu in enumerate(nodes)),
        group("old", 1, phase="Inqueue"),
        *pods("old", 2, "old", cpu="1"),
    ).run()
    for at, count in enumerate(counts):
        world.put(group(f"g{at}", 9, phase="Inqueue"))
        for manifest in pods(f"g{at}", count, f"g{at}", cpu="1"):
            world.put(manifest)
    if "old-0" in world.binds:
        world.set_pod("old-0", deleting=True)
    state = world.state
    session = CycleSession(state, world.profile, CycleOpened(cycle=9, upto=0, seed=1, at=world.now))
    list(open_session(session))
    block, dirty = state.ledger.columns.block.copy(), dict(state.ledger.dirty)
    table = session.table("test", "t")
    for job in list(session.jobs_with_pending_tasks()):
        for run in session.runs(job, best_effort=False):
            statement = session.statement(job)
            statement.allocate(run, 0, len(run.tasks))
            session.plugin_tables.log = statement._log
            table.add("k", 1)
            session.plugin_tables.log = None
            statement.discard()
            assert table.get("k") == 0
    assert np.array_equal(block, state.ledger.columns.block)
    assert dirty == state.ledger.dirty
    check(state)


@examples(150)
@given(steps=STEPS, minimum=st.integers(1, 3))
def test_skipped_attempts_would_not_have_placed_anything(steps: list[tuple[str, int]], minimum: int) -> None:
    worlds = [World(node("n0", cpu="2"), group("g0", minimum, phase="Inqueue"), period=1.0) for _ in range(2)]
    with pytest.MonkeyPatch.context() as patch:
        for world, patient in zip(worlds, (False, True), strict=True):
            if patient:
                patch.setattr(CycleSession, "is_unschedulable", lambda *_: False)
            for kind, number in [*steps, ("cycle", 0), ("cycle", 0)]:
                _step(world, kind, number, minimum)
                if kind == "cycle":
                    world.now -= 0.9
    assert worlds[0].requests == worlds[1].requests
