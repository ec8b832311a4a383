"""Sub-jobs: the partition of a PodGroup's pods by its sub-group policies.

Source: Volcano, `pkg/scheduler/api/sub_job_info.go` and `job_info.go`. Jobs without policies have no sub-jobs.
"""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence

import msgspec

from volcanoio.framework.scheduling.views import ALLOCATED_STATUSES, Task, TaskStatus
from volcanoio.model.batch import NetworkTopology
from volcanoio.model.core import LabelSelector, Requirement
from volcanoio.model.scheduling import SubGroupPolicy
from volcanoio.model.selectors import satisfied

_STATUSES = len(TaskStatus)
_IS_READY = tuple(status in ALLOCATED_STATUSES or status is TaskStatus.SUCCEEDED for status in TaskStatus)
_PENDING, _PIPELINED, _RELEASING = TaskStatus.PENDING, TaskStatus.PIPELINED, TaskStatus.RELEASING


class SubJobInfo:
    """One sub-job. Implements `views.SubJob`."""

    __slots__ = (
        "best_effort",
        "counts",
        "excluded_best_effort",
        "group",
        "job",
        "key",
        "match_index",
        "members",
        "min_available",
        "network_topology",
        "ready_count",
    )

    def __init__(self, key: str, group: str, job: str, min_available: int = 1, match_index: int = 0) -> None:
        self.key = key
        self.network_topology: NetworkTopology | None = None
        self.group = group
        self.job = job
        self.min_available = min_available
        self.match_index = match_index
        self.members: dict[str, Task] = {}
        self.counts = [0] * _STATUSES
        self.ready_count = 0
        """Tasks that are Allocated, Binding, Bound, Running or Succeeded."""
        self.best_effort = 0
        self.excluded_best_effort = 0
        """Best-effort tasks that fit no node in this session."""

    @property
    def priority(self) -> int:
        """Highest priority of its tasks, at least 0."""
        return max([0, *[task.priority for task in self.members.values()]])

    @property
    def tasks(self) -> Collection[Task]:
        """Its tasks."""
        return self.members.values()

    @property
    def pending(self) -> list[Task]:
        """Its Pending tasks."""
        return [task for task in self.members.values() if task.status is _PENDING]

    @property
    def pipelined_count(self) -> int:
        """Number of Pipelined tasks."""
        return self.counts[_PIPELINED]

    @property
    def pending_best_effort(self) -> int:
        """Pending best-effort tasks, except those that fit no node in this session."""
        return max(self.best_effort - self.excluded_best_effort, 0)

    def is_valid(self) -> bool:
        """Return whether it has at least min_available valid tasks."""
        return self.ready_count + self.counts[_PIPELINED] + self.counts[_PENDING] >= self.min_available

    def is_ready(self) -> bool:
        """Return ready_count + pending_best_effort >= min_available."""
        return self.ready_count + self.pending_best_effort >= self.min_available

    def is_pipelined(self) -> bool:
        """Return `is_ready` with Pipelined tasks counted as ready."""
        return self.ready_count + self.counts[_PIPELINED] + self.pending_best_effort >= self.min_available

    def __repr__(self) -> str:
        counts = {TaskStatus(at).name: count for at, count in enumerate(self.counts) if count}
        return f"<{self.key} {counts}>"


_LONGEST = 128
"""Joined label values longer than this are replaced by a digest."""
_LETTERS = "bcdfghjklmnpqrstvwxz2456789"
_FNV_PRIME, _FNV_BASIS = 16777619, 2166136261


class LabelPartition:
    """Sub-group policy: the pods it selects and the label values that distinguish its sub-jobs."""

    __slots__ = ("_keys", "_requirements", "name", "network_topology", "size")

    def __init__(self, policy: SubGroupPolicy) -> None:
        self.name = policy.name
        self.size = policy.sub_group_size
        self.network_topology = policy.network_topology
        self._keys = policy.match_label_keys
        self._requirements = _requirements(policy)

    def values(self, labels: Mapping[str, str]) -> list[str]:
        """Return the label values that identify a pod's sub-job, empty when the policy does not select the pod.

        A policy without matchLabelKeys selects none.
        """
        if self._requirements is None or not all(satisfied(item, labels.get(item.key)) for item in self._requirements):
            return []
        values = [labels.get(key, "") for key in self._keys]
        return values if all(values) else []


