"""Cycles that their time budget ends early: what is decided before the cut, and where the next cycle continues."""

from __future__ import annotations

import pytest

from tests.scenario.scheduling.harness import World, group, node, pods, priority_class
from volcanoio.engine.scheduling.offline.replay import CutAt
from volcanoio.engine.scheduling.session.context import Budget
from volcanoio.framework.effects import Patch
from volcanoio.framework.scheduling_effects import BindBatch
from volcanoio.model import kinds
from volcanoio.model.scheduling import PodGroupPhase

ALLOCATE = """
actions: "allocate"
tiers:
- plugins:
  - name: priority
  - name: gang
- plugins:
  - name: predicates
  - name: nodeorder
"""
TIME_DEPENDENT_ENQUEUE = """
actions: "enqueue, allocate"
tiers:
- plugins:
  - name: priority
  - name: gang
  - name: sla
- plugins:
  - name: overcommit
  - name: predicates
  - name: proportion
  - name: nodeorder
"""
"""The verdict of sla depends on the time, so that enqueue asks about each job in each cycle."""


class AfterJobs(Budget):
    """A budget that ends after `jobs` jobs."""

    def __init__(self, jobs: int) -> None:
        super().__init__()
        self.left = jobs

    def check(self) -> bool:
        self.left -= 1
        return self.left < 0


def test_a_cycle_is_cut_between_gangs_and_the_next_cycle_continues_after_the_cut() -> None:
    world = World(
        node("n1"),
        group("a", 2, phase="Inqueue"),
        group("b", 2, phase="Inqueue"),
        *pods("a", 2, "a", cpu="1"),
        *pods("b", 2, "b", cpu="1"),
    )
    result = world.cycle(budget=AfterJobs(1))
    assert (result.cut_action, world.batches) == ("allocate", [["a-0", "a-1"]])
    world.echo()
    world.run()
    assert world.batches == [["a-0", "a-1"], ["b-0", "b-1"]]


def test_after_a_cycle_cut_in_enqueue_allocate_comes_first() -> None:
    world = World(
        node("n1", cpu="4"),
        group("in", 1, phase="Inqueue"),
        *pods("in", 1, "in", cpu="1"),
        *(group(f"big-{at}", 1, minResources={"cpu": "40"}) for at in range(5)),
        conf=TIME_DEPENDENT_ENQUEUE,
    )
    assert world.cycle(budget=AfterJobs(3)).cut_action == "enqueue"
    assert not world.batches
    world.cycle(budget=AfterJobs(3))
    assert world.batches == [["in-0"]]


def test_enqueue_continues_after_the_cut_so_that_every_job_gets_its_verdict() -> None:
    world = World(
        node("n1", cpu="4"),
        *(group(f"big-{at}", 1, minResources={"cpu": "40"}) for at in range(9)),
        group("small", 1, minResources={"cpu": "1"}),
        *pods("small", 1, "small", cpu="1"),
        conf=TIME_DEPENDENT_ENQUEUE,
    )
    for _ in range(12):
        world.cycle(budget=AfterJobs(3))
        world.echo()
    assert set(world.binds) == {"small-0"}


def test_jobs_whose_enqueue_refusal_is_certain_do_not_use_the_budget() -> None:
    world = World(
        node("n1", cpu="4"),
        group("in", 1, phase="Inqueue"),
        *pods("in", 1, "in", cpu="1"),
        *(group(f"big-{at}", 1, minResources={"cpu": "40"}) for at in range(50)),
    )
    assert world.cycle(budget=AfterJobs(3)).cut_action == ""
    assert world.batches == [["in-0"]]
    assert all(world.state.ledger.jobs[f"ns/big-{at}"].attempts.enqueue_refusal for at in range(50))


@pytest.mark.parametrize("actions", ["enqueue, allocate", "preempt, enqueue, allocate"])
def test_gangs_that_use_the_whole_budget_without_success_do_not_block_others(actions: str) -> None:
    """Jobs after the cut come first in the next cycle; otherwise the first jobs in job order would be all it tries."""
    world = World(
        node("n1", cpu="8"),
        priority_class("high", 9),
        *(group(f"big-{at}", 2, priorityClassName="high") for at in range(3)),
        *(made for at in range(3) for made in pods(f"big-{at}-a", 1, f"big-{at}", cpu="7")),
        *(made for at in range(3) for made in pods(f"big-{at}-b", 1, f"big-{at}", cpu="6")),
        group("small", 1),
        *pods("small", 1, "small", cpu="1"),
        conf=ALLOCATE.replace('"allocate"', f'"{actions}"'),
    )
    for _ in range(12):
        world.cycle(budget=CutAt(2))
        world.echo()
    assert world.binds == {"small-0": "n1"}


def test_no_condition_is_written_for_tasks_that_a_cut_cycle_did_not_reach() -> None:
    """Nor is the status of a job computed that makes progress in every cut cycle: it would be every job each time."""
    world = World(
        node("n1", cpu="16"),
        group("a", 1, phase="Inqueue"),
        *pods("a", 4, "a", cpu="1"),
        *pods("b", 1, "b", cpu="1"),
        group("b", 1, phase="Inqueue"),
        conf=ALLOCATE,
        period=0.25,
    )
    for number in range(1, 4):
        world.cycle(budget=CutAt(2))
        assert [bind.name for batch in world.last if isinstance(batch, BindBatch) for bind in batch.binds]
        assert len(world.bind_order) == number
        assert not [patch for patch in world.last if isinstance(patch, Patch) and patch.resource == kinds.POD.resource]
        world.now += 2.0  # long enough for a lasting reason to be written
    assert world.group("a").status.phase == PodGroupPhase.INQUEUE
    for _ in range(3):
        world.cycle()
        world.echo()
    assert len(world.bind_order) == 5
    assert world.group("a").status.phase == PodGroupPhase.RUNNING


def test_the_status_of_a_job_that_makes_progress_in_cut_cycles_is_written_in_the_end() -> None:
    world = World(
        node("n1", cpu="64"),
        group("a", 1, phase="Inqueue"),
        *pods("a", 40, "a", cpu="1"),
        conf=ALLOCATE,
    )
    phases = []
    for _ in range(20):
        world.cycle(budget=CutAt(2))
        world.echo()
        phases.append(world.group("a").status.phase)
    assert len(world.bind_order) < 40
    assert phases[-1] == PodGroupPhase.RUNNING
