"""Strategy by node state: places alike tasks when scores depend on a node's amounts alone, and no filter on usage.

Placing a task moves a row to the next state, and scores are looked up by state. Each task goes to the best row at that
moment. The best rows stay in order from one gang of a shape to the next (`top_candidates`), and a row that was taken is
inserted again with its new score. `SingleTask` finds the row for one task without the lists that many tasks need.
"""

from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from volcanoio.engine.scheduling.cluster.node_columns import UNKNOWN_STATE, NodeColumns
from volcanoio.engine.scheduling.placement.node_states import NodeStates
from volcanoio.engine.scheduling.placement.placed_tasks import PlacedTasks, PlacementRequest
from volcanoio.engine.scheduling.placement.row_scorer import NOWHERE
from volcanoio.engine.scheduling.placement.score_table import NAN, ScoreTable
from volcanoio.engine.scheduling.placement.top_candidates import CandidateList, TieKeys
from volcanoio.framework.scheduling.views import Shape, TaskStatus

KEPT_LISTS = 64
"""Number of shapes whose candidates are kept."""
LEAST, MOST = 64, 256
"""Number of candidates to sort at once for a shape whose previous candidates were used up."""
MOST_FIRST = 64
"""Number of rows to sort at once where more than `MOST` share the best score."""


class TopCandidates:
    """Finds the best rows of a shape, and keeps them at its score table (`ScoreTable.candidates`)."""

    __slots__ = ("_columns", "_keys", "_tables")

    def __init__(self, columns: NodeColumns, keys: TieKeys) -> None:
        self._columns = columns
        self._keys = keys
        self._tables: dict[int, ScoreTable] = {}
        """Tables with candidates by the shape's id, the most recently computed last."""

    def open(self) -> None:
        """Begin a cycle: other rows win ties."""
        for table in self._tables.values():
            table.candidates = None
        self._tables.clear()

    def compute(self, table: ScoreTable) -> CandidateList | None:
        """Compute the current candidates and store them at the table; None if a task fits nowhere.

        When the previous candidates were used up, rows with slightly lower scores are included.
        """
        value, kept, shape = table.value[: len(self._columns)], self._tables, table.shape
        again, table.candidates = table.candidates is not None, None
        kept.pop(shape.id, None)
        if not len(value):
            return None
        if (top := value.item(value.argmax())) == NOWHERE:
            return None
        if len(rows := (value >= top - table.margin).nonzero()[0]) > MOST:
            table.margin /= 2
            rows = self._narrow(shape, rows, value[rows], top)
        elif again and len(rows) < LEAST:
            table.margin = max(2 * table.margin, 1.0)
        best = table.candidates = CandidateList(self._keys, shape, rows, value[rows])
        kept[shape.id] = table
        if len(kept) > KEPT_LISTS:
            kept.pop(next(iter(kept))).candidates = None
        return best

    def _narrow(
        self, shape: Shape, rows: NDArray[np.intp], values: NDArray[np.float64], top: float
    ) -> NDArray[np.intp]:
        """Reduce too many rows to those better than the others, or to the first of equally good ones."""
        if (least := np.partition(values, -MOST_FIRST).item(-MOST_FIRST)) < top:
            return rows[values > least]
        rows = rows[values == top]
        return rows[self._keys.of(shape, rows).argpartition(MOST_FIRST)[:MOST_FIRST]] if len(rows) > MOST else rows


