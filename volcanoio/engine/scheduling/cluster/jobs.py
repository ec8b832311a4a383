"""Tasks and jobs: Volcano's TaskInfo and JobInfo.

The job, its sub-jobs and its queue count tasks by status and sum their requests with every transition. Only
`ledger` calls what writes status, node and counts.
"""

from collections.abc import Collection, Mapping, Sequence
from math import inf
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, TypeAlias

from volcanoio.engine.scheduling.cluster.attempts import Attempts
from volcanoio.engine.scheduling.cluster.pod_fields import claim_names, name_index, scheduler_of_single, task_priority
from volcanoio.engine.scheduling.cluster.queues import QueueInfo
from volcanoio.engine.scheduling.cluster.subjobs import SubJobInfo, SubJobs
from volcanoio.framework.scheduling.points import SortKey
from volcanoio.framework.scheduling.views import ALLOCATED_STATUSES, Amounts, Shape, Task, TaskStatus
from volcanoio.model.base import StatusCondition
from volcanoio.model.batch import NetworkTopology
from volcanoio.model.core import Pod
from volcanoio.model.kinds import NATIVE_POD_GROUP, POD_GROUP, Kind
from volcanoio.model.names import PREEMPTABLE, QUEUE_ALLOCATION_GATE, TASK_SPEC
from volcanoio.model.resources import add_nonzero, add_to_each, stored_amounts
from volcanoio.model.scheduling import PodGroup, PodGroupPhase, PodGroupStatus
from volcanoio.model.workloads import NativePodGroup

if TYPE_CHECKING:
    from volcanoio.engine.scheduling.podindex.label_classes import LabelClass


_NEVER = -inf
NO_ANNOTATIONS: Mapping[str, str] = MappingProxyType({})
EVICTABLE = (TaskStatus.RUNNING, TaskStatus.BOUND)
"""Statuses in which a task can be evicted for others."""


class TaskInfo:
    """One pod. Implements `views.Task`; only `ledger` writes `status` and `node`."""

    __slots__ = (
        "base_shape",
        "bind_annotations",
        "bind_refusal",
        "bind_refusals",
        "can_preempt",
        "claim_names",
        "condition",
        "condition_at",
        "created",
        "is_gated",
        "job",
        "job_info",
        "key",
        "label_class",
        "last_refusal",
        "name",
        "namespace",
        "node",
        "nominated_node",
        "pod",
        "preemptable",
        "priority",
        "priority_class_name",
        "retry_at",
        "role",
        "shape",
        "spec_shape",
        "status",
        "uid",
    )

    def __init__(self, pod: Pod, shape: Shape, job: str) -> None:
        meta = pod.metadata
        self.uid = meta.uid
        self.namespace = meta.namespace
        self.name = meta.name
        self.created = meta.creation_timestamp or ""
        self.job = job
        """Key of its job, "" for a pod without PodGroup or of another scheduler."""
        self.job_info: JobInfo | None = None
        self.label_class: LabelClass | None = None
        """Class of pods that no selector distinguishes, written by the pod index while that is active."""
        self.status = TaskStatus.PENDING
        self.node = ""
        self.key = (name_index(meta.name), self.created, self.uid)
        """Order among tasks that compare equal in all plugins (Volcano: CompareTask)."""
        self.bind_annotations: Mapping[str, str] = NO_ANNOTATIONS
        """Annotations that plugins chose for its node, until the pod shows them."""
        self.bind_refusals = 0
        """Number of refused binds in a row."""
        self.bind_refusal = ""
        """Message of the last refused bind, until it is written to the pod."""
        self.last_refusal = ""
        """Message of the last of these."""
        self.retry_at = 0.0
        """Time before which it is not placed (epoch seconds)."""
        self.condition: tuple[str, str] | None = None
        """Reason and message of the PodScheduled condition last written for it."""
        self.condition_at = _NEVER
        self.update(pod, shape)

    def update(self, pod: Pod, shape: Shape) -> None:
        """Update all fields except status and node from a newer version of the pod."""
        annotations, labels = pod.metadata.annotations, pod.metadata.labels
        self.pod = pod
        self.spec_shape = shape
        """Shape that follows from the spec alone."""
        self.base_shape = shape
        """Shape with pod affinity, spread and port terms, without traits."""
        self.shape = shape
        self.claim_names = claim_names(pod) if pod.spec.volumes else ()
        """Volume claims that the pod names."""
        self.role = annotations.get(TASK_SPEC) or labels.get(TASK_SPEC, "")
        self.priority = task_priority(pod)
        self.priority_class_name = pod.spec.priority_class_name
        self.preemptable = (annotations.get(PREEMPTABLE) or labels.get(PREEMPTABLE, "true")).lower() != "false"
        self.can_preempt = pod.spec.preemption_policy != "Never"
        self.is_gated = bool(pod.spec.scheduling_gates)
        self.nominated_node = pod.status.nominated_node_name

    def __repr__(self) -> str:
        return f"<{self.namespace}/{self.name} {self.status.name} {self.node or '-'}>"


