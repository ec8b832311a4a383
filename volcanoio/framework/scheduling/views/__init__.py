"""What plugins see: nodes as columns, shapes, tasks, jobs and queues. All read-only; the session alone writes.

The session itself is in `sessionview`. Amounts are exact integers in scheduling units (`volcanoio.model.resources`).
"""

from __future__ import annotations

from volcanoio.framework.scheduling.views.amounts import Amounts
from volcanoio.framework.scheduling.views.jobs import Job
from volcanoio.framework.scheduling.views.nodes import AmountName, AmountsAt, NodeRow, Nodes, pair
from volcanoio.framework.scheduling.views.queues import QueueView
from volcanoio.framework.scheduling.views.tasks import ALLOCATED_STATUSES, Shape, Task, TaskStatus

__all__ = [
    "ALLOCATED_STATUSES",
    "AmountName",
    "Amounts",
    "AmountsAt",
    "Job",
    "NodeRow",
    "Nodes",
    "QueueView",
    "Shape",
    "Task",
    "TaskStatus",
    "pair",
]
