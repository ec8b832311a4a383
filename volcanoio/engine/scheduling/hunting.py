"""Where victims may make room for alike tasks: nodes preselected and ordered on the columns, asked about one by one."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from volcanoio.engine.scheduling.answers import NOWHERE
from volcanoio.engine.scheduling.tasks import TaskInfo
from volcanoio.framework.scheduling.points import Purpose
from volcanoio.model.resources import PODS

if TYPE_CHECKING:
    from volcanoio.engine.scheduling.session import CycleSession


class NodeHunt:
    """Implements `victims.Hunt`: one score a row, NOWHERE where nothing is to be had."""

    def __init__(
        self, session: CycleSession, task: TaskInfo, purpose: Purpose, known: NDArray[np.bool_] | None, *, own: bool
    ) -> None:
        """`known` are rows where tasks like this one found nothing before; `own`: victims are of its own job."""
        assert task.owner is not None
        assert task.owner.queue_info is not None
        self._session = session
        self._task = task
        columns, takable = session.nodes, session.state.takable
        size, queue = len(columns), task.owner.queue_info.name
        mask, self._value = session.state.placer.prospects(task)
        if own:
            there = takable.of_job(task.owner)
        else:
            there = takable.of_queue(queue) if purpose is Purpose.PREEMPT else takable.of_others(queue)
        mask &= there[columns.resources[PODS], :size] > 0
        for name, amount in task.shape.requests.items():
            mask &= columns.future_idle(name) + there[columns.resources[name], :size] >= amount
        if known is not None:
            mask &= ~known[:size]
        self._value[~mask] = NOWHERE
        session.state.placer.overall += 1

    def best(self) -> str:
        """As `victims.Hunt`."""
        value = self._value
        if not len(value):
            return ""
        top = value.max()
        if top == NOWHERE:
            return ""
        rows = (value == top).nonzero()[0]
        return self._session.nodes.names[self._session.state.placer.best_of(self._task.shape, rows)]

    def spent(self, node: str) -> None:
        """As `victims.Hunt`."""
        self._value[self._session.nodes.rows[node]] = NOWHERE

    def changed(self, node: str) -> None:
        """As `victims.Hunt`."""
        row = self._session.nodes.rows[node]
        self._value[row] = self._session.state.placer.score_of(self._task, row)

    def around(self) -> Sequence[str]:
        """As `victims.Hunt`."""
        rows = (self._value != NOWHERE).nonzero()[0]
        if not len(rows):
            return ()
        first = self._session.state.placer.best_of(self._task.shape, rows)
        at = int(np.searchsorted(rows, first))
        names = self._session.nodes.names
        return [names[row] for row in np.roll(rows, -at).tolist()]
