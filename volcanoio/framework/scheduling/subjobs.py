"""Sub-jobs as plugins and actions see them: parts of a job that a sub-group policy of its PodGroup tells apart."""

from __future__ import annotations

from collections.abc import Collection
from typing import Protocol

from volcanoio.framework.scheduling.views import Task


class SubJob(Protocol):
    """Tasks of a job that run together: one value of a sub-group policy's labels, or those that no policy takes.

    Source: Volcano, `pkg/scheduler/api/sub_job_info.go`.
    """

    @property
    def key(self) -> str:
        """`JOB/POLICY-VALUES`; of tasks that no policy takes the job's key."""
        ...

    @property
    def group(self) -> str:
        """`JOB/POLICY`, the same for all of one policy; of tasks that no policy takes the job's key."""
        ...

    @property
    def job(self) -> str:
        """The key of its job."""
        ...

    @property
    def min_available(self) -> int:
        """subGroupSize: how many of its tasks must be placed together; 1 where none is given."""
        ...

    @property
    def match_index(self) -> int:
        """The first of its label values as a number, 0 when it is none: where it stands among others."""
        ...

    @property
    def priority(self) -> int:
        """The highest of its tasks' priorities, at least 0."""
        ...

    @property
    def tasks(self) -> Collection[Task]:
        """Its tasks."""
        ...

    @property
    def ready_count(self) -> int:
        """As `Job.ready_count`, of its tasks."""
        ...

    @property
    def pipelined_count(self) -> int:
        """Its tasks that have a place reserved."""
        ...

    @property
    def pending_best_effort(self) -> int:
        """As `Job.pending_best_effort`, of its tasks."""
        ...

    def is_ready(self) -> bool:
        """ready_count + pending_best_effort >= min_available."""
        ...

    def is_pipelined(self) -> bool:
        """As is_ready, with Pipelined tasks counted."""
        ...
