"""Jobs: a PodGroup and its tasks, with counters and amounts kept incrementally."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from math import inf
from typing import TYPE_CHECKING, TypeAlias

from volcanoio.engine.scheduling.explanation import Attempts
from volcanoio.engine.scheduling.queues import QueueInfo
from volcanoio.engine.scheduling.subjobs import SubJobInfo, SubJobs
from volcanoio.engine.scheduling.tasks import TaskInfo, scheduler_of_single
from volcanoio.framework.scheduling.points import SortKey
from volcanoio.framework.scheduling.views import ALLOCATED_STATUSES, Amounts, Task, TaskStatus
from volcanoio.model.names import PREEMPTABLE, QUEUE_ALLOCATION_GATE
from volcanoio.model.resources import amounts
from volcanoio.model.scheduling import PodGroup, PodGroupPhase, PodGroupStatus

if TYPE_CHECKING:
    from volcanoio.engine.scheduling.backlogs import Place

_NEVER = -inf
"""The one number for all of them."""
Demand: TypeAlias = tuple[tuple[str, int], ...]
_STATUSES = len(TaskStatus)
_HOLDS = tuple(status in ALLOCATED_STATUSES for status in TaskStatus)
_WANTS = tuple(_HOLDS[status] or status is TaskStatus.PENDING for status in TaskStatus)
_PENDING, _ALLOCATED, _PIPELINED, _BINDING, _BOUND, _RUNNING, _, _SUCCEEDED, *_REST = range(_STATUSES)
_TAKES = tuple(held or status is TaskStatus.PIPELINED for held, status in zip(_HOLDS, TaskStatus, strict=True))
_READY = tuple(held or status is TaskStatus.SUCCEEDED for held, status in zip(_HOLDS, TaskStatus, strict=True))
_TRUE = ("true", "t", "1")
_QUOTA_PREFIXES = ("requests.", "limits.", "count/")


def add_amounts(into: dict[str, int], other: Mapping[str, int], times: int) -> None:
    """Add `other` so many times (1; -1 takes it away); names that reach zero are dropped."""
    get = into.get
    for name, amount in other.items():
        value = get(name, 0) + times * amount
        if value:
            into[name] = value
        else:
            into.pop(name, None)


def _add_to(amounts_of: Mapping[str, int], times: int, *into: dict[str, int]) -> None:
    """`add_amounts` to several at once."""
    for name, amount in amounts_of.items():
        change = times * amount
        for each in into:
            value = each.get(name, 0) + change
            if value:
                each[name] = value
            else:
                each.pop(name, None)


class JobInfo:
    """One job. Implements `views.Job`. It exists as soon as a pod or PodGroup names it."""

    __slots__ = (
        "attempts",
        "best_effort",
        "by_role",
        "condition_at",
        "counts",
        "created",
        "demand",
        "event_at",
        "event_text",
        "expendable",
        "gated_count",
        "group",
        "held",
        "homeless",
        "in_flight",
        "key",
        "known",
        "members",
        "min_available",
        "min_resources",
        "namespace",
        "parts",
        "phase",
        "place",
        "priority",
        "queue_info",
        "ready_count",
        "role_minimums",
        "role_total",
        "said_at",
        "short_since",
        "shown",
        "single",
        "standing",
        "uid",
        "urgent_until",
        "waiting",
        "waiting_since",
        "wanted",
        "writing",
        "written_at",
    )

    def __init__(self, key: str) -> None:
        self.key = key
        self.namespace = key.partition("/")[0]
        self.single = bool(scheduler_of_single(key))
        """Whether it is a pod by itself, without PodGroup and queue."""
        self.group = PodGroup()
        self.known = False
        """Whether its PodGroup exists."""
        self.queue_info: QueueInfo | None = None
        self.priority = 0
        self.phase: str = PodGroupPhase.PENDING
        self.members: dict[str, TaskInfo] = {}
        self.waiting: dict[str, TaskInfo] = {}
        """Pending tasks by uid."""
        self.counts = [0] * _STATUSES
        self.ready_count = 0
        """As `views.Job`."""
        self.by_role: dict[str, list[int]] = {}
        """Per role the counts by status, and at the end the pending tasks that request nothing."""
        self.best_effort = 0
        """Pending tasks that request nothing."""
        self.gated_count = 0
        """Pending tasks that scheduling gates hold back."""
        self.homeless = 0
        """Those of them that found no node in this session: no reason to count them as good as placed."""
        self.parts: SubJobs | None = None
        """Its sub-jobs, None where its PodGroup has no sub-group policy."""
        self.held: dict[str, int] = {}
        self.wanted: dict[str, int] = {}
        self.standing: tuple[int, tuple[SortKey, ...]] | None = None
        """Its key among jobs as last asked for and under which rules, where that still holds."""
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

    def recount(self, task: TaskInfo, before: TaskStatus | None, after: TaskStatus | None) -> None:
        """Follow one task from one status to another; None stands for not being a member."""
        self.standing = None
        role = self.by_role.get(task.role)
        if role is None:
            role = self.by_role[task.role] = [0] * (_STATUSES + 1)
        held = wanted = False
        if before is not None:
            self.counts[before] -= 1
            role[before] -= 1
            self.ready_count -= _READY[before]
            held, wanted = _HOLDS[before], _WANTS[before]
            if before is TaskStatus.PENDING:
                self.waiting.pop(task.uid, None)
                if task.gated:
                    self.gated_count -= 1
                if task.shape.best_effort:
                    self.best_effort -= 1
                    role[-1] -= 1
        holds = wants = False
        if after is not None:
            self.counts[after] += 1
            role[after] += 1
            self.ready_count += _READY[after]
            holds, wants = _HOLDS[after], _WANTS[after]
            if after is TaskStatus.PENDING:
                self.waiting[task.uid] = task
                if task.gated:
                    self.gated_count += 1
                if task.shape.best_effort:
                    self.best_effort += 1
                    role[-1] += 1
        queue = self.queue_info
        requests = task.shape.requests
        if held is not holds:
            sign = 1 if holds else -1
            if queue is None:
                _add_to(requests, sign, self.held)
            elif wanted is held and wants is holds:  # as when it is evicted
                _add_to(requests, sign, self.held, queue.held, self.wanted, queue.wanted)
                wants = wanted
            else:
                _add_to(requests, sign, self.held, queue.held)
        if wanted is not wants:
            self.recount_wanted(task, 1 if wants else -1)
        if self.parts is not None:
            self.parts.recount(task, before, after)
        if queue is not None and queue.by_namespace is not None:
            taken = (after is not None and _TAKES[after]) - (before is not None and _TAKES[before])
            add_amounts(queue.by_namespace.setdefault(self.namespace, {}), requests, taken)

    def seated(self, tasks: Sequence[TaskInfo], after: TaskStatus) -> None:
        """`recount` of alike Pending tasks (one role, one shape) that were Allocated or Pipelined."""
        self.standing = None
        number, first = len(tasks), tasks[0]
        counts, role, waiting = self.counts, self.by_role[first.role], self.waiting
        counts[_PENDING] -= number
        role[_PENDING] -= number
        counts[after] += number
        role[after] += number
        for task in tasks:
            del waiting[task.uid]
        if first.shape.best_effort:
            self.best_effort -= number
            role[-1] -= number
        if self.parts is not None:
            self.parts.moved(tasks, TaskStatus.PENDING, after)
        queue = self.queue_info
        if queue is not None and queue.by_namespace is not None:
            add_amounts(queue.by_namespace.setdefault(self.namespace, {}), first.shape.requests, number)
        if after is not TaskStatus.ALLOCATED:
            self.recount_wanted(first, -number)
            return
        self.ready_count += number
        held = self.held
        queue_held = {} if queue is None else queue.held
        for name, amount in first.shape.requests.items():
            held[name] = held.get(name, 0) + number * amount
            queue_held[name] = queue_held.get(name, 0) + number * amount

    def unseated(self, tasks: Sequence[TaskInfo], before: TaskStatus) -> None:
        """`recount` of alike tasks (one role, one shape) that were Allocated or Pipelined and are Pending again."""
        self.standing = None
        number, first = len(tasks), tasks[0]
        counts, role = self.counts, self.by_role[first.role]
        counts[before] -= number
        role[before] -= number
        counts[_PENDING] += number
        role[_PENDING] += number
        for task in tasks:
            self.waiting[task.uid] = task
            self.gated_count += task.gated
        if first.shape.best_effort:
            self.best_effort += number
            role[-1] += number
        if self.parts is not None:
            self.parts.moved(tasks, before, TaskStatus.PENDING)
        queue, requests = self.queue_info, first.shape.requests
        if queue is not None and queue.by_namespace is not None:
            add_amounts(queue.by_namespace.setdefault(self.namespace, {}), requests, -number)
        if not _WANTS[before]:
            self.recount_wanted(first, number)
        if _HOLDS[before]:
            self.ready_count -= number
            add_amounts(self.held, requests, -number)
            if queue is not None:
                add_amounts(queue.held, requests, -number)

    def bound(self, tasks: Sequence[TaskInfo]) -> None:
        """`recount` of Allocated tasks that become Binding: nothing changes but the counts."""
        self.standing = None
        self.counts[_ALLOCATED] -= len(tasks)
        self.counts[_BINDING] += len(tasks)
        for task in tasks:
            role = self.by_role[task.role]
            role[_ALLOCATED] -= 1
            role[_BINDING] += 1
        if self.parts is not None:
            self.parts.moved(tasks, TaskStatus.ALLOCATED, TaskStatus.BINDING)

    def recount_wanted(self, task: TaskInfo, number: int) -> None:
        """Follow what the job and its queue want: `number` more tasks like this one."""
        if self.queue_info is None:
            add_amounts(self.wanted, task.shape.requests, number)
        else:
            _add_to(task.shape.requests, number, self.wanted, self.queue_info.wanted)

    @property
    def allocated(self) -> Amounts:
        """As `views.Job`."""
        return self.held

    @property
    def requested(self) -> Amounts:
        """As `views.Job`."""
        return self.wanted

    @property
    def gated(self) -> Amounts:
        """As `views.Job`."""
        requests: dict[str, int] = {}
        if self.gated_count:
            for task in self.waiting.values():
                if any(gate.name != QUEUE_ALLOCATION_GATE for gate in task.pod.spec.scheduling_gates):
                    add_amounts(requests, task.shape.requests, 1)
        return requests

    @property
    def tasks(self) -> Collection[TaskInfo]:
        """As `views.Job`."""
        return self.members.values()

    def count(self, *statuses: TaskStatus) -> int:
        """As `views.Job`."""
        counts = self.counts
        if len(statuses) == 1:
            return counts[statuses[0]]
        return sum(counts[status] for status in statuses)

    @property
    def pending_best_effort(self) -> int:
        """As `views.Job`; those that found no node in this session are not counted."""
        return max(self.best_effort - self.homeless, 0) if self.homeless else self.best_effort

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

    def is_pipelined(self) -> bool:
        """As `views.Job`."""
        return self.ready_count + self.counts[_PIPELINED] + self.pending_best_effort >= self.min_available

    def is_starving(self) -> bool:
        """As `views.Job`."""
        return self.ready_count + self.counts[_PIPELINED] < self.min_available

    def role_count(self, role: str, *, pending: bool = False, pipelined: bool = False, idle: bool = True) -> int:
        """Ready tasks of a role; on request with pending, pipelined, and (idle) pending ones that request nothing."""
        counts = self.by_role.get(role)
        if counts is None:
            return 0
        total = counts[_ALLOCATED] + counts[_BINDING] + counts[_BOUND] + counts[_RUNNING] + counts[_SUCCEEDED]
        if pipelined:
            total += counts[_PIPELINED]
        if pending:
            return total + counts[_PENDING]
        return total + counts[-1] if idle else total

    def _roles(self, *, pending: bool = False, pipelined: bool = False) -> bool:
        if self.min_available < self.role_total:
            return True
        return all(
            self.role_count(role, pending=pending, pipelined=pipelined) >= minimum
            for role, minimum in self.role_minimums.items()
        )

    def roles_valid(self) -> bool:
        """As `views.Job`."""
        return self._roles(pending=True, pipelined=True)

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

    def strand(self, tasks: Sequence[TaskInfo]) -> None:
        """Pending tasks that request nothing found no node in this session: they do not count as good as placed."""
        self._rest(tasks, 1)

    def house(self, tasks: Sequence[TaskInfo]) -> None:
        """The session is over: take `strand` back."""
        self._rest(tasks, -1)

    def _rest(self, tasks: Sequence[TaskInfo], sign: int) -> None:
        self.standing = None
        self.homeless += sign * len(tasks)
        for task in tasks:
            self.by_role[task.role][-1] -= sign
            if self.parts is not None:
                self.parts.of[task.uid].homeless += sign

    def __repr__(self) -> str:
        counts = {TaskStatus(at).name: count for at, count in enumerate(self.counts) if count}
        return f"<{self.key} {self.phase} {counts}>"
