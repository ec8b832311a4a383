"""One controller under the host: events to keys, reductions, and what they ask for."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import count
from typing import Any

import msgspec

from volcanoio.engine.hosting.cache import ObjectCache
from volcanoio.engine.hosting.dispatch import Dispatch, InvariantError, StoryLine
from volcanoio.engine.hosting.keys import KeyRecord
from volcanoio.engine.hosting.references import References
from volcanoio.framework.controller import Controller, Input, View
from volcanoio.framework.effects import Effect, Stages, StartTimer, StopTimer
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
from volcanoio.framework.lifecycle import Roster
from volcanoio.model.base import ApiObject

REBUILD = "host/rebuild"
"""The timer after which a key whose reducer raised is rebuilt; its firing is an event like any other."""


class KeyedHost:
    """Drives one controller.

    Between `Synced` of every input and reference and the next `Relisting` of one the barrier is open: `View.synced` is
    True, and at each opening every known key gets Synced(resource="") once. Events of a key that came back for it
    (outcomes, timers, answers) are dropped when the key has no state any more.
    """

    def __init__(
        self,
        controller: Controller[Any],
        cache: ObjectCache,
        *,
        effect_ids: Iterator[int] | None = None,
        steps: Iterator[int] | None = None,
        also: frozenset[str] = frozenset(),
        on_fault: Callable[[InvariantError], None] | None = None,
    ) -> None:
        self.controller = controller
        self._cache = cache
        self._effect_ids = effect_ids or count(1)
        self._steps = steps or count(1)
        self._on_fault = on_fault
        self._inputs: dict[str, list[Input]] = {}
        for declared in controller.inputs:
            self._inputs.setdefault(declared.kind.resource, []).append(declared)
        references = frozenset(reference.kind.resource for reference in controller.references)
        self._members: dict[str, set[tuple[str, str]]] = {}
        self._looked_up = references
        self._references = References(cache, references, self._members)
        self.resources = frozenset(self._inputs) | references | also
        self._open = False
        self.roster = Roster()
        """The lifecycle policies in force, as the reducer is shown them."""
        self._records: dict[str, KeyRecord] = {}

    @property
    def synced(self) -> bool:
        """Whether the barrier is open: every input and reference is listed and none is being relisted."""
        return self._open

    @property
    def keys(self) -> list[str]:
        """Every key with a state, sorted."""
        return sorted(key for key, record in self._records.items() if record.state is not None)

    def state(self, key: str) -> Any:
        """The controller's state of a key; None when nothing is known."""
        record = self._records.get(key)
        return record.state if record else None

    def in_flight(self, key: str) -> dict[int, Effect]:
        """A copy of the key's effects in flight."""
        record = self._records.get(key)
        return dict(record.in_flight) if record else {}

    def handle(self, event: ControllerEvent) -> list[Dispatch]:
        """Take one event that is already in the cache; gives what its reductions ask for, in order."""
        match event:
            case Observed():
                return [dispatch for key in self._keys_of(event) for dispatch in self._deliver(key, event)]
            case Synced() | Relisting():
                return self._barrier(event)
            case PoliciesLoaded():
                self.roster = event.roster
                return []
            case _:
                return self._come_back(event)

    def objects(self, key: str, resource: str) -> list[ApiObject]:
        """The cached objects of an input that belong to a key, sorted by namespace and name."""
        return self._references.belonging(key, resource)

    def _keys_of(self, event: Observed) -> list[str]:
        """Every key the object belongs to, belonged to, or was looked up by; notes who belongs to whom."""
        obj, previous = event.object, event.previous
        keys: dict[str, None] = {}
        for declared in self._inputs.get(event.resource, ()):
            owners = self._owners(declared, obj, event)
            before = owners if previous is None else self._owners(declared, previous, event)
            if not owners and not before:  # most of what a controller sees of others' objects
                continue
            name = obj.metadata.key
            stays = [] if event.change is Change.GONE else owners
            for key in stays:
                self._join(key, (event.resource, name))
                keys[key] = None
            if before != stays:
                for key in (*owners, *before):
                    keys[key] = None
                    if key not in stays:
                        self._part(key, (event.resource, name))
        if event.resource in self._looked_up:
            for key in self._references.askers(event.resource, obj.metadata.key):
                keys[key] = None
        return list(keys)

    def _join(self, key: str, member: tuple[str, str]) -> None:
        members = self._members.get(key)
        if members is None:
            self._members[key] = {member}
        elif member not in members:
            members.add(member)
            self._references.joined(key, member)

    def _part(self, key: str, member: tuple[str, str]) -> None:
        members = self._members.get(key)
        if members is not None and member in members:
            members.discard(member)
            self._references.parted(key, member)
            if not members:
                del self._members[key]

    def _owners(self, declared: Input, obj: ApiObject, event: ControllerEvent) -> list[str]:
        """The keys an input names for an object; none, and a fault, when its function raises."""
        try:
            return list(declared.keys(obj))
        except Exception as error:
            self._report(f"(keys of {declared.kind} {obj.metadata.key})", (), event.at, error)
            return []

    def _barrier(self, event: Synced | Relisting) -> list[Dispatch]:
        was_open, self._open = self._open, self._cache.synced(self.resources)
        if was_open or not self._open:
            return []
        opening = Synced(seq=event.seq, at=event.at, cause=event.cause, resource="")
        return [dispatch for key in self.keys for dispatch in self._deliver(key, opening)]

    def _come_back(self, event: EffectSucceeded | EffectFailed | TimerFired | Answered | Notified) -> list[Dispatch]:
        record = self._records.get(event.key)
        if record is None:
            return []
        record.settle(event)
        if isinstance(event, TimerFired) and event.name == REBUILD:
            return self._rebuild(event.key, record, event) if record.broken else []
        if record.state is None and not record.broken:
            self._tidy(event.key, record)
            return []
        return self._deliver(event.key, event)

    def _deliver(self, key: str, event: ControllerEvent) -> list[Dispatch]:
        record = self._records.get(key)
        if record is None:
            record = self._records[key] = KeyRecord()
        record.tell(event)
        return [] if record.broken else self._reduce(key, record, event, synced=self._open)

    def _reduce(self, key: str, record: KeyRecord, event: ControllerEvent, *, synced: bool) -> list[Dispatch]:
        self._references.asking = key
        view = View(
            key=key,
            now=event.at,
            synced=synced,
            lookup=self._references,
            in_flight=record.in_flight,
            roster=self.roster,
        )
        try:
            state = self.controller.start(key) if record.state is None else record.state
            step = self.controller.reduce(state, event, view)
            stages: Stages = ()
            if step.stages:  # most events ask for nothing
                stages = tuple([tuple(map(self._numbered, stage)) for stage in step.stages if stage])
            if step.state is None and record.timers:
                stages = (self._stopped(record), *stages)
        except Exception as error:
            return [self._fault(key, record, event, error)]
        record.state = step.state
        if step.state is None:
            self._references.forget(key)
        for stage in stages:
            for effect in stage:
                record.take(effect)
        self._tidy(key, record)
        return [self._dispatch(key, stages, event)] if stages else []

    def _stopped(self, record: KeyRecord) -> tuple[Effect, ...]:
        """The timers of a key that is forgotten, so that none fires into a later life of that name."""
        return tuple(self._numbered(StopTimer(name=name)) for name in sorted(record.timers))

    def _fault(self, key: str, record: KeyRecord, event: ControllerEvent, error: Exception) -> Dispatch:
        retry_at = record.fault(event.at)
        self._report(key, record.story, retry_at, error)
        return self._dispatch(key, ((self._numbered(StartTimer(name=REBUILD, due=retry_at)),),), event)

    def _report(self, key: str, story: tuple[StoryLine, ...], retry_at: float, error: Exception) -> None:
        if self._on_fault is not None:
            fault = InvariantError(self.controller.name, key, story, retry_at, repr(error))
            fault.__cause__ = error
            self._on_fault(fault)

    def _rebuild(self, key: str, record: KeyRecord, event: TimerFired) -> list[Dispatch]:
        """Reduce the key's cached objects as if they appeared now, then let it decide."""
        record.broken = False
        record.tell(event)
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
            if record.broken:
                return dispatches
        if record.state is not None and self._open:
            opening = Synced(seq=event.seq, at=event.at, cause=event.cause, resource="")
            dispatches += self._reduce(key, record, opening, synced=True)
        self._tidy(key, record)
        return dispatches

    def _tidy(self, key: str, record: KeyRecord) -> None:
        if record.idle:
            self._records.pop(key, None)

    def _numbered(self, effect: Effect) -> Effect:
        return msgspec.structs.replace(effect, id=next(self._effect_ids))

    def _dispatch(self, key: str, stages: Stages, event: ControllerEvent) -> Dispatch:
        return Dispatch(
            controller=self.controller.name,
            key=key,
            step=next(self._steps),
            stages=stages,
            cause=event.seq,
            at=event.at,
        )
