"""Placement by gang: k alike tasks in one call, each on the best node as of then.

Nodes are independent, so placing a task changes one row: one vector score per shape, then per task an argmax and a
rescore of the row that changed. The result equals the one-by-one greedy. Where a plugin's answer depends on more than
the row, the shape takes the exact path, which asks for every task. A C kernel would replace `_greedy`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray

from volcanoio.engine.scheduling.answers import NOTHING, NOWHERE, Answers, Learned
from volcanoio.engine.scheduling.columns import LOADS
from volcanoio.engine.scheduling.combine import Rules
from volcanoio.engine.scheduling.drafts import Draft, draft
from volcanoio.engine.scheduling.explanation import FitErrors
from volcanoio.engine.scheduling.inputs import Inputs
from volcanoio.engine.scheduling.ledger import Ledger
from volcanoio.engine.scheduling.states import States
from volcanoio.engine.scheduling.tasks import TaskInfo
from volcanoio.framework.scheduling.points import TaskScorer
from volcanoio.framework.scheduling.views import Shape, TaskStatus
from volcanoio.model.resources import CPU, MEMORY, PODS

KEPT_SHAPES = 1024
"""For how many shapes answers are kept (100 kB each at 10,000 nodes, up to 300 where scores are asked for)."""
KEPT_CONCERNED = 24
"""For how many shapes that other pods concern: there are as many as jobs, and others' answers are good for a start."""
KEPT_TABLES = 2048
"""For how many shapes more what was learned by state is kept."""
EACH = 0.125
"""What a task takes about which plugins must be asked, as a part of asking them all about all nodes for the first time.
"""
_MASK = (1 << 64) - 1
_TAKEN = np.uint64(_MASK)
_FIRST = (CPU, MEMORY)


def _mix(value: int) -> int:
    """splitmix64: a well-spread 64-bit number of any other."""
    value = (value + 0x9E3779B97F4A7C15) & _MASK
    value = ((value ^ (value >> 30)) * 0xBF58476D1CE4E5B9) & _MASK
    value = ((value ^ (value >> 27)) * 0x94D049BB133111EB) & _MASK
    return value ^ (value >> 31)


class Ties:
    """Equally good rows; `first` is the one that is taken next."""

    __slots__ = ("_at", "_keys", "_left", "_rows", "first")

    def __init__(self, rows: NDArray[np.intp], keys: NDArray[np.uint64]) -> None:
        self._rows = rows
        self._keys = keys
        self._left = len(rows)
        self._at = int(keys.argmin())
        self.first = rows.item(self._at)

    def take(self) -> bool:
        """The first one is taken; whether another is left."""
        self._left -= 1
        if not self._left:
            return False
        self._keys[self._at] = _TAKEN
        self._at = int(self._keys.argmin())
        self.first = self._rows.item(self._at)
        return True


