"""Alike tasks placed one by one where answers follow from the row: nodes are independent, so a task changes one row."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray

from volcanoio.engine.scheduling.columns import Columns
from volcanoio.engine.scheduling.loads import LOADS
from volcanoio.engine.scheduling.placement.answers import Answers
from volcanoio.engine.scheduling.placement.drafts import Draft, draft
from volcanoio.engine.scheduling.placement.onerow import NOWHERE
from volcanoio.engine.scheduling.placement.seating import Seating
from volcanoio.engine.scheduling.placement.ties import TAKEN, TieKeys
from volcanoio.engine.scheduling.tasks import TaskInfo
from volcanoio.framework.scheduling.views import TaskStatus


class Greedy:
    """One vector of values, then per task the best row and a rescore of that row."""

    __slots__ = ("_columns", "_keys", "_seating")

    def __init__(self, columns: Columns, keys: TieKeys, seating: Seating) -> None:
        self._columns = columns
        self._keys = keys
        self._seating = seating

    def place(
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
        left, top = 0, NOWHERE
        rows: NDArray[np.intp] = np.zeros(0, np.intp)
        keys: NDArray[np.uint64] | None = None
        rows_to_be = draft(self._columns, answers, LOADS[status])
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
                rows = (value == top).nonzero()[0]
                left = len(rows)
                keys = self._keys.of(answers.shape, rows) if left > 1 else None
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
                    keys[at] = TAKEN
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
        self._seating.seated(tasks, status, rows, log)
