"""The request to place alike tasks, and the record of placed ones in the ledger, the undo log and plugins."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from volcanoio.engine.scheduling.cluster.jobs import TaskInfo
from volcanoio.engine.scheduling.cluster.task_transitions import Ledger
from volcanoio.engine.scheduling.config.plugin_rules import Rules
from volcanoio.framework.scheduling.views import TaskStatus


@dataclass(slots=True)
class PlacementRequest:
    """Alike tasks of a job, to be placed in order; placed ones are appended to `log`.

    `missing` returns how many more tasks the job needs, 0 when it has enough; it is called after that many were placed.
    `nominated` is the nominated node of a single task. `idle_only`: room that is being released does not count.
    `pipeline`: tasks become Pipelined on idle room too; `idle_first`: idle room is then preferred.
    """

    tasks: Sequence[TaskInfo]
    log: list[TaskInfo]
    missing: Callable[[], int] | None = None
    nominated: str = ""
    idle_only: bool = False
    pipeline: bool = False
    idle_first: bool = False


class PlacedTasks:
    """Records placed tasks in the ledger and in the statement's log, and notifies the plugins of the cycle."""

    __slots__ = ("_ledger", "rules")

    def __init__(self, ledger: Ledger) -> None:
        self._ledger = ledger
        self.rules: Rules | None = None

    def assume(self, task: TaskInfo, status: TaskStatus, row: int, log: list[TaskInfo]) -> None:
        """Assume one task on a row, and count it in the columns."""
        self._ledger.assume(task, status, row)
        log.append(task)
        assert self.rules is not None
        for notify in self.rules.placed.of(task.shape):
            notify(task)

    def record(self, request: PlacementRequest, end: int, status: TaskStatus, rows: Sequence[int]) -> None:
        """Record the tasks before index `end`, one per row; the columns count them already."""
        tasks = request.tasks[end - len(rows) : end]
        self._ledger.record_assumed(tasks, status, rows)
        request.log += tasks
        assert self.rules is not None
        for notify in self.rules.placed.of(tasks[0].shape):
            for task in tasks:
                notify(task)
