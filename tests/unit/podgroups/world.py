"""A store that carries out the PodGroup controller's effects, and processes that may be killed between any two."""

from __future__ import annotations

import heapq
from collections import deque
from typing import Any

import msgspec

from volcanoio.engine.hosting.dispatch import InvariantError
from volcanoio.engine.hosting.host import Host
from volcanoio.engine.podgroups.controller import PodGroupController
from volcanoio.framework.controller import ControllerContext
from volcanoio.framework.effects import Create, Delete, Effect, Patch, Record, StartTimer
from volcanoio.framework.events import (
    Change,
    ControllerEvent,
    EffectFailed,
    EffectSucceeded,
    Observed,
    Synced,
    TimerFired,
)
from volcanoio.model import kinds, names
from volcanoio.model.base import ApiObject, Manifest
from volcanoio.model.kinds import Kind
from volcanoio.model.mergepatch import apply
from volcanoio.model.scheduling import PodGroup

NAME = "pg-controller"


class Killed(Exception):  # noqa: N818 - it is no error
    """The process ended before its next write."""


class World:
    """Manifests as stored, a clock, and one controller process. `writes_left` None lets it write for ever."""

    def __init__(self) -> None:
        self.objects: dict[tuple[str, str], Manifest] = {}
        self.now = 1_700_000_000.0
        self.writes: list[str] = []
        self.told: list[str] = []
        self.refuse: list[int] = []
        self.writes_left: int | None = None
        self._revision = 0
        self._kinds: dict[str, Kind] = {}
        self.start()

    def start(self) -> None:
        """A new process over what is stored."""

        def fail(fault: InvariantError) -> None:
            raise fault

        self.host = Host([PodGroupController(ControllerContext())], on_fault=fail)
        self._timers: list[tuple[float, str, str]] = []
        self._inbox: deque[ControllerEvent] = deque()
        self._outbox: deque[tuple[str, deque[tuple[Effect, ...]]]] = deque()
        for (resource, _), manifest in sorted(self.objects.items()):
            self._inbox.append(
                Observed(resource=resource, change=Change.APPEARED, object=self._typed(resource, manifest))
            )
        for resource in sorted(self.host[NAME].resources):
            self._inbox.append(Synced(resource=resource))
        self.run()

    def put(self, kind: Kind, manifest: Manifest) -> None:
        """Store an object and let the process act."""
        self._inbox.append(self._store(kind.resource, manifest))
        self.run()

    def remove(self, kind: Kind, name: str) -> None:
        self._inbox.append(self._drop(kind.resource, f"ns/{name}"))
        self.run()

    def workload(self, kind: Kind, name: str, replicas: int = 3, **annotations: str) -> None:
        meta = {"name": name, "namespace": "ns", "uid": f"{name}-uid", "annotations": annotations}
        self.put(kind, {"metadata": meta, "spec": {"replicas": replicas}})

    def pod(self, name: str, kind: Kind | None = None, owner: str = "", **more: Any) -> None:
        meta: Manifest = {"name": name, "namespace": "ns", "uid": f"{name}-uid", **more.pop("metadata", {})}
        if kind is not None:
            reference = {"apiVersion": kind.api_version, "kind": kind.kind, "name": owner, "uid": f"{owner}-uid"}
            meta["ownerReferences"] = [{**reference, "controller": True}]
        container = {"name": "c", "resources": {"requests": {"cpu": "1"}}}
        spec = {"schedulerName": "volcano", "containers": [container]}
        self.put(kinds.POD, {"metadata": meta, "spec": spec, "status": {"phase": "Pending"}, **more})

    def groups(self) -> dict[str, PodGroup]:
        found = {key[1].removeprefix("ns/"): obj for key, obj in self.objects.items() if key[0] == _GROUPS}
        return {name: msgspec.convert(obj, PodGroup) for name, obj in found.items()}

    def marks(self) -> dict[str, str]:
        pods = [obj["metadata"] for key, obj in self.objects.items() if key[0] == kinds.POD.resource]
        return {meta["name"]: meta.get("annotations", {}).get(names.GROUP_NAME, "") for meta in pods}

    def wait(self, seconds: float) -> None:
        """Let time pass, firing timers."""
        end = self.now + seconds
        while self._timers and self._timers[0][0] <= end:
            due, key, name = heapq.heappop(self._timers)
            self.now = max(self.now, due)
            self._inbox.append(TimerFired(controller=NAME, key=key, name=name))
            self.run()
        self.now = end

    def run(self) -> None:
        """Until nothing is left to be told or done."""
        while self._inbox or self._outbox:
            while self._inbox:
                event = msgspec.structs.replace(self._inbox.popleft(), at=self.now)
                for step in self.host.handle(event):
                    self._outbox.append((step.key, deque(step.stages)))
            if self._outbox:
                key, stages = self._outbox.popleft()
                if stages and self._stage(key, stages.popleft(), tuple(stages)) and stages:
                    self._outbox.append((key, stages))

    def _stage(self, key: str, stage: tuple[Effect, ...], later: tuple[tuple[Effect, ...], ...]) -> bool:
        outcomes = [self._carry_out(key, effect, later) for effect in stage]  # all of a stage is tried
        return all(outcomes)

    def _carry_out(self, key: str, effect: Effect, later: tuple[tuple[Effect, ...], ...]) -> bool:
        if isinstance(effect, StartTimer):
            heapq.heappush(self._timers, (effect.due, key, effect.name))
        elif isinstance(effect, Record):
            self.told.append(f"{effect.reason}: {effect.message}")
        elif isinstance(effect, Create | Patch | Delete):
            if self.writes_left == 0:
                raise Killed
            self.writes_left = None if self.writes_left is None else self.writes_left - 1
            return self._write(key, effect, tuple(each.id for stage in later for each in stage))
        return True

    def _write(self, key: str, effect: Create | Patch | Delete, dropped: tuple[int, ...]) -> bool:
        where = effect.manifest["metadata"] if isinstance(effect, Create) else {"name": effect.name}
        name = f"ns/{where['name']}"
        there = self.objects.get((effect.resource, name))
        self.writes.append(f"{type(effect).__name__} {where['name']}")
        code = self.refuse.pop(0) if self.refuse else 0
        if isinstance(effect, Create):
            code = code or (409 if there else 0)
        else:
            code = code or (404 if there is None else 409 if there["metadata"]["uid"] != effect.uid else 0)
        if code and not (code == 404 and isinstance(effect, Delete)):
            failed: dict[str, Any] = {"effect_id": effect.id, "code": code, "message": "refused", "dropped": dropped}
            self._inbox.append(EffectFailed(controller=NAME, key=key, **failed))
            return False
        obj: ApiObject | None = None
        if isinstance(effect, Delete):
            if there:
                self._inbox.append(self._drop(effect.resource, name))
        else:
            content = effect.manifest if isinstance(effect, Create) else apply(there, effect.patch)
            observed = self._store(effect.resource, content)
            self._inbox.append(observed)
            obj = observed.obj
        self._inbox.append(EffectSucceeded(controller=NAME, key=key, effect_id=effect.id, object=obj))
        return True

    def _store(self, resource: str, manifest: Manifest) -> Observed:
        self._revision += 1
        meta = {"uid": f"uid-{self._revision}", **manifest["metadata"], "resourceVersion": str(self._revision)}
        mark = (resource, f"ns/{meta['name']}")
        before = self.objects.get(mark)
        self.objects[mark] = {**manifest, "metadata": meta}
        return Observed(
            resource=resource,
            change=Change.CHANGED if before else Change.APPEARED,
            object=self._typed(resource, self.objects[mark]),
            previous=self._typed(resource, before) if before else None,
        )

    def _drop(self, resource: str, name: str) -> Observed:
        gone = self._typed(resource, self.objects.pop((resource, name)))
        return Observed(resource=resource, change=Change.GONE, object=gone, previous=gone)

    @staticmethod
    def _typed(resource: str, manifest: Manifest) -> ApiObject:
        return msgspec.convert(manifest, kinds.BY_RESOURCE[resource].type)


_GROUPS = kinds.POD_GROUP.resource
