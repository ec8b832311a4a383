"""The check of plugins finds each kind of mistake, and none in our own plugins and actions."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from importlib.metadata import entry_points
from typing import Any

import numpy as np
import pytest

from volcanoio.framework import entrypoints
from volcanoio.framework.scheduling.session import Session
from volcanoio.framework.scheduling.sessionview import SessionView
from volcanoio.framework.scheduling.verdicts import Depends, Feasibility
from volcanoio.framework.scheduling.views import Job, NodeRow, Nodes, QueueView, Shape
from volcanoio.plugincheck.check import FRESH, RAISES, TWICE, WHOLE, Trial, check_action, check_plugin
from volcanoio.plugincheck.probing import AGAIN, AGREE, CACHED, READS, SOUND, UNDO
from volcanoio.plugincheck.report import Report
from volcanoio.runtime.loading.registry import discover
from volcanoio.runtime.scheduler.setup import PluginCatalog

SEEDS = range(2)
ARGUMENTS: Mapping[str, Mapping[str, Any]] = {
    "binpack": {"binpack.weight": 3, "binpack.resources": "nvidia.com/gpu"},
    "extender": {"extender.urlPrefix": "http://127.0.0.1:1/x", "extender.predicateVerb": "predicate"},
    "nodeorder": {"mostrequested.weight": 2, "leastrequested.weight": 0},
}
"""What plugins are given; the others take their defaults."""


@pytest.fixture(scope="module")
def known() -> PluginCatalog:
    return PluginCatalog.of(discover())


@pytest.mark.parametrize("name", sorted(point.name for point in entry_points(group=entrypoints.SCHEDULER_PLUGINS)))
def test_our_plugins_have_no_findings(name: str, known: PluginCatalog) -> None:
    report = check_plugin(known.plugins[name], Trial(known, arguments=ARGUMENTS.get(name), seeds=SEEDS))
    assert report.problems == []


@pytest.mark.parametrize("name", sorted(point.name for point in entry_points(group=entrypoints.ACTIONS)))
def test_our_actions_have_no_findings(name: str, known: PluginCatalog) -> None:
    assert check_action(known.actions[name], Trial(known, seeds=SEEDS)).problems == []


class Base:
    """A plugin under test."""

    name = "tried"

    def __init__(self, arguments: Mapping[str, Any]) -> None: ...


class Good(Base):
    """Right in every way."""

    def score_depends(self, shape: Shape) -> Depends:
        return Depends.NODE_USAGE | Depends.NODE_AMOUNTS

    def score(self, shape: Shape, nodes: Nodes, feasible: Any) -> Any:
        return nodes.idle("cpu") * 0.001

    def score_on(self, shape: Shape, node: NodeRow) -> float:
        return node.idle("cpu") * 0.001


class Narrow(Good):
    """Reads usage, and says it reads nothing of the kind."""

    def score_depends(self, shape: Shape) -> Depends:
        return Depends.NODE_SPEC


class Outdated(Base):
    """Another order each cycle, and says that keys follow from the jobs."""

    keeps_job_keys = True

    def open(self, session: SessionView) -> None:
        self._cycle = session.cycle

    def job_key(self, job: Job) -> int:
        return sum(map(ord, job.key)) * (7919 + self._cycle) % 101


class Disagreeing(Good):
    """Its two forms differ."""

    def score_on(self, shape: Shape, node: NodeRow) -> float:
        return node.idle("cpu") * 0.002


class Writing(Good):
    """Writes to the columns."""

    def score(self, shape: Shape, nodes: Nodes, feasible: Any) -> Any:
        used = nodes.used("cpu")
        used.flags.writeable = True
        used += 1
        return super().score(shape, nodes, feasible)


class Misshapen(Base):
    """One score for all."""

    def score(self, shape: Shape, nodes: Nodes, feasible: Any) -> Any:
        return np.zeros(1)


class Wrong(Base):
    """Gives a number where a verdict is asked for, and more than was asked."""

    def job_valid(self, job: Job) -> Any:
        return True

    def fits(self, queue: QueueView, shape: Shape, count: int) -> int:
        return count + 1


class Random(Base):
    """Another answer each time."""

    numbers = itertools.count()

    def queue_key(self, queue: QueueView) -> int:
        return pow(48271, next(self.numbers), 2**31 - 1)


class Leaking(Base):
    """Counts placements where no undo reaches."""

    def __init__(self, arguments: Mapping[str, Any]) -> None:
        self._placed = 0

    def allocated(self, job: Job, shape: Shape, count: int) -> None:
        self._placed += count

    def released(self, job: Job, shape: Shape, count: int) -> None:
        self._placed -= count

    def overused(self, queue: QueueView) -> bool:
        return self._placed > 3


class Counting(Base):
    """The same, rightly."""

    def open(self, session: SessionView) -> None:
        self._table = session.table(self.name, "placed")

    def allocated(self, job: Job, shape: Shape, count: int) -> None:
        self._table.add(job.queue, count)

    def released(self, job: Job, shape: Shape, count: int) -> None:
        self._table.add(job.queue, -count)

    def overused(self, queue: QueueView) -> bool:
        return self._table.get(queue.name) > 3


class Raising(Base):
    """Forgets that some nodes have no GPU."""

    def feasible_on(self, shape: Shape, node: NodeRow) -> str:
        return "" if 1 / node.allocatable("nvidia.com/gpu") else "no"


class NoBool(Base):
    """A mask of numbers."""

    def feasible(self, shape: Shape, nodes: Nodes) -> Feasibility:
        return Feasibility(np.ones(len(nodes)))  # type: ignore[arg-type]  # the mistake


def checked(factory: Any, known: PluginCatalog) -> Report:
    return check_plugin(factory, Trial(known, seeds=SEEDS))


@pytest.mark.parametrize("factory", [Good, Counting])
def test_a_right_plugin_has_no_findings(factory: Any, known: PluginCatalog) -> None:
    assert checked(factory, known).problems == []


@pytest.mark.parametrize(
    ("factory", "check", "text"),
    [
        (Narrow, CACHED, "score_depends declares NODE_SPEC; declare what the answer depends on"),
        (Disagreeing, AGREE, "use the same operations in the same order"),
        (Writing, READS, "copy what you change"),
        (Misshapen, SOUND, "must give an array of one entry a node (5), not (1,)"),
        (Wrong, SOUND, "job_valid must give a Verdict"),
        (Wrong, SOUND, "fits must give a whole number from 0 to the count asked for, not 2"),
        (Random, AGAIN, "queue_key is asked again and says otherwise"),
        (Random, TWICE, "use no randomness, clock or order of sets"),
        (Leaking, UNDO, "keep what `allocated` and `released` count in SessionView.table"),
        (Raising, RAISES, "ZeroDivisionError: division by zero (test_plugincheck.py, line "),
        (NoBool, SOUND, "feasible must give bools, not float64"),
    ],
)
def test_a_mistake_is_found_and_reported(factory: Any, check: str, text: str, known: PluginCatalog) -> None:
    found = checked(factory, known).findings[check]
    assert any(text in problem for problem in found), found


def test_keys_that_are_kept_too_long_are_found(known: PluginCatalog) -> None:
    alone = 'actions: "enqueue, allocate"\ntiers: [{plugins: [{name: tried}]}]'
    report = check_plugin(Outdated, Trial(known, configuration=alone, seeds=(7,)))
    text = "declare in feasible_depends, score_depends, applies_to and keeps_job_keys all they depend on"
    assert any(text in problem for problem in report.findings[FRESH])
    assert any("remove keeps_job_keys" in problem for problem in report.findings[CACHED])


class Hasty:
    """Commits whatever it placed."""

    name = "hasty"

    def __init__(self, arguments: Mapping[str, Any]) -> None: ...

    def run(self, session: Session) -> Any:
        for job in session.jobs_with_pending_tasks():
            statement = session.statement(job)
            for run in session.runs(job, best_effort=False)[:1]:
                statement.allocate(run, 0, 1)
            statement.commit()
            yield


def test_an_action_that_breaks_gangs_is_found(known: PluginCatalog) -> None:
    report = check_action(Hasty, Trial(known, seeds=SEEDS))
    assert any("commit when job_ready" in problem for problem in report.findings[WHOLE])


def test_costs_are_printed_in_microseconds(known: PluginCatalog) -> None:
    ticks = itertools.count()
    report = check_plugin(Good, Trial(known, seeds=()), timer=lambda: next(ticks) * 0.005)
    assert [(cost.call, cost.over) for cost in report.costs] == [("score", "1,000 nodes"), ("score_on", "")]
    assert all(cost.micros > 0 for cost in report.costs)
    lines: Sequence[str] = list(report.lines())
    assert lines[0] == "tried: Scorer, ScorerOne"
    assert any("µs  over 1,000 nodes" in line for line in lines)
