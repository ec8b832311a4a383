"""Sends the decisions of a cycle: binds to the binder, evictions to the evictor, all others to the executor.

`BindReporter` records the Kubernetes Events about the outcomes of binds (Volcano: pkg/scheduler/cache/cache.go).
"""

from __future__ import annotations

import itertools
from collections.abc import Coroutine, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import msgspec
from anyio.abc import TaskGroup

from volcanoio.bus.event_bus import Batch
from volcanoio.engine.scheduling.cluster.pod_fields import scheduler_of_single
from volcanoio.engine.scheduling.cluster.state import effect_key
from volcanoio.framework.effects import Create, Patch, Record
from volcanoio.framework.scheduling_effects import BindBatch, Evict, Question, SchedulerEffect
from volcanoio.framework.scheduling_events import BindDone, BindOutcome, BindRefused
from volcanoio.kube.client import Client
from volcanoio.kube.effect_executor import Executor
from volcanoio.kube.event_recorder import EventRecorder
from volcanoio.model import kinds
from volcanoio.model.base import ObjectReference

CONTROLLER = "scheduler"
"""Controller name in the outcomes of the scheduler's writes."""


class Binder(Protocol):
    """The methods of `kube.Binder` that the scheduler uses."""

    def submit(self, batch: BindBatch, cause: int = 0) -> None:
        """Send a gang's binds, without waiting."""
        ...


class Evictor(Protocol):
    """The methods of `kube.Evictor` that the scheduler uses."""

    def evict(self, effect: Evict, cause: int = 0) -> Coroutine[Any, Any, None]:
        """Evict one pod."""
        ...


class Asker(Protocol):
    """The methods of `plugin_io.QuestionHost` that the scheduler uses."""

    async def answer(self, questions: Sequence[Question]) -> None:
        """Ask questions and publish the answers; returns within the questions' limits."""
        ...

    async def notify(self, notice: Question) -> None:
        """Post a notification without waiting for the outcome."""
        ...


@dataclass(frozen=True, slots=True)
class Writers:
    """The writers of a scheduler; `client` creates the standard queues at its start.

    Without `asker`, questions of plugins get their default answers.
    """

    binder: Binder
    evictor: Evictor
    executor: Executor
    client: Client
    asker: Asker | None = None


class Dispatcher:
    """Sends decisions in order and without waiting; numbers each write."""

    def __init__(self, writers: Writers, tasks: TaskGroup) -> None:
        self._writers = writers
        self._tasks = tasks
        self._numbers = itertools.count(1)

    def send(self, decisions: Iterable[SchedulerEffect], cause: int) -> None:
        """Send decisions; outcomes have `cause` (the seq of the event that contains the decisions)."""
        for effect in decisions:
            match effect:
                case BindBatch():
                    self._writers.binder.submit(effect, cause)
                case Evict():
                    self._tasks.start_soon(self._writers.evictor.evict, effect, cause)
                case Question():
                    if self._writers.asker is not None:
                        self._tasks.start_soon(self._writers.asker.notify, effect)
                case Patch(resource=resource, namespace=namespace, name=name):
                    self._write(effect_key(resource, namespace, name), effect, cause)
                case Create(resource=resource, manifest=manifest):
                    meta = manifest.get("metadata", {})
                    self._write(effect_key(resource, meta.get("namespace", ""), meta.get("name", "")), effect, cause)
                case Record(regarding=about):
                    kind = kinds.named(about.api_version, about.kind)
                    resource = kind.resource if kind else about.kind
                    self._write(effect_key(resource, about.namespace, about.name), effect, cause)

    def _write(self, key: str, effect: Patch | Create | Record, cause: int) -> None:
        numbered = msgspec.structs.replace(effect, id=next(self._numbers))
        self._writers.executor.submit(CONTROLLER, key, ((numbered,),), cause)


class BindReporter:
    """Subscriber of the scheduler's bus that records Events about the outcomes of binds."""

    def __init__(self, recorder: EventRecorder) -> None:
        self._recorder = recorder

    def __call__(self, batch: Batch) -> None:
        """Handle published events; only outcomes of binds matter."""
        for event in batch:
            if isinstance(event, BindDone):
                text = f"Successfully assigned {event.namespace}/{event.name} to {event.node}"
                self._record(event, "Normal", "Scheduled", text)
            elif isinstance(event, BindRefused):
                text = f"failed to bind to node {event.node}: {event.message}"
                self._record(event, "Warning", "FailedScheduling", text)

    def _record(self, outcome: BindOutcome, type_: str, reason: str, message: str) -> None:
        pod = ObjectReference(
            api_version=kinds.POD.api_version,
            kind=kinds.POD.kind,
            namespace=outcome.namespace,
            name=outcome.name,
            uid=outcome.uid,
        )
        component = scheduler_of_single(outcome.group)
        self._recorder.record(Record(regarding=pod, type=type_, reason=reason, message=message, component=component))
