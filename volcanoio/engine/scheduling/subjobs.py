"""Sub-jobs: what a PodGroup's sub-group policies make of its pods, counted with every change.

Source: Volcano, `pkg/scheduler/api/sub_job_info.go` and `job_info.go`. A job without policies has none of this.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence

import msgspec

from volcanoio.engine.scheduling.tasks import TaskInfo
from volcanoio.framework.scheduling.views import ALLOCATED_STATUSES, TaskStatus
from volcanoio.model.core import LabelSelector, Requirement
from volcanoio.model.requirements import satisfied
from volcanoio.model.scheduling import SubGroupPolicy

_STATUSES = len(TaskStatus)
_READY = tuple(status in ALLOCATED_STATUSES or status is TaskStatus.SUCCEEDED for status in TaskStatus)
_PENDING, _PIPELINED = TaskStatus.PENDING, TaskStatus.PIPELINED
_LONGEST = 128
"""Label values longer than this together are told by a digest."""
_LETTERS = "bcdfghjklmnpqrstvwxz2456789"
_FNV_PRIME, _FNV_BASIS = 16777619, 2166136261


class SubJobInfo:
    """One sub-job. Implements `subjobs.SubJob`."""

    __slots__ = (
        "best_effort",
        "counts",
        "group",
        "homeless",
        "job",
        "key",
        "match_index",
        "members",
        "min_available",
        "ready_count",
    )

    def __init__(self, key: str, group: str, job: str, min_available: int = 1, match_index: int = 0) -> None:
        self.key = key
        self.group = group
        self.job = job
        self.min_available = min_available
        self.match_index = match_index
        self.members: dict[str, TaskInfo] = {}
        self.counts = [0] * _STATUSES
        self.ready_count = 0
        """As `subjobs.SubJob`."""
        self.best_effort = 0
        """Pending tasks that request nothing."""
        self.homeless = 0
        """Those of them that found no node in this session."""

    @property
    def priority(self) -> int:
        """As `subjobs.SubJob`."""
        return max([0, *[task.priority for task in self.members.values()]])

    @property
    def tasks(self) -> Collection[TaskInfo]:
        """As `subjobs.SubJob`."""
        return self.members.values()

    @property
    def waiting(self) -> list[TaskInfo]:
        """Its Pending tasks."""
        return [task for task in self.members.values() if task.status is _PENDING]

    @property
    def pipelined_count(self) -> int:
        """As `subjobs.SubJob`."""
        return self.counts[_PIPELINED]

    @property
    def pending_best_effort(self) -> int:
        """As `subjobs.SubJob`; those that found no node in this session are not counted."""
        return max(self.best_effort - self.homeless, 0)

    def is_valid(self) -> bool:
        """Whether it has as many tasks as must be placed together."""
        return self.ready_count + self.counts[_PIPELINED] + self.counts[_PENDING] >= self.min_available

    def is_ready(self) -> bool:
        """As `subjobs.SubJob`."""
        return self.ready_count + self.pending_best_effort >= self.min_available

    def is_pipelined(self) -> bool:
        """As `subjobs.SubJob`."""
        return self.ready_count + self.counts[_PIPELINED] + self.pending_best_effort >= self.min_available

    def __repr__(self) -> str:
        counts = {TaskStatus(at).name: count for at, count in enumerate(self.counts) if count}
        return f"<{self.key} {counts}>"


class SubJobs:
    """The sub-jobs of one job, by key; `of` has that of each task by uid."""

    __slots__ = ("_job", "_policies", "by_key", "minimums", "of")

    def __init__(self, job: str, policies: Sequence[SubGroupPolicy], members: Iterable[TaskInfo]) -> None:
        self._job = job
        self._policies = tuple(_Policy(policy) for policy in policies)
        self.by_key: dict[str, SubJobInfo] = {}
        self.of: dict[str, SubJobInfo] = {}
        self.minimums = {
            f"{job}/{policy.name}": policy.min_sub_groups for policy in policies if policy.min_sub_groups is not None
        }
        """How many sub-jobs of each group must be ready."""
        for task in members:
            self.recount(task, None, task.status)

    def recount(self, task: TaskInfo, before: TaskStatus | None, after: TaskStatus | None) -> None:
        """Follow one task from one status to another; None stands for not being a member."""
        sub_job = self.of.get(task.uid)
        if sub_job is None:
            sub_job = self.of[task.uid] = self._of_pod(task)
            sub_job.members[task.uid] = task
        if before is not None:
            _count(sub_job, task, before, -1)
        if after is not None:
            _count(sub_job, task, after, 1)
            return
        del self.of[task.uid], sub_job.members[task.uid]
        if not sub_job.members:
            del self.by_key[sub_job.key]

    def moved(self, tasks: Iterable[TaskInfo], before: TaskStatus, after: TaskStatus) -> None:
        """`recount` of several."""
        for task in tasks:
            self.recount(task, before, after)

    def all_reach(self, reaches: Callable[[SubJobInfo], bool]) -> bool:
        """Whether of each group as many reach something as its minimum says."""
        if not self.minimums:
            return True
        numbers = dict.fromkeys(self.minimums, 0)
        for sub_job in self.by_key.values():
            if sub_job.group in numbers and reaches(sub_job):
                numbers[sub_job.group] += 1
        return all(numbers[group] >= minimum for group, minimum in self.minimums.items())

    def _of_pod(self, task: TaskInfo) -> SubJobInfo:
        """The sub-job that a task's labels say, made when it is new: of the first policy that takes it."""
        labels = task.pod.metadata.labels
        for policy in self._policies:
            values = policy.values(labels)
            if not values:
                continue
            key = f"{self._job}/{policy.name}-{_joined(values)}"
            known = self.by_key.get(key)
            if known is None:
                size = 1 if policy.size is None else policy.size
                known = SubJobInfo(key, f"{self._job}/{policy.name}", self._job, size, _number(values[0]))
                self.by_key[key] = known
            return known
        known = self.by_key.get(self._job)
        if known is None:
            known = self.by_key[self._job] = SubJobInfo(self._job, self._job, self._job)
        return known


