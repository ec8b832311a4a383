"""Strategy by node state: chooses rows for alike tasks when scores depend on a node's amounts alone.

No filter may depend on usage. Placing a task moves a row to the next state, and scores are looked up by state. Each
task goes to the best row at that moment. The best rows of a shape stay in order from one gang to the next
(`CandidateList`), and a row that was taken is inserted again with its new score.
"""

from bisect import insort
from collections.abc import Sequence
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from volcanoio.engine.scheduling.cluster.node_columns import UNKNOWN_STATE, NodeColumns
from volcanoio.engine.scheduling.placement.node_states import NAN, NOWHERE, NodeStates
from volcanoio.engine.scheduling.placement.score_table import ScoreTable

MAX_LISTS = 64
"""Number of shapes whose candidates are kept."""
MIN_CANDIDATES, MAX_CANDIDATES = 64, 256
"""Number of candidates that are sorted at once for a shape; the minimum applies once the previous ones were used up."""
NARROWED_TO = 64
"""Number of candidates that `_narrow` keeps of more than `MAX_CANDIDATES`."""
MAX_INSERTS = 64
"""Improved rows up to which inserting them is faster than searching again."""
MAX_ENTRIES = 2048
"""Length above which most of a list is outdated."""

Candidate: TypeAlias = tuple[float, int, int]
"""Score, inverted tie key and number of a row: the largest is taken next."""
_LOWEST: Candidate = (NOWHERE, 1 << 64, -1)
"""Comes after every row with the score NOWHERE, and before all others."""


class CandidateList:
    """The best rows of a shape in order, the next one at the end; valid for the score table at `revision`.

    Entries whose score has changed are outdated: a changed row has another entry. Every row that is better than
    `lowest` is in `entries`; the others are searched again once these are used up. Rows become candidates when their
    score is at most `margin` below the best score.
    """

    __slots__ = ("entries", "lowest", "margin", "revision")

    def __init__(self) -> None:
        self.margin = 0.0
        self.clear()

    def clear(self) -> None:
        """Drop all entries; the margin stays."""
        self.entries: list[Candidate] = []
        self.lowest = _LOWEST
        self.revision = -1

    def catch_up(self, table: ScoreTable) -> bool:
        """Insert the rows of the table's last update; return whether the list is valid for the table now."""
        since, until, rows = table.last_update
        if self.revision == since and until == table.revision and self._insert_all(table, rows):
            self.revision = until
        return self.revision == table.revision

    def _insert_all(self, table: ScoreTable, rows: NDArray[np.intp]) -> bool:
        """Insert rows whose scores changed; False where searching again is faster."""
        scores = table.idle_scores[rows]
        if len(better := (scores >= self.lowest[0]).nonzero()[0]) > MAX_INSERTS or len(self.entries) > MAX_ENTRIES:
            return False
        rows, entries, lowest = rows[better], self.entries, self.lowest
        keys = ~table.tie_keys(rows)
        for candidate in zip(scores[better].tolist(), keys.tolist(), rows.tolist(), strict=True):
            if candidate > lowest:
                insort(entries, candidate)
        return True

    def insert(self, score: float, tie_key: int, row: int) -> None:
        """Insert a row with a new score."""
        candidate = score, tie_key, row
        if candidate > self.lowest:
            insort(self.entries, candidate)

    def fill(self, table: ScoreTable, rows: NDArray[np.intp], scores: NDArray[np.float64]) -> None:
        """Start again with these rows, at least one."""
        keys = ~table.tie_keys(rows)
        order = np.lexsort((keys, scores))
        self.entries = list(zip(scores[order].tolist(), keys[order].tolist(), rows[order].tolist(), strict=True))
        self.lowest = self.entries[0]
        self.revision = table.revision


