"""Sends the decisions of a cycle: binds to the binder, evictions to the evictor, all others to the executor.

`BindReporter` records the Kubernetes Events about the outcomes of binds (Volcano: pkg/scheduler/cache/cache.go).
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Protocol

import anyio
import msgspec
from anyio.abc import TaskGroup

from volcanoio.bus.event_bus import Batch
from volcanoio.engine.scheduling.cluster.pod_fields import scheduler_of_single
from volcanoio.engine.scheduling.cluster.state import effect_key
from volcanoio.framework.arguments import pluralize
from volcanoio.framework.effects import Create, Patch, Record
from volcanoio.framework.scheduling_effects import BindBatch, Evict, Question, SchedulerEffect
from volcanoio.framework.scheduling_events import BindDone, BindOutcome, BindRefused
from volcanoio.kube.binder import ENDING
from volcanoio.kube.client import Client
from volcanoio.kube.clock import Clock
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

    def submit(self, effect: Evict, cause: int = 0) -> None:
        """Evict one pod, without waiting."""
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
                    self._writers.evictor.submit(effect, cause)
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


COLLECT_SECONDS = 1.0
"""Time for which the binds of a PodGroup are collected for one Event."""
_MAX_LISTED_LENGTH = 900
"""Characters of a message in which pods are listed; the others are counted."""


class BindReporter:
    """Subscriber of the scheduler's bus that records Events about the outcomes of binds; `run` records collected ones.

    Volcano writes an Event about every pod. Here the pods of a PodGroup that are bound within COLLECT_SECONDS are
    listed in one Event about the PodGroup; pods without PodGroup, and refused binds, have Events of their own.
    `reference_of` returns the PodGroup of a key, None if there is none.
    """

    def __init__(
        self, recorder: EventRecorder, *, clock: Clock, reference_of: Callable[[str], ObjectReference | None]
    ) -> None:
        self._recorder = recorder
        self._clock = clock
        self._reference_of = reference_of
        self._collected: dict[str, list[BindDone]] = {}
        self._wake = anyio.Event()

    def __call__(self, batch: Batch) -> None:
        """Handle published events; only outcomes of binds matter."""
        for event in batch:
            if isinstance(event, BindDone):
                if scheduler_of_single(event.group):
                    self._record(event, "Normal", "Scheduled", _assigned([event]))
                else:
                    self._collected.setdefault(event.group, []).append(event)
                    self._wake.set()
            elif isinstance(event, BindRefused) and event.reason != ENDING:  # the next process binds these
                text = f"failed to bind to node {event.node}: {event.message}"
                self._record(event, "Warning", "FailedScheduling", text)

    async def run(self) -> None:
        """Record the collected binds, until cancelled."""
        while True:
            await self._wake.wait()
            await self._clock.sleep(COLLECT_SECONDS)
            self._wake = anyio.Event()
            self.flush()

    def flush(self) -> None:
        """Record all collected binds now."""
        collected, self._collected = self._collected, {}
        for group, bound in collected.items():
            if (regarding := self._reference_of(group)) is not None:
                text = _assigned(bound)
                self._recorder.record(Record(regarding=regarding, type="Normal", reason="Scheduled", message=text))

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


def _assigned(bound: Sequence[BindDone]) -> str:
    """Return Volcano's message about bound pods: all of them, or how many more there are."""
    text = ""
    for number, event in enumerate(sorted(bound, key=lambda event: (len(event.name), event.name))):
        part = f"{', ' if number else ''}{event.namespace}/{event.name} to {event.node}"
        if number and len(text) + len(part) > _MAX_LISTED_LENGTH:
            return f"Successfully assigned {text} and {pluralize(len(bound) - number, 'more pod')}"
        text += part
    return f"Successfully assigned {text}"
