"""The negative control: a scheduler that does not count a bound pod until it sees it on the watch.

The nodes must detect its errors; otherwise their silence in the normal run proves nothing.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from volcanoio.engine.scheduling.cluster import ledger
from volcanoio.engine.scheduling.cluster.jobs import JobInfo, TaskInfo
from volcanoio.engine.scheduling.cluster.ledger import Ledger
from volcanoio.engine.scheduling.cluster.loads import LOADS, Load
from volcanoio.framework.scheduling.views import TaskStatus


@contextmanager
def binding_tasks_not_counted() -> Iterator[None]:
    """Leave Binding tasks out of their nodes' usage while open, in the whole process."""
    counted, loads = Ledger.bind, list(LOADS)
    loads[TaskStatus.BINDING] = Load.NONE

    def bind(self: Ledger, job: JobInfo, tasks: Sequence[TaskInfo]) -> None:
        for task in tasks:
            self._count_on_node(task, task.node, Load.OCCUPIES, -1)
        counted(self, job, tasks)

    Ledger.bind = bind  # type: ignore[method-assign]  # that is the experiment
    vars(ledger)["LOADS"] = tuple(loads)
    try:
        yield
    finally:
        Ledger.bind = counted  # type: ignore[method-assign]  # as above
        vars(ledger)["LOADS"] = LOADS
