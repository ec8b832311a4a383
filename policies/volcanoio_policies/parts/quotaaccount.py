"""What a namespace has and was promised, as `namespace_quota` counts it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import NamedTuple

from volcanoio.framework.gangs import members
from volcanoio.framework.lifecycle import PolicyContext
from volcanoio.framework.overrides import effective, stored
from volcanoio.framework.podusage import Usage, pod_usage, usage_of
from volcanoio.model import kinds, names
from volcanoio.model.batch import Job, JobPhase
from volcanoio.model.core import Pod, PriorityClass
from volcanoio.model.resources import add
from volcanoio.model.scheduling import PodGroup
from volcanoio_policies.parts.quotaline import OVER, Line

PODS, JOBS, GROUPS, CLASSES = (
    kinds.POD.resource, kinds.JOB.resource, kinds.POD_GROUP.resource, kinds.PRIORITY_CLASS.resource,
)  # fmt: skip
MOST = 200_000
"""Usages that are remembered."""
_ENDED = ("Succeeded", "Failed")


class _Promise(NamedTuple):
    """How many pods of each task a job's version was let have."""

    version: int
    pods: dict[str, int]


class Memory:
    """Promises to jobs, and what pods and tasks were found to take."""

    def __init__(self) -> None:
        self._promises: dict[str, _Promise] = {}
        self._usages: dict[str, Usage] = {}
        self._of_tasks: dict[tuple[str, int, str, str], Usage] = {}

    def promise(self, job: Job, pods: dict[str, int]) -> None:
        """Remember what this job's version was let have, by task."""
        self._promises[job.metadata.uid] = _Promise(job.status.version, pods)

    def withdraw(self, job: Job) -> None:
        """Forget what this job was let have: it was held since, and others need not wait for its pods."""
        self._promises.pop(job.metadata.uid, None)

    def promised(self, job: Job) -> Mapping[str, int]:
        """What this job was let have, by task."""
        promise = self._promises.get(job.metadata.uid)
        return promise.pods if promise is not None and promise.version == job.status.version else {}

    def keep(self, jobs: Iterable[str]) -> None:
        """Forget promises to jobs that are no more, by uid, when there are many."""
        if len(self._promises) > 2 * len(there := set(jobs)) + 100:
            self._promises = {uid: promise for uid, promise in self._promises.items() if uid in there}

    def of_task(self, job: Job, name: str) -> Usage:
        """What one pod of a task takes, worked out once per spec and overrides."""
        text = job.status.controlled_resources.get(names.OVERRIDES, "")
        key = (job.metadata.uid, job.metadata.generation, text, name)
        known = self._of_tasks.get(key)
        if known is None:
            if len(self._of_tasks) > MOST:
                self._of_tasks.clear()
            found = effective(job, stored(job)).spec.tasks
            known = next((pod_usage(task.template) for task in found if task.name == name), {})
            self._of_tasks[key] = known
        return known

    def of_pod(self, pod: Pod) -> Usage:
        """What a pod takes, worked out once."""
        known = self._usages.get(pod.metadata.uid)
        if known is None:
            if len(self._usages) > MOST:
                self._usages.clear()
            known = self._usages[pod.metadata.uid] = usage_of(pod.spec)
        return known


