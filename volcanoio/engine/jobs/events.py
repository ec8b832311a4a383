"""Lifecycle events derived from what was observed: edges while we watch, and what storage proves to a fresh process.

A finished or failed pod of the job's version is raised again after a restart: handling it moved the version or removed
the pod, so that is idempotent. An eviction is proved by a pod that the stored counts hold, or that was noted as
leaving, and that is no more. Source of the events: Volcano, pkg/controllers/job/job_controller_handler.go.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

from volcanoio.engine.jobs.counting import has_failed_by, is_task_completed, restarts
from volcanoio.engine.jobs.ledger import Ledger
from volcanoio.engine.jobs.ownership import (
    belongs,
    index_of,
    is_marked,
    is_surplus,
    own_pods,
    partition_of,
    task_of,
    tasks_by_name,
    version_of,
)
from volcanoio.engine.jobs.pods import pod_name
from volcanoio.engine.jobs.ranges import expand
from volcanoio.engine.jobs.table import UPKEEP, Upkeep, phase_of
from volcanoio.framework.lifecycle import LifecycleEvent, Occasion, Roster
from volcanoio.model.batch import Job, JobEvent, LifecyclePolicy, TaskSpec
from volcanoio.model.core import Pod
from volcanoio.model.scheduling import PodGroup, PodGroupPhase

ASIDE: frozenset[str] = frozenset({JobEvent.POD_PENDING, JobEvent.POD_RUNNING, *Occasion})
"""Events of pods that are well, and occasions: nothing else waits for their answers."""


def pod_event(job: Job, pod: Pod, name: JobEvent) -> LifecycleEvent:
    """An event about one pod; the exit code is the first container's, with PodFailed only."""
    exit_code = None
    if name is JobEvent.POD_FAILED and pod.status.container_statuses:
        ended = pod.status.container_statuses[0].state.terminated
        exit_code = ended.exit_code if ended is not None else None
    return LifecycleEvent(
        name=name,
        job_uid=job.metadata.uid,
        version=version_of(pod) or 0,
        task=task_of(pod),
        pod=pod.metadata.name,
        pod_uid=pod.metadata.uid,
        index=index_of(pod),
        partition=partition_of(pod),
        exit_code=exit_code,
    )


def from_pod(
    job: Job,
    old: Pod | None,
    new: Pod | None,
    after: Mapping[str, Pod],
    deleted: bool,
    succeeded: Mapping[str, int],
    roster: Roster,
) -> list[LifecycleEvent]:
    """Events of one change: `old` None for a pod seen first, `new` None for one that is gone.

    `after` are all known pods by uid with the change, looked at only where the answer depends on them; `deleted` says
    that we deleted the pod ourselves; `succeeded` how many pods of each task did, at most. What every pod goes through
    is raised where somebody asked for it alone.
    """
    pod = new or old
    assert pod is not None
    task = tasks_by_name(job).get(task_of(pod))
    if task is None or not _counts(job, pod, task):
        return []
    if new is None:
        return [] if deleted else [pod_event(job, pod, JobEvent.POD_EVICTED)]
    if new.metadata.deletion_timestamp is not None or deleted:
        return []
    entered = new.status.phase != (old.status.phase if old is not None else None)
    events: list[LifecycleEvent] = []
    if entered and new.status.phase == "Failed":
        events.append(pod_event(job, new, JobEvent.POD_FAILED))
    if entered and new.status.phase == "Succeeded" and succeeded.get(task.name, 0) >= task.replicas:
        pods = own_pods(job, after)
        if is_task_completed(task, pods):
            events.append(pod_event(job, _last_done(job, task, pods) or new, JobEvent.TASK_COMPLETED))
    if old is None and new.status.phase in ("", "Pending"):
        if _may_time_out(job, task) or roster.wants(job, JobEvent.POD_PENDING):
            events.append(pod_event(job, new, JobEvent.POD_PENDING))
    elif entered and new.status.phase == "Running" and roster.wants(job, JobEvent.POD_RUNNING):
        events.append(pod_event(job, new, JobEvent.POD_RUNNING))
    restarted = restarts(new) > (restarts(old) if old is not None else 0)
    if restarted and has_failed_by(task, old, new, (pod for pod in after.values() if belongs(pod.metadata, job))):
        events.append(pod_event(job, new, JobEvent.TASK_FAILED))
    return events


def from_spec(before: Job, job: Job, pods: Sequence[Pod]) -> list[LifecycleEvent]:
    """JobUpdated, and TaskCompleted of tasks that a scale-down completed: a fresh process finds them completed too."""
    if not asks(job):
        return []
    old = tasks_by_name(before)
    events = [_updated(job)]
    for task in job.spec.tasks:
        was = task.name in old and is_task_completed(old[task.name], pods)
        if was or not is_task_completed(task, pods):
            continue
        last = _last_done(job, task, pods)
        events += [pod_event(job, last, JobEvent.TASK_COMPLETED)] if last is not None else []
    return events


def _updated(job: Job) -> LifecycleEvent:
    return LifecycleEvent(name=JobEvent.JOB_UPDATED, job_uid=job.metadata.uid, version=job.status.version)


