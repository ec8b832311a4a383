"""What a user may do on the page: suspend, resume and cancel Jobs, open and close queues.

Each is the request that `vcctl` makes, with the user's own credentials: admission and RBAC decide.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from volcanoio.engine.jobs.state.transitions import transition_for
from volcanoio.engine.jobs.status.phases import current_phase
from volcanoio.engine.queues.transitions import ROOT_CLOSE_MESSAGE, QueueAction, is_satisfied
from volcanoio.kube.requests import DeleteOptions
from volcanoio.model import kinds, names
from volcanoio.model.batch import Job, JobAction
from volcanoio.model.scheduling import Queue
from volcanoio.web.viewers import Viewer

QUEUE_COMMANDS_NAMESPACE = "default"
"""Namespace of Commands to queues, as with vcctl."""


class ActionError(Exception):
    """The action is unknown, or has no effect now; `code` is the HTTP status."""

    def __init__(self, message: str, code: int = 409) -> None:
        super().__init__(message)
        self.code = code


class Offer(NamedTuple):
    """Whether an action can be taken; if not, `why`."""

    allowed: bool
    why: str = ""


_JOB_COMMANDS: Mapping[str, tuple[JobAction, str]] = {
    "suspend": (JobAction.ABORT_JOB, "suspended"),
    "resume": (JobAction.RESUME_JOB, "resumed"),
}
_QUEUE_COMMANDS: Mapping[str, tuple[QueueAction, str]] = {
    "open": (QueueAction.OPEN, "opened"),
    "close": (QueueAction.CLOSE, "closed"),
}


async def job_offers(viewer: Viewer, job: Job) -> dict[str, Offer]:
    """Return the actions on a Job, each with whether it can be taken."""
    namespace, phase = job.metadata.namespace, current_phase(job)
    commands = await viewer.may("create", kinds.COMMAND, namespace)
    deletes = await viewer.may("delete", kinds.JOB, namespace)
    offers = {
        name: _offer(
            commands,
            f"create commands.bus.volcano.sh in namespace {namespace}",
            "" if transition_for(phase, action) else f"the job is {phase}",
        )
        for name, (action, _) in _JOB_COMMANDS.items()
    }
    return {**offers, "cancel": _offer(deletes, f"delete jobs.batch.volcano.sh in namespace {namespace}", "")}


async def queue_offers(viewer: Viewer, queue: Queue) -> dict[str, Offer]:
    """Return the actions on a queue, each with whether it can be taken."""
    state = queue.status.state
    commands = await viewer.may("create", kinds.COMMAND, QUEUE_COMMANDS_NAMESPACE)
    updates = await viewer.may("update", kinds.QUEUE)
    missing = "update queues.scheduling.volcano.sh" if commands else (
        f"create commands.bus.volcano.sh in namespace {QUEUE_COMMANDS_NAMESPACE}"
    )  # fmt: skip
    return {
        name: _offer(commands and updates, missing, _queue_reason(queue, state, action))
        for name, (action, _) in _QUEUE_COMMANDS.items()
    }


async def act_on_job(viewer: Viewer, action: str, namespace: str, name: str) -> str:
    """Carry out an action on a Job; returns what was done. Raises ActionError, ApiError, TransportError."""
    if action != "cancel" and action not in _JOB_COMMANDS:
        raise ActionError(f'"{action}" is no action on a Job; valid values: suspend, resume, cancel', 400)
    job = await viewer.client.get(kinds.JOB, name, namespace)
    assert isinstance(job, Job)
    phase = current_phase(job)
    if action == "cancel":
        await viewer.client.delete(kinds.JOB, name, namespace, DeleteOptions(uid=job.metadata.uid))
        return f"job {name} is being deleted; it was {phase}"
    command, done = _JOB_COMMANDS[action]
    if transition_for(phase, command) is None:
        raise ActionError(f"job {name} is {phase} and cannot be {done}; nothing changed")
    await viewer.client.command(kinds.JOB, job, command, namespace)
    return f"job {name} is being {done}; it was {phase}"


async def act_on_queue(viewer: Viewer, action: str, name: str) -> str:
    """Carry out an action on a queue; returns what was done. Raises ActionError, ApiError, TransportError."""
    if action not in _QUEUE_COMMANDS:
        raise ActionError(f'"{action}" is no action on a queue; valid values: open, close', 400)
    command, done = _QUEUE_COMMANDS[action]
    queue = await viewer.client.get(kinds.QUEUE, name)
    assert isinstance(queue, Queue)
    state = queue.status.state
    if reason := _queue_reason(queue, state, command):
        raise ActionError(f"{reason}; nothing changed")
    await viewer.client.command(kinds.QUEUE, queue, command, QUEUE_COMMANDS_NAMESPACE)
    return f"queue {name} is being {done}; it was {state or 'without a state'}"


def _queue_reason(queue: Queue, state: str, action: QueueAction) -> str:
    if action is QueueAction.CLOSE and queue.metadata.name == names.ROOT_QUEUE:
        return ROOT_CLOSE_MESSAGE
    return f"queue {queue.metadata.name} is {state or 'Open'}" if is_satisfied(state, action) else ""


def _offer(may: bool, right: str, reason: str) -> Offer:
    return Offer(False, f"you may not {right}") if not may else Offer(not reason, reason)
