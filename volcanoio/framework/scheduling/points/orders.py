"""Points that order queues, jobs, tasks and parts of jobs."""

from __future__ import annotations

from typing import Any, Protocol, TypeAlias, runtime_checkable

from volcanoio.framework.scheduling.subjobs import SubJob
from volcanoio.framework.scheduling.views import Job, QueueView, Task

SortKey: TypeAlias = Any
"""A key that sorts; smaller comes first."""
KEPT_KEYS = "keeps_job_keys"
"""The attribute of `JobOrder`."""


@runtime_checkable
class QueueOrder(Protocol):
    """Orders queues. Fallback: creation time, then uid.

    A plugin by which a turn of one queue moves others too (they share a parent, say) also has
    `queue_epoch() -> int | None`: while it returns the same number, keys only grow. None: no queue moves others.
    """

    def queue_key(self, queue: QueueView) -> SortKey:
        """Smaller first."""
        ...


@runtime_checkable
class JobOrder(Protocol):
    """Orders jobs within a queue. Fallback: creation time, then uid.

    A plugin whose keys follow from the job itself (its PodGroup, queue, priority, phase, tasks with their counts and
    amounts) and the session's `total` may say so with the attribute `keeps_job_keys = True`. Its keys are then kept
    across cycles until one of these changes, where all plugins that order jobs say so.
    """

    def job_key(self, job: Job) -> SortKey:
        """Smaller first."""
        ...


@runtime_checkable
class NamespaceOrder(Protocol):
    """Orders the namespaces within a queue: part of the order of jobs, at the plugin's place in it.

    A turn of one job moves all others of its namespace, but not their order among themselves. So namespaces of a queue
    take turns, and in them jobs (see `heap.GroupedHeap`).
    """

    def namespace_key(self, job: Job) -> SortKey:
        """Where the job's namespace stands now in its queue, smaller first: the same for all its jobs of a phase."""
        ...

    def namespace_epoch(self) -> int:
        """While it returns the same number, keys only grow."""
        ...


@runtime_checkable
class TaskOrder(Protocol):
    """Orders tasks within a job. Fallback: the index in the name, creation time, uid."""

    def task_key(self, task: Task) -> SortKey:
        """Smaller first."""
        ...


@runtime_checkable
class SubJobOrder(Protocol):
    """Orders sub-jobs within a job. Fallback: `SubJob.match_index`, then the key."""

    def sub_job_key(self, sub_job: SubJob) -> SortKey:
        """Smaller first."""
        ...
