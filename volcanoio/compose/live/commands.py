"""Commands to the controllers: suspend, resume, restart or terminate a Job, and open or close a queue."""

from __future__ import annotations

from collections.abc import Mapping

from volcanoio.engine.jobs.state.transitions import transition_for
from volcanoio.engine.jobs.status.phases import current_phase
from volcanoio.engine.queues.transitions import ROOT_CLOSE_MESSAGE, QueueAction, is_satisfied
from volcanoio.kube.client import Client
from volcanoio.kube.errors import NotFound
from volcanoio.model import kinds, names
from volcanoio.model.batch import Job, JobAction
from volcanoio.model.scheduling import Queue

QUEUE_COMMANDS_NAMESPACE = "default"
"""Namespace of Commands to queues, as with Volcano's vcctl."""
_DONE: Mapping[str, str] = {
    JobAction.ABORT_JOB: "suspended",
    JobAction.RESUME_JOB: "resumed",
    JobAction.RESTART_JOB: "restarted",
    JobAction.TERMINATE_JOB: "terminated",
    QueueAction.OPEN: "opened",
    QueueAction.CLOSE: "closed",
}


class NoEffectError(Exception):
    """An action that changes nothing in the present phase or state, which the message contains."""


class RootQueueError(NoEffectError):
    """The action would close the root queue, which is never possible."""


async def command_job(client: Client, job: Job, action: JobAction) -> str:
    """Create the Command for an action on a Job, and return a sentence about it. Raises NoEffectError, ApiError."""
    name, phase = job.metadata.name, current_phase(job)
    if transition_for(phase, action) is None:
        raise NoEffectError(f"job {name} is {phase} and cannot be {_DONE[action]}")
    await client.command(kinds.JOB, job, action, job.metadata.namespace)
    return f"job {name} is being {_DONE[action]}; it was {phase}"


async def command_queue(client: Client, queue: Queue, action: QueueAction) -> str:
    """Create the Command to open or close a queue, and return a sentence about it. Raises NoEffectError, ApiError."""
    check_queue_action(queue, action)
    await client.command(kinds.QUEUE, queue, action, QUEUE_COMMANDS_NAMESPACE)
    return f"queue {queue.metadata.name} is being {_DONE[action]}; it was {queue.status.state or 'without a state'}"


def check_queue_action(queue: Queue, action: QueueAction) -> None:
    """Raise NoEffectError for an action that changes nothing: the queue has that state, or is root."""
    name, state = queue.metadata.name, queue.status.state
    if action is QueueAction.CLOSE and name == names.ROOT_QUEUE:
        raise RootQueueError(ROOT_CLOSE_MESSAGE)
    if is_satisfied(state, action):
        raise NoEffectError(f"queue {name} is {state}")


async def closed_parent(client: Client, queue: Queue) -> str:
    """Return the name of the closed parent that prevents a queue from opening; "" without one."""
    if queue.spec.parent in ("", names.ROOT_QUEUE):
        return ""
    try:
        parent = await client.get(kinds.QUEUE, queue.spec.parent)
    except NotFound:
        return ""
    assert isinstance(parent, Queue)
    return queue.spec.parent if is_satisfied(parent.status.state, QueueAction.CLOSE) else ""
