"""Jobs: a PodGroup and its tasks; what these come to is kept with every change (`jobtally`)."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from math import inf
from typing import TYPE_CHECKING, TypeAlias

from volcanoio.engine.scheduling.explanation import Attempts
from volcanoio.engine.scheduling.jobtally import JobTally
from volcanoio.engine.scheduling.subjobs import SubJobInfo, SubJobs
from volcanoio.engine.scheduling.tasks import TaskInfo, scheduler_of_single
from volcanoio.framework.scheduling.views import Amounts, Task, TaskStatus
from volcanoio.model.names import PREEMPTABLE
from volcanoio.model.resources import amounts
from volcanoio.model.scheduling import PodGroup, PodGroupPhase, PodGroupStatus

if TYPE_CHECKING:
    from volcanoio.engine.scheduling.queuebacklog import Place

_NEVER = -inf
"""The one number for all of them."""
Demand: TypeAlias = tuple[tuple[str, int], ...]
_PENDING, _PIPELINED = TaskStatus.PENDING, TaskStatus.PIPELINED
_TRUE = ("true", "t", "1")
_QUOTA_PREFIXES = ("requests.", "limits.", "count/")


class JobInfo(JobTally):
    """One job. Implements `views.Job`. It exists as soon as a pod or PodGroup names it."""

    __slots__ = (
        "attempts",
        "condition_at",
        "created",
        "demand",
        "event_at",
        "event_text",
        "expendable",
        "group",
        "in_flight",
        "key",
        "known",
        "min_available",
        "min_resources",
        "phase",
        "place",
        "priority",
        "role_minimums",
        "role_total",
        "said_at",
        "short_since",
        "shown",
        "single",
        "uid",
        "urgent_until",
        "waiting_since",
        "writing",
        "written_at",
    )

    def __init__(self, key: str) -> None:
        super().__init__(key.partition("/")[0])
        self.key = key
        self.single = bool(scheduler_of_single(key))
        """Whether it is a pod by itself, without PodGroup and queue."""
        self.group = PodGroup()
        self.known = False
        """Whether its PodGroup exists."""
        self.priority = 0
        self.phase: str = PodGroupPhase.PENDING
        self.place: Place | None = None
        """Where it stands in the backlog of its queue."""
        self.attempts = Attempts()
        self.urgent_until = _NEVER
        """Until then it goes before all other work: a bind of its gang was refused (epoch seconds)."""
        self.in_flight: PodGroupStatus | None = None
        """The status written and not yet seen."""
        self.writing = 0
        """How many writes of its status have no outcome yet."""
        self.shown = 0
        """Members at the last close of a session: a gang that gains some is still being made."""
        self.short_since: float | None = None
        """Since when it was found not ready at every look."""
        self.waiting_since: float | None = None
        """Since when it had pending tasks at every look."""
        self.written_at = _NEVER
        """When its status was written last."""
        self.said_at = _NEVER
        """When anything was said of it or its pods last."""
        self.condition_at = _NEVER
        self.event_at = _NEVER
        self.event_text = ""
        self._describe()

    def observe(self, group: PodGroup) -> None:
        """Take in the newest PodGroup; the caller places the job in its queue and phase."""
        partitioned = group.spec.sub_group_policy != self.group.spec.sub_group_policy
        self.group = group
        self.known = True
        self._describe()
        if partitioned:
            self._part()

    def vanish(self) -> None:
        """The PodGroup is gone; what was remembered about it goes with it."""
        self.known = False
        self.group = PodGroup()
        self.in_flight, self.writing = None, 0
        self.short_since = self.waiting_since = None
        self.written_at = self.said_at = self.condition_at = self.event_at = self.urgent_until = _NEVER
        self.event_text = ""
        self.attempts = Attempts()
        self._describe()
        self._part()

    def _part(self) -> None:
        policies = self.group.spec.sub_group_policy
        self.parts = SubJobs(self.key, policies, self.members.values()) if policies else None

    def _describe(self) -> None:
        self.standing = None
        meta, spec = self.group.metadata, self.group.spec
        self.uid = meta.uid
        self.created = meta.creation_timestamp or ""
        self.min_available = spec.min_member
        self.role_minimums: Mapping[str, int] = spec.min_task_member
        self.role_total = sum(spec.min_task_member.values())
        said = meta.annotations.get(PREEMPTABLE, meta.labels.get(PREEMPTABLE, "true"))
        self.expendable = said.lower() in _TRUE
        """As `views.Job`."""
        self.min_resources: Amounts | None = None
        self.demand: Demand | None = None
        """`min_resources` as a key."""
        if spec.min_resources is not None:
            self.min_resources = {
                name: amount
                for name, amount in amounts(spec.min_resources).items()
                if not name.startswith(_QUOTA_PREFIXES)
            }
            self.demand = tuple(sorted(self.min_resources.items()))

    @property
    def schedulable(self) -> bool:
        """Whether its PodGroup and queue exist."""
        return self.known and self.queue_info is not None and self.queue_info.known

    @property
    def queue(self) -> str:
        """As `views.Job`."""
        return "" if self.queue_info is None else self.queue_info.name

    def queue_name(self, default: str) -> str:
        """The queue its PodGroup names, or the default."""
        return self.group.spec.queue or default

    @property
    def status(self) -> PodGroupStatus:
        """The PodGroup's status as last written by us or seen."""
        return self.group.status if self.in_flight is None else self.in_flight

    @property
    def allocated(self) -> Amounts:
        """As `views.Job`."""
        return self.held

    @property
    def requested(self) -> Amounts:
        """As `views.Job`."""
        return self.wanted

    @property
    def tasks(self) -> Collection[TaskInfo]:
        """As `views.Job`."""
        return self.members.values()

    @property
    def schedulable_count(self) -> int:
        """As `views.Job`."""
        return self.attempts.schedulable(self.waiting)

    @property
    def valid_count(self) -> int:
        """As `views.Job`."""
        return self.ready_count + self.counts[_PIPELINED] + self.counts[_PENDING]

    def is_ready(self) -> bool:
        """As `views.Job`."""
        idle = self.best_effort if not self.homeless else self.pending_best_effort
        return self.ready_count + idle >= self.min_available

    def all_ready(self) -> bool:
        """As `views.Job`: asked after every placement."""
        idle = self.best_effort if not self.homeless else self.pending_best_effort
        if self.ready_count + idle < self.min_available:
            return False
        return (not self.role_total or self._roles()) and (self.parts is None or self.sub_jobs_ready())

    def is_pipelined(self) -> bool:
        """As `views.Job`."""
        return self.ready_count + self.counts[_PIPELINED] + self.pending_best_effort >= self.min_available

    def is_starving(self) -> bool:
        """As `views.Job`."""
        return self.ready_count + self.counts[_PIPELINED] < self.min_available

    def _roles(self, *, pending: bool = False, pipelined: bool = False) -> bool:
        if not self.role_total or self.min_available < self.role_total:
            return True
        return all(
            self.role_count(role, pending=pending, pipelined=pipelined) >= minimum
            for role, minimum in self.role_minimums.items()
        )

    def roles_valid(self) -> bool:
        """As `views.Job`."""
        return not self.role_total or self._roles(pending=True, pipelined=True)

    def roles_ready(self) -> bool:
        """As `views.Job`."""
        return not self.role_total or self._roles()

    def roles_pipelined(self) -> bool:
        """As `views.Job`."""
        return self._roles(pipelined=True)

    @property
    def sub_jobs(self) -> Collection[SubJobInfo]:
        """As `views.Job`."""
        return () if self.parts is None else self.parts.by_key.values()

    @property
    def sub_job_minimums(self) -> Mapping[str, int]:
        """As `views.Job`."""
        return {} if self.parts is None else self.parts.minimums

    def sub_job_of(self, task: Task) -> SubJobInfo | None:
        """As `views.Job`."""
        return None if self.parts is None else self.parts.of.get(task.uid)

    def sub_jobs_valid(self) -> bool:
        """As `views.Job`."""
        return self.parts is None or self.parts.all_reach(SubJobInfo.is_valid)

    def sub_jobs_ready(self) -> bool:
        """As `views.Job`."""
        return self.parts is None or self.parts.all_reach(SubJobInfo.is_ready)

    def sub_jobs_pipelined(self) -> bool:
        """As `views.Job`."""
        return self.parts is None or self.parts.all_reach(SubJobInfo.is_pipelined)

    def __repr__(self) -> str:
        counts = {TaskStatus(at).name: count for at, count in enumerate(self.counts) if count}
        return f"<{self.key} {self.phase} {counts}>"
