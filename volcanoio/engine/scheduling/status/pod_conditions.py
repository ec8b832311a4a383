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
FIRST_DELAY_PERIODS = 8.0
"""Periods after which a job's pods may get changed reasons again; twice as many each time that they go on changing."""
LONGEST_DELAY = 64.0
"""Longest time between two writes of reasons of a job's pods that keep changing, in seconds."""


def report_pods(session: CycleSession, job: JobInfo, *, lasting: bool, period: float) -> bool:
    """Write conditions and Events of unplaced tasks: a refused bind at once, other reasons once they last.

    Reasons that keep changing are written ever less often, since a busy cluster has room for other pods of a gang in
    each cycle, and thousands of writes a second would slow down all clients of the API server. Their
    number is limited, too (`WriteLimits`). Returns False if a reason is postponed for that.
    """
    if not lasting and not any(task.bind_refusal for task in job.members.values()):
        return True
    gang = ""
    is_due, rewritten, postponed = session.now >= job.pod_reasons_due, False, False
    for task in _unplaced(job):
        if task.bind_refusal:
            _report(session, task, SCHEDULER_ERROR, task.bind_refusal, period)
            task.bind_refusal = ""
        elif lasting:
            reason, message = task_outcome(job, task)
            if not message:
                gang = gang or without_details(group_text(job, ready=session.rules.job_ready(job)))
                reason, message = UNSCHEDULABLE, gang
            last = _written(task)
            may_write = is_due or last is None
            if last == (reason, message) or (may_write and session.now < task.condition_at + period):
                continue
            if may_write and session.state.write_limits.take_reason(session.now):
                _report(session, task, reason, message, period)
                rewritten = rewritten or last is not None
            else:
                postponed = True
    if rewritten:
        is_new = session.now >= job.pod_reasons_due + job.pod_reason_delay
        delay = FIRST_DELAY_PERIODS * period if is_new else 2 * job.pod_reason_delay
        job.pod_reason_delay = min(delay, LONGEST_DELAY)
        job.pod_reasons_due = session.now + job.pod_reason_delay
    return not postponed


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


def _written(task: TaskInfo) -> tuple[str, str] | None:
    """Return reason and message of the task's PodScheduled condition, as written last or as observed; None if none."""
    if task.condition is not None:
        return task.condition
    conditions = task.pod.status.conditions
    return next(((entry.reason, entry.message) for entry in conditions if entry.type == "PodScheduled"), None)


def _report(session: CycleSession, task: TaskInfo, reason: str, message: str, period: float) -> bool:
    """Write the condition and an Event of a task, at most once per period; returns whether they were written."""
    if _written(task) == (reason, message) or session.now < task.condition_at + period:
        return False
    session.state.pods.tasks_with_condition[f"{task.namespace}/{task.name}"] = task
    task.condition, task.condition_at = (reason, message), session.now
    condition = {
        "type": "PodScheduled",
        "status": "False",
        "reason": reason,
        "message": message,
        "lastTransitionTime": session.timestamp,
    }
    # it may be sent seconds later: a pod that was bound meanwhile must not get a reason for waiting; the nomination of
    # a pod is written before this, and makes another version of it
    patch = pod_status_patch(task.pod, {"conditions": [condition]}, at_version=not task.nominated_node)
    session.outbox.put(patch)
    session.outbox.put(
        Record(
            regarding=object_reference(kinds.POD, task.pod),
            type="Warning",
            reason="FailedScheduling",
            message=message,
            component=scheduler_of_single(task.job),
        )
    )
    return True