class ByNodeState:
    """Places alike tasks on idle room with scores looked up by node state."""

    __slots__ = ("_columns", "_lists", "_states")

    def __init__(self, columns: NodeColumns, states: NodeStates) -> None:
        self._columns = columns
        self._states = states
        self._lists: dict[int, CandidateList] = {}
        """Candidates by the shape's id, the most recently used last."""

    def open(self) -> None:
        """Begin a cycle: drop all candidates, because other rows win ties."""
        for candidates in self._lists.values():
            candidates.clear()

    def take(self, table: ScoreTable, count: int) -> Sequence[int]:  # noqa: C901 - the hot loop: a call costs 3 %
        """Choose rows for up to `count` tasks, each the best at that moment, and count the tasks in the columns.

        The table must be up to date, and is so afterwards.
        """
        states, shape, scores = self._states, table.shape, table.idle_scores
        by_state, scorer = table.by_state, table.row_scorer
        assert scorer is not None
        after, state_of, slots = states.successors(shape), self._columns.state_ids.item, self._columns.pod_slots
        known_score, known_end = by_state.table.item, len(by_state.table) - 1
        candidates = self._candidates(table)
        new_states: dict[int, int] = {}
        rows: list[int] = []
        while len(rows) < count:
            if not candidates.entries and not self._search(table, candidates):
                break
            top, tie_key, row = candidates.entries.pop()
            if scores.item(row) != top:  # outdated
                continue
            state = new_states[row] if row in new_states else state_of(row)
            if state < 0:
                state = states.of(row)
            free_slots = slots.item(row)
            while True:  # as long as the row stays the best one
                before, state = state, after.get(state, UNKNOWN_STATE)
                if state < 0:
                    state = states.successor(before, shape)
                score = known_score(state) if state < known_end else NAN
                if score != score:  # NaN: not computed yet, which may make the table longer
                    score = by_state.of(state, row, scorer)
                    known_score, known_end = by_state.table.item, len(by_state.table) - 1
                rows.append(row)
                free_slots -= 1
                if not free_slots:  # "takes another pod" is part of the state: the next state is looked up again
                    state, score = UNKNOWN_STATE, NOWHERE
                    break
                if score < top or len(rows) == count:
                    break
            slots[row] = free_slots
            new_states[row] = state
            scores[row] = score
            if score >= candidates.lowest[0]:
                candidates.insert(score, tie_key, row)
        if rows:
            self._columns.occupy(shape, rows, new_states)
            table.revision = candidates.revision = self._columns.clock
        return rows

    def take_one(self, table: ScoreTable) -> int:
        """Do the same as `take` for one task, without temporary lists; return -1 if it fits nowhere."""
        states, shape, scores, scorer = self._states, table.shape, table.idle_scores, table.row_scorer
        assert scorer is not None
        candidates = self._candidates(table)
        while True:
            if not candidates.entries and not self._search(table, candidates):
                return -1
            top, tie_key, row = candidates.entries.pop()
            if scores.item(row) == top:  # else outdated
                break
        state = states.of(row)
        slots = self._columns.pod_slots
        free_slots = slots[row] = slots.item(row) - 1
        if free_slots:
            if (after := states.successors(shape).get(state, UNKNOWN_STATE)) < 0:
                after = states.successor(state, shape)
            score = scores[row] = table.by_state.of(after, row, scorer)
        else:
            after, score = UNKNOWN_STATE, NOWHERE
            scores[row] = NOWHERE
        candidates.insert(score, tie_key, row)
        self._columns.occupy_row(shape, row, after)
        table.revision = candidates.revision = self._columns.clock
        return row

    def _candidates(self, table: ScoreTable) -> CandidateList:
        """Return the candidates of the table's shape, up to date or empty."""
        if (candidates := self._lists.pop(table.shape.id, None)) is None:
            candidates = CandidateList()
            if len(self._lists) >= MAX_LISTS:
                del self._lists[next(iter(self._lists))]
        elif not candidates.catch_up(table):
            candidates.clear()
        self._lists[table.shape.id] = candidates
        return candidates

    def _search(self, table: ScoreTable, candidates: CandidateList) -> bool:
        """Search the best rows of the table again; False if a task fits nowhere.

        When the previous candidates were used up, rows with slightly lower scores are included.
        """
        used_up = candidates.revision >= 0
        candidates.clear()
        scores = table.idle_scores[: len(self._columns)]
        if not len(scores) or (top := scores.item(scores.argmax())) == NOWHERE:
            return False
        if len(rows := (scores >= top - candidates.margin).nonzero()[0]) > MAX_CANDIDATES:
            candidates.margin /= 2
            rows = self._narrow(table, rows, scores[rows], top)
        elif used_up and len(rows) < MIN_CANDIDATES:
            candidates.margin = max(2 * candidates.margin, 1.0)
        candidates.fill(table, rows, scores[rows])
        return True

    def _narrow(
        self, table: ScoreTable, rows: NDArray[np.intp], scores: NDArray[np.float64], top: float
    ) -> NDArray[np.intp]:
        """Reduce too many rows to those better than the others, or to the first of equally good ones."""
        if (threshold := np.partition(scores, -NARROWED_TO).item(-NARROWED_TO)) < top:
            return rows[scores > threshold]
        rows = rows[scores == top]
        if len(rows) <= MAX_CANDIDATES:
            return rows
        return rows[table.tie_keys(rows).argpartition(NARROWED_TO)[:NARROWED_TO]]
