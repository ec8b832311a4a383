"""Strategy by node row: chooses rows for alike tasks when scores depend on the row alone.

A placement changes one row only, so only that row is scored again.
"""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from volcanoio.engine.scheduling.cluster.loads import Load
from volcanoio.engine.scheduling.cluster.node_columns import NodeColumns
from volcanoio.engine.scheduling.placement.node_states import NOWHERE
from volcanoio.engine.scheduling.placement.score_table import ScoreTable, Ties


class _TakenRows:
    """Rows taken for tasks of one shape; `apply` counts in the columns the tasks that `add` has not counted yet.

    With a `row_scorer`, which needs only a row's amounts, these are summed here until then. Other plugins read the
    columns, so `add` counts each task there at once.
    """

    __slots__ = ("_amounts", "_changes", "_columns", "_counts", "_load", "_table", "rows")

    def __init__(self, columns: NodeColumns, table: ScoreTable, load: Load) -> None:
        self._columns = columns
        self._table = table
        self._load = load
        self._changes = columns.amount_changes(table.shape, load)
        self._amounts: dict[int, list[int]] = {}
        self._counts: dict[int, int] = {}
        self.rows: list[int] = []

    def add(self, row: int) -> float:
        """Take a row for one more task; return the row's new score."""
        self.rows.append(row)
        if self._table.row_scorer is None:
            self._columns.apply(row, self._table.shape, self._load, 1)
            amounts: Sequence[int] = self._columns.amounts(row)
        else:
            if (summed := self._amounts.get(row)) is None:
                summed = self._amounts[row] = list(self._columns.amounts(row))
            for at, amount in self._changes:
                summed[at] += amount
            self._counts[row] = self._counts.get(row, 0) + 1
            amounts = summed
        return self._table.rescore(row, amounts, idle=self._load is Load.OCCUPIES)

    def apply(self) -> None:
        """Count the tasks in the columns that `add` has not counted there."""
        if self._counts:
            self._columns.apply_all(self._counts, self._table.shape, self._load)


class ByNodeRow:
    """One vector of scores; per task the best row is taken and scored again."""

    __slots__ = ("_columns",)

    def __init__(self, columns: NodeColumns) -> None:
        self._columns = columns

    def take(self, table: ScoreTable, scores: NDArray[np.float64], load: Load, count: int) -> Sequence[int]:
        """Choose rows for up to `count` tasks, each where `scores` are highest at that moment, and count the tasks.

        The scores are updated. With the table's own array and `Load.OCCUPIES`, its scores are up to date afterwards.
        """
        taken = _TakenRows(self._columns, table, load)
        top, row, ties = NOWHERE, -1, None
        while len(taken.rows) < count:
            if row < 0:
                if (top := scores.item(scores.argmax())) == NOWHERE:
                    break
                rows = (scores == top).nonzero()[0]
                ties = Ties(rows, table.tie_keys(rows)) if len(rows) > 1 else None
                row = rows.item(0) if ties is None else ties.first
            score = scores[row] = taken.add(row)
            if score > top:  # the row scores better than before: it is taken again
                top, ties = score, None
            elif score < top:
                row = ties.first if ties is not None and ties.take() else -1
        taken.apply()
        return taken.rows

    def take_one(self, table: ScoreTable) -> int:
        """Choose the row of `take` for one task that occupies its node, but leave the row's score outdated.

        It is scored again with all other changed rows before the next task of the shape. Returns -1 if the task fits
        nowhere.
        """
        scores = table.idle_scores[: len(self._columns)]
        if not len(scores) or (top := scores.item(scores.argmax())) == NOWHERE:
            return -1
        row = table.first((scores == top).nonzero()[0])
        self._columns.occupy_row(table.shape, row)
        return row
