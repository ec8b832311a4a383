"""Lifecycle events: observed changes, what storage proves to a new process, and timed events.

A finished or failed pod of the job's version is raised again after a restart of the controller, which is idempotent:
handling it changed the version or removed the pod. An eviction is proved by a pod that the stored counts include, or
that was stored as leaving, and that is gone. `Tick` is raised at intervals, `JobEnded` once a job reached a final
phase. Source: Volcano, pkg/controllers/job/job_controller_handler.go.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

import msgspec

from volcanoio.engine.jobs.pods.index_ranges import parse_indexes
from volcanoio.engine.jobs.pods.manifests import pod_name
from volcanoio.engine.jobs.pods.observed import (
    belongs,
    has_exceeded_restarts,
    index_of,
    is_marked,
    is_surplus,
    is_task_completed,
    own_pods,
    partition_of,
    restarts,
    task_of,
    tasks_by_name,
    version_of,
)
from volcanoio.engine.jobs.state.job_state import Reduction
from volcanoio.engine.jobs.state.stored_state import RESTART_TARGETS, StoredState, restarted_pods_filter
from volcanoio.engine.jobs.state.transitions import RECONCILE_MODES, ReconcileMode, phase_of
from volcanoio.framework.backoff import key_fraction
from volcanoio.framework.lifecycle import LifecycleEvent, PolicyEvent, PolicyRegistry
from volcanoio.model.batch import Job, JobEvent, JobPhase, LifecyclePolicy, TaskSpec
from volcanoio.model.core import Pod
from volcanoio.model.scheduling import PodGroup, PodGroupPhase


def pod_event(job: Job, pod: Pod, name: JobEvent) -> LifecycleEvent:
    """Return an event about one pod; PodFailed carries the exit code of the first container."""
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


class PodChange(msgspec.Struct, frozen=True, kw_only=True):
    """A change of one pod: `old` is None for a pod observed for the first time, `new` for one that is deleted.

    - `pods`: all observed pods by uid with the change; read only where the result depends on them
    - `succeeded`: upper limit of the succeeded pods of each task
    - `is_deleted_by_us`: this controller deleted the pod
    """

    old: Pod | None = None
    new: Pod | None = None
    pods: Mapping[str, Pod]
    succeeded: Mapping[str, int]
    is_deleted_by_us: bool = False

    def enters(self, phase: str) -> bool:
        """Return whether the pod enters a phase with this change."""
        if self.new is None or self.new.status.phase != phase:
            return False
        return self.old is None or self.old.status.phase != phase


def pod_events(job: Job, change: PodChange, policies: PolicyRegistry) -> list[LifecycleEvent]:
    """Return the events of one change of a pod.

    Events that every pod goes through (PodPending, PodRunning) are raised only where a policy needs them.
    """
    old, new = change.old, change.new
    pod = new or old
    assert pod is not None
    if (task := tasks_by_name(job).get(task_of(pod))) is None or not _is_relevant(job, pod, task):
        return []
    if change.is_deleted_by_us or (new is not None and new.metadata.deletion_timestamp is not None):
        return []
    if _is_being_restarted(job, task_of(pod), index_of(pod), partition_of(pod)):
        return []
    if new is None:
        return [pod_event(job, pod, JobEvent.POD_EVICTED)]
    events: list[LifecycleEvent] = []
    if change.enters("Failed"):
        events.append(pod_event(job, new, JobEvent.POD_FAILED))
    if change.enters("Succeeded") and change.succeeded.get(task.name, 0) >= task.replicas:
        pods = _remaining_pods(job, own_pods(job, change.pods))
        if is_task_completed(task, pods):
            events.append(pod_event(job, _last_succeeded(job, task, pods) or new, JobEvent.TASK_COMPLETED))
    events += _progress_events(job, task, change, policies)
    restarted = restarts(new) > (restarts(old) if old is not None else 0)
    if restarted and has_exceeded_restarts(task, old, new, _remaining_pods(job, change.pods.values())):
        events.append(pod_event(job, new, JobEvent.TASK_FAILED))
    return events


def _progress_events(job: Job, task: TaskSpec, change: PodChange, policies: PolicyRegistry) -> list[LifecycleEvent]:
    """Return PodPending or PodRunning where a policy needs it."""
    assert change.new is not None
    if change.old is None and change.new.status.phase in ("", "Pending"):
        if _has_pending_timeout(job, task) or policies.wants(job, JobEvent.POD_PENDING):
            return [pod_event(job, change.new, JobEvent.POD_PENDING)]
    elif change.enters("Running") and policies.wants(job, JobEvent.POD_RUNNING):
        return [pod_event(job, change.new, JobEvent.POD_RUNNING)]
    return []


def spec_events(before: Job, job: Job, pods: Sequence[Pod]) -> list[LifecycleEvent]:
    """Return JobUpdated, and TaskCompleted of tasks that a scale-down completed."""
    if not accepts_actions(job):
        return []
    old = tasks_by_name(before)
    events = [_job_updated(job)]
    pods = _remaining_pods(job, pods)
    for task in job.spec.tasks:
        was = task.name in old and is_task_completed(old[task.name], pods)
        if was or not is_task_completed(task, pods):
            continue
        last = _last_succeeded(job, task, pods)
        events += [pod_event(job, last, JobEvent.TASK_COMPLETED)] if last is not None else []
    return events


def _job_updated(job: Job) -> LifecycleEvent:
    return LifecycleEvent(name=JobEvent.JOB_UPDATED, job_uid=job.metadata.uid, version=job.status.version)


def _remaining_pods(job: Job, pods: Iterable[Pod]) -> list[Pod]:
    """Return the job's own pods that are neither deleted nor about to be restarted: they make a task's progress."""
    return [
        pod
        for pod in pods
        if pod.metadata.deletion_timestamp is None
        and belongs(pod.metadata, job)
        and not is_marked(pod)
        and not _is_being_restarted(job, task_of(pod), index_of(pod), partition_of(pod))
    ]


def _last_succeeded(job: Job, task: TaskSpec, pods: Iterable[Pod]) -> Pod | None:
    """Return the pod that completed its task: the last to end, ties by name."""

    def ended(pod: Pod) -> tuple[str, str]:
        times = (status.state.terminated for status in pod.status.container_statuses)
        return max((time.finished_at or "" for time in times if time is not None), default=""), pod.metadata.name

    done = (
        pod
        for pod in pods
        if task_of(pod) == task.name and pod.status.phase == "Succeeded" and pod.metadata.deletion_timestamp is None
    )
    return max((pod for pod in done if _is_relevant(job, pod, task)), key=ended, default=None)


def pod_group_events(job: Job, old: PodGroup | None, new: PodGroup | None) -> list[LifecycleEvent]:
    """Return Unknown when the PodGroup entered that phase."""
    unknown = PodGroupPhase.UNKNOWN
    if new is None or new.status.phase != unknown or (old is not None and old.status.phase == unknown):
        return []
    version = version_of(new)
    version = job.status.version if version is None else version
    if not belongs(new.metadata, job) or version < job.status.version or not accepts_actions(job):
        return []
    return [LifecycleEvent(name=JobEvent.UNKNOWN, job_uid=job.metadata.uid, version=version)]


def storage_events(
    job: Job, stored: StoredState, pods: Sequence[Pod], groups: Iterable[PodGroup], policies: PolicyRegistry
) -> list[LifecycleEvent]:
    """Return what storage proves to a process that observed no changes, evictions first."""
    if not accepts_actions(job):
        return []
    updated = stored.observed_generation is not None and stored.observed_generation < job.metadata.generation
    events = [*([_job_updated(job)] if updated else []), *_evictions(job, stored, pods)]
    completed: dict[str, LifecycleEvent] = {}
    known = {pod.metadata.uid: pod for pod in pods}
    succeeded = Counter(task_of(pod) for pod in pods if pod.status.phase == "Succeeded")
    for pod in pods:
        for event in pod_events(job, PodChange(new=pod, pods=known, succeeded=succeeded), policies):
            if event.name in (JobEvent.TASK_COMPLETED, JobEvent.TASK_FAILED):
                completed[f"{event.name}/{event.task}"] = event
            else:
                events.append(event)
    events += completed.values()
    for group in groups:
        events += pod_group_events(job, None, group)
    return events


def _evictions(job: Job, stored: StoredState, pods: Sequence[Pod]) -> list[LifecycleEvent]:
    """Return evictions of unobserved pods: those stored as leaving, and those that the stored counts include.

    An index with a pod lost none: its successor is created only after the loss was handled.
    """
    events: list[LifecycleEvent] = []
    for task in job.spec.tasks:
        present = {index_of(pod) for pod in pods if task_of(pod) == task.name}
        expected = {
            *_expected_indexes(job, stored, task, len(present)),
            *parse_indexes(stored.leaving_pods.get(task.name, "")),
        }
        events += [_eviction_event(job, task, index) for index in sorted(expected - present) if index < task.replicas]
    return [event for event in events if not _is_being_restarted(job, event.task, event.index, event.partition)]


def _is_being_restarted(job: Job, task: str, index: int | None, partition: str) -> bool:
    """Return whether the current restart replaces the pod: until then its changes raise no events.

    That includes its deletion by any client: no stored object shows who deleted a pod.
    """
    if RECONCILE_MODES[phase_of(job.status.state.phase)] is not ReconcileMode.RESTART:
        return False
    return restarted_pods_filter(job.status.controlled_resources.get(RESTART_TARGETS, ""))(task, index, partition)


def _expected_indexes(job: Job, stored: StoredState, task: TaskSpec, present: int) -> Sequence[int]:
    """Return the indexes that the stored counts include. Counts written by Volcano show only how many."""
    if stored.counted_pods is not None:
        return parse_indexes(stored.counted_pods.get(task.name, ""))
    counts = job.status.task_status_count.get(task.name)
    return range(task.replicas) if counts is not None and present < sum(counts.phase.values()) else ()


def _eviction_event(job: Job, task: TaskSpec, index: int) -> LifecycleEvent:
    """Return the eviction of a pod that only the stored counts prove."""
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


def accepts_actions(job: Job) -> bool:
    """Return whether an action could still change anything: stopping and finished jobs raise no events."""
    return (
        RECONCILE_MODES[phase_of(job.status.state.phase)] is not ReconcileMode.STOP
        and job.metadata.deletion_timestamp is None
    )


def _is_relevant(job: Job, pod: Pod, task: TaskSpec) -> bool:
    return accepts_actions(job) and belongs(pod.metadata, job) and _is_current(job, pod, task)


def _is_current(job: Job, pod: Pod, task: TaskSpec) -> bool:
    """Return whether one of the job's own pods is of its version, in the spec and not marked for deletion."""
    return (version_of(pod) or 0) >= job.status.version and not is_marked(pod) and not is_surplus(pod, task)


