"""Approval of pod creation: policies may decide when PodGroup and pods are created (`PodsDue`).

Only the current question or its answer is kept: a new process asks again, and until it has an answer the job's status
stays as it is.
"""

from collections.abc import Iterable, Mapping

import msgspec

from volcanoio.engine.jobs.pods.desired import WaitReason
from volcanoio.framework.decisions import Hold
from volcanoio.framework.lifecycle import LifecycleEvent, PolicyEvent
from volcanoio.model.batch import Job, TaskSpec

MIN_HOLD = 1.0
"""Seconds until a held question is asked again, unless an event wakes it."""
HOLD = "Hold"
"""Reason in the job's status while a policy holds it."""


class CreationApproval(msgspec.Struct, frozen=True):
    """The question whether due pods may be created, or its answer.

    - `has_pod_group`: the PodGroup exists, so only pods are to be created
    - `number`: the question's number while it is being asked, else 0
    - `is_approved`: no policy objected
    - `hold`: what a policy answered; it is asked again at `due` (epoch seconds)

    An answer stays valid for its pods that are not created yet: they are approved together and created in batches.
    """

    event: LifecycleEvent
    has_pod_group: bool
    number: int = 0
    is_approved: bool = False
    hold: Hold | None = None
    due: float = 0.0


class CreationAllowance(msgspec.Struct, frozen=True):
    """What may be created: everything (`limits` is None), or so many more pods of each task.

    `problem` is why not more, `question` what to ask, `approval` the answer reduced to the pods that are still missing.
    """

    limits: Mapping[str, int] | None = None
    problem: WaitReason | None = None
    question: CreationApproval | None = None
    approval: CreationApproval | None = None

    @property
    def is_empty(self) -> bool:
        """Whether nothing may be created."""
        return self.limits is not None and not any(self.limits.values())

    def filter(self, pods: Iterable[tuple[TaskSpec, int]]) -> list[tuple[TaskSpec, int]]:
        """Return the missing pods that may be created, in their order."""
        if self.limits is None:
            return list(pods)
        remaining = dict(self.limits)
        passed = []
        for task, index in pods:
            if remaining.get(task.name, 0) > 0:
                remaining[task.name] -= 1
                passed.append((task, index))
        return passed


UNLIMITED = CreationAllowance()


def creation_allowance(
    approval: CreationApproval | None,
    job: Job,
    missing: Iterable[tuple[TaskSpec, int]],
    has_pod_group: bool,
    now: float,
) -> CreationAllowance:
    """Return what may be created of the missing pods, given what was asked so far."""
    due: dict[str, list[int]] = {}
    for task, index in missing:
        due.setdefault(task.name, []).append(index)
    event = LifecycleEvent(
        name=PolicyEvent.PODS_DUE,
        job_uid=job.metadata.uid,
        version=job.status.version,
        due={task: tuple(indexes) for task, indexes in due.items()},
    )
    remaining = (
        None if approval is None or approval.has_pod_group != has_pod_group else _remaining_approval(approval, event)
    )
    approval = remaining or approval
    if has_pod_group and not due:
        return CreationAllowance(approval=remaining)
    if approval is None or approval.event != event or approval.has_pod_group != has_pod_group:
        return CreationAllowance(
            {}, _hold_reason(approval) or _stored_hold_reason(job), CreationApproval(event, has_pod_group)
        )
    if approval.is_approved:
        return CreationAllowance(approval=remaining)
    if approval.hold is None:  # asked for the first time
        return CreationAllowance({}, _stored_hold_reason(job))
    again = not approval.number and approval.due <= now
    return CreationAllowance(
        approval.hold.pods, _hold_reason(approval), msgspec.structs.replace(approval) if again else None, remaining
    )


def _remaining_approval(approval: CreationApproval, event: LifecycleEvent) -> CreationApproval | None:
    """Return an answer reduced to pods that are still missing; None when it does not cover them."""
    asked, hold = approval.event, approval.hold
    if approval.number or not (approval.is_approved or hold) or asked == event:
        return None
    if (asked.job_uid, asked.version) != (event.job_uid, event.version):
        return None
    if not all(set(asked.due.get(task, ())).issuperset(indexes) for task, indexes in event.due.items()):
        return None
    if not event.due:
        return msgspec.structs.replace(approval, event=event, hold=None, is_approved=True)
    if hold is not None and hold.pods is not None:
        created = {task: len(indexes) - len(event.due.get(task, ())) for task, indexes in asked.due.items()}
        pods = {task: max(0, number - created.get(task, 0)) for task, number in hold.pods.items()}
        hold = msgspec.structs.replace(hold, pods=pods)
    return msgspec.structs.replace(approval, event=event, hold=hold)


def approval_answered(
    approval: CreationApproval | None, number: int, hold: Hold | None, now: float
) -> CreationApproval | None:
    """Return the approval after an answer; unchanged when that was about another question.

    A hold that has already ended is asked again after MIN_HOLD, so that policies are not asked without pause.
    """
    if approval is None or approval.number != number:
        return approval
    if hold is None:
        return CreationApproval(approval.event, approval.has_pod_group, is_approved=True)
    return CreationApproval(approval.event, approval.has_pod_group, hold=hold, due=max(hold.until, now + MIN_HOLD))


def _hold_reason(approval: CreationApproval | None) -> WaitReason | None:
    """Return why the job waits; only the first of messages with the same topic is an Event."""
    return None if approval is None or approval.hold is None else WaitReason(HOLD, approval.hold.reason, HOLD)


def _stored_hold_reason(job: Job) -> WaitReason | None:
    """Return the hold reason that an earlier process stored, until the policies have answered this one.

    So a restart writes no status for a job that still waits, and policies can read which jobs waited.
    """
    state = job.status.state
    return WaitReason(HOLD, state.message, HOLD) if state.reason == HOLD else None
