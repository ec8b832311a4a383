"""Where victims may make room for alike tasks: nodes preselected and ordered on the columns, asked about one by one."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from volcanoio.engine.scheduling.columns import Ints
from volcanoio.engine.scheduling.loads import Quantity
from volcanoio.engine.scheduling.placement.onerow import NOWHERE
from volcanoio.engine.scheduling.placement.ties import Ties
from volcanoio.engine.scheduling.tasks import TaskInfo
from volcanoio.framework.scheduling.points import Purpose
from volcanoio.model.resources import PODS

if TYPE_CHECKING:
    from volcanoio.engine.scheduling.session import CycleSession

_FUTURE = int(Quantity.FUTURE)
RENEWED = 0.5
"""How long looking again at what changed takes, as a part of looking at all nodes."""


class Prospects:
    """By row the score for tasks of one shape and queue, NOWHERE where even all victims make no room.

    Where a row's own amounts are all that counts, alike tasks share them: only what changed is looked at again.
    """

    def __init__(self, session: CycleSession, task: TaskInfo, purpose: Purpose, *, own: bool = False) -> None:
        """`own`: victims are of the task's own job."""
        assert task.owner is not None
        assert task.owner.queue_info is not None
        columns = session.nodes
        self._session = session
        self._columns, self._takable = columns, session.state.takable
        self._purpose = purpose
        self.own = own
        self._queue = task.owner.queue_info.name
        self._clock = columns.clock
        self._layout = (len(columns), columns.capacity, columns.layout)
        self._scores: dict[int, tuple[float, float]] = {}
        """Scores that are known, each with the clock of the row's change that it followed."""
        self._standing: NDArray[np.bool_]
        self.value = self.look(task)
        self._lasting = session.state.placer.judges_rows_alone(task)

    def look(self, task: TaskInfo) -> NDArray[np.float64]:
        """The scores of all rows as they are now."""
        assert task.owner is not None
        takable, placer, queue = self._takable, self._session.state.placer, self._queue
        self._standing, value = placer.prospects(task)
        if self.own:
            there = takable.of_job(task.owner)
        else:
            there = takable.of_queue(queue) if self._purpose is Purpose.PREEMPT else takable.of_others(queue)
        placer.overall += 1
        return np.where(self._standing & self._enough(task, there), value, NOWHERE)

    def renew(self, task: TaskInfo) -> bool:
        """Look again at what changed; False when all is to be looked at."""
        columns, placer = self._columns, self._session.state.placer
        if not self._lasting or not placer.judges_rows_alone(task):
            return False
        if self._layout != (len(columns), columns.capacity, columns.layout):
            return False
        rows = (columns.changed[: len(columns)] > self._clock).nonzero()[0].tolist()
        item = columns.changed.item
        for row in rows:
            score = NOWHERE
            if self._standing.item(row):
                when, score = self._scores.get(row, (-1.0, NOWHERE))
                if when != item(row):
                    score = placer.score_of(task, row) if self.enough_on(task, row) else NOWHERE
            self.value[row] = score
        self._clock = columns.clock
        placer.overall += RENEWED
        return True

    def enough_on(self, task: TaskInfo, row: int) -> bool:
        """Whether somebody may be evicted on a row, and all of them leave room for one task; not for `own`."""
        there = self._takable.at(row, self._queue, others=self._purpose is Purpose.RECLAIM)
        columns = self._columns
        index, item = columns.resources, columns.block.item
        if there is None or there[index[PODS]] <= 0:
            return False
        for name, amount in task.shape.requests.items():  # asked after every placement that evictions pay for
            at = index[name]
            if item(_FUTURE, at, row) + there[at] < amount:
                return False
        return True

    def note(self, row: int, score: float) -> None:
        """What a row's score is as it is now, NOWHERE where not enough can be evicted."""
        self._scores[row] = self._columns.changed.item(row), score

    def _enough(self, task: TaskInfo, there: Ints) -> NDArray[np.bool_]:
        """Where somebody may be evicted, and all of them leave room for one task."""
        columns, size = self._columns, len(self._columns)
        mask = there[columns.resources[PODS], :size] > 0
        for name, amount in task.shape.requests.items():
            mask &= columns.future_idle(name) + there[columns.resources[name], :size] >= amount
        return mask


class NodeHunt:
    """Implements `victims.Hunt`: one score a row, NOWHERE where nothing is to be had."""

    def __init__(
        self, session: CycleSession, task: TaskInfo, prospects: Prospects, known: NDArray[np.bool_] | None
    ) -> None:
        """`known` are rows where tasks like this one found nothing before."""
        self._columns, self._placer, self._takable = session.nodes, session.state.placer, session.state.takable
        self._task = task
        self._prospects = prospects
        self._value = prospects.value.copy()
        if known is not None:
            self._value[known[: len(self._value)]] = NOWHERE
        self._top = NOWHERE
        self._equal: Ties | None = None
        """The rows with the best score; None when these are to be found out."""
        self._alone = False
        """Whether it is known that a row's score follows from that row alone: in a cycle that stays so."""

    def best(self) -> str:
        """As `victims.Hunt`."""
        if self._equal is None:
            value = self._value
            self._top = value.max().item() if len(value) else NOWHERE
            if self._top == NOWHERE:
                return ""
            rows = (value == self._top).nonzero()[0]
            self._equal = self._placer.ties(self._task.shape, rows)
        return self._columns.names[self._equal.first]

    def spent(self, node: str) -> None:
        """As `victims.Hunt`."""
        self._set(self._columns.rows[node], NOWHERE)

    def changed(self, node: str) -> None:
        """As `victims.Hunt`."""
        placer, row = self._placer, self._columns.rows[node]
        self._alone = self._alone or placer.judges_rows_alone(self._task)
        if not self._alone:  # what was placed and evicted may count for every row
            for _ in self._takable.refresh():
                pass
            self._value = np.where(self._value == NOWHERE, NOWHERE, self._prospects.look(self._task))
            self._equal = None
            return
        if not self._prospects.own:
            if not self._takable.knows(row):
                for _ in self._takable.refresh():
                    pass
            if not self._prospects.enough_on(self._task, row):
                self._prospects.note(row, NOWHERE)
                self._set(row, NOWHERE)
                return
        score = placer.score_of(self._task, row)
        self._prospects.note(row, score)
        self._set(row, score)

    def around(self) -> Sequence[str]:
        """As `victims.Hunt`."""
        rows = (self._value != NOWHERE).nonzero()[0]
        if not len(rows):
            return ()
        first = self._placer.best_of(self._task.shape, rows)
        at = int(np.searchsorted(rows, first))
        names = self._columns.names
        return [names[row] for row in np.roll(rows, -at).tolist()]

    def _set(self, row: int, score: float) -> None:
        """Follow a row's new score; the best ones stay known where only the first of them got worse."""
        self._value[row] = score
        equal = self._equal
        if equal is not None and (score >= self._top or row != equal.first or not equal.take()):
            self._equal = None