class Account:
    """What a namespace has, and what it promised, as one question sees it.

    `free` is what nobody has or is to have. `free_for_gang` is the same for a job that was not let in yet. In the way
    of one that was, and that lost pods, are only promises and the shares of those before it in line: if room is too
    short for all of them, one gets it.
    """

    def __init__(self, memory: Memory, context: PolicyContext, caps: Usage, line: Line) -> None:
        self._memory = memory
        self._caps = caps
        job, namespace, indexes = context.job, context.job.metadata.namespace, context.indexes
        self.priorities = {
            name: each.value for name, each in indexes[CLASSES].within("").items() if isinstance(each, PriorityClass)
        }
        self._groups = {
            str(group.metadata.controller.uid): group
            for group in indexes[GROUPS].within(namespace).values()
            if isinstance(group, PodGroup) and group.metadata.controller is not None
        }
        self._pods: dict[str, list[Pod]] = {}
        used: Usage = {}
        for pod in indexes[PODS].within(namespace).values():
            assert isinstance(pod, Pod)
            owner = pod.metadata.controller
            if owner is not None:
                self._pods.setdefault(owner.uid, []).append(pod)
            if pod.status.phase not in _ENDED:
                add(used, memory.of_pod(pod))
        jobs = [each for each in indexes[JOBS].within(namespace).values() if isinstance(each, Job)]
        memory.keep(each.metadata.uid for each in jobs)
        behind: Usage = {}
        started = self.started(job)
        for each in jobs:
            if each.metadata.uid == job.metadata.uid or each.status.state.phase in OVER:
                continue
            in_the_way = not started or line.is_before(each, job)
            for task, (promised, share) in self._missing(each).items():
                usage = memory.of_task(each, task)
                add(used, usage, share if in_the_way else promised)
                if share > promised and not in_the_way:
                    add(behind, usage, share - promised)
        self.free_for_gang: Usage = {name: cap - used.get(name, 0) for name, cap in caps.items()}
        self.free: Usage = {name: amount - behind.get(name, 0) for name, amount in self.free_for_gang.items()}

    def started(self, job: Job) -> bool:
        """Whether the job's version was let in: it has its PodGroup."""
        group = self._groups.get(job.metadata.uid)
        if group is None or group.metadata.deletion_timestamp is not None:
            return False
        text = group.metadata.annotations.get(names.JOB_VERSION, "")
        return not text.isdigit() or int(text) >= job.status.version

    def existing(self, job: Job) -> dict[str, int]:
        """The pods that the job's version has, by task."""
        found: dict[str, int] = {}
        for pod in self._own(job):
            task = pod.metadata.annotations.get(names.TASK_SPEC, "")
            found[task] = found.get(task, 0) + 1
        return found

    def wanted(self, job: Job, due: Mapping[str, tuple[int, ...]]) -> tuple[Usage, list[tuple[str, Usage]]]:
        """What the rest of the gang needs at once, and each due pod beyond it."""
        gang: Usage = {}
        rest = self._gang_missing(job)
        for task, missing in rest.items():
            add(gang, self._memory.of_task(job, task), missing)
        beyond = [
            (task, self._memory.of_task(job, task))
            for task, indexes in due.items()
            for _ in range(max(0, len(indexes) - rest.get(task, 0)))
        ]
        return {name: gang[name] for name in self._caps if gang.get(name)}, beyond

    def gang_due(self, job: Job, due: Mapping[str, tuple[int, ...]]) -> dict[str, int]:
        """Of the due pods, those of the gang by task."""
        rest = self._gang_missing(job)
        return {task: min(len(indexes), rest[task]) for task, indexes in due.items() if rest.get(task)}

    def _gang_missing(self, job: Job) -> dict[str, int]:
        there = self.existing(job)
        return {
            task: missing
            for task, number in members(job, self.priorities).items()
            if (missing := number - there.get(task, 0)) > 0
        }

    def _missing(self, job: Job) -> dict[str, tuple[int, int]]:
        """Pods that are not there, by task: those that the job was promised, and those with all of its share."""
        promised = self._memory.promised(job)
        if not promised and job.metadata.uid not in self._groups:
            return {}
        target = members(job, self.priorities) if self.started(job) else {}
        there = self.existing(job)
        for task, number in self._undecided(job).items():
            there[task] -= number
        replicas = {task.name: task.replicas for task in job.spec.tasks}
        found: dict[str, tuple[int, int]] = {}
        for task in {*target, *promised}:
            most, here = replicas.get(task, 0), there.get(task, 0)
            first = max(0, min(promised.get(task, 0), most) - here)
            share = max(first, min(target.get(task, 0), most) - here)
            if share:
                found[task] = (first, share)
        return found

    def _undecided(self, job: Job) -> dict[str, int]:
        """Failed pods that may be made again, by task: their place is kept until the job has come to terms with them.

        It has when it counts them and no restart is under way or due.
        """
        failed: dict[str, int] = {}
        for pod in self._own(job):
            if pod.status.phase == "Failed":
                task = pod.metadata.annotations.get(names.TASK_SPEC, "")
                failed[task] = failed.get(task, 0) + 1
        status = job.status
        if status.state.phase != JobPhase.RESTARTING and names.PENDING_ACTION not in status.controlled_resources:
            return failed if sum(failed.values()) > status.failed else {}
        return failed

    def _own(self, job: Job) -> Iterator[Pod]:
        """The pods of the job's version that nobody is deleting."""
        for pod in self._pods.get(job.metadata.uid, ()):
            text = pod.metadata.annotations.get(names.JOB_VERSION, "")
            if pod.metadata.deletion_timestamp is None and (not text.isdigit() or int(text) >= job.status.version):
                yield pod
