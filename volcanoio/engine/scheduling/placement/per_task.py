"""Strategy per task: filters and scores all nodes for every task, when some result depends on more than the row."""

from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray

from volcanoio.engine.scheduling.cluster.jobs import TaskInfo
from volcanoio.engine.scheduling.cluster.node_columns import NodeColumns
from volcanoio.engine.scheduling.placement.placed_tasks import PlacedTasks, PlacementRequest
from volcanoio.engine.scheduling.placement.row_scorer import NOWHERE
from volcanoio.engine.scheduling.placement.score_table import ScoreTable
from volcanoio.engine.scheduling.placement.top_candidates import TieKeys
from volcanoio.framework.scheduling.points import TaskScorer
from volcanoio.framework.scheduling.views import TaskStatus


class PerTask:
    """The loop over all nodes for each task."""

    __slots__ = ("_columns", "_placed_tasks", "_tie_keys")

    def __init__(self, columns: NodeColumns, keys: TieKeys, placed_tasks: PlacedTasks) -> None:
        self._columns = columns
        self._tie_keys = keys
        self._placed_tasks = placed_tasks

    def place(
        self, table: ScoreTable, request: PlacementRequest, scorers: Sequence[TaskScorer], refresh: Callable[[], None]
    ) -> tuple[int, bool]:
        """Place tasks one by one; `scorers` score this very task, `refresh` brings the table up to date."""
        for index, task in enumerate(request.tasks):
            refresh()
            if (found := self._best(table, task, request, scorers)) is None:
                return index, False
            row, status = found
            self._placed_tasks.assume(task, status, row, request.log)
            table.update_row(row)
            if request.missing is not None and not request.missing():
                return index + 1, True
        return len(request.tasks), False

    def _best(
        self, table: ScoreTable, task: TaskInfo, request: PlacementRequest, scorers: Sequence[TaskScorer]
    ) -> tuple[int, TaskStatus] | None:
        """Return the best row for a task and the status that the task gets there."""
        columns, size, shape = self._columns, len(self._columns), table.shape
        allowed: NDArray[np.bool_] | None = None
        for part in table.live_filters:
            mask = part.allowed(shape, columns)
            allowed = mask if allowed is None else allowed & mask
        value, status = table.value[:size], TaskStatus.PIPELINED if request.pipeline else TaskStatus.ALLOCATED
        if allowed is not None:
            value = np.where(allowed, value, NOWHERE)
        top = value.max()
        if (request.pipeline and not request.idle_first) or top == NOWHERE:
            if request.idle_only:
                return None
            group = table.passes[:size] & table.fit_mask(idle=False)
            if allowed is not None:
                group &= allowed
            if not group.any():
                return None
            value, status = np.where(group, table.scores()[:size], NOWHERE), TaskStatus.PIPELINED
            top = value.max()
        if table.live_scorers or scorers:
            group = value > NOWHERE
            value = value.copy()
            for scorer in table.live_scorers:
                value += scorer.score(shape, columns, group, columns, range(size))
            for each in scorers:
                value += each.score_task(task, columns)
            value[~group] = NOWHERE
            top = value.max()
        return self._tie_keys.first(shape, (value == top).nonzero()[0]), status