def _has_pending_timeout(job: Job, task: TaskSpec) -> bool:
    """Return whether a policy of the spec has a timeout for pending pods: every pod is pending at first."""
    return any(_is_pending_timeout(policy) for policy in (*task.policies, *job.spec.policies))


def _is_pending_timeout(policy: LifecyclePolicy) -> bool:
    named = {policy.event, *policy.events}
    return policy.timeout is not None and bool(named & {JobEvent.ANY, JobEvent.POD_PENDING})


TICK_TIMER = "tick"
_FINAL_PHASES = frozenset({JobPhase.COMPLETED, JobPhase.FAILED, JobPhase.TERMINATED, JobPhase.ABORTED})


def raise_timed_events(reduction: Reduction, policies: PolicyRegistry) -> None:
    """Raise the events that are due."""
    if (job := reduction.state.job) is None or not reduction.state.is_started:
        return
    _schedule_tick(reduction, job, policies)
    if (phase := job.status.state.phase) not in _FINAL_PHASES:
        return
    key = f"{phase}/{job.status.version}"
    if reduction.state.job_ended_key != key and policies.wants(job, PolicyEvent.JOB_ENDED):
        reduction.update(job_ended_key=key)
        reduction.enqueue_questions([_timed_event(job, PolicyEvent.JOB_ENDED)])


def _schedule_tick(reduction: Reduction, job: Job, policies: PolicyRegistry) -> None:
    """Raise Tick when it is due, and keep the time of the next one.

    The first comes after a part of the period that depends on the job, so that jobs created together are spread out.
    The stored time decides, not the timer: other events between the two stop the timer.
    """
    if not (period := policies.every(job)) or not accepts_actions(job):
        if reduction.state.next_tick:
            reduction.update(next_tick=0.0)
    elif 0 < reduction.state.next_tick <= reduction.now:
        under_way = any(question.event.name == PolicyEvent.TICK for question in reduction.state.side_questions.values())
        if not under_way and policies.wants(job, PolicyEvent.TICK):
            reduction.enqueue_questions([_timed_event(job, PolicyEvent.TICK)])
        reduction.update(next_tick=reduction.now + period)
    elif not reduction.state.next_tick:
        reduction.update(next_tick=reduction.now + period * key_fraction(job.metadata.uid, 1000))


def _timed_event(job: Job, name: PolicyEvent) -> LifecycleEvent:
    return LifecycleEvent(name=name, job_uid=job.metadata.uid, version=job.status.version)
