"""Host of one controller: events to keys, reductions, effects in flight, timers and failed reducers.

A reducer that raises is reported with the last events of its key, and the key is rebuilt from the cached objects after
a back-off.
"""

from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from itertools import count
from typing import Any

import msgspec

from volcanoio.engine.hosting.object_cache import ObjectCache, References
from volcanoio.framework.backoff import Backoff
from volcanoio.framework.controller import Controller, Input, View
from volcanoio.framework.effects import (
    Ask,
    CheckEndpoint,
    Create,
    Delete,
    Effect,
    Notify,
    Patch,
    Stages,
    StartTimer,
    StopTimer,
)
from volcanoio.framework.events import (
    Answered,
    Change,
    ControllerEvent,
    EffectFailed,
    EffectSucceeded,
    Notified,
    Observed,
    PoliciesLoaded,
    Relisting,
    Synced,
    TimerFired,
)
from volcanoio.framework.lifecycle import PolicyRegistry
from volcanoio.framework.objects import Objects
from volcanoio.framework.reconciler import Reconciler
from volcanoio.model.base import ApiObject


class Dispatch(msgspec.Struct, frozen=True, kw_only=True):
    """The stages of one step of one key, every effect with its id.

    `step` numbers the steps of this process, `cause` is the seq of the reduced event and `at` its time.
    """

    controller: str
    key: str
    step: int
    stages: Stages
    cause: int
    at: float


class HistoryEntry(msgspec.Struct, frozen=True, array_like=True):
    """One event in a fault report."""

    seq: int
    at: float
    event: str
    detail: str


class InvariantError(Exception):
    """A reducer raised: a bug of ours or of the controller's author, never of the cluster.

    `history` has the key's last events, the failing one last; at `retry_at` the key is rebuilt from the cache (epoch
    seconds). The reducer's own exception is the `__cause__`.
    """

    def __init__(
        self, controller: str, key: str, history: tuple[HistoryEntry, ...], retry_at: float, error: str
    ) -> None:
        super().__init__(f"{controller}: the reducer of {key} raised {error}; the key is rebuilt at {retry_at:.3f}")
        self.controller = controller
        self.key = key
        self.history = history
        self.retry_at = retry_at


HISTORY_LENGTH = 20
FAULT_BACKOFF = Backoff(base=1.0, cap=60.0)
"""Delays until a key whose reducer raised is rebuilt, by consecutive faults."""
FAULT_RESET = 600.0
"""Seconds without a fault after which the back-off is reset."""

_WITH_OUTCOME = (Create, Patch, Delete, Ask, Notify, CheckEndpoint)


@dataclass(slots=True)
class KeyRecord:
    """One key: the controller's state (None: unknown), effects in flight by id, its timers, its last events.

    A key with `is_broken` is not reduced until it is rebuilt; `fault_count` counts consecutive faults.
    """

    state: Any = None
    in_flight: dict[int, Effect] = field(default_factory=dict)
    timers: set[str] = field(default_factory=set)
    _history: deque[tuple[int, float, str, tuple[object, ...]]] = field(
        default_factory=lambda: deque(maxlen=HISTORY_LENGTH)
    )
    is_broken: bool = False
    fault_count: int = 0
    last_fault: float = float("-inf")

    @property
    def is_idle(self) -> bool:
        """Whether the record can be removed."""
        return self.state is None and not self.in_flight and not self.is_broken

    def add_effect(self, effect: Effect) -> None:
        """Record an effect that is about to be carried out, if it has an outcome."""
        if isinstance(effect, _WITH_OUTCOME):
            self.in_flight[effect.id] = effect
        elif isinstance(effect, StartTimer):
            self.timers.add(effect.name)
        elif isinstance(effect, StopTimer):
            self.timers.discard(effect.name)

    def remove_outcome(self, event: ControllerEvent) -> Effect | None:
        """Remove what an outcome event ends, before the controller gets it; returns the write that ended."""
        match event:
            case EffectSucceeded():
                return self.in_flight.pop(event.effect_id, None)
            case EffectFailed():
                for effect_id in event.dropped:
                    self.in_flight.pop(effect_id, None)
                return self.in_flight.pop(event.effect_id, None)
            case Answered():
                for effect_id, effect in self.in_flight.items():
                    if isinstance(effect, Ask) and effect.question == event.question:
                        del self.in_flight[effect_id]
                        break
            case Notified():
                finished = [
                    number
                    for number, effect in self.in_flight.items()
                    if isinstance(effect, Notify) and effect.notice == event.notice
                ]
                for number in finished:
                    del self.in_flight[number]
            case TimerFired():
                self.timers.discard(event.name)
        return None

    def record_fault(self, now: float) -> float:
        """Record that the reducer raised; returns when to rebuild the key."""
        if now - self.last_fault > FAULT_RESET:
            self.fault_count = 0
        self.fault_count += 1
        self.last_fault = now
        self.is_broken = True
        self.state = None
        return now + FAULT_BACKOFF.delay(self.fault_count)

    def add_to_history(self, event: ControllerEvent) -> None:
        """Add an event to the history, by names only, so that old objects are not kept; text is made on demand."""
        self._history.append((event.seq, event.at, type(event).__name__, _event_subject(event)))

    @property
    def history(self) -> tuple[HistoryEntry, ...]:
        """The last events, oldest first."""
        return tuple(
            HistoryEntry(seq, at, name, " ".join(str(part) for part in subject))
            for seq, at, name, subject in self._history
        )