def _last_done(job: Job, task: TaskSpec, pods: Iterable[Pod]) -> Pod | None:
    """The pod that completed its task: the last to end, by name where that is not told, so that order cannot matter."""

    def ended(pod: Pod) -> tuple[str, str]:
        times = (status.state.terminated for status in pod.status.container_statuses)
        return max((time.finished_at or "" for time in times if time is not None), default=""), pod.metadata.name

    done = (
        pod
        for pod in pods
        if task_of(pod) == task.name and pod.status.phase == "Succeeded" and pod.metadata.deletion_timestamp is None
    )
    return max((pod for pod in done if _counts(job, pod, task)), key=ended, default=None)


def from_group(job: Job, old: PodGroup | None, new: PodGroup | None) -> list[LifecycleEvent]:
    """Unknown, when the PodGroup entered that phase."""
    unknown = PodGroupPhase.UNKNOWN
    if new is None or new.status.phase != unknown or (old is not None and old.status.phase == unknown):
        return []
    version = version_of(new)
    version = job.status.version if version is None else version
    if not belongs(new.metadata, job) or version < job.status.version or not asks(job):
        return []
    return [LifecycleEvent(name=JobEvent.UNKNOWN, job_uid=job.metadata.uid, version=version)]


def from_storage(
    job: Job, ledger: Ledger, pods: Sequence[Pod], groups: Iterable[PodGroup], roster: Roster
) -> list[LifecycleEvent]:
    """What storage proves to a process that saw no edge, evictions first."""
    if not asks(job):
        return []
    updated = ledger.generation is not None and ledger.generation < job.metadata.generation
    events = [*([_updated(job)] if updated else []), *_evictions(job, ledger, pods)]
    completed: dict[str, LifecycleEvent] = {}
    known = {pod.metadata.uid: pod for pod in pods}
    succeeded = Counter(task_of(pod) for pod in pods if pod.status.phase == "Succeeded")
    for pod in pods:
        for event in from_pod(job, None, pod, known, False, succeeded, roster):
            if event.name in (JobEvent.TASK_COMPLETED, JobEvent.TASK_FAILED):
                completed[f"{event.name}/{event.task}"] = event
            else:
                events.append(event)
    events += completed.values()
    for group in groups:
        events += from_group(job, None, group)
    return events


def _evictions(job: Job, ledger: Ledger, pods: Sequence[Pod]) -> list[LifecycleEvent]:
    """Pods that went unseen: those noted as leaving, and as many more as the counts held.

    An index of which there is a pod lost none: its successor is made only once the loss was dealt with.
    """
    if UPKEEP[phase_of(job.status.state.phase)] is not Upkeep.SYNC:
        return []
    events: list[LifecycleEvent] = []
    for task in job.spec.tasks:
        present = {index_of(pod) for pod in pods if task_of(pod) == task.name}
        expected = {*_expected(job, ledger, task, len(present)), *expand(ledger.leaving.get(task.name, ""))}
        events += [_missing(job, task, index) for index in sorted(expected - present) if index < task.replicas]
    return events


def _expected(job: Job, ledger: Ledger, task: TaskSpec, present: int) -> Sequence[int]:
    """The indexes that the stored counts held. Counts alone, as Volcano left them, tell no more than how many."""
    if ledger.counted is not None:
        return expand(ledger.counted.get(task.name, ""))
    stored = job.status.task_status_count.get(task.name)
    return range(task.replicas) if stored is not None and present < sum(stored.phase.values()) else ()


def _missing(job: Job, task: TaskSpec, index: int) -> LifecycleEvent:
    """The eviction of a pod of which nothing is left but that the stored counts held it."""
    policy = task.partition_policy
    return LifecycleEvent(
        name=JobEvent.POD_EVICTED,
        job_uid=job.metadata.uid,
        version=job.status.version,
        task=task.name,
        pod=pod_name(job, task, index),
        index=index,
        partition=str(index // policy.partition_size) if policy is not None and policy.partition_size else "",
    )


def asks(job: Job) -> bool:
    """Whether an answer could still change anything: stopping and finished jobs ask nobody."""
    return UPKEEP[phase_of(job.status.state.phase)] is not Upkeep.STOP and job.metadata.deletion_timestamp is None


def _counts(job: Job, pod: Pod, task: TaskSpec) -> bool:
    """The stale filter: a pod of this job and version that the spec wants and that we did not mark."""
    return asks(job) and belongs(pod.metadata, job) and _is_current(job, pod, task)


def _is_current(job: Job, pod: Pod, task: TaskSpec) -> bool:
    """Whether one of the job's own pods is of its version, wanted by the spec and not marked by us."""
    return (version_of(pod) or 0) >= job.status.version and not is_marked(pod) and not is_surplus(pod, task)


def _may_time_out(job: Job, task: TaskSpec) -> bool:
    """Whether a policy of the spec has a time limit that a pending pod may overrun: every pod is pending once."""
    return any(_times_pending(policy) for policy in (*task.policies, *job.spec.policies))


def _times_pending(policy: LifecyclePolicy) -> bool:
    named = {policy.event, *policy.events}
    return policy.timeout is not None and bool(named & {JobEvent.ANY, JobEvent.POD_PENDING})
