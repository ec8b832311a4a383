"""Commands that act on existing jobs and queues: each name is handled by itself, and what was done is printed.

The exit code is that of the worst failure: a failure for one name does not stop the others.
"""

from __future__ import annotations

import sys
from collections.abc import Awaitable, Callable, Iterable, Mapping
from typing import Any, NamedTuple

import click

from volcanoio.cli.connection import Cluster, reporting_api_errors
from volcanoio.cli.terminal import CommandError, ExitCode, UsageError
from volcanoio.engine.jobs.state.transitions import transition_for
from volcanoio.engine.jobs.status.phases import current_phase
from volcanoio.engine.queues.transitions import ROOT_CLOSE_MESSAGE, QueueAction, is_satisfied
from volcanoio.kube.client import Client
from volcanoio.kube.errors import NotFound
from volcanoio.kube.requests import DeleteOptions
from volcanoio.model import kinds, names
from volcanoio.model.base import Manifest
from volcanoio.model.batch import FINISHED_PHASES, Job, JobAction, JobPhase
from volcanoio.model.scheduling import Queue


class Verb(NamedTuple):
    """How an action on a job is named, and the phases in which the job is already as wanted."""

    action: JobAction
    done: str
    reached: frozenset[JobPhase] = frozenset()


OPEN, CLOSE = QueueAction.OPEN, QueueAction.CLOSE
SUSPEND = Verb(JobAction.ABORT_JOB, "suspended", frozenset({JobPhase.ABORTING, JobPhase.ABORTED}))
RESUME = Verb(JobAction.RESUME_JOB, "resumed", frozenset({JobPhase.PENDING, JobPhase.RUNNING, JobPhase.RESTARTING}))
RESTART = Verb(JobAction.RESTART_JOB, "restarted")
TERMINATE = Verb(JobAction.TERMINATE_JOB, "terminated", frozenset({JobPhase.TERMINATING, JobPhase.TERMINATED}))


async def for_each(wanted: Iterable[str], act: Callable[[str], Awaitable[str]]) -> int:
    """Act on each name and print the sentence that `act` returns; returns the exit code."""
    code = ExitCode.OK
    for name in dict.fromkeys(wanted):
        try:
            with reporting_api_errors():
                print(await act(name), flush=True)
        except CommandError as error:
            program = click.get_current_context().find_root().info_name
            print(f"{program}: {error}", file=sys.stderr, flush=True)
            code = max(code, ExitCode(error.code))
            if code is ExitCode.UNREACHABLE:
                break
    return code


async def command_jobs(cluster: Cluster, jobs: Iterable[str], verb: Verb) -> int:
    """Ask the controllers, by a Command object per job, to suspend, resume, restart or terminate it."""

    async def act(name: str) -> str:
        job = await cluster.get(kinds.JOB, name)
        assert isinstance(job, Job)
        phase = current_phase(job)
        if phase in verb.reached:
            return f"job {name} is {phase}; nothing changed"
        if transition_for(phase, verb.action) is None:
            raise CommandError(_refusal(name, phase, verb))
        await cluster.client.command(kinds.JOB, job, verb.action, job.metadata.namespace)
        return f"job {name} is being {verb.done}; it was {phase}"

    return await for_each(jobs, act)


def _refusal(name: str, phase: JobPhase, verb: Verb) -> str:
    text = f"job {name} is {phase} and cannot be {verb.done}"
    if phase in FINISHED_PHASES:
        return f"{text}: a job that has ended does not start again; submit it once more under another name"
    if phase in SUSPEND.reached:
        return f"{text}: it is suspended; start it with: volcanoio resume {name}"
    return f"{text}: it is ending; wait until it has: volcanoio wait {name}"


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
    """Delete queues; admission decides whether it may be."""

    async def act(name: str) -> str:
        queue = await cluster.get(kinds.QUEUE, name)
        await cluster.client.delete(kinds.QUEUE, name, options=DeleteOptions(uid=queue.metadata.uid))
        return f"queue {name} is deleted"

    return await for_each(queues, act)


async def command_queues(cluster: Cluster, queues: Iterable[str], action: QueueAction) -> int:
    """Ask the controllers, by a Command object per queue, to open or close it."""
    done = "opened" if action is QueueAction.OPEN else "closed"

    async def act(name: str) -> str:
        if action is QueueAction.CLOSE and name == names.ROOT_QUEUE:
            raise UsageError(ROOT_CLOSE_MESSAGE)
        queue = await cluster.get(kinds.QUEUE, name)
        assert isinstance(queue, Queue)
        state = queue.status.state
        if is_satisfied(state, action):
            return f"queue {name} is {state}; nothing changed"
        await cluster.client.command(kinds.QUEUE, queue, action, "default")
        parent = await closed_parent(cluster.client, queue) if action is QueueAction.OPEN else ""
        hint = f"; it opens once its parent {parent} is open: volcanoio queue open {parent}" if parent else ""
        return f"queue {name} is being {done}; it was {state or 'without a state'}{hint}"

    return await for_each(queues, act)


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
