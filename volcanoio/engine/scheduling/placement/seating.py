"""Seating: what is done with tasks once their rows are found."""

from __future__ import annotations

from collections.abc import Sequence

from volcanoio.engine.scheduling.combine import Rules
from volcanoio.engine.scheduling.ledger import Ledger
from volcanoio.engine.scheduling.tasks import TaskInfo
from volcanoio.framework.scheduling.views import TaskStatus


class Seating:
    """Lets the ledger, the log of the statement and the plugins of a cycle know of tasks that were placed."""

    __slots__ = ("_ledger", "rules")

    def __init__(self, ledger: Ledger) -> None:
        self._ledger = ledger
        self.rules: Rules | None = None

    def seat(self, task: TaskInfo, status: TaskStatus, row: int, log: list[TaskInfo]) -> None:
        """Put one task on a row."""
        self._ledger.seat(task, status, row)
        log.append(task)
        assert self.rules is not None
        for tell in self.rules.placed.of(task.shape):
            tell(task)

    def seated(self, tasks: Sequence[TaskInfo], status: TaskStatus, rows: Sequence[int], log: list[TaskInfo]) -> None:
        """Tasks were placed on rows, and the columns count them already."""
        self._ledger.seated(tasks, status, rows)
        log += tasks
        assert self.rules is not None
        for tell in self.rules.placed.of(tasks[0].shape):
            for task in tasks:
                tell(task)
