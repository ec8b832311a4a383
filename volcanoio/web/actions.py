"""What a user may do on the page: suspend, resume and cancel Jobs, open and close queues.

Each is the request that `vcctl` makes, with the user's own credentials: admission and RBAC decide.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from volcanoio.compose.live.commands import (
    QUEUE_COMMANDS_NAMESPACE,
    NoEffectError,
    check_queue_action,
    command_job,
    command_queue,
)
from volcanoio.engine.jobs.state.transitions import transition_for
from volcanoio.engine.jobs.status.phases import current_phase
from volcanoio.engine.queues.transitions import QueueAction
from volcanoio.kube.requests import DeleteOptions
from volcanoio.model import kinds
from volcanoio.model.batch import Job, JobAction
from volcanoio.model.scheduling import Queue
from volcanoio.web.viewers import Viewer


class ActionError(Exception):
    """The action is unknown, or has no effect now; `code` is the HTTP status."""

    def __init__(self, message: str, code: int = 409) -> None:
        super().__init__(message)
        self.code = code


class Offer(NamedTuple):
    """Whether an action can be taken; if not, `why`."""

    allowed: bool
    why: str = ""


_JOB_COMMANDS: Mapping[str, JobAction] = {"suspend": JobAction.ABORT_JOB, "resume": JobAction.RESUME_JOB}
_QUEUE_COMMANDS: Mapping[str, QueueAction] = {"open": QueueAction.OPEN, "close": QueueAction.CLOSE}


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
        for name, action in _JOB_COMMANDS.items()
    }
    return {**offers, "cancel": _offer(deletes, f"delete jobs.batch.volcano.sh in namespace {namespace}", "")}


async def queue_offers(viewer: Viewer, queue: Queue) -> dict[str, Offer]:
    """Return the actions on a queue, each with whether it can be taken."""
    commands = await viewer.may("create", kinds.COMMAND, QUEUE_COMMANDS_NAMESPACE)
    updates = await viewer.may("update", kinds.QUEUE)
    missing = "update queues.scheduling.volcano.sh" if commands else (
        f"create commands.bus.volcano.sh in namespace {QUEUE_COMMANDS_NAMESPACE}"
    )  # fmt: skip
    return {
        name: _offer(commands and updates, missing, _queue_reason(queue, action))
        for name, action in _QUEUE_COMMANDS.items()
    }


async def act_on_job(viewer: Viewer, action: str, namespace: str, name: str) -> str:
    """Carry out an action on a Job; returns what was done. Raises ActionError, ApiError, TransportError."""
    if action != "cancel" and action not in _JOB_COMMANDS:
        raise ActionError(f'"{action}" is no action on a Job; valid values: suspend, resume, cancel', 400)
    job = await viewer.client.get(kinds.JOB, name, namespace)
    assert isinstance(job, Job)
    if action == "cancel":
        await viewer.client.delete(kinds.JOB, name, namespace, DeleteOptions(uid=job.metadata.uid))
        return f"job {name} is being deleted; it was {current_phase(job)}"
    try:
        return await command_job(viewer.client, job, _JOB_COMMANDS[action])
    except NoEffectError as error:
        raise ActionError(f"{error}; nothing changed") from None


async def act_on_queue(viewer: Viewer, action: str, name: str) -> str:
    """Carry out an action on a queue; returns what was done. Raises ActionError, ApiError, TransportError."""
    if action not in _QUEUE_COMMANDS:
        raise ActionError(f'"{action}" is no action on a queue; valid values: open, close', 400)
    queue = await viewer.client.get(kinds.QUEUE, name)
    assert isinstance(queue, Queue)
    try:
        return await command_queue(viewer.client, queue, _QUEUE_COMMANDS[action])
    except NoEffectError as error:
        raise ActionError(f"{error}; nothing changed") from None


def _queue_reason(queue: Queue, action: QueueAction) -> str:
    try:
        check_queue_action(queue, action)
    except NoEffectError as error:
        return str(error)
    return ""


def _offer(may: bool, right: str, reason: str) -> Offer:
    return Offer(False, f"you may not {right}") if not may else Offer(not reason, reason)
