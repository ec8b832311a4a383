"""Invariants of a cluster in which nothing changes any more, computed from stored objects only."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any

import msgspec

from volcanoio.framework.overrides import LEARNED_SUFFIX
from volcanoio.model import kinds, names
from volcanoio.model.base import ApiObject
from volcanoio.model.batch import Job, TaskSpec
from volcanoio.model.core import Pod
from volcanoio.model.scheduling import PodGroup, Queue
from volcanoio.model.times import epoch

FINISHED = {"Completed", "Failed", "Terminated"}
STILL = {"Aborted", *FINISHED}
STOPPING = {"Aborting", "Completing", "Terminating"}
SUPPORTS = (kinds.CONFIG_MAP, kinds.SERVICE, kinds.NETWORK_POLICY)
_FIELDS = {"": "pending", "Pending": "pending", "Running": "running", "Succeeded": "succeeded", "Failed": "failed"}


class Observed(msgspec.Struct, frozen=True):
    """All that is stored, and the time in epoch seconds."""

    now: float
    jobs: Sequence[Job]
    pods: Sequence[Pod]
    groups: Sequence[PodGroup]
    queues: Sequence[Queue]
    commands: Sequence[ApiObject]
    supports: Sequence[ApiObject]


def faults(observed: Observed) -> list[str]:
    """Return the violated invariants."""
    return [*_orphans(observed), *_commands(observed), *_queues(observed)] + [
        f"job {job.metadata.name} ({job.status.state.phase}, version {job.status.version}): {fault}"
        for job in observed.jobs
        if job.metadata.deletion_timestamp is None
        for fault in _job_faults(observed, job)
    ]


def _job_faults(observed: Observed, job: Job) -> Iterator[str]:
    pods = [pod for pod in observed.pods if _owned(pod, job)]
    groups = [group for group in observed.groups if _owned(group, job)]
    phase = job.status.state.phase
    yield from _counts(job, pods)
    yield from _lifetime(observed, job)
    if len(groups) > 1:
        yield f"has {len(groups)} PodGroups"
    if phase in STILL:
        yield from _cleaned(observed, job, pods, groups)
    elif phase in STOPPING:
        if all(_ended(pod) and not _going(pod) for pod in pods):
            yield "has no live pods any more and does not finish"
        yield from (f"pod {pod.metadata.name} is left alone" for pod in pods if not _ended(pod) and not _going(pod))
    elif phase == "Restarting":
        going = sum(map(_going, pods))
        if _total(job) - going >= job.spec.min_available:
            yield f"only {going} of its pods are on their way out, and it does not start again"
    elif phase in ("Pending", "Running"):
        yield from _kept_up(observed, job, pods, groups)
    else:
        yield "has no phase"
    limit = job.spec.max_retry or 3
    if job.status.retry_count > limit or (job.status.retry_count == limit and phase in ("Pending", "Running")):
        yield f"goes on at retry {job.status.retry_count} of {limit}"


def _counts(job: Job, pods: Sequence[Pod]) -> Iterator[str]:
    tasks = {task.name for task in job.spec.tasks}
    counted = [pod for pod in pods if _task(pod) in tasks]
    here = Counter("terminating" if _going(pod) else _FIELDS.get(pod.status.phase, "unknown") for pod in counted)
    for name in ("pending", "running", "succeeded", "failed", "unknown", "terminating"):
        if getattr(job.status, name) != here[name]:
            yield f"counts {getattr(job.status, name)} {name} pods and has {here[name]}"
    of_tasks: dict[str, dict[str, int]] = {}
    for pod in counted:
        if not _going(pod):
            phases = of_tasks.setdefault(_task(pod), {})
            phases[pod.status.phase or "Pending"] = phases.get(pod.status.phase or "Pending", 0) + 1
    reported = {task: dict(state.phase) for task, state in job.status.task_status_count.items()}
    if reported != of_tasks:
        yield f"counts {reported} by task and has {of_tasks}"


def _kept_up(observed: Observed, job: Job, pods: Sequence[Pod], groups: Sequence[PodGroup]) -> Iterator[str]:
    """Check that exactly the pods of the spec exist, and that the phase follows from the counts."""
    sizes = {task.name: task.replicas for task in job.spec.tasks}
    for pod in pods:
        index = int(pod.metadata.annotations[names.TASK_INDEX])
        if not _going(pod) and index >= sizes.get(_task(pod), 0):
            yield f"pod {pod.metadata.name} is outside the spec"
        if not _going(pod) and not _ended(pod):
            version = int(pod.metadata.annotations[names.JOB_VERSION])
            if version != job.status.version:
                yield f"pod {pod.metadata.name} is of version {version}"
    if "holds" in job.status.state.reason.lower() or job.status.state.reason == "Hold":
        return
    if not any(queue.metadata.name == (job.spec.queue or names.DEFAULT_QUEUE) for queue in observed.queues):
        return
    if not groups:
        yield "has no PodGroup"
        return
    if groups[0].spec.min_member != job.spec.min_available:
        yield f"its PodGroup wants {groups[0].spec.min_member}"
    there = {pod.metadata.name for pod in observed.pods if pod.metadata.namespace == job.metadata.namespace}
    if groups[0].status.phase not in ("", "Pending"):
        for task in job.spec.tasks:
            if _may_start(job, task, pods):
                missing = [f"{job.metadata.name}-{task.name}-{index}" for index in range(task.replicas)]
                yield from (f"pod {name} was not made" for name in missing if name not in there)
    ended, total = job.status.succeeded + job.status.failed, _total(job)
    waits = job.status.state.reason == "DelayedAction" and names.PENDING_ACTION in job.status.controlled_resources
    if job.status.state.phase == "Running" and total and ended == total and not waits:
        yield "all of its pods ended"
    if job.status.state.phase == "Pending" and job.status.running + ended >= job.spec.min_available:
        yield "has the pods it needs"


def _cleaned(observed: Observed, job: Job, pods: Sequence[Pod], groups: Sequence[PodGroup]) -> Iterator[str]:
    """Check that a finished job holds no resources, and that its objects are deleted."""
    yield from (f"pod {pod.metadata.name} is still alive" for pod in pods if not _ended(pod) and not _going(pod))
    yield from (f"PodGroup {group.metadata.name} is still there" for group in groups if not _going(group))
    for made in observed.supports:
        if _owned(made, job) and not made.metadata.name.endswith(LEARNED_SUFFIX):
            yield f"{made.metadata.name} is still there"


def _lifetime(observed: Observed, job: Job) -> Iterator[str]:
    lives = job.spec.ttl_seconds_after_finished
    ended = epoch(job.status.state.last_transition_time)
    if (
        lives is not None
        and ended is not None
        and job.status.state.phase in FINISHED
        and observed.now > ended + lives + 2
    ):
        yield f"outlived its {lives} s"


def _orphans(observed: Observed) -> Iterator[str]:
    uids = {job.metadata.uid for job in observed.jobs}
    for pod in observed.pods:
        owners = [owner for owner in pod.metadata.owner_references if owner.controller]
        if [owner.kind for owner in owners] != [kinds.JOB.kind]:
            yield f"pod {pod.metadata.name} has no Job for an owner"
        elif owners[0].uid not in uids and not _going(pod):
            yield f"the owner of pod {pod.metadata.name} does not exist"


def _commands(observed: Observed) -> Iterator[str]:
    yield from (f"Command {command.metadata.name} was not consumed" for command in observed.commands)


def _queues(observed: Observed) -> Iterator[str]:
    for queue in observed.queues:
        if queue.metadata.name == "root":
            continue
        groups = [group for group in observed.groups if (group.spec.queue or "default") == queue.metadata.name]
        state = str(queue.status.state)
        if state == "Closing" and not groups:
            yield f"queue {queue.metadata.name} is empty and still Closing"
        here = Counter((group.status.phase or "Pending").lower() for group in groups)
        for name in ("pending", "inqueue", "running", "unknown", "completed"):
            if getattr(queue.status, name) != here[name]:
                yield f"queue {queue.metadata.name} counts {getattr(queue.status, name)} {name} and has {here[name]}"


def _may_start(job: Job, task: TaskSpec, pods: Sequence[Pod]) -> bool:
    if task.depends_on is None or not task.depends_on.name:
        return True
    ready = []
    for name in task.depends_on.name:
        needs = next((each.min_available for each in job.spec.tasks if each.name == name), None)
        up = [pod for pod in pods if _task(pod) == name and pod.status.phase in ("Running", "Succeeded")]
        ready.append(needs is None or len(up) >= needs)
    return any(ready) if task.depends_on.iteration == "any" else all(ready)


def _owned(obj: Any, job: Job) -> bool:
    return any(owner.uid == job.metadata.uid for owner in obj.metadata.owner_references)


def _task(pod: Pod) -> str:
    return pod.metadata.annotations.get(names.TASK_SPEC, "")


def _going(obj: ApiObject) -> bool:
    return obj.metadata.deletion_timestamp is not None


def _ended(pod: Pod) -> bool:
    return pod.status.phase in ("Succeeded", "Failed")


def _total(job: Job) -> int:
    return sum(task.replicas for task in job.spec.tasks)
