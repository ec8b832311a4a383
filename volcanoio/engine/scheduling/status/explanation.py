"""Volcano's texts for why jobs and tasks wait, made of their last `attempts`.

Texts: `pkg/scheduler/api/unschedule_info.go` and `job_info.go` (FitError).
"""

from collections.abc import Callable, Mapping
from functools import partial

from volcanoio.engine.scheduling.cluster.attempts import (
    QUEUE_NOT_FOUND,
    QUEUE_QUOTA,
    SCHEDULABLE,
    UNSCHEDULABLE,
    histogram,
)
from volcanoio.engine.scheduling.cluster.jobs import JobInfo, TaskInfo
from volcanoio.engine.scheduling.cluster.pod_fields import group_name_of, is_native
from volcanoio.engine.scheduling.config.plugin_rules import Rules
from volcanoio.framework.scheduling.verdicts import Verdict
from volcanoio.framework.scheduling.views import TaskStatus
from volcanoio.framework.statuses import with_details
from volcanoio.model.names import GROUP_NAME
from volcanoio.model.scheduling import PodGroupPhase

STATUS_TITLES = tuple(status.name.title() for status in TaskStatus)


def task_outcome(job: JobInfo, task: TaskInfo) -> tuple[str, str]:
    """Return the reason and message of a task that is not placed.

    The message names the queue if no node was tried because the queue has no quota left, and is "" if only the text of
    the gang applies.
    """
    status, node = job.attempts.outcomes.get(task.uid, (task.status, task.node))
    pod = f"Pod {task.namespace}/{task.name} can possibly be assigned to {node}, once "
    if status is TaskStatus.ALLOCATED:
        return SCHEDULABLE, f"{pod}minAvailable is satisfied"
    if status is TaskStatus.PIPELINED:
        return UNSCHEDULABLE, f"{pod}resource is released and minAvailable is satisfied"
    errors = job.attempts.fit_errors.get(task.uid)
    return UNSCHEDULABLE, _held_back(job) if errors is None else errors.text


def is_held_back(job: JobInfo) -> bool:
    """Return whether a job's queue has no quota left for some of its tasks."""
    return job.attempts.reason.code == QUEUE_QUOTA


def _held_back(job: JobInfo) -> str:
    """Return that a job's queue has no quota left for some of its tasks, "" where it has."""
    return job.attempts.reason.text if is_held_back(job) else ""


def fit_error(job: JobInfo, *, ready: bool) -> str:
    """Return Volcano's FitError of a job: tasks by status, minAvailable, pending ones by reason, first reason."""
    counts = {STATUS_TITLES[status]: count for status, count in enumerate(job.counts) if count}
    counts["minAvailable"] = job.min_available
    text = f"pod group is {'ready' if ready else 'not ready'}, {', '.join(histogram(counts))}"
    if job.pending:
        reasons = {UNSCHEDULABLE: len(job.pending)}
        if job.attempts.outcomes:
            reasons = {}
            for task in job.pending.values():
                reason, _ = task_outcome(job, task)
                reasons[reason] = reasons.get(reason, 0) + 1
        text += f"; Pending: {', '.join(histogram(reasons))}"
    if job.attempts.enqueue_refusal:
        return f"{text}. Origin reason is {job.attempts.enqueue_refusal}"
    for uid, errors in job.attempts.fit_errors.items():
        if (member := job.members.get(uid)) is not None:
            return f"{text}. Origin reason is {member.name}: {errors.text}"
    held_back = _held_back(job)
    return f"{text}. Origin reason is {held_back}" if held_back else text


def group_text(job: JobInfo, *, ready: bool) -> str:
    """Return the text of the PodGroup's Unschedulable Event, and of pods that have no text of their own.

    It is that of the condition, where there is one: Events of PodGroup and Job agree. Volcano counts the condition's
    tasks that miss a place, and the Event's that are pending.
    """
    if job.attempts.reason.code == QUEUE_NOT_FOUND:
        return job.attempts.reason.text
    if (message := unschedulable_message(job)) is not None:
        return message
    pending = job.counts[TaskStatus.PENDING]
    return f"{pending}/{len(job.members)} tasks in gang unschedulable: {fit_error(job, ready=ready)}"


def unschedulable_message(job: JobInfo) -> str | None:
    """Return the last written message of the PodGroup's condition Unschedulable; None if another is newer."""
    conditions = job.status.conditions
    newest = conditions[-1] if conditions else None
    return newest.message if newest is not None and newest.type == UNSCHEDULABLE else None


def amount_details(job: JobInfo, rejections: Mapping[str, Verdict], rules: Rules) -> Callable[[], str] | None:
    """Return a function that computes the amounts a job waits for; None if they are not known.

    `rejections` are the session's enqueue rejections by job key.
    """
    if (refusal := rejections.get(job.key)) is not None:
        return refusal.details
    if job.queue_info is None or not job.pending or not is_held_back(job):
        return None
    shape = next(iter(job.pending.values())).shape
    count = sum(1 for task in job.pending.values() if task.shape is shape)
    return partial(rules.room_details, job.queue_info, shape, count)


def waiting_text(job: JobInfo, rejections: Mapping[str, Verdict], rules: Rules) -> str:
    """Return why a waiting job waits, in the words of the scheduler; `rejections` as in `amount_details`."""
    if not job.has_group:
        return missing_group_text(job)
    if reserved := job.counts[TaskStatus.PIPELINED]:
        return f"{reserved} of its pods wait for room that is being released"
    if (refusal := rejections.get(job.key)) is not None:
        return with_details(refusal.message, refusal.details)
    return job.attempts.reason.text or group_text(job, ready=job.schedulable and rules.job_ready(job))


def missing_group_text(job: JobInfo) -> str:
    """Return why the pods of a job without PodGroup wait."""
    namespace, name = job.namespace, group_name_of(job.key)
    if is_native(job.key):
        return (
            f'PodGroup "{name}" of scheduling.k8s.io, which spec.schedulingGroup names, does not exist in namespace '
            f'"{namespace}"; create it'
        )
    return (
        f'PodGroup "{name}" does not exist in namespace "{namespace}"; create it, '
        f"or name another in the annotation {GROUP_NAME} of the pod"
    )


UNSETTLED = frozenset({PodGroupPhase.PENDING, PodGroupPhase.INQUEUE, PodGroupPhase.UNKNOWN})
"""Phases in which the reason why a PodGroup waits is written to it."""
