"""A cluster in a dictionary for controllers: plans are carried out by hand, and watches are as late as wanted."""

from __future__ import annotations

import copy
import itertools
from collections import deque
from collections.abc import Callable, Sequence
from typing import Any

import msgspec

from volcanoio.engine.hosting.object_cache import ObjectCache as HostCache
from volcanoio.engine.hosting.object_cache import References
from volcanoio.framework import effects
from volcanoio.framework.effects import Create, Delete, Patch
from volcanoio.framework.events import Observed
from volcanoio.framework.objects import Objects
from volcanoio.framework.reconciler import Plan, ReconcileView, WriteFailure
from volcanoio.kube.object_cache import ObjectCache
from volcanoio.localcluster.apiserver.patches import strategic
from volcanoio.localcluster.controllers.contract import ClusterController
from volcanoio.localcluster.controllers.objects import KINDS
from volcanoio.model.base import ApiObject, Manifest
from volcanoio.model.kinds import Kind
from volcanoio.model.times import rfc3339

_BY_RESOURCE = {kind.resource: kind for kind in KINDS}
_STATUS = {kind.resource for kind in KINDS if kind.status_subresource}


class Refused(Exception):  # noqa: N818 - named for what happened
    """A write that the store does not take."""

    def __init__(self, code: int, reason: str) -> None:
        super().__init__(f"{code} {reason}")
        self.code, self.reason = code, reason