def _event_subject(event: ControllerEvent) -> tuple[object, ...]:
    if isinstance(event, Observed):
        meta = event.obj.metadata
        return (event.resource, meta.namespace, meta.name, event.change, meta.uid, meta.resource_version)
    match event:
        case EffectSucceeded():
            return ("effect", event.effect_id)
        case EffectFailed():
            return ("effect", event.effect_id, event.code, event.reason, "dropped", event.dropped)
        case TimerFired():
            return (event.name,)
        case Answered():
            return ("question", event.question, type(event.decision).__name__, event.policy or "no policy")
        case Notified():
            return ("notice", event.notice, "delivered" if event.delivered else event.problem)
        case PoliciesLoaded():
            return (*event.roster.everywhere, *event.roster.named)
        case _:
            return (event.resource,)


REBUILD_TIMER, RESYNC_TIMER = "host/rebuild", "host/resync"
"""Timers after which a key whose reducer raised is rebuilt, and all keys are reconciled; they fire as events."""


@dataclass(slots=True, frozen=True)
class Numbering:
    """Numbers of effects and steps, shared by all controllers of a process."""

    effect_ids: Iterator[int] = field(default_factory=lambda: count(1))
    steps: Iterator[int] = field(default_factory=lambda: count(1))


class ControllerHost:
    """Drives one controller.

    It is synced between `Synced` of every input and reference and the next `Relisting` of one; when it becomes synced,
    every known key gets Synced(resource="") once. Outcomes, timers and answers are dropped when their key has no state
    any more.
    """

    def __init__(
        self,
        controller: Controller[Any],
        cache: ObjectCache,
        *,
        numbering: Numbering | None = None,
        extra_resources: frozenset[str] = frozenset(),
        on_fault: Callable[[InvariantError], None] | None = None,
    ) -> None:
        self.controller = controller
        self._cache = cache
        self._numbering = numbering or Numbering()
        self._on_fault = on_fault
        self._inputs: dict[str, list[Input]] = {}
        for input_ in controller.inputs:
            self._inputs.setdefault(input_.kind.resource, []).append(input_)
        references = frozenset(reference.kind.resource for reference in controller.references)
        self._members: dict[str, set[tuple[str, str]]] = {}
        self._reference_resources = references
        self._references = References(cache, references, self._members)
        self.resources = frozenset(self._inputs) | references | extra_resources
        self._is_open = False
        self.policies = PolicyRegistry()
        """The lifecycle policies in force, as in `View.policies`."""
        self._records: dict[str, KeyRecord] = {}
        self._objects: Objects | None = None

    @property
    def synced(self) -> bool:
        """Whether every input and reference is listed and none is being relisted."""
        return self._is_open

    @property
    def keys(self) -> list[str]:
        """Every key with a state, sorted."""
        return sorted(key for key, record in self._records.items() if record.state is not None)

    def state(self, key: str) -> Any:
        """Return the controller's state of a key; None when it is unknown."""
        record = self._records.get(key)
        return record.state if record else None

    def in_flight(self, key: str) -> dict[int, Effect]:
        """Return a copy of the key's effects in flight."""
        record = self._records.get(key)
        return dict(record.in_flight) if record else {}

    def handle(self, event: ControllerEvent) -> list[Dispatch]:
        """Handle one event that is already in the cache; returns the effects of its reductions, in order."""
        match event:
            case Observed():
                return [dispatch for key in self._keys_of(event) for dispatch in self._handle_for_key(key, event)]
            case Synced() | Relisting():
                return self._update_barrier(event)
            case PoliciesLoaded():
                self.policies = event.roster
                return []
            case _:
                return self._handle_outcome(event)

    def objects(self, key: str, resource: str) -> list[ApiObject]:
        """Return the cached objects of an input that belong to a key, sorted by namespace and name."""
        return self._references.objects_of(key, resource)

    def _keys_of(self, event: Observed) -> list[str]:
        """Return every key that the object belongs to, belonged to, or was looked up by; updates the membership."""
        obj, previous = event.object, event.previous
        keys: dict[str, None] = {}
        for input_ in self._inputs.get(event.resource, ()):
            owners = self._owner_keys(input_, obj, event)
            before = owners if previous is None else self._owner_keys(input_, previous, event)
            if not owners and not before:  # true for most objects of other owners
                continue
            name = obj.metadata.key
            current = [] if event.change is Change.GONE else owners
            for key in current:
                self._add_member(key, (event.resource, name))
                keys[key] = None
            if before != current:
                for key in (*owners, *before):
                    keys[key] = None
                    if key not in current:
                        self._remove_member(key, (event.resource, name))
        if event.resource in self._reference_resources:
            for key in self._references.reading_keys(event.resource, obj.metadata.key):
                keys[key] = None
        return list(keys)

    def _add_member(self, key: str, member: tuple[str, str]) -> None:
        if (members := self._members.get(key)) is None:
            self._members[key] = {member}
        elif member not in members:
            members.add(member)
            self._references.member_added(key, member)

    def _remove_member(self, key: str, member: tuple[str, str]) -> None:
        if (members := self._members.get(key)) is not None and member in members:
            members.discard(member)
            self._references.member_removed(key, member)
            if not members:
                del self._members[key]

    def _owner_keys(self, input_: Input, obj: ApiObject, event: ControllerEvent) -> list[str]:
        """Return the keys of an input for an object; none, with a fault report, when its function raises."""
        try:
            return list(input_.keys(obj))
        except Exception as error:
            self._report_fault(f"(keys of {input_.kind} {obj.metadata.key})", (), event.at, error)
            return []

    def _update_barrier(self, event: Synced | Relisting) -> list[Dispatch]:
        was_open, self._is_open = self._is_open, self._cache.synced(self.resources)
        return [] if was_open or not self._is_open else self._open(event)

    def _open(self, event: Synced | Relisting | TimerFired) -> list[Dispatch]:
        opening = Synced(seq=event.seq, at=event.at, cause=event.cause, resource="")
        return [dispatch for key in self._opening_keys(event.at) for dispatch in self._handle_for_key(key, opening)]

    def _opening_keys(self, now: float) -> list[str]:
        del now
        return self.keys

    def _handle_outcome(
        self, event: EffectSucceeded | EffectFailed | TimerFired | Answered | Notified
    ) -> list[Dispatch]:
        if (record := self._records.get(event.key)) is None:
            return []
        ended = record.remove_outcome(event)
        if isinstance(event, TimerFired) and event.name == REBUILD_TIMER:
            return self._rebuild(event.key, record, event) if record.is_broken else []
        if record.state is None and not record.is_broken:
            self._remove_if_idle(event.key, record)
            return []
        return self._handle_for_key(event.key, event, ended)

    def _handle_for_key(self, key: str, event: ControllerEvent, ended: Effect | None = None) -> list[Dispatch]:
        if (record := self._records.get(key)) is None:
            record = self._records[key] = KeyRecord()
        record.add_to_history(event)
        return [] if record.is_broken else self._reduce(key, record, event, synced=self._is_open, ended=ended)

    def _reduce(
        self, key: str, record: KeyRecord, event: ControllerEvent, *, synced: bool, ended: Effect | None = None
    ) -> list[Dispatch]:
        self._references.current_key = key
        view = View(
            key=key,
            now=event.at,
            synced=synced,
            lookup=self._references,
            in_flight=record.in_flight,
            policies=self.policies,
            ended=ended,
            objects=self._objects,
        )
        try:
            state = self.controller.start(key) if record.state is None else record.state
            step = self.controller.reduce(state, event, view)
            stages: Stages = ()
            if step.stages:  # most events cause no effects
                stages = tuple([tuple(map(self._with_id, stage)) for stage in step.stages if stage])
            if step.state is None and record.timers:
                stages = (self._stop_timers(record), *stages)
        except Exception as error:
            return [self._fault(key, record, event, error)]
        record.state = step.state
        if step.state is None:
            self._references.forget(key)
        for stage in stages:
            for effect in stage:
                record.add_effect(effect)
        self._remove_if_idle(key, record)
        return [self._dispatch(key, stages, event)] if stages else []

    def _stop_timers(self, record: KeyRecord) -> tuple[Effect, ...]:
        """Stop the timers of a key that is forgotten, so that none fires for a later object of that name."""
        return tuple(self._with_id(StopTimer(name=name)) for name in sorted(record.timers))

    def _fault(self, key: str, record: KeyRecord, event: ControllerEvent, error: Exception) -> Dispatch:
        retry_at = record.record_fault(event.at)
        self._report_fault(key, record.history, retry_at, error)
        return self._dispatch(key, ((self._with_id(StartTimer(name=REBUILD_TIMER, due=retry_at)),),), event)

    def _report_fault(self, key: str, history: tuple[HistoryEntry, ...], retry_at: float, error: Exception) -> None:
        if self._on_fault is not None:
            fault = InvariantError(self.controller.name, key, history, retry_at, repr(error))
            fault.__cause__ = error
            self._on_fault(fault)

    def _rebuild(self, key: str, record: KeyRecord, event: TimerFired) -> list[Dispatch]:
        """Reduce the key's cached objects as if they appeared now, then let it decide."""
        record.is_broken = False
        record.add_to_history(event)
        replays: list[ControllerEvent] = [
            Observed(
                seq=event.seq, at=event.at, cause=event.cause, resource=resource, change=Change.APPEARED, object=obj
            )
            for resource in self._inputs
            for obj in self.objects(key, resource)
        ]
        dispatches: list[Dispatch] = []
        for replay in replays:
            dispatches += self._reduce(key, record, replay, synced=False)
            if record.is_broken:
                return dispatches
        if record.state is not None and self._is_open:
            opening = Synced(seq=event.seq, at=event.at, cause=event.cause, resource="")
            dispatches += self._reduce(key, record, opening, synced=True)
        self._remove_if_idle(key, record)
        return dispatches

    def _remove_if_idle(self, key: str, record: KeyRecord) -> None:
        if record.is_idle:
            self._records.pop(key, None)

    def _with_id(self, effect: Effect) -> Effect:
        return msgspec.structs.replace(effect, id=next(self._numbering.effect_ids))

    def _dispatch(self, key: str, stages: Stages, event: ControllerEvent) -> Dispatch:
        return Dispatch(
            controller=self.controller.name,
            key=key,
            step=next(self._numbering.steps),
            stages=stages,
            cause=event.seq,
            at=event.at,
        )


