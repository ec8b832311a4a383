"""Commands of users: which are waiting, which cannot be carried out and why, and how they go."""

from __future__ import annotations

from volcanoio.engine.jobs import status
from volcanoio.engine.jobs.draft import Draft
from volcanoio.engine.jobs.table import TARGETED, USER_ACTIONS, move_for
from volcanoio.framework.effects import Delete, Record
from volcanoio.model import kinds
from volcanoio.model.base import ObjectReference
from volcanoio.model.batch import Job, JobAction
from volcanoio.model.command import Command


def waiting(draft: Draft) -> list[Command]:
    """Commands that are not being deleted, oldest first."""
    found = (
        command
        for uid, command in draft.state.commands.items()
        if uid not in draft.state.deleting and command.metadata.deletion_timestamp is None
    )
    return sorted(found, key=lambda command: (command.metadata.creation_timestamp or "", command.metadata.name))


def unfit(command: Command, job: Job) -> str:
    """Why a Command cannot be carried out, "" when it can."""
    if command.action not in USER_ACTIONS:
        known = ", ".join(sorted(USER_ACTIONS))
        return f'command {command.metadata.name} has the unknown action "{command.action}"; known are: {known}'
    if command.target.uid and command.target.uid != job.metadata.uid:
        return f"command {command.metadata.name} was meant for an older job of this name (uid {command.target.uid})"
    if command.action in TARGETED:
        return f"command {command.action} names no task, as a Command cannot; delete the pods that are to be restarted"
    phase = status.current_phase(job)
    if move_for(phase, JobAction(command.action)) is None:
        return f"command {command.action} changes nothing while the job is {phase}"
    return ""


def removal(command: Command) -> Delete:
    """The deletion of a Command."""
    meta = command.metadata
    return Delete(resource=kinds.COMMAND.resource, namespace=meta.namespace, name=meta.name, uid=meta.uid)


def refuse_all(draft: Draft) -> None:
    """Delete Commands for a job that is not there or is being deleted, and say so."""
    commands = waiting(draft)
    for command in commands:
        target = command.target
        regarding = ObjectReference(
            api_version=target.api_version,
            kind=target.kind,
            namespace=command.metadata.namespace,
            name=target.name,
            uid=target.uid,
        )
        text = f"job {target.name} does not exist or is being deleted; command {command.action} is dropped"
        draft.beside.append(Record(regarding=regarding, type="Warning", reason="CommandIssued", message=text))
    draft.stage([removal(command) for command in commands])
