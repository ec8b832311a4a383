"""The effects the queue controller asks for."""

from __future__ import annotations

from typing import Any

from volcanoio.engine.queues.state import FIELDS, QueueState
from volcanoio.framework.effects import Delete, Patch, Record
from volcanoio.framework.operators import event
from volcanoio.model import kinds, names
from volcanoio.model.command import Command
from volcanoio.model.scheduling import Queue

WARNING, NORMAL = "Warning", "Normal"


def status(queue: Queue, state: QueueState, phase: str) -> Patch:
    """The queue's state and counts, computed from the version that we know."""
    content: dict[str, Any] = {"state": phase, **{field: state.count(field) for field in FIELDS}}
    return Patch(
        resource=kinds.QUEUE.resource,
        namespace="",
        name=queue.metadata.name,
        subresource="status",
        patch={"status": content},
        uid=queue.metadata.uid,
        resource_version=queue.metadata.resource_version,
    )


def parent(queue: Queue) -> Patch:
    """Hang a queue that names no parent under the root."""
    return _patch(queue, {"spec": {"parent": names.ROOT_QUEUE}})


def closed_by_parent(queue: Queue, value: bool) -> Patch:
    """Note whether the queue is closed because its parent is, and so opens with it."""
    return _patch(queue, {"metadata": {"annotations": {names.CLOSED_BY_PARENT: "true" if value else "false"}}})


def consumed(command: Command) -> Delete:
    """Take a Command away: it is done, or can never be."""
    meta = command.metadata
    return Delete(resource=kinds.COMMAND.resource, namespace=meta.namespace, name=meta.name, uid=meta.uid)


def told(queue: Queue, type_: str, reason: str, message: str) -> Record:
    """An Event on the queue."""
    return event(kinds.QUEUE, queue, reason, message, type_=type_)


def _patch(queue: Queue, content: dict[str, Any]) -> Patch:
    meta = queue.metadata
    return Patch(resource=kinds.QUEUE.resource, namespace="", name=meta.name, patch=content, uid=meta.uid)
