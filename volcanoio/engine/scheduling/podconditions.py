"""What pods that found no node are told: the PodScheduled condition and a FailedScheduling event."""

from __future__ import annotations

from collections.abc import Iterator

from volcanoio.engine.scheduling.explanation import UNSCHEDULABLE, group_text, histogram, stray_text, task_outcome
from volcanoio.engine.scheduling.jobs import JobInfo
from volcanoio.engine.scheduling.session import CycleSession
from volcanoio.engine.scheduling.tasks import TaskInfo, scheduler_of_single
from volcanoio.engine.statuses import pod_status
from volcanoio.framework.effects import Record
from volcanoio.framework.scheduling.views import TaskStatus
from volcanoio.model import kinds
from volcanoio.model.references import object_reference

SCHEDULER_ERROR = "SchedulerError"


def tell_pods(session: CycleSession, job: JobInfo, *, lasting: bool, period: float) -> None:
    """Write conditions and events of a job's unplaced tasks; a refused bind is said at once, the rest when it lasts."""
    if not job.waiting and not job.counts[TaskStatus.ALLOCATED] and not job.counts[TaskStatus.PIPELINED]:
        return
    if not lasting and not any(task.refusal for task in job.members.values()):
        return
    gang = ""
    for task in _unplaced(job):
        if task.refusal:
            _tell(session, task, SCHEDULER_ERROR, task.refusal, period)
            task.refusal = ""
        elif lasting:
            reason, message = task_outcome(job, task)
            if not message:
                gang = gang or group_text(job, ready=session.rules.job_ready(job))
                reason, message = UNSCHEDULABLE, gang
            _tell(session, task, reason, message, period)


def tell_single(session: CycleSession, job: JobInfo, task: TaskInfo) -> None:
    """Say at once why a pod without gang is not placed, in the words of its own scheduler."""
    if task.refusal:
        _tell(session, task, SCHEDULER_ERROR, task.refusal, session.period)
        task.refusal = ""
        return
    errors = job.attempts.fit_errors.get(task.uid)
    text = "no nodes available to schedule pods"
    if errors is not None and errors.counts:
        text = f"0/{errors.total} nodes are available: {', '.join(histogram(errors.counts))}."
    _tell(session, task, UNSCHEDULABLE, text, session.period)


def tell_strays(session: CycleSession, period: float) -> Iterator[None]:
    """Say once to pods that wait for a PodGroup which does not exist that it does not, when that has lasted."""
    strays = session.state.ledger.strays
    for key in sorted(strays):
        job = strays[key]
        if job.waiting_since is None:
            job.waiting_since = session.now
        if session.now - job.waiting_since >= period:
            text = stray_text(job)
            for task in _unplaced(job):
                _tell(session, task, UNSCHEDULABLE, text, period)
            del strays[key]
            job.waiting_since = None
        yield


def _unplaced(job: JobInfo) -> list[TaskInfo]:
    """Tasks left Pending, Allocated or Pipelined; gated ones are told so by the API server."""
    if job.counts[TaskStatus.ALLOCATED] or job.counts[TaskStatus.PIPELINED]:
        wanted = (TaskStatus.PENDING, TaskStatus.ALLOCATED, TaskStatus.PIPELINED)
        tasks = [task for task in job.members.values() if task.status in wanted]
    else:
        tasks = list(job.waiting.values())
    return sorted((task for task in tasks if not task.gated), key=lambda task: task.name)


def _tell(session: CycleSession, task: TaskInfo, reason: str, message: str, period: float) -> None:
    known = task.condition
    if known is None:
        known = next(
            ((entry.reason, entry.message) for entry in task.pod.status.conditions if entry.type == "PodScheduled"),
            None,
        )
    if known == (reason, message) or session.now < task.condition_at + period:
        return
    session.state.pods.told[f"{task.namespace}/{task.name}"] = task
    task.condition, task.condition_at = (reason, message), session.now
    condition = {
        "type": "PodScheduled",
        "status": "False",
        "reason": reason,
        "message": message,
        "lastTransitionTime": session.timestamp,
    }
    session.outbox.put(pod_status(task.pod, {"conditions": [condition]}))
    session.outbox.put(
        Record(
            regarding=object_reference(kinds.POD, task.pod),
            type="Warning",
            reason="FailedScheduling",
            message=message,
            component=scheduler_of_single(task.job),
        )
    )
