"""`Reconciler`: a controller whose plan follows from the observed objects alone, as in controller-runtime.

`keys` maps a change to the keys it concerns, reading the cache (controller-runtime: `EnqueueRequestsFromMapFunc`);
`reconcile` returns the writes that are due for a key. Changes of a key are taken together, one plan of a key is
carried out at a time, and a refused one is repeated after a back-off. An `Operator` is a reconciler with the `keys` and
rights of a controller that only creates objects which name its own as their controller.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from hashlib import blake2b
from itertools import count
from typing import Any, TypeAlias

import msgspec
from msgspec.structs import replace

from volcanoio.framework.backoff import Backoff
from volcanoio.framework.controller import Input, Reference, Rule, Step, View
from volcanoio.framework.effects import Create, Delete, Effect, Patch, Record, Stages, StartTimer
from volcanoio.framework.events import (
    Change,
    ControllerEvent,
    EffectFailed,
    EffectSucceeded,
    Observed,
    Synced,
    TimerFired,
)
from volcanoio.framework.objects import Objects
from volcanoio.model.base import ApiObject, ObjectReference
from volcanoio.model.kinds import Kind


class WriteEvents(msgspec.Struct, frozen=True):
    """Kubernetes Events about a write: (reason, message) on success, and (reason, message prefix) on refusal."""

    regarding: ObjectReference
    on_success: tuple[str, str] | None = None
    on_failure: tuple[str, str] | None = None


class Write(msgspec.Struct, frozen=True):
    """One write, and the Kubernetes Events that its outcome causes. Effects other than writes have no such Events."""

    effect: Effect
    events: WriteEvents | None = None


Stage: TypeAlias = tuple[Write, ...]


class Plan(msgspec.Struct, frozen=True):
    """What is due for a key. Writes of a stage run in parallel, a stage only if all before it succeeded.

    `events` are recorded at once. `requeue_at` (epoch seconds) is when the key is reconciled though nothing changed.
    With `requeue` it is reconciled again as soon as the plan is carried out: so a big key is done in pieces.
    `memory` is the next `ReconcileView.memory` of the key: what no object records, such as a time of observation.
    """

    stages: tuple[Stage, ...] = ()
    events: tuple[Record, ...] = ()
    requeue_at: float | None = None
    requeue: bool = False
    memory: Any = None


NO_CHANGES = Plan()


@dataclass(frozen=True, slots=True)
class WriteFailure:
    """A refused write: HTTP status, reason and message, and the effect."""

    code: int
    reason: str
    message: str
    effect: Create | Patch | Delete


class ReconcileView(View, frozen=True, kw_only=True):
    """What `reconcile` reads besides the key: the cache, the time, and how the last plan ended.

    While `is_backing_off`, writes other than of status wait for the end of the back-off that `failure` caused.
    `suffix` returns the end of a generated name; each call returns another one. `memory` is that of the last plan, None
    after a restart.
    """

    objects: Objects
    suffix: Callable[[], str]
    failure: WriteFailure | None = None
    is_backing_off: bool = False
    memory: Any = None


RECONCILE, REQUEUE, RETRY = "reconciler/reconcile", "reconciler/requeue", "reconciler/retry"
BACKOFF = Backoff(base=0.02, cap=30.0)
"""Delays of a key whose writes were refused, by consecutive refusals."""
_SUFFIX_LETTERS = "bcdfghjklmnpqrstvwxz2456789"
READ = ("get", "list", "watch")
_WRITES = (Create, Patch, Delete)

EffectTarget: TypeAlias = tuple[str, str, str]


class ReconcilerState(msgspec.Struct, frozen=True):
    """The state of one key.

    `is_queued`: its timer to reconcile is running; `is_dirty`: it changed while its writes were in flight. `failure` is
    the refusal that the last whole plan ended with, `refused` that of the plan in flight, `failures` counts them in a
    row. `write_events` are those of the writes in flight. `requeue`, `requeue_at` and `memory` are the plan's.
    """

    is_queued: bool = False
    is_dirty: bool = False
    is_backing_off: bool = False
    failure: WriteFailure | None = None
    refused: WriteFailure | None = None
    failures: int = 0
    requeue: bool = False
    requeue_at: float | None = None
    memory: Any = None
    write_events: Mapping[EffectTarget, WriteEvents] = {}


class Reconciler(ABC):
    """A level-triggered controller. `reads` are the kinds besides `primary` that it reads or writes.

    A key is reconciled `batch_period` seconds after a change of its objects, so that more changes are taken together.
    Nothing is reconciled before all kinds were listed; then all keys are, and again every `resync_period` seconds (0:
    never). With `is_lazy`, `reads` are not watched before a change of the primary kind `wakes` it.
    """

    name: str
    primary: Kind
    reads: tuple[Kind, ...] = ()
    batch_period: float = 0.0
    resync_period: float = 0.0
    is_lazy: bool = False
    writes: tuple[Rule, ...] = ()
    """The RBAC it needs beyond reading."""

    @abstractmethod
    def keys(self, event: Observed, objects: Objects) -> Iterable[str]:
        """Return the keys that a change concerns; the cache holds it already."""

    @abstractmethod
    def reconcile(self, key: str, view: ReconcileView) -> Plan:
        """Return what is due for a key."""

    def wakes(self, event: Observed) -> bool:
        """Return whether a change of its primary kind needs it; called until one does. Any object does."""
        return event.change is not Change.GONE

    def all_keys(self, objects: Objects, now: float) -> Iterable[str]:
        """Return the keys to reconcile when everything was listed: every object of the primary kind."""
        del now
        return sorted(objects.by_key(self.primary))

    def retry_delay(self, failures: int, refused: WriteFailure) -> float:
        """Return the seconds until a refused plan is repeated; `failures` counts consecutive refusals."""
        del refused
        return BACKOFF.delay(failures)

    @property
    def inputs(self) -> tuple[Input, ...]:
        """The primary kind."""
        return (Input(self.primary, _own_key),)

    @property
    def references(self) -> tuple[Reference, ...]:
        """What else it reads."""
        return tuple(map(Reference, self.reads))

    @property
    def rules(self) -> tuple[Rule, ...]:
        """The rights to read its kinds, and `writes`."""
        kinds = (self.primary, *self.reads)
        return (*(Rule(kind.group, (kind.plural,), READ) for kind in kinds), *self.writes)

    def start(self, key: str) -> ReconcilerState:  # noqa: ARG002 - the same for every key
        """Return the state of a key that is not reconciled yet."""
        return ReconcilerState()

    def reduce(self, state: ReconcilerState, event: ControllerEvent, view: View) -> Step[ReconcilerState]:
        """Queue the key after a change, reconcile when it is its turn, and follow the outcomes of writes."""
        match event:
            case Observed():
                return self._queue(state, view, self.batch_period)
            case Synced():
                return self._queue(state, view, 0.0)
            case TimerFired(name="reconciler/requeue"):
                return self._queue(replace(state, requeue_at=None), view, 0.0)
            case TimerFired(name="reconciler/retry"):
                return self._queue(replace(state, is_backing_off=False), view, 0.0)
            case TimerFired(name="reconciler/reconcile"):
                state = replace(state, is_queued=False)
                if not view.synced:
                    return Step(state)  # every key is queued again when all is listed
                return Step(replace(state, is_dirty=True)) if _is_writing(view) else self._reconcile(state, event, view)
            case TimerFired():  # started by a plan
                return self._queue(state, view, 0.0)
            case EffectSucceeded() | EffectFailed():
                return self._follow(state, event, view)
            case _:
                return Step(state)

    def _queue(self, state: ReconcilerState, view: View, delay: float) -> Step[ReconcilerState]:
        if _is_writing(view):
            return Step(state if state.is_dirty else replace(state, is_dirty=True))
        if state.is_queued:
            return Step(state)
        return Step(replace(state, is_queued=True), ((StartTimer(name=RECONCILE, due=view.now + delay),),))

    def _reconcile(self, state: ReconcilerState, event: ControllerEvent, view: View) -> Step[ReconcilerState]:
        assert view.objects is not None
        suffix = _suffixes(f"{self.name}/{view.key}/{event.seq}/{view.now}")
        plan = self.reconcile(
            view.key,
            ReconcileView(
                key=view.key,
                now=view.now,
                synced=view.synced,
                lookup=view.lookup,
                objects=view.objects,
                suffix=suffix,
                failure=state.failure,
                is_backing_off=state.is_backing_off,
                memory=state.memory,
            ),
        )
        local: list[Effect] = [replace(record, component=self.name) for record in plan.events]
        due = plan.requeue_at
        if due is not None and (state.requeue_at is None or not view.now < state.requeue_at <= due):
            state = replace(state, requeue_at=due)
            local.append(StartTimer(name=REQUEUE, due=due))
        write_events = {
            _target(write.effect): write.events
            for stage in plan.stages
            for write in stage
            if write.events is not None and isinstance(write.effect, _WRITES)
        }
        state = replace(state, requeue=plan.requeue, memory=plan.memory, write_events=write_events)
        stages = tuple(tuple(write.effect for write in stage) for stage in plan.stages if stage)
        if any(isinstance(effect, _WRITES) for stage in stages for effect in stage):
            return Step(state, (tuple(local), *stages) if local else stages)
        finished = self._finish(state, view, local)
        return Step(finished.state, (*finished.stages, *stages))

    def _follow(
        self, state: ReconcilerState, event: EffectSucceeded | EffectFailed, view: View
    ) -> Step[ReconcilerState]:
        """Record the Kubernetes Event of a write's outcome; after the last one of a plan, end the plan."""
        if not isinstance(effect := view.ended, _WRITES):
            return Step(state)  # of an earlier life of the key, or no write
        events = state.write_events.get(_target(effect))
        local: list[Effect] = []
        if isinstance(event, EffectFailed):
            if state.refused is None:
                refused = WriteFailure(event.code, event.reason, event.message, effect)
                state = replace(state, refused=refused)
            if events is not None and events.on_failure is not None:
                reason, prefix = events.on_failure
                local.append(self._record(events.regarding, "Warning", reason, f"{prefix}{event.message}"))
        elif events is not None and events.on_success is not None:
            local.append(self._record(events.regarding, "Normal", *events.on_success))
        if _is_writing(view):
            return Step(state, (tuple(local),) if local else ())
        return self._finish(state, view, local)

    def _record(self, regarding: ObjectReference, type_: str, reason: str, message: str) -> Record:
        return Record(regarding=regarding, type=type_, reason=reason, message=message, component=self.name)

    def _finish(self, state: ReconcilerState, view: View, local: list[Effect]) -> Step[ReconcilerState]:
        """End a plan: back off after a refusal; forget a key without object and without anything to come."""
        is_dirty, refused, is_due = state.is_dirty, state.refused, False
        state = replace(state, is_dirty=False, refused=None, write_events={})
        if not state.is_backing_off:  # else the end of the back-off is set already
            if refused is not None:
                failures = state.failures + 1
                state = replace(state, failure=refused, is_backing_off=True, failures=failures)
                local.append(StartTimer(name=RETRY, due=view.now + self.retry_delay(failures, refused)))
                is_due = True  # its status may have to report the refusal
            else:
                is_due = state.requeue or state.failure is not None
                state = replace(state, failure=None, failures=0)
        if (is_due or is_dirty) and not state.is_queued:
            state = replace(state, is_queued=True)
            local.append(StartTimer(name=RECONCILE, due=view.now + (0.0 if is_due else self.batch_period)))
        stages: Stages = (tuple(local),) if local else ()
        return Step(None if self._is_over(state, view) else state, stages)

    def _is_over(self, state: ReconcilerState, view: View) -> bool:
        if state.is_queued or state.is_backing_off or state.requeue_at is not None:
            return False
        return view.objects is not None and view.key not in view.objects.by_key(self.primary)