_NO_AMOUNTS: Amounts = {}
_STATUSES = len(TaskStatus)
_IS_ALLOCATED = tuple(status in ALLOCATED_STATUSES for status in TaskStatus)
_IS_REQUESTED = tuple(_IS_ALLOCATED[status] or status is TaskStatus.PENDING for status in TaskStatus)
_PENDING_AT, _ALLOCATED_AT, _PIPELINED_AT, _BINDING_AT, _BOUND_AT, _RUNNING_AT, _, _SUCCEEDED_AT, *_REST = range(
    _STATUSES
)
_OCCUPIES_QUEUE = tuple(
    is_allocated or status is TaskStatus.PIPELINED
    for is_allocated, status in zip(_IS_ALLOCATED, TaskStatus, strict=True)
)
_IS_READY = tuple(status in ALLOCATED_STATUSES or status is TaskStatus.SUCCEEDED for status in TaskStatus)


def _sign_of_change(counts: Sequence[bool], before: TaskStatus | None, after: TaskStatus | None) -> int:
    """Return 1, 0 or -1: the change in the number of tasks whose status counts; None never counts."""
    return (after is not None and counts[after]) - (before is not None and counts[before])


class JobCounts:
    """Counts of the tasks of one job and sums of their requests, shared with its queue."""

    __slots__ = (
        "allocated",
        "best_effort",
        "by_role",
        "cached_order_key",
        "counts",
        "excluded_best_effort",
        "gated_count",
        "members",
        "namespace",
        "pending",
        "queue",
        "queue_info",
        "ready_count",
        "requested",
        "sub_job_table",
    )

    def __init__(self, namespace: str) -> None:
        self.namespace = namespace
        self.queue_info: QueueInfo | None = None
        self.queue = ""
        """Name of its queue."""
        self.members: dict[str, TaskInfo] = {}
        self.pending: dict[str, TaskInfo] = {}
        self.counts = [0] * _STATUSES
        self.ready_count = 0
        """Bound + Binding + Running + Allocated + Succeeded."""
        self.by_role: dict[str, list[int]] = {}
        """Per role the counts by status, followed by the number of pending best-effort tasks."""
        self.best_effort = 0
        self.gated_count = 0
        """Pending tasks with scheduling gates."""
        self.excluded_best_effort: frozenset[str] = frozenset()
        """Uids of best-effort tasks that got no node when last tried in this session; they do not count as placed."""
        self.sub_job_table: SubJobs | None = None
        """Its sub-jobs, None when its PodGroup has no sub-group policy."""
        self.allocated: dict[str, int] = {}
        self.requested: dict[str, int] = {}
        self.cached_order_key: tuple[int, tuple[SortKey, ...]] | None = None
        """Order version and key among jobs, None when it must be computed again."""

    def recount(self, task: TaskInfo, before: TaskStatus | None, after: TaskStatus | None) -> None:
        """Move a task between statuses; None means that it is not a member."""
        self.cached_order_key = None
        if (role := self.by_role.get(task.role)) is None:
            role = self.by_role[task.role] = [0] * (_STATUSES + 1)
        if before is not None:
            self._count_status(task, role, before, -1)
        if after is not None:
            self._count_status(task, role, after, 1)
        self._recount_amounts(task, before, after)
        if self.sub_job_table is not None:
            self.sub_job_table.recount(task, before, after)

    def _count_status(self, task: TaskInfo, role: list[int], status: TaskStatus, sign: int) -> None:
        self.counts[status] += sign
        role[status] += sign
        self.ready_count += sign * _IS_READY[status]
        if status is TaskStatus.PENDING:
            if sign > 0:
                self.pending[task.uid] = task
            else:
                self.pending.pop(task.uid, None)
            self.gated_count += sign * task.is_gated
            if task.shape.best_effort:
                self.best_effort += sign
                role[-1] += sign

    def _recount_amounts(self, task: TaskInfo, before: TaskStatus | None, after: TaskStatus | None) -> None:
        queue, requests = self.queue_info, task.shape.requests
        allocated = _sign_of_change(_IS_ALLOCATED, before, after)
        requested = _sign_of_change(_IS_REQUESTED, before, after)
        if queue is None:
            add_to_each(requests, allocated, self.allocated)
        elif allocated and allocated == requested:  # one pass for the common case, such as an eviction
            add_to_each(requests, allocated, self.allocated, queue.allocated, self.requested, queue.requested)
            requested = 0
        elif allocated:
            add_to_each(requests, allocated, self.allocated, queue.allocated)
        if requested:
            self.count_requested(task, requested)
        if queue is not None and queue.allocated_by_namespace is not None:
            change = _sign_of_change(_OCCUPIES_QUEUE, before, after)
            add_nonzero(queue.allocated_by_namespace.setdefault(self.namespace, {}), requests, change)

    def count_evicted(self, task: TaskInfo, before: TaskStatus) -> None:
        """Count a task that occupied its node and is Releasing now (a fast `recount`)."""
        self.cached_order_key = None
        counts, role, releasing = self.counts, self.by_role[task.role], TaskStatus.RELEASING
        counts[before] -= 1
        counts[releasing] += 1
        role[before] -= 1
        role[releasing] += 1
        self.ready_count -= 1
        requests, queue = task.shape.requests, self.queue_info
        if queue is None:
            add_to_each(requests, -1, self.allocated, self.requested)
        else:
            add_to_each(requests, -1, self.allocated, self.requested, queue.allocated, queue.requested)
            if queue.allocated_by_namespace is not None:
                add_nonzero(queue.allocated_by_namespace.setdefault(self.namespace, {}), requests, -1)
        if self.sub_job_table is not None:
            self.sub_job_table.recount(task, before, releasing)

    def count_assumed(self, tasks: Sequence[TaskInfo], after: TaskStatus) -> None:
        """Count Pending tasks of one role and shape that became Allocated or Pipelined."""
        self.cached_order_key = None
        number, first = len(tasks), tasks[0]
        counts, role, waiting = self.counts, self.by_role[first.role], self.pending
        counts[_PENDING_AT] -= number
        role[_PENDING_AT] -= number
        counts[after] += number
        role[after] += number
        for task in tasks:
            del waiting[task.uid]
        if first.shape.best_effort:
            self.best_effort -= number
            role[-1] -= number
        if self.sub_job_table is not None:
            self.sub_job_table.recount_all(tasks, TaskStatus.PENDING, after)
        if (queue := self.queue_info) is not None and queue.allocated_by_namespace is not None:
            add_nonzero(queue.allocated_by_namespace.setdefault(self.namespace, {}), first.shape.requests, number)
        if after is not TaskStatus.ALLOCATED:
            self.count_requested(first, -number)
            return
        self.ready_count += number
        allocated = self.allocated
        queue_allocated = {} if queue is None else queue.allocated
        before, queue_before = allocated.get, queue_allocated.get
        for name, amount in first.shape.requests.items():
            if number != 1:
                amount *= number
            allocated[name] = before(name, 0) + amount
            queue_allocated[name] = queue_before(name, 0) + amount

    def count_forgotten(self, tasks: Sequence[TaskInfo], before: TaskStatus) -> None:
        """Count Allocated or Pipelined tasks of one role and shape that are Pending again."""
        self.cached_order_key = None
        number, first = len(tasks), tasks[0]
        counts, role = self.counts, self.by_role[first.role]
        counts[before] -= number
        role[before] -= number
        counts[_PENDING_AT] += number
        role[_PENDING_AT] += number
        for task in tasks:
            self.pending[task.uid] = task
            self.gated_count += task.is_gated
        if first.shape.best_effort:
            self.best_effort += number
            role[-1] += number
        if self.sub_job_table is not None:
            self.sub_job_table.recount_all(tasks, before, TaskStatus.PENDING)
        queue, requests = self.queue_info, first.shape.requests
        if queue is not None and queue.allocated_by_namespace is not None:
            add_nonzero(queue.allocated_by_namespace.setdefault(self.namespace, {}), requests, -number)
        if not _IS_REQUESTED[before]:
            self.count_requested(first, number)
        if _IS_ALLOCATED[before]:
            self.ready_count -= number
            add_nonzero(self.allocated, requests, -number)
            if queue is not None:
                add_nonzero(queue.allocated, requests, -number)

    def count_bound(self, tasks: Sequence[TaskInfo]) -> None:
        """Count Allocated tasks that become Binding; no amounts change."""
        self.cached_order_key = None
        number = len(tasks)
        self.counts[_ALLOCATED_AT] -= number
        self.counts[_BINDING_AT] += number
        if len(self.by_role) == 1:
            (role,) = self.by_role.values()
            role[_ALLOCATED_AT] -= number
            role[_BINDING_AT] += number
        else:
            for task in tasks:
                role = self.by_role[task.role]
                role[_ALLOCATED_AT] -= 1
                role[_BINDING_AT] += 1
        if self.sub_job_table is not None:
            self.sub_job_table.recount_all(tasks, TaskStatus.ALLOCATED, TaskStatus.BINDING)

    def count_requested(self, task: TaskInfo, number: int) -> None:
        """Add the requests of `number` tasks like this one to those of the job and its queue."""
        if self.queue_info is None:
            add_nonzero(self.requested, task.shape.requests, number)
        else:
            add_to_each(task.shape.requests, number, self.requested, self.queue_info.requested)

    def exclude_best_effort(self, tasks: Sequence[TaskInfo]) -> None:
        """Stop counting best-effort tasks as placed: they got no node."""
        self._exclude([task for task in tasks if task.uid not in self.excluded_best_effort], 1)
        self.excluded_best_effort |= {task.uid for task in tasks}

    def include_best_effort(self, tasks: Sequence[TaskInfo]) -> None:
        """Undo `exclude_best_effort`, when tasks are tried again and at the end of the session."""
        self._exclude([task for task in tasks if task.uid in self.excluded_best_effort], -1)
        self.excluded_best_effort -= {task.uid for task in tasks}

    def _exclude(self, tasks: Sequence[TaskInfo], sign: int) -> None:
        self.cached_order_key = None
        for task in tasks:
            self.by_role[task.role][-1] -= sign
            if self.sub_job_table is not None:
                self.sub_job_table.by_task[task.uid].excluded_best_effort += sign

    def count(self, *statuses: TaskStatus) -> int:
        """Return how many tasks are in any of these statuses."""
        counts = self.counts
        return counts[statuses[0]] if len(statuses) == 1 else sum(counts[status] for status in statuses)

    @property
    def pending_best_effort(self) -> int:
        """Pending best-effort tasks, except those that got no node in this session."""
        return max(self.best_effort - len(self.excluded_best_effort), 0) if self.best_effort else 0

    def role_count(self, role: str, *, pending: bool = False, pipelined: bool = False, idle: bool = True) -> int:
        """Return the ready tasks of a role, optionally with Pending, Pipelined or (idle) best-effort tasks."""
        if (counts := self.by_role.get(role)) is None:
            return 0
        total = (
            counts[_ALLOCATED_AT]
            + counts[_BINDING_AT]
            + counts[_BOUND_AT]
            + counts[_RUNNING_AT]
            + counts[_SUCCEEDED_AT]
        )
        if pipelined:
            total += counts[_PIPELINED_AT]
        if pending:
            return total + counts[_PENDING_AT]
        return total + counts[-1] if idle else total

    @property
    def gated(self) -> Amounts:
        """Requests of pending tasks with scheduling gates other than that of queue admission."""
        if not self.gated_count:
            return _NO_AMOUNTS
        requests: dict[str, int] = {}
        for task in self.pending.values():
            if any(gate.name != QUEUE_ALLOCATION_GATE for gate in task.pod.spec.scheduling_gates):
                add_nonzero(requests, task.shape.requests, 1)
        return requests


