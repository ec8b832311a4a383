"""Statements that evict: discarded or committed, and the outcome of a committed eviction."""

from __future__ import annotations

import numpy as np

from tests.scenario.scheduling.harness import World, group, node, pod, pods, priority_class
from volcanoio.engine.scheduling.session.cycle import open_session, run_cycle, undo_unsent_decisions
from volcanoio.engine.scheduling.session.session import CycleSession
from volcanoio.engine.scheduling.session.statement import JobStatement
from volcanoio.framework.effects import Record
from volcanoio.framework.scheduling_effects import Evict
from volcanoio.framework.scheduling_events import CycleOpened, EvictRefused


def running() -> tuple[World, CycleSession, JobStatement]:
    world = World(node("n1", cpu="2"), group("pg", 1, phase="Inqueue"), *pods("p", 2, "pg", cpu="1")).run()
    opening = CycleOpened(cycle=9, upto=0, seed=1, at=world.now)
    session = CycleSession(world.state, world.profile, opening)
    list(open_session(session))
    return world, session, session.statement(world.state.ledger.jobs["ns/pg"])


def test_a_discard_undoes_an_eviction_completely() -> None:
    world, _, statement = running()
    before = world.state.ledger.columns.block.copy()
    statement.evict(world.state.ledger.tasks["ns-p-0"], "preempt")
    assert world.statuses("pg") == {"RUNNING": 1, "RELEASING": 1}
    assert world.state.ledger.columns.future_idle("cpu").tolist() == [1000]
    statement.discard()
    assert world.statuses("pg") == {"RUNNING": 2}
    assert np.array_equal(before, world.state.ledger.columns.block)


def test_a_committed_eviction_counts_until_it_is_refused() -> None:
    world, session, statement = running()
    statement.evict(world.state.ledger.tasks["ns-p-0"], "preempt")
    statement.commit()
    decision, group_event, pod_event = session.outbox.take()
    assert isinstance(decision, Evict)
    assert isinstance(group_event, Record)
    assert (group_event.regarding.name, group_event.type, group_event.reason, group_event.message) == (
        "pg",
        "Normal",
        "Evict",
        "preempt",
    )
    assert isinstance(pod_event, Record)
    assert (pod_event.regarding.kind, pod_event.regarding.name, pod_event.type) == ("Pod", "p-0", "Warning")
    assert pod_event.message == "Pod is evicted, because of preempt"
    assert (decision.name, decision.node, decision.reason) == ("p-0", "n1", "preempt")
    world.set_pod("p-0", phase="Running")
    assert world.statuses("pg") == {"RUNNING": 1, "RELEASING": 1}
    refused = EvictRefused(group="ns/pg", uid="ns-p-0", namespace="ns", name="p-0", node="n1", code=403)
    assert world.fold(refused)
    assert world.statuses("pg") == {"RUNNING": 2}


def test_the_nomination_of_an_eviction_that_was_not_sent_is_undone() -> None:
    world, session, statement = running()
    statement.evict(world.state.ledger.tasks["ns-p-0"], "preempt")
    world.put(pod("late", "pg", cpu="1"))
    statement.pipeline_on(world.state.ledger.tasks["ns-late"], "n1", evicted=True)
    statement.commit()
    assert world.state.nominations.by_task
    undo_unsent_decisions(session)
    assert not world.state.nominations.by_task


PREEMPTING = """
actions: "allocate, preempt"
tiers:
- plugins: [{name: priority}, {name: gang}, {name: conformance}, {name: predicates}, {name: proportion}]
"""


def test_a_cycle_closed_early_keeps_the_nominations_of_evictions_that_were_sent() -> None:
    world = World(
        priority_class("high", 100),
        node("n1", cpu="2"),
        group("old", 1, phase="Running"),
        *pods("old", 2, "old", cpu="1", on="n1", phase="Running"),
        group("new", 1, phase="Inqueue", priorityClassName="high"),
        *pods("new", 1, "new", cpu="1"),
        conf=PREEMPTING,
    )
    cycle = run_cycle(world.state, world.profile, CycleOpened(cycle=1, upto=0, seed=1, at=world.now))
    sent = next(point.decisions for point in cycle if any(isinstance(each, Evict) for each in point.decisions))
    cycle.close()
    assert [each.uid for each in sent if isinstance(each, Evict)] == [*world.state.pods.evicting]
    assert [*world.state.nominations.by_task] == ["ns-new-0"]