def _own_key(obj: ApiObject) -> Iterable[str]:
    return (obj.metadata.key,)


def _is_writing(view: View) -> bool:
    return any(isinstance(effect, _WRITES) for effect in view.in_flight.values())


def _target(effect: Create | Patch | Delete) -> EffectTarget:
    """Return what identifies a write among those of a plan."""
    if isinstance(effect, Create):
        meta = effect.manifest["metadata"]
        return "create", effect.resource, f"{meta.get('namespace', '')}/{meta['name']}"
    return type(effect).__name__, effect.resource, f"{effect.namespace}/{effect.name}"


def _suffixes(seed: str) -> Callable[[], str]:
    """Return a function whose calls return five letters that follow from the seed."""
    numbers = count()

    def suffix() -> str:
        digest = blake2b(f"{seed}/{next(numbers)}".encode(), digest_size=5).digest()
        return "".join(_SUFFIX_LETTERS[byte % len(_SUFFIX_LETTERS)] for byte in digest)

    return suffix


def in_slow_start(writes: Iterable[Write]) -> tuple[Stage, ...]:
    """Return stages of 1, 2, 4, … writes: a refusal that concerns all of them stops before all were sent."""
    left = list(writes)
    stages: list[Stage] = []
    size = 1
    while left:
        stages.append(tuple(left[:size]))
        left = left[size:]
        size *= 2
    return tuple(stages)
