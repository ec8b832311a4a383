"""A simulated store that carries out effects and returns outcomes; processes can be killed at any write."""

from __future__ import annotations

import heapq
from collections.abc import Callable, Sequence
from typing import Any

import msgspec

from volcanoio.engine.hosting.controller_host import Dispatch, InvariantError
from volcanoio.engine.hosting.host import Host
from volcanoio.framework import effects
from volcanoio.framework.controller import Controller, ControllerContext
from volcanoio.framework.effects import Create, Delete, Effect, Measure, Patch, Record, StartTimer, StopTimer
from volcanoio.framework.events import (
    Change,
    ControllerEvent,
    EffectFailed,
    EffectSucceeded,
    Observed,
    Synced,
    TimerFired,
)
from volcanoio.model import kinds
from volcanoio.model.base import ApiObject, Manifest
from volcanoio.model.batch import Job
from volcanoio.model.kinds import Kind
from volcanoio.model.times import rfc3339

BEGIN = 1_700_000_000.0
"""2023-11-14T22:13:20Z."""


class Crash(Exception):  # noqa: N818 - what happens to a process, not a fault of ours
    """The process ended here."""


class World:
    """Objects as stored, a clock, and one process of controllers that can be replaced.

    `dies_at` counts writes: at the last the process ends, before it is carried out or (`after`) before it is known.
    `refuse` are codes for the next writes, 0 for none.
    """

    def __init__(self, make: Sequence[Callable[[ControllerContext], Controller[Any]]]) -> None:
        self._make = make
        self.objects: dict[tuple[str, str], Manifest] = {}
        self.now = BEGIN
        self.revision = 0
        self.writes: list[str] = []
        self.events: list[str] = []
        self.figures: list[str] = []
        self.begun: list[str] = []
        """Counters that began at zero."""
        self.others: list[tuple[str, str, Effect]] = []
        self.refuse: list[tuple[int, str]] = []
        self.dies_at = 0
        self.after = False
        self._seq = 0
        self._timers: list[tuple[float, int, str, str, str]] = []
        self.start()

    def start(self) -> None:
        """A new process over what is stored; one that dies in its first moments has a successor."""
        while not self._comes_up():
            pass

    def _comes_up(self) -> bool:
        def fail(fault: InvariantError) -> None:
            raise fault

        made = [make(ControllerContext()) for make in self._make]
        self.host = Host(made, on_fault=fail)
        self._timers = []
        inputs = [given.kind for each in made for given in each.inputs]
        references = [given.kind for each in made for given in each.references]
        watched = dict.fromkeys(kind.resource for kind in (*inputs, *references))
        try:
            for resource, key in list(self.objects):
                if resource in watched:
                    self._publish(
                        Observed(resource=resource, change=Change.APPEARED, object=self._typed(resource, key))
                    )
            for resource in watched:
                self._publish(Synced(resource=resource))
        except Crash:
            return False
        return True

    def put(self, kind: Kind, manifest: Manifest) -> None:
        """Store an object, new or merged over the old one, and publish the change."""
        meta = manifest["metadata"]
        key = _key(meta)
        known = self.objects.get((kind.resource, key))
        merged = effects.apply_merge_patch(_copy(known) if known else {}, _copy(manifest))
        self._guarded(lambda: self._publish(self._store(kind.resource, key, merged)))

    def remove(self, kind: Kind, key: str) -> None:
        """Somebody deletes an object."""
        self._guarded(lambda: self._publish(self._drop(kind.resource, key)))

    def get(self, kind: Kind, key: str) -> Any:
        """An object, typed."""
        return self._typed(kind.resource, key)

    def names(self, kind: Kind) -> list[str]:
        """Names of all objects of a kind, sorted."""
        return sorted(key.rpartition("/")[2] for resource, key in self.objects if resource == kind.resource)

    def phase(self, key: str, phase: str, **status: Any) -> None:
        """A Job enters a phase."""
        state = {"phase": phase, "lastTransitionTime": rfc3339(self.now)}
        namespace, _, name = key.rpartition("/")
        self.put(kinds.JOB, {"metadata": {"namespace": namespace, "name": name}, "status": {"state": state, **status}})

    def job(self, key: str) -> Job:
        """A Job."""
        job = self.get(kinds.JOB, key)
        assert isinstance(job, Job)
        return job

    def wait(self, seconds: float) -> None:
        """Let time pass, firing timers; a process that ends is started again at once."""
        end = self.now + seconds
        while self._timers and self._timers[0][0] <= end:
            due, _, controller, key, name = heapq.heappop(self._timers)
            self.now = max(self.now, due)
            fired = TimerFired(controller=controller, key=key, name=name)
            self._guarded(lambda fired=fired: self._publish(fired))  # type: ignore[misc]  # bound now
        self.now = end

    def answer(self, controller: str, key: str, effect: Effect, code: int = 0, message: str = "") -> None:
        """What became of an effect that is not a write."""
        if code:
            self._publish(EffectFailed(controller=controller, key=key, effect_id=effect.id, code=code, message=message))
        else:
            self._publish(EffectSucceeded(controller=controller, key=key, effect_id=effect.id))

    def _guarded(self, act: Callable[[], None]) -> None:
        try:
            act()
        except Crash:
            self.start()

    def _typed(self, resource: str, key: str) -> ApiObject:
        return msgspec.convert(self.objects[resource, key], kinds.BY_RESOURCE[resource].type)

    def _store(self, resource: str, key: str, manifest: Manifest) -> Observed:
        known = self._typed(resource, key) if (resource, key) in self.objects else None
        self.revision += 1
        meta = manifest["metadata"]
        meta.setdefault("uid", f"uid-{self.revision}")
        meta.setdefault("creationTimestamp", rfc3339(self.now))
        meta["resourceVersion"] = str(self.revision)
        self.objects[resource, key] = manifest
        change = Change.CHANGED if known else Change.APPEARED
        return Observed(resource=resource, change=change, object=self._typed(resource, key), previous=known)

    def _drop(self, resource: str, key: str) -> Observed:
        known = self._typed(resource, key)
        del self.objects[resource, key]
        return Observed(resource=resource, change=Change.GONE, object=known, previous=known)

    def _publish(self, event: ControllerEvent) -> None:
        self._seq += 1
        for dispatch in self.host.handle(msgspec.structs.replace(event, seq=self._seq, at=self.now)):
            self._submit(dispatch)

    def _submit(self, dispatch: Dispatch) -> None:
        for number, stage in enumerate(dispatch.stages):
            dropped = tuple(effect.id for later in dispatch.stages[number + 1 :] for effect in later)
            outcomes = [self._carry_out(dispatch, effect, dropped) for effect in stage]
            if not all(outcomes):
                return

    def _carry_out(self, dispatch: Dispatch, effect: Effect, dropped: tuple[int, ...]) -> bool:
        match effect:
            case StartTimer(name=name, due=due):
                self._timers = [each for each in self._timers if each[2:] != (dispatch.controller, dispatch.key, name)]
                heapq.heapify(self._timers)
                heapq.heappush(self._timers, (due, effect.id, dispatch.controller, dispatch.key, name))
            case StopTimer(name=name):
                self._timers = [each for each in self._timers if each[2:] != (dispatch.controller, dispatch.key, name)]
                heapq.heapify(self._timers)
            case Record(type=type_, reason=reason, message=message):
                self.events.append(f"{type_} {reason}: {message}")
            case Measure(name=name, labels=labels, value=value):
                (self.figures if value else self.begun).append(f"{name} {labels}")
            case Create() | Patch() | Delete():
                return self._write(dispatch, effect, dropped)
            case _:
                self.others.append((dispatch.controller, dispatch.key, effect))
        return True

    def _write(self, dispatch: Dispatch, effect: Create | Patch | Delete, dropped: tuple[int, ...]) -> bool:
        self.dies_at -= 1
        if self.dies_at == 0 and not self.after:
            raise Crash
        code, message, observed, response = self._changed(effect)
        if self.dies_at == 0:
            raise Crash
        if observed is not None:
            self._publish(observed)
        if code:
            self._publish(
                EffectFailed(
                    controller=dispatch.controller, key=dispatch.key, effect_id=effect.id, code=code, message=message,
                    dropped=dropped,
                )
            )  # fmt: skip
            return False
        done = EffectSucceeded(controller=dispatch.controller, key=dispatch.key, effect_id=effect.id, object=response)
        self._publish(done)
        return True

    def _changed(self, effect: Create | Patch | Delete) -> tuple[int, str, Observed | None, ApiObject | None]:
        """Code and message of a refusal, what is seen of the change, and the object in the answer."""
        if self.refuse and (refusal := self.refuse.pop(0))[0]:
            self.writes.append(f"{refusal[0]} {type(effect).__name__}")
            return *refusal, None, None
        if isinstance(effect, Create):
            meta = effect.manifest["metadata"]
            key = _key(meta)
            if (effect.resource, key) in self.objects:
                return 409, f"{key} already exists", None, None
            self.writes.append(f"create {meta['name']}")
            observed = self._store(effect.resource, key, _copy(effect.manifest))
            return 0, "", observed, observed.obj
        key = _key({"namespace": effect.namespace, "name": effect.name})
        known = self.objects.get((effect.resource, key))
        there = known is not None and known["metadata"]["uid"] == effect.uid
        if isinstance(effect, Delete):
            self.writes.append(f"delete {effect.name}")
            return 0, "", self._drop(effect.resource, key) if there else None, None
        if known is None or not there:
            return 404, "not found", None, None
        if effect.resource_version not in ("", known["metadata"]["resourceVersion"]):
            self.writes.append("409 Patch")
            return 409, "the object has been modified", None, None
        self.writes.append(f"patch {effect.name}{self._describe(effect.patch)}")
        observed = self._store(effect.resource, key, effects.apply_merge_patch(_copy(known), _copy(effect.patch)))
        return 0, "", observed, observed.obj

    def _describe(self, patch: Manifest) -> str:
        """What `writes` says of a patch beside the name."""
        return ""


def _key(meta: Manifest) -> str:
    return f"{meta['namespace']}/{meta['name']}" if meta.get("namespace") else str(meta["name"])


def _copy(manifest: Manifest) -> Manifest:
    copied: Manifest = msgspec.json.decode(msgspec.json.encode(manifest))
    return copied