class _Policy:
    """A sub-group policy, ready to be asked about pods."""

    __slots__ = ("_keys", "_requirements", "name", "size")

    def __init__(self, policy: SubGroupPolicy) -> None:
        self.name = policy.name
        self.size = policy.sub_group_size
        self._keys = policy.match_label_keys
        self._requirements = _requirements(policy)

    def values(self, labels: Mapping[str, str]) -> list[str]:
        """The values by which a pod is told from those of other sub-jobs; none when the policy does not take it.

        Without matchLabelKeys it takes none.
        """
        if self._requirements is None or not all(satisfied(item, labels.get(item.key)) for item in self._requirements):
            return []
        values = [labels.get(key, "") for key in self._keys]
        return values if all(values) else []


def _requirements(policy: SubGroupPolicy) -> tuple[Requirement, ...] | None:
    """What labels must satisfy; None where the selector cannot be read, which selects nothing."""
    if policy.label_selector is None:
        return ()
    try:
        return msgspec.convert(policy.label_selector, LabelSelector).requirements
    except msgspec.ValidationError:
        return None


def _count(sub_job: SubJobInfo, task: TaskInfo, status: TaskStatus, sign: int) -> None:
    sub_job.counts[status] += sign
    if _READY[status]:
        sub_job.ready_count += sign
    elif status is _PENDING and task.shape.best_effort:
        sub_job.best_effort += sign


def _joined(values: Sequence[str]) -> str:
    """Label values as a part of a key."""
    text = "-".join(values)
    if len(text) <= _LONGEST:
        return text
    digest = _FNV_BASIS
    for byte in text.encode():
        digest = ((digest ^ byte) * _FNV_PRIME) & 0xFFFFFFFF
    return "".join(_LETTERS[ord(digit) % len(_LETTERS)] for digit in str(digest))


def _number(value: str) -> int:
    """A label value as a number, 0 when it is none."""
    try:
        return int(value)
    except ValueError:
        return 0
