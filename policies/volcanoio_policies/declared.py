"""`declared`: the policies in `spec.policies`. Source: Volcano, pkg/controllers/job/job_controller_util.go."""

from collections.abc import Iterator, Mapping
from typing import Any

import msgspec

from volcanoio.framework.arguments import convert
from volcanoio.framework.decisions import Abstain, Act, Alert, Decision
from volcanoio.framework.lifecycle import LifecycleEvent, PolicyContext
from volcanoio.model import times
from volcanoio.model.batch import POLICY_EVENTS, Job, JobAction, JobEvent, LifecyclePolicy

_RESTARTS = frozenset(
    {JobAction.RESTART_JOB, JobAction.RESTART_TASK, JobAction.RESTART_POD, JobAction.RESTART_PARTITION}
)


class _NoArguments(msgspec.Struct):
    """No arguments."""


class Declared:
    """Follows the first policy that matches: those of the event's task in order, then those of the job.

    A policy matches by event or by exit code. For PodPending, which every pod raises, it also needs a timeout. `*` does
    not match JobUpdated, which Volcano never raises; with a restart action it does not match TaskCompleted either (in
    Volcano such a job restarts because it succeeded, until its retries are used up). A policy that names these events
    matches them. `decide` never awaits, so it completes within the reconcile that called it.
    """

    name = "declared"
    indexes: tuple[str, ...] = ()

    def __init__(self, arguments: Mapping[str, Any] | None = None) -> None:
        convert(arguments, _NoArguments, self.name)

    async def decide(self, context: PolicyContext) -> Decision:
        """Return the decision for one event."""
        event = context.event
        if event.name not in POLICY_EVENTS:  # such as PodRunning, which `*` does not match
            return Abstain()
        for policy in _policies(context.job, event.task):
            if _matches(policy, event):
                return _decision(policy)
        return Abstain()


def _policies(job: Job, task: str) -> Iterator[LifecyclePolicy]:
    for spec in job.spec.tasks:
        if task and spec.name == task:
            yield from spec.policies
    yield from job.spec.policies


def _matches(policy: LifecyclePolicy, event: LifecycleEvent) -> bool:
    named = {policy.event, *policy.events}
    restarted_by_success = event.name == JobEvent.TASK_COMPLETED and policy.action in _RESTARTS
    if restarted_by_success or event.name == JobEvent.JOB_UPDATED:
        named.discard(JobEvent.ANY)
    if named & {event.name, JobEvent.ANY} and (event.name != JobEvent.POD_PENDING or policy.timeout):
        return True
    return policy.exit_code is not None and policy.exit_code == event.exit_code


def _decision(policy: LifecyclePolicy) -> Decision:
    """Return the policy's action, delayed by its timeout; an invalid policy is reported instead."""
    try:
        action = JobAction(policy.action)
        after = times.parse_duration(policy.timeout) if policy.timeout else 0.0
    except ValueError as error:
        return Alert(reason="InvalidPolicy", message=f"a lifecycle policy of the job cannot be followed: {error}")
    return Act(action=action, after=after)
