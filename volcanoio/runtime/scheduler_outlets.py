"""Where the decisions of a cycle go: binds to the binder, evictions to the evictor, all else to the executor."""

from __future__ import annotations

import itertools
from collections.abc import Coroutine, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import msgspec
from anyio.abc import TaskGroup

from volcanoio.engine.scheduling.cluster import effect_key
from volcanoio.framework.effects import Create, Patch, Record, Stages
from volcanoio.framework.scheduling_effects import BindBatch, Evict, Question, SchedulerEffect
from volcanoio.kube.client import Client
from volcanoio.model import kinds

CONTROLLER = "scheduler"
"""The name under which outcomes of the scheduler's writes come back."""


class Binder(Protocol):
    """What the scheduler uses of `kube.Binder`."""

    def submit(self, batch: BindBatch, cause: int = 0) -> None:
        """Send a gang's binds, without waiting."""
        ...


class Evictor(Protocol):
    """What the scheduler uses of `kube.Evictor`."""

    def evict(self, effect: Evict, cause: int = 0) -> Coroutine[Any, Any, None]:
        """Evict one pod."""
        ...


class Asker(Protocol):
    """What the scheduler uses of `runtime.asks.AskHost`."""

    async def answer(self, questions: Sequence[Question]) -> None:
        """Publish the answers; returns within the questions' limits."""
        ...

    async def tell(self, notice: Question) -> None:
        """Post something nobody waits for."""
        ...


class Executor(Protocol):
    """What the scheduler uses of `kube.EffectExecutor`."""

    def submit(self, controller: str, key: str, stages: Stages, cause: int = 0) -> None:
        """Carry out the stages of one step, without waiting."""
        ...


@dataclass(frozen=True, slots=True)
class Outlets:
    """The edge that a scheduler writes through; `client` is for the queues it makes at its start.

    Without `asker` questions of plugins have their defaults for answers.
    """

    binder: Binder
    evictor: Evictor
    executor: Executor
    client: Client
    asker: Asker | None = None


class Dispatcher:
    """Sends decisions in their order and without waiting; each write is numbered."""

    def __init__(self, outlets: Outlets, tasks: TaskGroup) -> None:
        self._outlets = outlets
        self._tasks = tasks
        self._numbers = itertools.count(1)

    def send(self, decisions: Iterable[SchedulerEffect], cause: int) -> None:
        """Send; outcomes come back with `cause` (the seq of the event that holds the decisions)."""
        for effect in decisions:
            match effect:
                case BindBatch():
                    self._outlets.binder.submit(effect, cause)
                case Evict():
                    self._tasks.start_soon(self._outlets.evictor.evict, effect, cause)
                case Question():
                    if self._outlets.asker is not None:
                        self._tasks.start_soon(self._outlets.asker.tell, effect)
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
        self._outlets.executor.submit(CONTROLLER, key, ((numbered,),), cause)
