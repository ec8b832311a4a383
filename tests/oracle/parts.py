"""Sub-jobs: the pods of a PodGroup divided by its sub-group policies, computed again each time.

A pod belongs to the first policy that selects it and all of whose keys it has; to the job's own sub-job where there is
none. A policy without matchLabelKeys takes no pod.
"""

from __future__ import annotations

from typing import Any

from tests.oracle.cluster import READY, Job, Task
from tests.oracle.labels import selects


class Part:
    """A sub-job; `number` is its first label value, or 0 if that is not a number."""

    def __init__(self, key: str, group: str, size: int, number: int) -> None:
        self.key = key
        self.group = group
        self.size = size
        """Number of its tasks that must be placed together."""
        self.number = number
        self.tasks: list[Task] = []

    def count(self, *states: str, free: bool = True) -> int:
        """Return the number of its tasks in these states; with `free`, pending best-effort tasks count."""
        return sum(task.state in states or (free and task.is_free) for task in self.tasks)

    def is_valid(self) -> bool:
        return self.count(*READY, "pipelined", "pending", free=False) >= self.size

    def is_ready(self) -> bool:
        return self.count(*READY) >= self.size

    def is_pipelined(self) -> bool:
        return self.count(*READY, "pipelined") >= self.size

    def missing(self) -> int:
        return self.size - self.count(*READY, "pipelined")


def parts_of(job: Job) -> list[Part]:
    """Return the sub-jobs of a job; a job without policies has none."""
    found: dict[str, Part] = {}
    for task in job.tasks if job.policies else ():
        part = _part_of(job, task)
        found.setdefault(part.key, part).tasks.append(task)
    return list(found.values())


def part_of(job: Job, task: Task) -> Part:
    """Return the sub-job of a task."""
    return next(part for part in parts_of(job) if task in part.tasks)


def minimums(job: Job) -> dict[str, int]:
    """Return how many sub-jobs of each group a job must have."""
    key = f"{job.namespace}/{job.name}"
    return {
        f"{key}/{policy['name']}": policy["minSubGroups"]
        for policy in job.policies
        if policy.get("minSubGroups") is not None
    }


def enough(job: Job, method: str) -> bool:
    """Whether as many sub-jobs of each group as required are valid, ready or pipelined."""
    parts = parts_of(job)
    return all(
        sum(part.group == group and getattr(part, method)() for part in parts) >= least
        for group, least in minimums(job).items()
    )


def _part_of(job: Job, task: Task) -> Part:
    key = f"{job.namespace}/{job.name}"
    for policy in job.policies:
        values = [task.labels.get(name, "") for name in policy.get("matchLabelKeys", [])]
        if not values or not all(values) or not _selected(policy, task):
            continue
        number = int(values[0]) if values[0].lstrip("-").isdigit() else 0
        group = f"{key}/{policy['name']}"
        return Part(f"{group}-{'-'.join(values)}", group, policy.get("subGroupSize", 1), number)
    return Part(key, key, 1, 0)


def _selected(policy: dict[str, Any], task: Task) -> bool:
    selector = policy.get("labelSelector")
    return selector is None or selects(selector, task.labels)
