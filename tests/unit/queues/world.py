"""A store that carries out the queue controller's effects and tells it what became of them, at once or when asked."""

from __future__ import annotations

import heapq
from typing import Any

import msgspec

from volcanoio.engine.hosting.dispatch import Dispatch, InvariantError
from volcanoio.engine.hosting.host import Host
from volcanoio.engine.queues.controller import QueueController
from volcanoio.framework.effects import Delete, Effect, Measure, Measurement, Patch, Record, StartTimer
from volcanoio.framework.events import (
    Change,
    ControllerEvent,
    EffectFailed,
    EffectSucceeded,
    Observed,
    Synced,
    TimerFired,
)
from volcanoio.model import kinds, mergepatch
from volcanoio.model.base import ApiObject, ObjectMeta, OwnerReference
from volcanoio.model.command import Command
from volcanoio.model.kinds import Kind
from volcanoio.model.scheduling import PodGroup, PodGroupSpec, PodGroupStatus, Queue, QueueSpec, QueueStatus


class World:
    """Objects as stored, a clock, and one controller process that can be replaced."""

    def __init__(self) -> None:
        self.objects: dict[tuple[str, str], ApiObject] = {}
        self.revision = 0
        self.now = 1_700_000_000.0
        self.writes: list[str] = []
        self.events: list[str] = []
        self.figures: dict[tuple[str, str], float] = {}
        self.refuse: list[int] = []
        self.held: list[tuple[str, Effect]] | None = None
        self._seq = 0
        self._timers: list[tuple[float, str, str]] = []
        self.start()

    def start(self) -> None:
        """A new process over what is stored."""

        def fail(fault: InvariantError) -> None:
            raise fault

        self.host = Host([QueueController()], on_fault=fail)
        self._timers = []
        for (resource, _), obj in list(self.objects.items()):
            self._tell(Observed(resource=resource, change=Change.APPEARED, object=obj))
        for kind in (kinds.QUEUE, kinds.POD_GROUP, kinds.COMMAND):
            self._tell(Synced(resource=kind.resource))

    def queue(self, name: str, parent: str = "root", state: str = "Open") -> None:
        self.put(
            kinds.QUEUE,
            Queue(metadata=ObjectMeta(name=name), spec=QueueSpec(parent=parent), status=QueueStatus(state=state)),
        )

    def group(self, name: str, queue: str, phase: str = "Running") -> None:
        meta = ObjectMeta(name=name, namespace="ns")
        self.put(
            kinds.POD_GROUP,
            PodGroup(metadata=meta, spec=PodGroupSpec(queue=queue), status=PodGroupStatus(phase=phase)),
        )

    def command(self, name: str, action: str, queue: str, uid: str = "") -> None:
        target = OwnerReference(api_version=kinds.QUEUE.api_version, kind="Queue", name=queue, uid=uid)
        meta = ObjectMeta(name=name, namespace="default", creation_timestamp="2023-11-14T22:13:20Z")
        self.put(kinds.COMMAND, Command(metadata=meta, action=action, target=target))

    def put(self, kind: Kind, obj: ApiObject) -> None:
        """Store an object, new or changed, and tell of it."""
        self._tell(self._store(kind.resource, obj))

    def remove(self, kind: Kind, key: str) -> None:
        known = self.objects.pop((kind.resource, key))
        self._tell(Observed(resource=kind.resource, change=Change.GONE, object=known, previous=known))

    def get(self, name: str) -> Queue:
        found = self.objects[kinds.QUEUE.resource, name]
        assert isinstance(found, Queue)
        return found

    def commands(self) -> list[str]:
        return [key for resource, key in self.objects if resource == kinds.COMMAND.resource]

    def wait(self, seconds: float) -> None:
        """Let time pass, firing timers."""
        end = self.now + seconds
        while self._timers and self._timers[0][0] <= end:
            due, key, name = heapq.heappop(self._timers)
            self.now = max(self.now, due)
            self._tell(TimerFired(controller="queue-controller", key=key, name=name))
        self.now = end

    def release(self) -> None:
        """Carry out what was held back."""
        held, self.held = self.held or [], None
        for key, effect in held:
            self._carry_out(key, effect)

    def _store(self, resource: str, obj: ApiObject) -> Observed:
        self.revision += 1
        previous = self.objects.get((resource, obj.metadata.key))
        uid = obj.metadata.uid or (previous.metadata.uid if previous else f"uid-{self.revision}")
        meta = msgspec.structs.replace(obj.metadata, uid=uid, resource_version=str(self.revision))
        stored = msgspec.structs.replace(obj, metadata=meta)
        self.objects[resource, meta.key] = stored
        change = Change.CHANGED if previous else Change.APPEARED
        return Observed(resource=resource, change=change, object=stored, previous=previous)

    def _tell(self, event: ControllerEvent) -> None:
        self._seq += 1
        for dispatch in self.host.handle(msgspec.structs.replace(event, seq=self._seq, at=self.now)):
            self._submit(dispatch)

    def _submit(self, dispatch: Dispatch) -> None:
        for stage in dispatch.stages:
            for effect in stage:
                if self.held is not None and isinstance(effect, Patch | Delete):
                    self.held.append((dispatch.key, effect))
                elif not self._carry_out(dispatch.key, effect):
                    return

    def _carry_out(self, key: str, effect: Effect) -> bool:
        match effect:
            case StartTimer(name=name, due=due):
                heapq.heappush(self._timers, (due, key, name))
            case Record(type=type_, reason=reason, message=message):
                self.events.append(f"{type_} {reason}: {message}")
            case Measure(measurement=Measurement.GAUGE, name=name, labels=labels, value=value):
                self.figures[labels["queue_name"], name] = value
            case Measure(measurement=Measurement.FORGET, name=name, labels=labels):
                del self.figures[labels["queue_name"], name]
            case Patch() | Delete():
                return self._write(key, effect)
        return True

    def _gone(self, key: str, effect: Patch | Delete) -> bool:
        """The object is not there any more: a delete is done, a patch is not found."""
        if isinstance(effect, Delete):
            self._tell(EffectSucceeded(controller="queue-controller", key=key, effect_id=effect.id))
            return True
        self._tell(EffectFailed(controller="queue-controller", key=key, effect_id=effect.id, code=404))
        return False

    def _write(self, key: str, effect: Patch | Delete) -> bool:
        name = f"{effect.namespace}/{effect.name}" if effect.namespace else effect.name
        known = self.objects.get((effect.resource, name))
        if known is None or known.metadata.uid != effect.uid:
            return self._gone(key, effect)
        stale = isinstance(effect, Patch) and effect.resource_version not in ("", known.metadata.resource_version)
        code = self.refuse.pop(0) if self.refuse else 409 if stale else 0
        if code:
            self.writes.append(f"{code} {type(effect).__name__}")
            self._tell(EffectFailed(controller="queue-controller", key=key, effect_id=effect.id, code=code))
            return False
        if isinstance(effect, Delete):
            self.writes.append(f"delete {name}")
            self.remove(kinds.COMMAND, name)
            done = EffectSucceeded(controller="queue-controller", key=key, effect_id=effect.id)
        else:
            self.writes.append(f"patch {name} {_flat(effect.patch)}")
            merged = mergepatch.apply(kinds.QUEUE.manifest(known), effect.patch)
            observed = self._store(effect.resource, msgspec.convert(merged, Queue))
            self._tell(observed)
            done = EffectSucceeded(controller="queue-controller", key=key, effect_id=effect.id, object=observed.obj)
        self._tell(done)
        return True


def _flat(patch: Any) -> str:
    """`state=Open running=1`: the leaves that are not zero."""
    if not isinstance(patch, dict):
        return str(patch)
    leaves = []
    for key, value in patch.items():
        if isinstance(value, dict):
            leaves.append(_flat(value))
        elif value:
            leaves.append(f"{key.rpartition('/')[2]}={value}")
    return " ".join(leaves)
