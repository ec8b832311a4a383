"""Commands that act on existing jobs and queues: each name is handled by itself, and what was done is printed.

The exit code is that of the worst failure: a failure for one name does not stop the others.
"""

from __future__ import annotations

import sys
from collections.abc import Awaitable, Callable, Iterable, Mapping
from typing import Any

import click

from volcanoio.cli.connection import Cluster, reporting_api_errors
from volcanoio.cli.terminal import CommandError, ExitCode, UsageError
from volcanoio.compose.live.commands import NoEffectError, RootQueueError, closed_parent, command_job, command_queue
from volcanoio.engine.jobs.status.phases import current_phase
from volcanoio.engine.queues.transitions import QueueAction
from volcanoio.kube.requests import DeleteOptions
from volcanoio.model import kinds
from volcanoio.model.base import Manifest
from volcanoio.model.batch import FINISHED_PHASES, Job, JobAction, JobPhase
from volcanoio.model.scheduling import Queue

OPEN, CLOSE = QueueAction.OPEN, QueueAction.CLOSE
SUSPEND, RESUME = JobAction.ABORT_JOB, JobAction.RESUME_JOB
RESTART, TERMINATE = JobAction.RESTART_JOB, JobAction.TERMINATE_JOB
_REACHED: Mapping[JobAction, frozenset[JobPhase]] = {
    SUSPEND: frozenset({JobPhase.ABORTING, JobPhase.ABORTED}),
    RESUME: frozenset({JobPhase.PENDING, JobPhase.RUNNING, JobPhase.RESTARTING}),
    TERMINATE: frozenset({JobPhase.TERMINATING, JobPhase.TERMINATED}),
}
"""Phases in which a job is already as an action would make it."""


async def for_each(wanted: Iterable[str], act: Callable[[str], Awaitable[str]]) -> int:
    """Act on each name and print the sentence that `act` returns; returns the exit code."""
    code = ExitCode.OK
    for name in dict.fromkeys(wanted):
        try:
            with reporting_api_errors():
                print(await act(name), flush=True)
        except CommandError as error:
            code = max(code, print_failure(error))
            if code is ExitCode.UNREACHABLE:
                break
    return code


def print_failure(error: CommandError) -> ExitCode:
    """Print the error of one of several objects to stderr; returns its exit code."""
    program = click.get_current_context().find_root().info_name
    print(f"{program}: {error}", file=sys.stderr, flush=True)
    return ExitCode(error.code)


async def command_jobs(cluster: Cluster, jobs: Iterable[str], action: JobAction) -> int:
    """Ask the controllers, by a Command object per job, to suspend, resume, restart or terminate it."""

    async def act(name: str) -> str:
        job = await cluster.get(kinds.JOB, name)
        assert isinstance(job, Job)
        phase = current_phase(job)
        if phase in _REACHED.get(action, ()):
            return f"job {name} is {phase}; nothing changed"
        try:
            return await command_job(cluster.client, job, action)
        except NoEffectError as error:
            raise CommandError(f"{error}: {_next_step(name, phase)}") from None

    return await for_each(jobs, act)


def _next_step(name: str, phase: JobPhase) -> str:
    """Return what to do with a job in whose phase an action is not possible."""
    if phase in FINISHED_PHASES:
        return "a job that has ended does not start again; submit it once more under another name"
    if phase in _REACHED[SUSPEND]:
        return f"it is suspended; start it with: volcanoio resume {name}"
    return f"it is ending; wait until it has: volcanoio wait {name}"


async def cancel_jobs(cluster: Cluster, jobs: Iterable[str]) -> int:
    """Delete jobs with their pods."""

    async def act(name: str) -> str:
        job = await cluster.get(kinds.JOB, name)
        assert isinstance(job, Job)
        await cluster.client.delete(kinds.JOB, name, job.metadata.namespace, DeleteOptions(uid=job.metadata.uid))
        return f"job {name} is cancelled: it and its pods are deleted; it was {current_phase(job)}"

    return await for_each(jobs, act)


FIELDS: Mapping[str, tuple[str, ...]] = {
    "weight": ("weight",),
    "parent": ("parent",),
    "capability": ("capability",),
    "deserved": ("deserved",),
    "guarantee": ("guarantee", "resource"),
    "priority": ("priority",),
    "reclaimable": ("reclaimable",),
}
"""Fields of a queue's spec by option."""


def _spec(given: Mapping[str, Any]) -> Manifest:
    """Return the spec of the options that are given."""
    spec: Manifest = {}
    for option, (field, *inner) in FIELDS.items():
        if given[option] is not None:
            spec[field] = {inner[0]: given[option]} if inner else given[option]
    return spec


async def create_queues(cluster: Cluster, queues: Iterable[str], given: Mapping[str, Any]) -> int:
    """Create queues with these options."""

    async def act(name: str) -> str:
        manifest = {
            "apiVersion": kinds.QUEUE.api_version,
            "kind": kinds.QUEUE.kind,
            "metadata": {"name": name},
            "spec": _spec(given),
        }
        await cluster.client.create(kinds.QUEUE, manifest)
        return f"queue {name} is created"

    return await for_each(queues, act)


async def set_queues(cluster: Cluster, queues: Iterable[str], given: Mapping[str, Any]) -> int:
    """Change the given fields of queues; amounts of other resources stay."""
    if not (spec := _spec(given)):
        raise UsageError(f"nothing to set: give one of {', '.join(f'--{option}' for option in FIELDS)}")

    async def act(name: str) -> str:
        before = await cluster.get(kinds.QUEUE, name)
        after = await cluster.client.patch(kinds.QUEUE, name, {"spec": spec})
        if after["metadata"]["resourceVersion"] == before.metadata.resource_version:
            return f"queue {name} has these values already; nothing changed"
        return f"queue {name} is changed"

    return await for_each(queues, act)


async def delete_queues(cluster: Cluster, queues: Iterable[str]) -> int:
    """Delete queues; the admission refuses those that others need."""

    async def act(name: str) -> str:
        queue = await cluster.get(kinds.QUEUE, name)
        await cluster.client.delete(kinds.QUEUE, name, options=DeleteOptions(uid=queue.metadata.uid))
        return f"queue {name} is deleted"

    return await for_each(queues, act)


async def command_queues(cluster: Cluster, queues: Iterable[str], action: QueueAction) -> int:
    """Ask the controllers, by a Command object per queue, to open or close it."""

    async def act(name: str) -> str:
        queue = await cluster.get(kinds.QUEUE, name)
        assert isinstance(queue, Queue)
        try:
            done = await command_queue(cluster.client, queue, action)
        except RootQueueError as error:
            raise UsageError(error) from None
        except NoEffectError as error:
            return f"{error}; nothing changed"
        parent = await closed_parent(cluster.client, queue) if action is OPEN else ""
        return f"{done}; it opens once its parent {parent} is open: volcanoio queue open {parent}" if parent else done

    return await for_each(queues, act)
