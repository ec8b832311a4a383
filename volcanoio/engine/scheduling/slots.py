"""For how many alike tasks there is room, or might be: counted on the columns before anything is tried."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from volcanoio.engine.scheduling.columns import Ints
from volcanoio.engine.scheduling.tasks import TaskInfo
from volcanoio.framework.scheduling.points import Purpose

if TYPE_CHECKING:
    from volcanoio.engine.scheduling.session import CycleSession


class NodeSlots:
    """Implements `victims.Slots`: one number a row."""

    __slots__ = ("_columns", "_mask", "_requests", "_rows", "most", "now")

    def __init__(self, session: CycleSession, task: TaskInfo, purpose: Purpose) -> None:
        assert task.owner is not None
        assert task.owner.queue_info is not None
        self._columns = session.nodes
        self._requests = task.shape.requests
        self._mask, _ = session.state.placer.prospects(task)
        takable, queue = session.state.takable, task.owner.queue_info.name
        there = takable.of_queue(queue) if purpose is Purpose.PREEMPT else takable.of_others(queue)
        self._rows = self._counted(None)
        self.now = int(self._rows.sum())
        """As `victims.Slots`."""
        self.most = int(self._counted(there).sum())
        """As `victims.Slots`."""
        session.state.placer.overall += 1

    def possible(self, node: str) -> bool:
        """As `victims.Slots`."""
        return bool(self._mask[self._columns.rows[node]])

    def changed(self, node: str) -> None:
        """As `victims.Slots`."""
        row = self._columns.rows[node]
        if self._mask[row]:
            free = min(self._columns.future_idle(name).item(row) // amount for name, amount in self._requests.items())
            number = max(free, 0)
            self.now += number - self._rows.item(row)
            self._rows[row] = number

    def _counted(self, more: Ints | None) -> Ints:
        """How many fit each row, with more room by the resource's index."""
        columns, size = self._columns, len(self._columns)
        least: Ints = np.full(size, np.iinfo(np.int64).max, np.int64)
        for name, amount in self._requests.items():
            room = columns.future_idle(name)
            if more is not None:
                room = room + more[columns.resources[name], :size]
            np.minimum(least, room // amount, out=least)
        least[~self._mask] = 0
        np.maximum(least, 0, out=least)
        return least
