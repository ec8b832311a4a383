"""The placer: finds nodes for tasks by gang, k alike tasks in one call, each on the best node as of then.

Nodes are independent, so placing a task changes one row. The result equals the one-by-one greedy. A C kernel would
replace `filling` and `greedy`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

import numpy as np
from numpy.typing import NDArray

from volcanoio.engine.scheduling.combine import Rules
from volcanoio.engine.scheduling.explanation import FitErrors
from volcanoio.engine.scheduling.inputs import Inputs
from volcanoio.engine.scheduling.ledger import Ledger
from volcanoio.engine.scheduling.placement.answers import Answers
from volcanoio.engine.scheduling.placement.exact import Exact, Mode
from volcanoio.engine.scheduling.placement.filling import Filling
from volcanoio.engine.scheduling.placement.fiterrors import Unfit
from volcanoio.engine.scheduling.placement.greedy import Greedy
from volcanoio.engine.scheduling.placement.kept import Kept
from volcanoio.engine.scheduling.placement.leaders import Leaders
from volcanoio.engine.scheduling.placement.onerow import NOWHERE
from volcanoio.engine.scheduling.placement.onetask import OneTask
from volcanoio.engine.scheduling.placement.seating import Seating
from volcanoio.engine.scheduling.placement.states import States
from volcanoio.engine.scheduling.placement.ties import TieKeys, Ties
from volcanoio.engine.scheduling.tasks import TaskInfo
from volcanoio.framework.scheduling.points import TaskScorer
from volcanoio.framework.scheduling.views import Shape, TaskStatus

EACH = 0.125
"""What a task takes about which plugins must be asked, as a part of asking them all about all nodes for the first time.
"""


class Placer:
    """Finds nodes for tasks; keeps answers per shape across cycles."""

    def __init__(self, ledger: Ledger, inputs: Inputs) -> None:
        self._columns = columns = ledger.columns
        self._rules: Rules | None = None
        self._cycle = 0
        self._states = states = States(columns)
        self._kept = Kept(columns, states, inputs)
        self._seating = Seating(ledger)
        self.tie_keys = TieKeys(columns)
        """Who of equally good rows is first in the cycle."""
        self._leaders = leaders = Leaders(columns, self.tie_keys)
        self._one_task = OneTask(columns, states, self.tie_keys, leaders)
        self._filling = Filling(columns, states, leaders, self._seating)
        self._greedy = Greedy(columns, self.tie_keys, self._seating)
        self._exact = Exact(columns, self.tie_keys, self._seating)
        self._unfit = Unfit(columns)
        self.seat = self._seating.seat
        """Puts one task on a row and lets everyone know."""
        self.overall = 0.0
        """Counts how often all nodes were asked about, or what takes as long."""

    def open(self, rules: Rules, cycle: int, seed: int) -> None:
        """A cycle begins; answers of other plugins are of no use."""
        self._leaders.open()
        if self._rules is not rules:
            self._rules = self._seating.rules = rules
            self._kept.clear()
            self._states.open()
        self._unfit.open()
        self.tie_keys.open(cycle, seed)
        self._cycle = cycle

    def place(
        self,
        tasks: Sequence[TaskInfo],
        *,
        lacking: Callable[[], int] | None,
        idle_only: bool,
        nominated: str,
        log: list[TaskInfo],
    ) -> tuple[int, bool]:
        """Place alike tasks of a job in order, until none is left, no node is left, or enough of the job is placed.

        `lacking` says how many more there must be at least, 0 when it is enough; it is asked when so many were placed.
        Returns how many were placed and whether that was enough. Placed tasks are appended to `log`.
        """
        answers = self._prepared(tasks[0].shape)
        if not len(self._columns):
            return 0, False
        if nominated and (row := self._nominated(answers, nominated, idle_only)) is not None:
            status = TaskStatus.ALLOCATED if answers.fits_row(row, idle=True) else TaskStatus.PIPELINED
            self.seat(tasks[0], status, row, log)
            return 1, lacking is not None and not lacking()
        own = self._own(tasks[0])
        if answers.exact or own:
            return self._one_by_one(answers, tasks, lacking, Mode(idle_only=idle_only), own, log)
        size = len(self._columns)
        if answers.by_state:
            placed, done = self._filling.place(answers, tasks, lacking, log)
        else:
            value = answers.value[:size]
            placed, done = self._greedy.place(answers, value, TaskStatus.ALLOCATED, tasks, 0, lacking, log)
        if done or idle_only or placed == len(tasks):
            return placed, done
        group = answers.mask[:size] & answers.fit_mask(idle=False)
        if not group.any():
            return placed, False
        value = np.where(group, answers.scores()[:size], NOWHERE)
        return self._greedy.place(answers, value, TaskStatus.PIPELINED, tasks, placed, lacking, log)

    def take(self, task: TaskInfo) -> int:
        """The row where `place` puts a task on idle room, counted in the columns already; -1, with nothing done, where
        there is none or plugins have to be asked about this very task. The caller seats it.
        """
        answers = self._prepared(task.shape)
        if answers.exact or self._own(task):
            return -1
        if answers.by_state:
            return self._one_task.by_state(answers)
        return self._one_task.by_row(answers) if answers.one is not None else -1

    def reserve(
        self,
        tasks: Sequence[TaskInfo],
        *,
        lacking: Callable[[], int] | None,
        idle_first: bool,
        nominated: str,
        log: list[TaskInfo],
    ) -> int:
        """`place` where room may still be being released, as Pipelined whether it is free or not; how many had room.

        With `idle_first` where it is free, while there is such a node.
        """
        answers = self._prepared(tasks[0].shape)
        if not len(self._columns):
            return 0
        if nominated and (row := self._nominated(answers, nominated, False)) is not None:
            self.seat(tasks[0], TaskStatus.PIPELINED, row, log)
            return 1
        own = self._own(tasks[0])
        if answers.exact or own:
            mode = Mode(reserve=True, idle_first=idle_first)
            return self._one_by_one(answers, tasks, lacking, mode, own, log)[0]
        size, placed = len(self._columns), 0
        for idle in (True, False) if idle_first else (False,):
            group = answers.mask[:size] & answers.fit_mask(idle=False)
            if idle:
                group &= answers.fit_mask(idle=True)
            if not group.any():
                continue
            value = np.where(group, answers.scores()[:size], NOWHERE)
            placed, done = self._greedy.place(answers, value, TaskStatus.PIPELINED, tasks, placed, lacking, log)
            if done or placed == len(tasks):
                break
        return placed

    def prospects(self, task: TaskInfo) -> tuple[NDArray[np.bool_], NDArray[np.float64]]:
        """By row whether a task might go there if the right ones were evicted, and the score as of now."""
        assert self._rules is not None
        answers, columns, size = self._prepared(task.shape), self._columns, len(self._columns)
        mask, value = answers.standing[:size].copy(), answers.scores()[:size].copy()
        for scorer in answers.live_scorers:
            value += scorer.score(answers.shape, columns, mask, columns, range(size))
        for each in self._own(task):
            value += each.score_task(task, columns)
        return mask, value

    def score_of(self, task: TaskInfo, row: int) -> float:
        """`prospects` of one row, but for what depends on other rows: that is as it was."""
        answers = self._kept.known(task.shape)
        if answers is not None and answers.by_row:
            return answers.score_row(row)
        return self._prepared(task.shape).scores().item(row)

    def judges_rows_alone(self, task: TaskInfo) -> bool:
        """Whether `prospects` of a row, which were asked for in this cycle, follow from that row and nothing else."""
        answers = self._kept.known(task.shape)
        if answers is None or not answers.settled_in(self._cycle):
            return False
        return answers.by_row and not answers.live_scorers and not self._own(task)

    def passes(self, task: TaskInfo, row: int) -> bool:
        """Whether a task passes every filter on a row, and fits the room that is there or being released, as of now."""
        answers = self._kept.known(task.shape)
        if answers is None:
            answers = self._prepared(task.shape)
        if not answers.fits_row(row, idle=False):  # the usual answer, as it is asked before evictions, too
            return False
        if not answers.settled_in(self._cycle):
            answers = self._prepared(task.shape)
        return self._allows(answers, row)

    def waits_on(self, shape: Shape, rows: Sequence[int]) -> bool:
        """Whether tasks of a shape for which room is reserved on rows may go there, and none may yet run there."""
        answers = self._kept.known(shape)
        if answers is None or not answers.settled_in(self._cycle):
            answers = self._prepared(shape)
        return answers.static_filters and all(map(answers.reserved_on, set(rows)))

    def best_of(self, shape: Shape, rows: NDArray[np.intp]) -> int:
        """Which of several equally good rows is taken."""
        return self.tie_keys.best(shape, rows)

    def ties(self, shape: Shape, rows: NDArray[np.intp]) -> Ties:
        """Equally good rows, to be taken one by one."""
        return Ties(rows, self.tie_keys.of(shape, rows))

    def asks_each(self, shape: Shape) -> bool:
        """Whether plugins are asked for every task of a shape."""
        return self._prepared(shape).exact

    def by_room_alone(self, shape: Shape) -> bool:
        """Whether filters say the same about a node whatever is placed on it or elsewhere."""
        return self._prepared(shape).static_filters

    def at_all_times(self, shape: Shape) -> bool:
        """Whether what filters say does not depend on the time."""
        return not self._prepared(shape).by_moment

    def fit_errors(self, shape: Shape, *, idle_only: bool) -> FitErrors:
        """Why a task of a shape finds no node as the columns are now: each node counts under its first reason."""
        assert self._rules is not None
        return self._unfit.errors(shape, self._rules, idle_only=idle_only)

    def _prepared(self, shape: Shape) -> Answers:
        """The answers for a shape, right for the columns as they are."""
        answers, akin = self._kept.of(shape)
        assert self._rules is not None
        self.overall += answers.prepare(self._rules, self._cycle, akin)
        return answers

    def _one_by_one(
        self,
        answers: Answers,
        tasks: Sequence[TaskInfo],
        lacking: Callable[[], int] | None,
        mode: Mode,
        own: Sequence[TaskScorer],
        log: list[TaskInfo],
    ) -> tuple[int, bool]:
        return self._exact.place(answers, tasks, lacking, mode, own, log, partial(self._again, answers))

    def _again(self, answers: Answers) -> None:
        """Make answers right once more, for the next task."""
        assert self._rules is not None
        self.overall += answers.prepare(self._rules, self._cycle) + EACH

    def _nominated(self, answers: Answers, node: str, idle_only: bool) -> int | None:
        """The row of the nominated node when the task may go there."""
        row = self._columns.rows.get(node)
        if row is None or not answers.fits_row(row, idle=idle_only) or not self._allows(answers, row):
            return None
        return row

    def _allows(self, answers: Answers, row: int) -> bool:
        """Whether every filter lets a task go to a row; the answers are right but for what is asked for every task."""
        if not answers.mask.item(row):
            return False
        for part in answers.live_filters:  # noqa: SIM110 - asked before every placement that evictions pay for
            if not part.allowed(answers.shape, self._columns).item(row):
                return False
        return True

    def _own(self, task: TaskInfo) -> Sequence[TaskScorer]:
        """The plugins that score nodes for this very task."""
        assert self._rules is not None
        scorers = self._rules.task_scorers
        return scorers and [one for one in scorers if one.scores_task(task)]
