"""Jobs as plugins see them."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import TYPE_CHECKING, Protocol

from volcanoio.framework.scheduling.views.amounts import Amounts
from volcanoio.framework.scheduling.views.tasks import Task, TaskStatus
from volcanoio.model.scheduling import PodGroup

if TYPE_CHECKING:
    from volcanoio.framework.scheduling.subjobs import SubJob


class Job(Protocol):
    """A PodGroup and its pods. Counters follow Volcano's JobInfo (`pkg/scheduler/api/job_info.go`)."""

    @property
    def key(self) -> str:
        """`namespace/name` of the PodGroup."""
        ...

    @property
    def uid(self) -> str:
        """The PodGroup's uid."""
        ...

    @property
    def group(self) -> PodGroup:
        """The PodGroup object."""
        ...

    @property
    def namespace(self) -> str:
        """Its namespace."""
        ...

    @property
    def queue(self) -> str:
        """The name of its queue."""
        ...

    @property
    def priority(self) -> int:
        """The value of its PriorityClass, else the global default, else 0."""
        ...

    @property
    def created(self) -> str:
        """creationTimestamp of the PodGroup."""
        ...

    @property
    def phase(self) -> str:
        """The PodGroup's phase in this session ("" counts as Pending)."""
        ...

    @property
    def min_available(self) -> int:
        """minMember."""
        ...

    @property
    def role_minimums(self) -> Mapping[str, int]:
        """minTaskMember."""
        ...

    @property
    def expendable(self) -> bool:
        """Whether the gang actions may evict its tasks: `volcano.sh/preemptable` of its PodGroup, true if not given."""
        ...

    @property
    def min_resources(self) -> Amounts | None:
        """minResources in scheduling units (quota-style names left out); None when the PodGroup gives none."""
        ...

    @property
    def allocated(self) -> Amounts:
        """Requests of its tasks in an allocated status."""
        ...

    @property
    def requested(self) -> Amounts:
        """Requests of its allocated and pending tasks."""
        ...

    @property
    def gated(self) -> Amounts:
        """Requests of its pending tasks that scheduling gates hold back; not by that of Volcano's queue admission."""
        ...

    @property
    def tasks(self) -> Collection[Task]:
        """Its tasks."""
        ...

    def count(self, *statuses: TaskStatus) -> int:
        """How many tasks are in any of these."""
        ...

    @property
    def ready_count(self) -> int:
        """Bound + Binding + Running + Allocated + Succeeded."""
        ...

    @property
    def pending_best_effort(self) -> int:
        """Pending tasks that request nothing."""
        ...

    @property
    def schedulable_count(self) -> int:
        """Pending tasks that had a place in a statement of this cycle which was then discarded."""
        ...

    @property
    def valid_count(self) -> int:
        """Ready, Pipelined and Pending tasks."""
        ...

    def is_ready(self) -> bool:
        """ready_count + pending_best_effort >= min_available."""
        ...

    def is_pipelined(self) -> bool:
        """As is_ready, with Pipelined tasks counted."""
        ...

    def all_ready(self) -> bool:
        """is_ready, roles_ready and sub_jobs_ready."""
        ...

    def is_starving(self) -> bool:
        """Ready and Pipelined tasks together are fewer than min_available."""
        ...

    def roles_valid(self) -> bool:
        """Every role has enough valid tasks; true when min_available is below the sum of role minimums."""
        ...

    def roles_ready(self) -> bool:
        """Every role has enough ready tasks; true when min_available is below the sum of role minimums."""
        ...

    def roles_pipelined(self) -> bool:
        """Every role has enough ready or Pipelined tasks; true when min_available is below the sum."""
        ...

    @property
    def sub_jobs(self) -> Collection[SubJob]:
        """Its sub-jobs; none of a job without sub-group policy, which is whole by itself."""
        ...

    @property
    def sub_job_minimums(self) -> Mapping[str, int]:
        """minSubGroups by `SubJob.group`, of those policies that give one."""
        ...

    def sub_job_of(self, task: Task) -> SubJob | None:
        """The sub-job of one of its tasks; None where there are none."""
        ...

    def sub_jobs_valid(self) -> bool:
        """Every policy has as many sub-jobs with enough tasks as its minimum says."""
        ...

    def sub_jobs_ready(self) -> bool:
        """Every policy has as many ready sub-jobs as its minimum says."""
        ...

    def sub_jobs_pipelined(self) -> bool:
        """Every policy has as many sub-jobs that are ready or have places reserved as its minimum says."""
        ...