class Placer:
    """Finds nodes for tasks; keeps answers per shape across cycles."""

    def __init__(self, ledger: Ledger, inputs: Inputs) -> None:
        self._ledger = ledger
        self._inputs = inputs
        self._columns = ledger.columns
        self._states = States(ledger.columns)
        self._rules: Rules | None = None
        self._answers: dict[int, Answers] = {}
        self._learned: dict[int, Learned] = {}
        self._concerned: dict[int, Answers] = {}
        """Those for shapes that other pods concern."""
        self._akin: dict[int, Answers] = {}
        """The latest answers for shapes that are the same but for what concerns other pods, by that shape's id."""
        self._errors: dict[tuple[int, bool], tuple[int, FitErrors]] = {}
        self.overall = 0.0
        """Counts how often all nodes were asked about, or what takes as long."""
        self._salts: dict[int, np.uint64] = {}
        self._cycle = 0
        self._seed = 0
        self._equal: NDArray[np.bool_] = np.zeros(0, np.bool_)

    def open(self, rules: Rules, cycle: int, seed: int) -> None:
        """A cycle begins; answers of other plugins are of no use."""
        if self._rules is not rules:
            self._rules = rules
            self._answers.clear()
            self._concerned.clear()
            self._akin.clear()
            self._learned.clear()
        self._errors.clear()
        self._salts.clear()
        self._cycle, self._seed = cycle, seed
        if len(self._equal) != self._columns.capacity:
            self._equal = np.zeros(self._columns.capacity, np.bool_)

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
            return self._exact(answers, tasks, lacking, idle_only, log, own)
        size = len(self._columns)
        placed, done = self._greedy(answers, answers.value[:size], TaskStatus.ALLOCATED, tasks, 0, lacking, log)
        if done or idle_only or placed == len(tasks):
            return placed, done
        group = answers.mask[:size] & answers.fit_mask(self._columns, idle=False)
        if not group.any():
            return placed, False
        value = np.where(group, answers.scores()[:size], NOWHERE)
        return self._greedy(answers, value, TaskStatus.PIPELINED, tasks, placed, lacking, log)

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
            return self._exact(answers, tasks, lacking, False, log, own, reserve=True, idle_first=idle_first)[0]
        size, placed = len(self._columns), 0
        for idle in (True, False) if idle_first else (False,):
            group = answers.mask[:size] & answers.fit_mask(self._columns, idle=False)
            if idle:
                group &= answers.fit_mask(self._columns, idle=True)
            if not group.any():
                continue
            value = np.where(group, answers.scores()[:size], NOWHERE)
            placed, done = self._greedy(answers, value, TaskStatus.PIPELINED, tasks, placed, lacking, log)
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
        answers = self._kept(task.shape)
        if answers is not None and answers.by_row:
            return answers.score_row(row)
        return self._prepared(task.shape).scores().item(row)

    def judges_rows_alone(self, task: TaskInfo) -> bool:
        """Whether `prospects` of a row, which were asked for in this cycle, follow from that row and nothing else."""
        answers = self._kept(task.shape)
        if answers is None or not answers.settled_in(self._cycle):
            return False
        return answers.by_row and not answers.live_scorers and not self._own(task)

    def passes(self, task: TaskInfo, row: int) -> bool:
        """Whether a task passes every filter on a row, and fits the room that is there or being released, as of now."""
        answers = self._kept(task.shape)
        if answers is None or not answers.settled_in(self._cycle):
            answers = self._prepared(task.shape)
        return self._admits(answers, row, idle=False)

    def waits_on(self, shape: Shape, rows: Sequence[int]) -> bool:
        """Whether tasks of a shape for which room is reserved on rows may go there, and none may yet run there."""
        answers = self._kept(shape)
        if answers is None or not answers.settled_in(self._cycle):
            answers = self._prepared(shape)
        return answers.static_filters and all(map(answers.reserved_on, set(rows)))

    def best_of(self, shape: Shape, rows: NDArray[np.intp]) -> int:
        """Which of several equally good rows is taken."""
        return rows.item(int(self._tie_keys(shape, rows).argmin()) if len(rows) > 1 else 0)

    def ties(self, shape: Shape, rows: NDArray[np.intp]) -> Ties:
        """Equally good rows, to be taken one by one."""
        return Ties(rows, self._tie_keys(shape, rows))

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
        columns, key = self._columns, (shape.id, idle_only)
        known = self._errors.get(key)
        if known is not None and known[0] == columns.clock:
            return known[1]
        assert self._rules is not None
        size = len(columns)
        left = np.ones(size, np.bool_)
        counts: dict[str, int] = {}

        def count(reason: str, failing: NDArray[np.bool_]) -> None:
            hit = left & failing
            number = int(np.count_nonzero(hit))
            if number:
                counts[reason] = counts.get(reason, 0) + number
                left[hit] = False

        names = sorted(shape.requests, key=lambda name: (_FIRST.index(name) if name in _FIRST else 2, name))
        for name in names:
            count(_lacking(shape, name), columns.future_idle(name) < shape.requests[name])
        for part in self._rules.filters:
            feasibility = part.feasible(shape, columns, columns, range(size))
            for text, failing in feasibility.reasons:
                count(text, failing)
            count("node(s) were rejected by a plugin", ~feasibility.ok)
        if idle_only:
            for name in names:
                count(_lacking(shape, name), columns.idle(name) < shape.requests[name])
        errors = FitErrors(size, counts)
        self._errors[key] = (columns.clock, errors)
        return errors

    def _prepared(self, shape: Shape) -> Answers:
        if shape.id != shape.like:
            return self._prepared_alike(shape)
        answers = self._answers.pop(shape.id, None)
        if answers is None or answers.capacity != self._columns.capacity:
            if len(self._answers) >= KEPT_SHAPES:
                old = next(iter(self._answers))
                self._learned[old] = self._answers.pop(old).learned
                if len(self._learned) > KEPT_TABLES:
                    del self._learned[next(iter(self._learned))]
            answers = Answers(shape, self._columns, self._states, self._inputs, self._learned.pop(shape.id, NOTHING))
        self._answers[shape.id] = answers
        assert self._rules is not None
        self.overall += answers.prepare(self._rules, self._cycle)
        return answers

    def _prepared_alike(self, shape: Shape) -> Answers:
        """The same for one of many shapes that differ in what concerns pods alone: they begin with what is known."""
        answers = self._concerned.pop(shape.id, None)
        if answers is None or answers.capacity != self._columns.capacity:
            if len(self._concerned) >= KEPT_CONCERNED:
                del self._concerned[next(iter(self._concerned))]
            answers = Answers(shape, self._columns, self._states, self._inputs)
        self._concerned[shape.id] = answers
        latest, plain = self._akin.pop(shape.like, None), self._answers.get(shape.like)
        known = [one for one in (latest, plain) if one is not None and one.capacity == answers.capacity]
        assert self._rules is not None
        akin = max(known, key=lambda one: one.revision, default=None)
        self.overall += answers.prepare(self._rules, self._cycle, akin)
        self._akin[shape.like] = answers
        if len(self._akin) > KEPT_CONCERNED:
            del self._akin[next(iter(self._akin))]
        return answers

    def _kept(self, shape: Shape) -> Answers | None:
        """The answers for a shape as they were last prepared."""
        return (self._answers if shape.id == shape.like else self._concerned).get(shape.id)

    def _tie_keys(self, shape: Shape, rows: NDArray[np.intp]) -> NDArray[np.uint64]:
        """A seeded hash of (cycle, shape, node) for each row: the smallest wins a tie.

        The nodes' part is hashed once for all; what differs by cycle and shape is mixed in by exclusive or.
        """
        salt = self._salts.get(shape.id)
        if salt is None:
            salt = self._salts[shape.id] = np.uint64(_mix(_mix(_mix(self._seed & _MASK) ^ self._cycle) ^ shape.id))
        hashes, size = self._columns.hashes, len(self._columns)
        return (hashes[:size] if len(rows) == size else hashes[rows]) ^ salt

    def _greedy(
        self,
        answers: Answers,
        value: NDArray[np.float64],
        status: TaskStatus,
        tasks: Sequence[TaskInfo],
        start: int,
        lacking: Callable[[], int] | None,
        log: list[TaskInfo],
    ) -> tuple[int, bool]:
        """Place tasks from `start` on where `value` is best.

        Returns the index after the last and whether that is enough. `rows` are those that share the best value, `left`
        how many of them were not taken since. What is placed is written when `lacking` is to be asked, and at the end;
        before, only `rows_to_be` know of it.
        """
        equal = self._equal[: len(value)]
        left, top = 0, NOWHERE
        rows: NDArray[np.intp] = np.zeros(0, np.intp)
        keys: NDArray[np.uint64] | None = None
        rows_to_be = draft(self._columns, self._states, answers, LOADS[status])
        add = rows_to_be.add
        taken: list[int] = []
        end = len(tasks)
        ask = end if lacking is None else start + max(lacking(), 1)
        for index in range(start, end):
            at = 0
            if not left:
                row = int(value.argmax())
                top = value.item(row)
                if top == NOWHERE:
                    end = index
                    break
                np.equal(value, top, out=equal)
                rows = equal.nonzero()[0]
                left = len(rows)
                keys = self._tie_keys(answers.shape, rows) if left > 1 else None
            if keys is not None:
                at = int(keys.argmin())
            row = rows.item(at)
            taken.append(row)
            score = add(row)
            value[row] = score
            if score > top:
                rows, keys, left, top = rows[at : at + 1], None, 1, score
            elif score < top:
                left -= 1
                if keys is not None:
                    keys[at] = _TAKEN
            if index + 1 == ask and lacking is not None:
                self._write(answers, rows_to_be, tasks[ask - len(taken) : ask], status, taken, log)
                taken.clear()
                more = lacking()
                if not more:
                    return ask, True
                ask += more
        if taken:
            self._write(answers, rows_to_be, tasks[end - len(taken) : end], status, taken, log)
        return end, False

    def _write(
        self,
        answers: Answers,
        rows_to_be: Draft,
        tasks: Sequence[TaskInfo],
        status: TaskStatus,
        rows: Sequence[int],
        log: list[TaskInfo],
    ) -> None:
        """Let everyone know of tasks placed on rows; of allocated ones the answers do already."""
        rows_to_be.write()
        if status is TaskStatus.ALLOCATED:  # values of idle room; reserving works on a copy of them
            answers.revision = self._columns.clock
        self._ledger.seated(tasks, status, rows)
        log.extend(tasks)
        assert self._rules is not None
        for tell in self._rules.tasks_in:
            for task in tasks:
                tell(task)

    def seat(self, task: TaskInfo, status: TaskStatus, row: int, log: list[TaskInfo]) -> None:
        """Put one task on a row and let everyone know."""
        assert self._rules is not None
        self._ledger.seat(task, status, row)
        log.append(task)
        for tell in self._rules.tasks_in:
            tell(task)

    def _exact(
        self,
        answers: Answers,
        tasks: Sequence[TaskInfo],
        lacking: Callable[[], int] | None,
        idle_only: bool,
        log: list[TaskInfo],
        own: Sequence[TaskScorer] = (),
        *,
        reserve: bool = False,
        idle_first: bool = False,
    ) -> tuple[int, bool]:
        """The same where some plugin must be asked for every task; `own` score them one by one."""
        assert self._rules is not None
        columns, size = self._columns, len(self._columns)
        shape = answers.shape
        for index, task in enumerate(tasks):
            self.overall += answers.prepare(self._rules, self._cycle) + EACH
            allowed: NDArray[np.bool_] | None = None
            for part in answers.live_filters:
                mask = part.allowed(shape, columns)
                allowed = mask if allowed is None else allowed & mask
            value, status = answers.value[:size], TaskStatus.PIPELINED if reserve else TaskStatus.ALLOCATED
            if allowed is not None:
                value = np.where(allowed, value, NOWHERE)
            top = value.max()
            if (reserve and not idle_first) or top == NOWHERE:
                if idle_only:
                    return index, False
                group = answers.mask[:size] & answers.fit_mask(columns, idle=False)
                if allowed is not None:
                    group &= allowed
                if not group.any():
                    return index, False
                value, status = np.where(group, answers.scores()[:size], NOWHERE), TaskStatus.PIPELINED
                top = value.max()
            if answers.live_scorers or own:
                group = value > NOWHERE
                value = value.copy()
                for scorer in answers.live_scorers:
                    value += scorer.score(shape, columns, group, columns, range(size))
                for each in own:
                    value += each.score_task(task, columns)
                value[~group] = NOWHERE
                top = value.max()
            row = self.best_of(shape, (value == top).nonzero()[0])
            self.seat(task, status, row, log)
            answers.touch(row)
            if lacking is not None and not lacking():
                return index + 1, True
        return len(tasks), False

    def _nominated(self, answers: Answers, node: str, idle_only: bool) -> int | None:
        """The row of the nominated node when the task may go there."""
        row = self._columns.rows.get(node)
        return row if row is not None and self._admits(answers, row, idle=idle_only) else None

    def _admits(self, answers: Answers, row: int, *, idle: bool) -> bool:
        """Whether a task may go to a row; the answers are right but for what is asked for every task."""
        if not answers.mask.item(row) or not answers.fits_row(row, idle=idle):
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


def _lacking(shape: Shape, name: str) -> str:
    """What a node lacks. Of a pod that requests nothing only the predicates plugin counts, as in Volcano's backfill."""
    return "node(s) pod number exceeded" if shape.best_effort and name == PODS else f"Insufficient {name}"