def _requirements(policy: SubGroupPolicy) -> tuple[Requirement, ...] | None:
    """Return the label requirements; None for an invalid selector, which selects nothing."""
    if policy.label_selector is None:
        return ()
    try:
        return msgspec.convert(policy.label_selector, LabelSelector).requirements
    except msgspec.ValidationError:
        return None


def _joined(values: Sequence[str]) -> str:
    """Return label values as a part of a key."""
    if len(text := "-".join(values)) <= _LONGEST:
        return text
    digest = _FNV_BASIS
    for byte in text.encode():
        digest = ((digest ^ byte) * _FNV_PRIME) & 0xFFFFFFFF
    return "".join(_LETTERS[ord(digit) % len(_LETTERS)] for digit in str(digest))


def _match_index(value: str) -> int:
    """Return a label value as a number, 0 when it is none."""
    try:
        return int(value)
    except ValueError:
        return 0


class SubJobs:
    """Sub-jobs of one job, by key and by task uid."""

    __slots__ = ("_job", "_policies", "by_key", "by_task", "minimums")

    def __init__(self, job: str, policies: Sequence[SubGroupPolicy], members: Iterable[Task]) -> None:
        self._job = job
        self._policies = tuple(LabelPartition(policy) for policy in policies)
        self.by_key: dict[str, SubJobInfo] = {}
        self.by_task: dict[str, SubJobInfo] = {}
        self.minimums = {
            f"{job}/{policy.name}": policy.min_sub_groups for policy in policies if policy.min_sub_groups is not None
        }
        """Number of sub-jobs of each group that must be ready."""
        for task in members:
            self.recount(task, None, task.status)

    def recount(self, task: Task, before: TaskStatus | None, after: TaskStatus | None) -> None:
        """Move a task between statuses; None means that it is not a member."""
        if (sub_job := self.by_task.get(task.uid)) is None:
            sub_job = self.by_task[task.uid] = self._sub_job_for(task)
            sub_job.members[task.uid] = task
        if before is not None:
            _count(sub_job, task, before, -1)
        if after is not None:
            _count(sub_job, task, after, 1)
            return
        del self.by_task[task.uid], sub_job.members[task.uid]
        if not sub_job.members:
            del self.by_key[sub_job.key]

    def recount_all(self, tasks: Iterable[Task], before: TaskStatus, after: TaskStatus) -> None:
        """Call `recount` for several tasks."""
        for task in tasks:
            self.recount(task, before, after)

    def minimums_reached(self, predicate: Callable[[SubJobInfo], bool]) -> bool:
        """Return whether enough sub-jobs of each group satisfy a predicate."""
        if not self.minimums:
            return True
        counts = dict.fromkeys(self.minimums, 0)
        for sub_job in self.by_key.values():
            if sub_job.group in counts and predicate(sub_job):
                counts[sub_job.group] += 1
        return all(counts[group] >= minimum for group, minimum in self.minimums.items())

    def _sub_job_for(self, task: Task) -> SubJobInfo:
        """Return the sub-job of a task, of the first policy that selects it; create it if missing."""
        labels = task.pod.metadata.labels
        for policy in self._policies:
            if not (values := policy.values(labels)):
                continue
            key = f"{self._job}/{policy.name}-{_joined(values)}"
            if (sub_job := self.by_key.get(key)) is None:
                size = 1 if policy.size is None else policy.size
                sub_job = SubJobInfo(key, f"{self._job}/{policy.name}", self._job, size, _match_index(values[0]))
                sub_job.network_topology = policy.network_topology
                self.by_key[key] = sub_job
            return sub_job
        if (sub_job := self.by_key.get(self._job)) is None:
            sub_job = self.by_key[self._job] = SubJobInfo(self._job, self._job, self._job)
        return sub_job


def _count(sub_job: SubJobInfo, task: Task, status: TaskStatus, sign: int) -> None:
    sub_job.counts[status] += sign
    if _IS_READY[status]:
        sub_job.ready_count += sign
    elif status is _PENDING and task.shape.best_effort:
        sub_job.best_effort += sign
