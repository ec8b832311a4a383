"""Candidate nodes: where evictions may make room for alike tasks, best first.

Nodes are preselected and scored on the columns, then offered one by one.
"""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from volcanoio.engine.scheduling.cluster.jobs import TaskInfo
from volcanoio.engine.scheduling.cluster.loads import Quantity
from volcanoio.engine.scheduling.cluster.node_columns import Ints
from volcanoio.engine.scheduling.placement.node_states import NOWHERE
from volcanoio.engine.scheduling.placement.score_table import Ties
from volcanoio.engine.scheduling.session.context import SessionContext
from volcanoio.framework.scheduling.points import Purpose
from volcanoio.model.resources import PODS

_FUTURE = int(Quantity.FUTURE)
REFRESH_EFFORT = 0.5
"""Effort of scoring changed rows, in evaluations of all nodes."""


class CandidateScores:
    """Scores by row for tasks of one shape and queue; NOWHERE where evicting all victims makes too little room.

    Valid for the columns as they were at `_clock`. `refresh` scores the rows again that changed since, for which a
    row's score must depend on that row alone and the columns must have the same rows and resources.
    """

    def __init__(self, session: SessionContext, task: TaskInfo, purpose: Purpose, *, own_job: bool = False) -> None:
        """`own_job`: victims are of the task's own job."""
        assert task.job_info is not None
        assert task.job_info.queue_info is not None
        columns = session.nodes
        self._session = session
        self._columns, self._victim_columns = columns, session.state.victim_columns
        self._purpose = purpose
        self.own_job = own_job
        self._queue = task.job_info.queue_info.name
        self._clock = columns.clock
        self._layout = (len(columns), columns.capacity, columns.layout)
        self._scores: dict[int, tuple[float, float]] = {}
        """By row the clock of its last change and the score after that, where `store` was called for it."""
        self._feasible: NDArray[np.bool_]
        self.by_row = self.compute(task)
        self._is_node_local = session.state.placer.is_node_local(task)

    def compute(self, task: TaskInfo) -> NDArray[np.float64]:
        """Return the scores of all rows now."""
        assert task.job_info is not None
        victim_columns, placer, queue = self._victim_columns, self._session.state.placer, self._queue
        self._feasible, scores = placer.candidate_scores(task)
        if self.own_job:
            evictable = victim_columns.of_job(task.job_info)
        elif self._purpose is Purpose.PREEMPT:
            evictable = victim_columns.of_queue(queue)
        else:
            evictable = victim_columns.of_others(queue)
        placer.add_effort(1)
        return np.where(self._feasible & self._has_room(task, evictable), scores, NOWHERE)

    def refresh(self, task: TaskInfo) -> bool:
        """Score changed rows again; False when all rows must be."""
        columns, placer = self._columns, self._session.state.placer
        if not self._is_node_local or not placer.is_node_local(task):
            return False
        if self._layout != (len(columns), columns.capacity, columns.layout):
            return False
        rows = (columns.changed_at[: len(columns)] > self._clock).nonzero()[0].tolist()
        changed_at = columns.changed_at.item
        for row in rows:
            score = NOWHERE
            if self._feasible.item(row):
                clock, score = self._scores.get(row, (-1.0, NOWHERE))
                if clock != changed_at(row):  # not the score that `CandidateNodes.rescore` has just computed
                    score = placer.current_score(task, row) if self.has_room_on(task, row) else NOWHERE
            self.by_row[row] = score
        self._clock = columns.clock
        placer.add_effort(REFRESH_EFFORT)
        return True

    def has_room_on(self, task: TaskInfo, row: int) -> bool:
        """Return whether evicting all evictable tasks of a row, if any, makes room for one task; not for `own_job`."""
        evictable = self._victim_columns.on_row(row, self._queue, others=self._purpose is Purpose.RECLAIM)
        index, amount_at = self._columns.resources, self._columns.block.item
        if evictable is None or evictable[index[PODS]] <= 0:
            return False
        for name, amount in task.shape.requests.items():  # called after every placement that needs evictions
            at = index[name]
            if amount_at(_FUTURE, at, row) + evictable[at] < amount:
                return False
        return True

    def store(self, row: int, score: float) -> None:
        """Store a row's current score, NOWHERE where too little can be evicted."""
        self._scores[row] = self._columns.changed_at.item(row), score

    def _has_room(self, task: TaskInfo, evictable: Ints) -> NDArray[np.bool_]:
        """Return the rows with evictable tasks where evicting all of them makes room for one task."""
        columns, size = self._columns, len(self._columns)
        mask = evictable[columns.resources[PODS], :size] > 0
        for name, amount in task.shape.requests.items():
            mask &= columns.future_idle(name) + evictable[columns.resources[name], :size] >= amount
        return mask