class World:
    """The store, what controllers have seen of it, and the controllers.

    `deliver` brings watch events; until then controllers see earlier events, and their own writes.
    """

    def __init__(self, *controllers: ClusterController, now: float = 1_800_000_000.0) -> None:
        self.controllers = controllers
        self.now = now
        self.objects: dict[tuple[str, str], Manifest] = {}
        self._store = HostCache()
        self.cached = Objects(self._store)
        self.events: list[tuple[str, str]] = []
        self.reminders: list[tuple[float, str, str]] = []
        self.writes = 0
        self._caches: dict[str, ObjectCache] = {}
        self._late: deque[tuple[str, str, Manifest]] = deque()
        self._numbers = itertools.count(1)
        self._dirty: dict[tuple[str, str], None] = {}
        self._trouble: dict[tuple[str, str], WriteFailure] = {}
        self._memory: dict[tuple[str, str], Any] = {}
        self.refuse: Callable[[Create | Patch | Delete], Refused | None] = lambda _: None

    # The store.

    def put(self, kind: Kind, manifest: Manifest) -> Manifest:
        """Create or replace an object, as a user or the server would."""
        obj = copy.deepcopy(manifest)
        meta = obj.setdefault("metadata", {})
        key = f"{meta['namespace']}/{meta['name']}" if kind.namespaced else meta["name"]
        old = self.objects.get((kind.resource, key))
        if old is None:
            meta.setdefault("uid", f"uid-{next(self._numbers)}")
            meta.setdefault("creationTimestamp", rfc3339(self.now))
            meta["generation"] = 1
        else:
            meta["uid"] = old["metadata"]["uid"]
            meta["generation"] = old["metadata"]["generation"] + (obj.get("spec") != old.get("spec"))
        meta["resourceVersion"] = str(next(self._numbers))
        self.objects[kind.resource, key] = obj
        self._late.append(("MODIFIED" if old else "ADDED", kind.resource, obj))
        return obj

    def remove(self, kind: Kind, key: str) -> None:
        """Take an object away for good."""
        obj = copy.deepcopy(self.objects.pop((kind.resource, key)))
        obj["metadata"]["resourceVersion"] = str(next(self._numbers))
        self._late.append(("DELETED", kind.resource, obj))

    def change(self, kind: Kind, key: str, patch: Manifest) -> Manifest:
        """Merge a patch into an object."""
        obj = effects.apply_merge_patch(copy.deepcopy(self.objects[kind.resource, key]), patch)
        return self.put(kind, obj)

    def all(self, kind: Kind) -> list[Manifest]:
        """All objects of a kind, by key."""
        return [obj for (resource, _), obj in sorted(self.objects.items()) if resource == kind.resource]

    def get(self, kind: Kind, key: str) -> Manifest:
        """One object."""
        return self.objects[kind.resource, key]

    # The watch.

    def deliver(self, most: int = 1_000_000) -> None:
        """Bring up to so many watch events to the controllers."""
        while self._late and most:
            most -= 1
            type_, resource, obj = self._late.popleft()
            struct = self._struct(resource, obj)
            cache = self._cache(resource)
            self._seen(cache.deleted(struct) if type_ == "DELETED" else cache.appeared_or_changed(struct))

    @property
    def undelivered(self) -> int:
        """Watch events under way."""
        return len(self._late)

    def _cache(self, resource: str) -> ObjectCache:
        return self._caches.setdefault(resource, ObjectCache(resource))

    def _struct(self, resource: str, obj: Manifest) -> ApiObject:
        return msgspec.convert(copy.deepcopy(obj), _BY_RESOURCE[resource].type)

    def _seen(self, events: Sequence[Observed]) -> None:
        for event in events:
            self._store.fold(event)
            for controller in self.controllers:
                if event.resource in {controller.primary.resource, *(kind.resource for kind in controller.reads)}:
                    for key in controller.keys(event, self.cached):
                        self._dirty[controller.name, key] = None

    # The controllers.

    def step(self) -> bool:
        """Let one controller look at one key; False when there is none."""
        if not self._dirty:
            return False
        name, key = next(iter(self._dirty))
        del self._dirty[name, key]
        controller = next(one for one in self.controllers if one.name == name)
        trouble = self._trouble.pop((name, key), None)
        view = ReconcileView(
            key=key,
            now=self.now,
            synced=True,
            lookup=References(self._store, frozenset(), {}),
            objects=self.cached,
            suffix=lambda: f"{next(self._numbers):05d}",
            failure=trouble,
            is_backing_off=trouble is not None,
            memory=self._memory.get((name, key)),
        )
        plan = controller.reconcile(key, view)
        self._memory[name, key] = plan.memory
        if plan.requeue_at is not None:
            self.reminders.append((plan.requeue_at, name, key))
        if trouble is not None or plan.requeue:
            self._dirty[name, key] = None  # the retry, the next piece
        self._carry_out(name, key, plan)
        return True

    def run_until_stable(self, most: int = 5000) -> None:
        """Deliver and step until nothing is left to do."""
        for _ in range(most):
            self.deliver()
            if not self.step():
                return
        msg = "the controllers do not come to rest"
        raise AssertionError(msg)

    def wait(self, seconds: float) -> None:
        """Let time pass: who asked to be reminded is."""
        self.now += seconds
        due = [one for one in self.reminders if one[0] <= self.now]
        self.reminders = [one for one in self.reminders if one[0] > self.now]
        for _, name, key in due:
            self._dirty[name, key] = None

    def look_again(self) -> None:
        """Have all keys looked at, as from time to time."""
        for controller in self.controllers:
            for key in controller.all_keys(self.cached, self.now):
                self._dirty[controller.name, key] = None

    def _carry_out(self, name: str, key: str, plan: Plan) -> None:
        self.events += [(event.reason, event.message) for event in plan.events]
        for stage in plan.stages:
            failed = False
            for write in stage:
                assert isinstance(write.effect, Create | Patch | Delete)
                self.writes += 1
                try:
                    refusal = self.refuse(write.effect)
                    if refusal is not None:
                        raise refusal
                    self._write(write.effect)
                except Refused as error:
                    failed = True
                    self._trouble[name, key] = WriteFailure(error.code, error.reason, str(error), write.effect)
                    self._dirty[name, key] = None
                    if write.events is not None and write.events.on_failure is not None:
                        self.events.append((write.events.on_failure[0], write.events.on_failure[1] + str(error)))
                else:
                    if write.events is not None and write.events.on_success is not None:
                        self.events.append(write.events.on_success)
            if failed:
                return

    def _write(self, effect: Create | Patch | Delete) -> None:
        kind = _BY_RESOURCE[effect.resource]
        if isinstance(effect, Create):
            meta = effect.manifest["metadata"]
            if (effect.resource, f"{meta['namespace']}/{meta['name']}") in self.objects:
                raise Refused(409, "AlreadyExists")
            self._own(kind, self.put(kind, effect.manifest))
            return
        key = f"{effect.namespace}/{effect.name}" if effect.namespace else effect.name
        obj = self.objects.get((effect.resource, key))
        if isinstance(effect, Delete):
            if obj is not None and obj["metadata"]["uid"] == effect.uid:
                self._delete(kind, key, obj, effect.grace)
            return
        if obj is None:
            raise Refused(404, "NotFound")
        meta = obj["metadata"]
        if effect.uid not in ("", meta["uid"]) or effect.resource_version not in ("", meta["resourceVersion"]):
            raise Refused(409, "Conflict")
        patch: Any = copy.deepcopy(effect.patch)
        if effect.type == "application/strategic-merge-patch+json":
            new = strategic.apply(copy.deepcopy(obj), patch)
        else:
            new = effects.apply_merge_patch(copy.deepcopy(obj), patch)
        if effect.subresource == "status":
            new = {**obj, "status": new.get("status", {})}
        elif effect.resource in _STATUS and "status" in obj:
            new["status"] = obj["status"]
        if new == obj:
            return
        new = self.put(kind, new)
        self._own(kind, new)
        if new["metadata"].get("deletionTimestamp") and kind.kind == "Pod" and self._may_go(kind, new, None):
            self.remove(kind, key)

    def _may_go(self, kind: Kind, obj: Manifest, grace: int | None) -> bool:
        """Pods on a node, unless without grace, and what has finalizers, go later."""
        bound = kind.kind == "Pod" and grace != 0 and (obj.get("spec") or {}).get("nodeName")
        return not bound and not obj["metadata"].get("finalizers")

    def _delete(self, kind: Kind, key: str, obj: Manifest, grace: int | None) -> None:
        if self._may_go(kind, obj, grace):
            self.remove(kind, key)
            self._seen(self._cache(kind.resource).own_deleted(key, obj["metadata"]["uid"]))
            return
        meta = {**obj["metadata"], "deletionTimestamp": rfc3339(self.now)}
        self._own(kind, self.put(kind, {**obj, "metadata": meta}))

    def _own(self, kind: Kind, obj: Manifest) -> None:
        self._seen(self._cache(kind.resource).own(self._struct(kind.resource, obj)))