MinResourcesKey: TypeAlias = tuple[tuple[str, int], ...]
_PENDING, _PIPELINED, _RELEASING = TaskStatus.PENDING, TaskStatus.PIPELINED, TaskStatus.RELEASING
_TRUE = ("true", "t", "1")
_QUOTA_PREFIXES = ("requests.", "limits.", "count/")


class JobInfo(JobCounts):
    """One job. Implements `views.Job`. It exists as soon as a pod or PodGroup names it."""

    __slots__ = (
        "attempts",
        "backlog_entry",
        "condition_at",
        "conditions_in_flight",
        "created",
        "event_at",
        "event_text",
        "group",
        "has_group",
        "has_network_topology",
        "ignored_resources",
        "is_evicted_whole",
        "is_single_pod",
        "key",
        "members_at_close",
        "min_available",
        "min_resources",
        "min_resources_key",
        "native",
        "not_ready_since",
        "pending_since",
        "phase",
        "pod_reason_delay",
        "pod_reasons_due",
        "preemptable",
        "priority",
        "reported_at",
        "role_minimum_total",
        "role_minimums",
        "status_in_flight",
        "status_writes_in_flight",
        "status_written_at",
        "uid",
        "urgent_until",
    )

    def __init__(self, key: str, ignored_resources: Collection[str] = ()) -> None:
        super().__init__(key.partition("/")[0])
        self.key = key
        self.ignored_resources = ignored_resources
        """Resources that plugins account for themselves: not in `min_resources`."""
        self.is_single_pod = bool(scheduler_of_single(key))
        """Whether the job is a single pod without PodGroup and queue."""
        self.group = PodGroup()
        """Its PodGroup. For a native group, Volcano's PodGroup that corresponds to it, with a status kept only here."""
        self.native: NativePodGroup | None = None
        """The native group (scheduling.k8s.io PodGroup) that `group` corresponds to."""
        self.conditions_in_flight: tuple[StatusCondition, ...] | None = None
        """Conditions of the native group that were written and not yet observed."""
        self.has_group = False
        self.priority = 0
        self.phase: str = PodGroupPhase.PENDING
        self.backlog_entry: tuple[Any, ...] | None = None
        """Its entry in the backlog of its queue."""
        self.attempts = Attempts()
        self.urgent_until = _NEVER
        """Time until which it goes before all other jobs, after a refused bind (epoch seconds)."""
        self.status_in_flight: PodGroupStatus | None = None
        """Status written and not yet observed."""
        self.status_writes_in_flight = 0
        """Number of status writes without outcome."""
        self.members_at_close = 0
        """Number of tasks when the last session closed: a job that gains tasks is still being created."""
        self.not_ready_since: float | None = None
        """Time since which it was not ready at every check."""
        self.pending_since: float | None = None
        """Time since which it had pending tasks at every check."""
        self.status_written_at = _NEVER
        self.reported_at = _NEVER
        """Time of the last event or condition for the job or its pods."""
        self.condition_at = _NEVER
        self.pod_reasons_due = _NEVER
        """Time before which reasons of its pods that changed are not written again."""
        self.pod_reason_delay = 0.0
        """Seconds from the last such write to `pod_reasons_due`."""
        self.event_at = _NEVER
        self.event_text = ""
        self._read_group()

    def observe(self, group: PodGroup, native: NativePodGroup | None = None) -> None:
        """Update from the newest PodGroup; the caller sets queue and phase."""
        partitioned = group.spec.sub_group_policy != self.group.spec.sub_group_policy
        self.group, self.native = group, native
        self.has_group = True
        self._read_group()
        if partitioned:
            self._build_sub_jobs()

    def forget_group(self) -> None:
        """Reset all that follows from the PodGroup, which was deleted."""
        self.has_group = False
        self.group, self.native, self.conditions_in_flight = PodGroup(), None, None
        self.status_in_flight, self.status_writes_in_flight = None, 0
        self.not_ready_since = self.pending_since = None
        self.status_written_at = self.reported_at = self.condition_at = self.event_at = self.urgent_until = _NEVER
        self.pod_reasons_due, self.pod_reason_delay = _NEVER, 0.0
        self.event_text = ""
        self.attempts = Attempts()
        self._read_group()
        self._build_sub_jobs()

    @property
    def network_topology(self) -> NetworkTopology | None:
        """Network topology of the PodGroup."""
        return self.group.spec.network_topology

    def _build_sub_jobs(self) -> None:
        policies = self.group.spec.sub_group_policy
        self.sub_job_table = SubJobs(self.key, policies, self.members.values()) if policies else None

    def _read_group(self) -> None:
        self.cached_order_key = None
        meta, spec = self.group.metadata, self.group.spec
        self.has_network_topology = spec.network_topology is not None or any(
            policy.network_topology is not None for policy in spec.sub_group_policy
        )
        self.uid = meta.uid
        self.created = meta.creation_timestamp or ""
        self.min_available = spec.min_member
        self.role_minimums: Mapping[str, int] = spec.min_task_member
        self.role_minimum_total = sum(spec.min_task_member.values())
        preemptable = meta.annotations.get(PREEMPTABLE, meta.labels.get(PREEMPTABLE, "true"))
        self.preemptable = preemptable.lower() in _TRUE
        """Annotation `volcano.sh/preemptable` of the PodGroup (default true): gang actions may evict its tasks."""
        self.is_evicted_whole = self.native is not None and self.native.is_disrupted_whole
        """Whether its tasks are evicted all together or not at all."""
        self.read_min_resources()

    def read_min_resources(self) -> None:
        """Read minResources from the PodGroup, without quota-style names and ignored resources."""
        spec = self.group.spec
        self.min_resources: Amounts | None = None
        self.min_resources_key: MinResourcesKey | None = None
        """`min_resources` as a hashable key."""
        if spec.min_resources is not None:
            self.min_resources = {
                name: amount
                for name, amount in stored_amounts(spec.min_resources).items()
                if not name.startswith(_QUOTA_PREFIXES) and name not in self.ignored_resources
            }
            self.min_resources_key = tuple(sorted(self.min_resources.items()))

    @property
    def group_kind(self) -> Kind:
        """Kind of its PodGroup, for writes and Events."""
        return POD_GROUP if self.native is None else NATIVE_POD_GROUP

    @property
    def schedulable(self) -> bool:
        """Whether its PodGroup and queue exist."""
        return self.has_group and self.queue_info is not None and self.queue_info.exists

    def queue_name(self, default: str) -> str:
        """Return the queue that its PodGroup names, or the default."""
        return self.group.spec.queue or default

    @property
    def status(self) -> PodGroupStatus:
        """Status of the PodGroup as last written or observed."""
        return self.group.status if self.status_in_flight is None else self.status_in_flight

    @property
    def tasks(self) -> Collection[TaskInfo]:
        """Its tasks."""
        return self.members.values()

    @property
    def schedulable_count(self) -> int:
        """Pending tasks that a discarded statement of this cycle had allocated."""
        return self.attempts.schedulable(self.pending)

    @property
    def valid_count(self) -> int:
        """Ready, Pipelined and Pending tasks."""
        return self.ready_count + self.counts[_PIPELINED] + self.counts[_PENDING]

    @property
    def terminating_count(self) -> int:
        """Releasing tasks on a node; tasks that never had a node are not counted."""
        if not self.counts[_RELEASING]:
            return 0
        return sum(1 for task in self.members.values() if task.status is _RELEASING and task.node)

    def is_ready(self) -> bool:
        """Return ready_count + pending_best_effort >= min_available."""
        idle = self.best_effort if not self.excluded_best_effort else self.pending_best_effort
        return self.ready_count + idle >= self.min_available

    def all_ready(self) -> bool:
        """Return is_ready and roles_ready and sub_jobs_ready; called after every placement."""
        idle = self.best_effort if not self.excluded_best_effort else self.pending_best_effort
        if self.ready_count + idle < self.min_available:
            return False
        return (not self.role_minimum_total or self._roles_reach()) and (
            self.sub_job_table is None or self.sub_jobs_ready()
        )

    def is_pipelined(self) -> bool:
        """Return `is_ready` with Pipelined tasks counted as ready."""
        return self.ready_count + self.counts[_PIPELINED] + self.pending_best_effort >= self.min_available

    def is_starving(self) -> bool:
        """Return whether Ready and Pipelined tasks are fewer than min_available."""
        return self.ready_count + self.counts[_PIPELINED] < self.min_available

    def _roles_reach(self, *, pending: bool = False, pipelined: bool = False) -> bool:
        if not self.role_minimum_total or self.min_available < self.role_minimum_total:
            return True
        return all(
            self.role_count(role, pending=pending, pipelined=pipelined) >= minimum
            for role, minimum in self.role_minimums.items()
        )

    def roles_valid(self) -> bool:
        """Return whether every role has enough valid tasks, or min_available is below the sum of minimums."""
        return not self.role_minimum_total or self._roles_reach(pending=True, pipelined=True)

    def roles_ready(self) -> bool:
        """Return whether every role has enough ready tasks, or min_available is below the sum of minimums."""
        return not self.role_minimum_total or self._roles_reach()

    def roles_pipelined(self) -> bool:
        """Return `roles_ready` with Pipelined tasks counted as ready."""
        return self._roles_reach(pipelined=True)

    @property
    def sub_jobs(self) -> Collection[SubJobInfo]:
        """Its sub-jobs; empty for a job without sub-group policy."""
        return () if self.sub_job_table is None else self.sub_job_table.by_key.values()

    @property
    def sub_job_minimums(self) -> Mapping[str, int]:
        """minSubGroups by `SubJob.group`, for policies that set it."""
        return {} if self.sub_job_table is None else self.sub_job_table.minimums

    def sub_job_of(self, task: Task) -> SubJobInfo | None:
        """Return the sub-job of one of its tasks, None for a job without sub-jobs."""
        return None if self.sub_job_table is None else self.sub_job_table.by_task.get(task.uid)

    def sub_jobs_valid(self) -> bool:
        """Return whether every policy has its minimum of valid sub-jobs."""
        return self.sub_job_table is None or self.sub_job_table.minimums_reached(SubJobInfo.is_valid)

    def sub_jobs_ready(self) -> bool:
        """Return whether every policy has its minimum of ready sub-jobs."""
        return self.sub_job_table is None or self.sub_job_table.minimums_reached(SubJobInfo.is_ready)

    def sub_jobs_pipelined(self) -> bool:
        """Return whether every policy has its minimum of ready or pipelined sub-jobs."""
        return self.sub_job_table is None or self.sub_job_table.minimums_reached(SubJobInfo.is_pipelined)

    def __repr__(self) -> str:
        counts = {TaskStatus(at).name: count for at, count in enumerate(self.counts) if count}
        return f"<{self.key} {self.phase} {counts}>"