class CandidateNodes:
    """Implements `session.CandidateNodes`: one score per row, NOWHERE where no suitable victims are left."""

    def __init__(
        self, session: SessionContext, task: TaskInfo, scores: CandidateScores, excluded: NDArray[np.bool_] | None
    ) -> None:
        """`excluded` are rows where no suitable victims were found for tasks like this one."""
        self._columns, self._placer = session.nodes, session.state.placer
        self._victim_columns = session.state.victim_columns
        self._task = task
        self._scores = scores
        self._score_by_row = scores.by_row.copy()
        if excluded is not None:
            self._score_by_row[excluded[: len(self._score_by_row)]] = NOWHERE
        self._top = NOWHERE
        """The best score, while `_ties` are known."""
        self._ties: Ties | None = None
        """The rows with the best score; None when they must be determined."""
        self._is_node_local = False
        """Whether a row's score depends on that row alone; the result is valid for the cycle."""

    def best(self) -> str:
        """Return the remaining node with the highest score, "" when none is left."""
        if self._ties is None:
            scores = self._score_by_row
            self._top = scores.max().item() if len(scores) else NOWHERE
            if self._top == NOWHERE:
                return ""
            rows = (scores == self._top).nonzero()[0]
            self._ties = Ties(rows, self._placer.tie_keys(self._task.shape, rows))
        return self._columns.names[self._ties.first]

    def exclude(self, node: str) -> None:
        """Remove a node on which no suitable victims were found."""
        self._set(self._columns.rows[node], NOWHERE)

    def rescore(self, node: str) -> None:
        """Compute a node's score again after an eviction or placement there."""
        placer, row = self._placer, self._columns.rows[node]
        self._is_node_local = self._is_node_local or placer.is_node_local(self._task)
        if not self._is_node_local:  # placements and evictions may have changed the score of every row
            for _ in self._victim_columns.refresh():
                pass
            self._score_by_row = np.where(self._score_by_row == NOWHERE, NOWHERE, self._scores.compute(self._task))
            self._ties = None
            return
        if not self._scores.own_job:
            if not self._victim_columns.is_current(row):
                for _ in self._victim_columns.refresh():
                    pass
            if not self._scores.has_room_on(self._task, row):
                self._scores.store(row, NOWHERE)
                self._set(row, NOWHERE)
                return
        score = placer.current_score(self._task, row)
        self._scores.store(row, score)
        self._set(row, score)

    def from_seeded_offset(self) -> Sequence[str]:
        """Return all remaining nodes, rotated to start at a seeded offset."""
        if not len(rows := (self._score_by_row != NOWHERE).nonzero()[0]):
            return ()
        at = int(self._placer.tie_keys(self._task.shape, rows).argmin())
        names = self._columns.names
        return [names[row] for row in np.roll(rows, -at).tolist()]

    def _set(self, row: int, score: float) -> None:
        """Set a row's score; the best rows stay known if only the first of them got worse."""
        self._score_by_row[row] = score
        if (ties := self._ties) is not None and (score >= self._top or row != ties.first or not ties.take()):
            self._ties = None
