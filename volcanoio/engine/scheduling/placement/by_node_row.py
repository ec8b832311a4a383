"""Strategy by node row: places alike tasks when scores depend on the row alone; a placement changes one row only."""

from collections.abc import Sequence
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from volcanoio.engine.scheduling.cluster.loads import LOADS, Load
from volcanoio.engine.scheduling.cluster.node_columns import NodeColumns
from volcanoio.engine.scheduling.placement.placed_tasks import PlacedTasks, PlacementRequest
from volcanoio.engine.scheduling.placement.row_scorer import NOWHERE
from volcanoio.engine.scheduling.placement.score_table import ScoreTable
from volcanoio.engine.scheduling.placement.top_candidates import TAKEN, TieKeys
from volcanoio.framework.scheduling.views import TaskStatus


class PlannedRows(Protocol):
    """Tasks of one shape that are planned on rows of a score table."""

    table: ScoreTable

    def add(self, row: int) -> float:
        """Count one more task on a row; return the row's new score."""
        ...

    def apply(self) -> None:
        """Count in the columns what was added since the last call."""
        ...


def planned_rows(columns: NodeColumns, table: ScoreTable, load: Load) -> PlannedRows:
    """Return the fastest plan that the table allows."""
    return (PlannedSums if table.is_by_row else PlannedDirectly)(columns, table, load)


class PlannedSums:
    """Plan for scalar scorers, which need only a row's amounts; these are summed outside the columns until `apply`."""

    __slots__ = ("_amounts", "_columns", "_counts", "_idle_only", "_load", "_steps", "table")

    def __init__(self, columns: NodeColumns, table: ScoreTable, load: Load) -> None:
        self._columns = columns
        self.table = table
        self._load = load
        self._idle_only = load is Load.OCCUPIES
        self._steps = columns.amount_changes(table.shape, load)
        self._amounts: dict[int, list[int]] = {}
        self._counts: dict[int, int] = {}

    def add(self, row: int) -> float:
        """Count one more task on a row; return the row's new score."""
        if (values := self._amounts.get(row)) is None:
            values = self._amounts[row] = list(self._columns.amounts(row))
        for at, amount in self._steps:
            values[at] += amount
        self._counts[row] = self._counts.get(row, 0) + 1
        return self.table.rescore(row, values, idle=self._idle_only)

    def apply(self) -> None:
        """Count in the columns what was added since the last call."""
        self._columns.apply_all(self._counts, self.table.shape, self._load)
        self._counts.clear()


class PlannedDirectly:
    """Plan for plugins that read the columns: each task is counted there at once."""

    __slots__ = ("_columns", "_load", "table")

    def __init__(self, columns: NodeColumns, table: ScoreTable, load: Load) -> None:
        self._columns = columns
        self.table = table
        self._load = load

    def add(self, row: int) -> float:
        """Count one more task on a row; return the row's new score."""
        self._columns.apply(row, self.table.shape, self._load, 1)
        return self.table.rescore(row, self._columns.amounts(row), idle=self._load is Load.OCCUPIES)

    def apply(self) -> None:
        """Do nothing: the columns count every task already."""


class ByNodeRow:
    """One vector of scores; per task the best row is taken and scored again."""

    __slots__ = ("_columns", "_placed_tasks", "_tie_keys")

    def __init__(self, columns: NodeColumns, keys: TieKeys, placed_tasks: PlacedTasks) -> None:
        self._columns = columns
        self._tie_keys = keys
        self._placed_tasks = placed_tasks

    def place(  # noqa: C901 - the hot loop: calls would slow it down
        self, table: ScoreTable, value: NDArray[np.float64], status: TaskStatus, request: PlacementRequest, start: int
    ) -> tuple[int, bool]:
        """Place the tasks from index `start`, each on the row where `value` is highest at that moment.

        Returns the index after the last placed task, and whether the job needs no more. `rows` have the highest value,
        and `left` of them were not taken since it was found. Placed tasks are recorded before each call of `missing`
        and at the end; until then only `planned` counts them.
        """
        left, top = 0, NOWHERE
        rows: NDArray[np.intp] = np.zeros(0, np.intp)
        keys: NDArray[np.uint64] | None = None
        planned = planned_rows(self._columns, table, LOADS[status])
        add = planned.add
        taken: list[int] = []
        end, missing = len(request.tasks), request.missing
        ask = end if missing is None else start + max(missing(), 1)
        for index in range(start, end):
            at = 0
            if not left:
                row = int(value.argmax())
                if (top := value.item(row)) == NOWHERE:
                    end = index
                    break
                rows = (value == top).nonzero()[0]
                left = len(rows)
                keys = self._tie_keys.of(table.shape, rows) if left > 1 else None
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
            if index + 1 == ask and missing is not None:
                self._record(planned, request, ask, status, taken)
                taken.clear()
                if not (more := missing()):
                    return ask, True
                ask += more
        if taken:
            self._record(planned, request, end, status, taken)
        return end, False

    def _record(
        self, planned: PlannedRows, request: PlacementRequest, end: int, status: TaskStatus, rows: Sequence[int]
    ) -> None:
        """Record the tasks before index `end`, one per row; after allocation the table is up to date."""
        planned.apply()
        if status is TaskStatus.ALLOCATED:  # pipelining works on a copy of the values
            planned.table.revision = self._columns.clock
        self._placed_tasks.record(request, end, status, rows)
