"""What a job's tasks come to: how many are in which status and role, what they hold and want; kept incrementally."""

from __future__ import annotations

from collections.abc import Sequence

from volcanoio.engine.scheduling.amounts import add_amounts, add_to_each
from volcanoio.engine.scheduling.queues import QueueInfo
from volcanoio.engine.scheduling.subjobs import SubJobs
from volcanoio.engine.scheduling.tasks import TaskInfo
from volcanoio.framework.scheduling.points import SortKey
from volcanoio.framework.scheduling.views import ALLOCATED_STATUSES, Amounts, TaskStatus
from volcanoio.model.names import QUEUE_ALLOCATION_GATE

_NOTHING: Amounts = {}
_STATUSES = len(TaskStatus)
_HOLDS = tuple(status in ALLOCATED_STATUSES for status in TaskStatus)
_WANTS = tuple(_HOLDS[status] or status is TaskStatus.PENDING for status in TaskStatus)
_PENDING, _ALLOCATED, _PIPELINED, _BINDING, _BOUND, _RUNNING, _, _SUCCEEDED, *_REST = range(_STATUSES)
_TAKES = tuple(held or status is TaskStatus.PIPELINED for held, status in zip(_HOLDS, TaskStatus, strict=True))
_READY = tuple(held or status is TaskStatus.SUCCEEDED for held, status in zip(_HOLDS, TaskStatus, strict=True))


class JobTally:
    """The tasks of one job, counted; what they hold and want counts for its queue as well."""

    __slots__ = (
        "best_effort",
        "by_role",
        "counts",
        "gated_count",
        "held",
        "homeless",
        "members",
        "namespace",
        "parts",
        "queue_info",
        "ready_count",
        "standing",
        "waiting",
        "wanted",
    )

    def __init__(self, namespace: str) -> None:
        self.namespace = namespace
        self.queue_info: QueueInfo | None = None
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
                add_to_each(requests, sign, self.held)
            elif wanted is held and wants is holds:  # as when it is evicted
                add_to_each(requests, sign, self.held, queue.held, self.wanted, queue.wanted)
                wants = wanted
            else:
                add_to_each(requests, sign, self.held, queue.held)
        if wanted is not wants:
            self.recount_wanted(task, 1 if wants else -1)
        if self.parts is not None:
            self.parts.recount(task, before, after)
        if queue is not None and queue.by_namespace is not None:
            taken = (after is not None and _TAKES[after]) - (before is not None and _TAKES[before])
            add_amounts(queue.by_namespace.setdefault(self.namespace, {}), requests, taken)

    def evicted(self, task: TaskInfo, before: TaskStatus) -> None:
        """`recount` of a task that occupied its node and is Releasing now."""
        self.standing = None
        counts, role, releasing = self.counts, self.by_role[task.role], TaskStatus.RELEASING
        counts[before] -= 1
        counts[releasing] += 1
        role[before] -= 1
        role[releasing] += 1
        self.ready_count -= 1
        requests, queue = task.shape.requests, self.queue_info
        if queue is None:
            add_to_each(requests, -1, self.held, self.wanted)
        else:
            add_to_each(requests, -1, self.held, self.wanted, queue.held, queue.wanted)
            if queue.by_namespace is not None:
                add_amounts(queue.by_namespace.setdefault(self.namespace, {}), requests, -1)
        if self.parts is not None:
            self.parts.recount(task, before, releasing)

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
        had, queue_had = held.get, queue_held.get
        for name, amount in first.shape.requests.items():
            if number != 1:
                amount *= number
            held[name] = had(name, 0) + amount
            queue_held[name] = queue_had(name, 0) + amount

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
        number = len(tasks)
        self.counts[_ALLOCATED] -= number
        self.counts[_BINDING] += number
        if len(self.by_role) == 1:
            (role,) = self.by_role.values()
            role[_ALLOCATED] -= number
            role[_BINDING] += number
        else:
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
            add_to_each(task.shape.requests, number, self.wanted, self.queue_info.wanted)

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

    @property
    def gated(self) -> Amounts:
        """As `views.Job`."""
        if not self.gated_count:
            return _NOTHING
        requests: dict[str, int] = {}
        for task in self.waiting.values():
            if any(gate.name != QUEUE_ALLOCATION_GATE for gate in task.pod.spec.scheduling_gates):
                add_amounts(requests, task.shape.requests, 1)
        return requests