class ByNodeState:
    """Places alike tasks on idle room with scores looked up by node state."""

    __slots__ = ("_columns", "_placed_tasks", "_states", "_top_candidates")

    def __init__(
        self, columns: NodeColumns, states: NodeStates, top_candidates: TopCandidates, placed_tasks: PlacedTasks
    ) -> None:
        self._columns = columns
        self._states = states
        self._top_candidates = top_candidates
        self._placed_tasks = placed_tasks

    def place(self, table: ScoreTable, request: PlacementRequest) -> tuple[int, bool]:  # noqa: C901 - the hot loop
        """Place tasks on idle room, with a table that is up to date; return the same as `Placer.place`."""
        states, shape, values, one = self._states, table.shape, table.values, table.row_scorer
        assert one is not None
        best, value = table.candidates, table.value
        following, state_of, slots = states.successors(shape), self._columns.state_ids.item, self._columns.pod_slots
        known, end_known = values.table.item, len(values.table) - 1
        now: dict[int, int] = {}
        rows: list[int] = []
        placed, end, missing = 0, len(request.tasks), request.missing
        ask = end if missing is None else max(missing(), 1)
        stop, enough = min(ask, end), False
        while placed < end:
            if (best is None or not best.entries) and (best := self._top_candidates.compute(table)) is None:
                break
            top, place, row = best.entries.pop()
            if value.item(row) != top:
                continue
            state = now[row] if row in now else state_of(row)
            if state < 0:
                state = states.of(row)
            left = slots.item(row)
            while True:
                before, state = state, following.get(state, UNKNOWN_STATE)
                if state < 0:
                    state = states.successor(before, shape)
                score = known(state) if state < end_known else NAN
                if score != score:
                    score = values.of(state, row, one)
                    known, end_known = values.table.item, len(values.table) - 1
                rows.append(row)
                placed += 1
                left -= 1
                if not left:
                    state, score = UNKNOWN_STATE, NOWHERE
                    break
                if score < top or placed == stop:
                    break
            slots[row] = left
            now[row] = state
            value[row] = score
            if score >= best.lowest[0]:
                best.insert(score, place, row)
            if placed == stop:
                self._record(table, request, placed, rows, now)
                rows, now = [], {}
                if placed == ask and missing is not None:
                    more = missing()
                    if enough := not more:
                        break
                    ask += more
                stop = min(ask, end)
        if rows:
            self._record(table, request, placed, rows, now)
        return placed, enough

    def _record(
        self, table: ScoreTable, request: PlacementRequest, end: int, rows: Sequence[int], states: Mapping[int, int]
    ) -> None:
        """Record the tasks before index `end`, one per row; `states` are the new states of these rows."""
        self._columns.occupy(table.shape, rows, states)
        table.revision = self._columns.clock
        self._placed_tasks.record(request, end, TaskStatus.ALLOCATED, rows)


class SingleTask:
    """Finds the best row for one task and counts the task there in the columns; -1 if it fits nowhere."""

    __slots__ = ("_columns", "_states", "_tie_keys", "_top_candidates")

    def __init__(self, columns: NodeColumns, states: NodeStates, keys: TieKeys, top_candidates: TopCandidates) -> None:
        self._columns = columns
        self._states = states
        self._tie_keys = keys
        self._top_candidates = top_candidates

    def by_state(self, table: ScoreTable) -> int:
        """Return the row that `ByNodeState.place` would take, with a table that is up to date."""
        states, shape, value, best = self._states, table.shape, table.value, table.candidates
        one, values = table.row_scorer, table.values
        assert one is not None
        while True:
            if (best is None or not best.entries) and (best := self._top_candidates.compute(table)) is None:
                return -1
            top, place, row = best.entries.pop()
            if value.item(row) == top:
                break
        if (state := self._columns.state_ids.item(row)) < 0:
            state = states.of(row)
        slots = self._columns.pod_slots
        left = slots[row] = slots.item(row) - 1
        if left:
            if (after := states.successors(shape).get(state, UNKNOWN_STATE)) < 0:
                after = states.successor(state, shape)
            score = value[row] = values.of(after, row, one)
        else:
            after, score = UNKNOWN_STATE, NOWHERE
            value[row] = NOWHERE
        best.insert(score, place, row)
        self._columns.occupy_row(shape, row, after)
        table.revision = self._columns.clock
        return row

    def by_row(self, table: ScoreTable) -> int:
        """Return the row that `ByNodeRow.place` would take; the row's entry in the table is outdated afterwards.

        It is scored again with all other changed rows before the next task of the shape.
        """
        columns, shape = self._columns, table.shape
        if not len(value := table.value[: len(columns)]):
            return -1
        row = int(value.argmax())
        if (top := value.item(row)) == NOWHERE:
            return -1
        if len(rows := (value == top).nonzero()[0]) > 1:
            row = self._tie_keys.first(shape, rows)
        columns.occupy_row(shape, row)
        return row
