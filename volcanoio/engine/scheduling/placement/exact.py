"""Tasks placed where some plugin's answer depends on more than the row: all nodes are asked about for every task."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from volcanoio.engine.scheduling.columns import Columns
from volcanoio.engine.scheduling.placement.answers import Answers
from volcanoio.engine.scheduling.placement.onerow import NOWHERE
from volcanoio.engine.scheduling.placement.seating import Seating
from volcanoio.engine.scheduling.placement.ties import TieKeys
from volcanoio.engine.scheduling.tasks import TaskInfo
from volcanoio.framework.scheduling.points import TaskScorer
from volcanoio.framework.scheduling.views import TaskStatus


class Mode(NamedTuple):
    """What room tasks may have: idle only, or to be released too; `reserve` makes them Pipelined wherever they go,
    `idle_first` where it is free while there is such a node.
    """

    idle_only: bool = False
    reserve: bool = False
    idle_first: bool = False


class Exact:
    """The greedy, task by task."""

    __slots__ = ("_columns", "_keys", "_seating")

    def __init__(self, columns: Columns, keys: TieKeys, seating: Seating) -> None:
        self._columns = columns
        self._keys = keys
        self._seating = seating

    def place(
        self,
        answers: Answers,
        tasks: Sequence[TaskInfo],
        lacking: Callable[[], int] | None,
        mode: Mode,
        own: Sequence[TaskScorer],
        log: list[TaskInfo],
        refresh: Callable[[], None],
    ) -> tuple[int, bool]:
        """As `Placer.place`; `own` score tasks one by one, `refresh` makes the answers right."""
        for index, task in enumerate(tasks):
            refresh()
            found = self._best(answers, task, mode, own)
            if found is None:
                return index, False
            row, status = found
            self._seating.seat(task, status, row, log)
            answers.touch(row)
            if lacking is not None and not lacking():
                return index + 1, True
        return len(tasks), False

    def _best(
        self, answers: Answers, task: TaskInfo, mode: Mode, own: Sequence[TaskScorer]
    ) -> tuple[int, TaskStatus] | None:
        """The best row for a task, and what the task is there."""
        columns, size, shape = self._columns, len(self._columns), answers.shape
        allowed: NDArray[np.bool_] | None = None
        for part in answers.live_filters:
            mask = part.allowed(shape, columns)
            allowed = mask if allowed is None else allowed & mask
        value, status = answers.value[:size], TaskStatus.PIPELINED if mode.reserve else TaskStatus.ALLOCATED
        if allowed is not None:
            value = np.where(allowed, value, NOWHERE)
        top = value.max()
        if (mode.reserve and not mode.idle_first) or top == NOWHERE:
            if mode.idle_only:
                return None
            group = answers.mask[:size] & answers.fit_mask(idle=False)
            if allowed is not None:
                group &= allowed
            if not group.any():
                return None
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
        return self._keys.best(shape, (value == top).nonzero()[0]), status
