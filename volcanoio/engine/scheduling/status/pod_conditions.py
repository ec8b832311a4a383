"""The status of pods that fit no node: the PodScheduled condition and a FailedScheduling Event."""

from collections.abc import Iterator

from volcanoio.engine.scheduling.cluster.attempts import UNSCHEDULABLE, histogram
from volcanoio.engine.scheduling.cluster.jobs import JobInfo, TaskInfo
from volcanoio.engine.scheduling.cluster.pod_fields import scheduler_of_single
from volcanoio.engine.scheduling.session.session import CycleSession
from volcanoio.engine.scheduling.status.explanation import group_text, missing_group_text, task_outcome
from volcanoio.framework.effects import Record
from volcanoio.framework.scheduling.views import TaskStatus
from volcanoio.framework.statuses import pod_status_patch, without_details
from volcanoio.model import kinds
from volcanoio.model.kinds import object_reference

SCHEDULER_ERROR = "SchedulerError"


def report_pods(session: CycleSession, job: JobInfo, *, lasting: bool, period: float) -> None:
    """Write conditions and Events of unplaced tasks: a refused bind at once, other reasons once they last."""
    if not lasting and not any(task.bind_refusal for task in job.members.values()):
        return
    gang = ""
    for task in _unplaced(job):
        if task.bind_refusal:
            _report(session, task, SCHEDULER_ERROR, task.bind_refusal, period)
            task.bind_refusal = ""
        elif lasting:
            reason, message = task_outcome(job, task)
            if not message:
                gang = gang or without_details(group_text(job, ready=session.rules.job_ready(job)))
                reason, message = UNSCHEDULABLE, gang
            _report(session, task, reason, message, period)


def report_single_pod(session: CycleSession, job: JobInfo, task: TaskInfo) -> None:
    """Write at once why a pod without gang is not placed, in the words of its own scheduler."""
    if task.bind_refusal:
        _report(session, task, SCHEDULER_ERROR, task.bind_refusal, session.period)
        task.bind_refusal = ""
        return
    errors = job.attempts.fit_errors.get(task.uid)
    text = "no nodes available to schedule pods"
    if errors is not None and errors.counts:
        text = f"0/{errors.total} nodes are available: {', '.join(histogram(errors.counts))}."
    _report(session, task, UNSCHEDULABLE, text, session.period)


def report_pods_without_group(session: CycleSession) -> Iterator[None]:
    """Write once to pods whose PodGroup does not exist that it is missing, when that has lasted."""
    jobs_without_group = session.state.ledger.jobs_without_group
    for key in sorted(jobs_without_group):
        job = jobs_without_group[key]
        if job.pending_since is None:
            job.pending_since = session.now
        if session.now - job.pending_since >= session.period:
            text = missing_group_text(job)
            for task in _unplaced(job):
                _report(session, task, UNSCHEDULABLE, text, session.period)
            del jobs_without_group[key]
            job.pending_since = None
        yield


def _unplaced(job: JobInfo) -> list[TaskInfo]:
    """Return tasks that are Pending, Allocated or Pipelined, by name; the API server reports gated ones itself."""
    if job.counts[TaskStatus.ALLOCATED] or job.counts[TaskStatus.PIPELINED]:
        wanted = (TaskStatus.PENDING, TaskStatus.ALLOCATED, TaskStatus.PIPELINED)
        tasks = [task for task in job.members.values() if task.status in wanted]
    else:
        tasks = list(job.pending.values())
    return sorted((task for task in tasks if not task.is_gated), key=lambda task: task.name)


def _report(session: CycleSession, task: TaskInfo, reason: str, message: str, period: float) -> None:
    if (last := task.condition) is None:
        last = next(
            ((entry.reason, entry.message) for entry in task.pod.status.conditions if entry.type == "PodScheduled"),
            None,
        )
    if last == (reason, message) or session.now < task.condition_at + period:
        return
    session.state.pods.tasks_with_condition[f"{task.namespace}/{task.name}"] = task
    task.condition, task.condition_at = (reason, message), session.now
    condition = {
        "type": "PodScheduled",
        "status": "False",
        "reason": reason,
        "message": message,
        "lastTransitionTime": session.timestamp,
    }
    session.outbox.put(pod_status_patch(task.pod, {"conditions": [condition]}))
    session.outbox.put(
        Record(
            regarding=object_reference(kinds.POD, task.pod),
            type="Warning",
            reason="FailedScheduling",
            message=message,
            component=scheduler_of_single(task.job),
        )
    )