class ReconcilerHost(ControllerHost):
    """Drives one reconciler. Changes before the opening reach no key: its `all_keys` are reconciled then."""

    def __init__(self, controller: Reconciler, cache: ObjectCache, **options: Any) -> None:
        super().__init__(controller, cache, **options)
        self._reconciler = controller
        self._objects: Objects = Objects(cache, self.resources)

    def handle(self, event: ControllerEvent) -> list[Dispatch]:
        """Handle one event; that of RESYNC_TIMER is for all keys, and for none while a resource is being listed."""
        if isinstance(event, TimerFired) and event.name == RESYNC_TIMER:
            return self._open(event) if self.synced else []
        return super().handle(event)

    def _keys_of(self, event: Observed) -> list[str]:
        if not self.synced:
            return []
        reading = self._references.reading_keys(event.resource, event.obj.metadata.key)
        try:
            return list(dict.fromkeys([*self._reconciler.keys(event, self._objects), *reading]))
        except Exception as error:
            self._report_fault(f"(keys of {event.resource} {event.obj.metadata.key})", (), event.at, error)
            return []

    def _opening_keys(self, now: float) -> list[str]:
        return list(dict.fromkeys([*self.keys, *self._reconciler.all_keys(self._objects, now)]))

    def _rebuild(self, key: str, record: KeyRecord, event: TimerFired) -> list[Dispatch]:
        record.is_broken = False
        opening = Synced(seq=event.seq, at=event.at, cause=event.cause, resource="")
        return self._handle_for_key(key, opening) if self.synced else []
