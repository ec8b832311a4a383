"""`ObjectCache`: the objects of one kind, folded from lists, watches and responses to our own writes. No I/O.

All three sources report the same objects and may arrive in any order. These rules give the same result for every order:

- Of two versions of one uid the higher resourceVersion is kept; of two uids with one name the later one.
- The *floor* is the highest revision that a list or watch has reached. A response to our own write at or below the
  floor adds nothing, whether its object still exists or not.
- A deleted uid leaves a tombstone (their number is limited), so that a late watch event does not add the object again.
- A list removes objects that it does not contain, except those that our own writes added after the list was made.

Kubernetes orders the versions of one resource type by number (KEP-5504); a watch delivers them in that order.

`SharedParts` stores parts that many objects have in common once. This is safe because decoded objects are never
changed, and saves two thirds of the memory of 100,000 pods of a few jobs.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping
from types import MappingProxyType
from typing import Any, TypeVar

import msgspec

from volcanoio.framework.events import Change, Observed
from volcanoio.model.base import ApiObject
from volcanoio.model.core import ContainerStatus, Pod, PodStatus

_TOMBSTONES = 10_000
AT_ONCE = 512
"""Number of objects of a list that are folded in one step."""


class ObjectCache:
    """Objects of one kind by `namespace/name`; every method returns its changes as events without sequence number.

    `selective`: selectors restrict lists and watches. A response to our own write then only changes objects that are in
    the cache already, because only the server evaluates the selectors.
    """

    def __init__(self, resource: str, *, selective: bool = False, tombstones: int = _TOMBSTONES) -> None:
        self._resource = resource
        self._selective = selective
        self._limit = tombstones
        self._objects: dict[str, ApiObject] = {}
        self._tombstones: dict[str, float] = {}
        self._floor = 0

    @property
    def objects(self) -> Mapping[str, ApiObject]:
        """All objects by `namespace/name` (the name alone for cluster-scoped ones); a live, read-only view."""
        return MappingProxyType(self._objects)

    @property
    def floor(self) -> int:
        """The revision up to which lists and watches are complete."""
        return self._floor

    def replace(self, objects: Iterable[ApiObject], revision: int) -> list[Observed]:
        """Fold a complete list made at `revision` (0 if the server sent none)."""
        listed = {obj.metadata.key: obj for obj in objects}
        return [event for events in self.replacing(listed, revision) for event in events]

    def replacing(self, listed: Mapping[str, ApiObject], revision: int) -> Iterator[list[Observed]]:
        """Fold a list as `replace` does, but in steps; other events may be folded between them."""
        events = [
            self._bury(key, known, known.metadata.revision)
            for key, known in [(key, known) for key, known in self._objects.items() if key not in listed]
            if not revision or known.metadata.revision <= revision
        ]
        for number, obj in enumerate(listed.values(), 1):
            events += self._present(obj, obj.metadata.revision)
            if not number % AT_ONCE:
                yield events
                events = []
        yield events
        self._floor = max(self._floor, revision)

    def appeared_or_changed(self, obj: ApiObject) -> list[Observed]:
        """Fold an ADDED or MODIFIED event of the watch."""
        revision = obj.metadata.revision
        self._floor = max(self._floor, revision)
        return self._present(obj, revision)

    def deleted(self, obj: ApiObject) -> list[Observed]:
        """Fold a DELETED event of the watch; with selectors, the object may still exist outside the selection."""
        self._floor = max(self._floor, obj.metadata.revision)
        known = self._objects.get(obj.metadata.key)
        if known is None or known.metadata.uid != obj.metadata.uid:
            self._entomb(obj.metadata.uid, obj.metadata.revision)
            return []
        return [self._bury(obj.metadata.key, obj, obj.metadata.revision)]

    def progressed(self, revision: int) -> None:
        """Fold a bookmark: all events up to `revision` were received."""
        self._floor = max(self._floor, revision)

    def own(self, obj: ApiObject) -> list[Observed]:
        """Fold the object in a response to our own write."""
        revision = obj.metadata.revision
        if revision <= self._floor:
            return []
        if self._selective:
            known = self._objects.get(obj.metadata.key)
            if known is None or known.metadata.uid != obj.metadata.uid:
                return []
        return self._present(obj, revision)

    def own_deleted(self, key: str, uid: str) -> list[Observed]:
        """Fold the response that our own delete removed that uid."""
        known = self._objects.get(key)
        if known is None or known.metadata.uid != uid:
            self._entomb(uid, math.inf)
            return []
        return [self._bury(key, known, math.inf)]

    def _present(self, obj: ApiObject, revision: int) -> list[Observed]:
        meta = obj.metadata
        if meta.uid in self._tombstones and revision <= self._tombstones[meta.uid]:
            return []
        key = meta.key
        known = self._objects.get(key)
        if known is None:
            return [self._put(key, obj, Change.APPEARED)]
        before = known.metadata.revision
        if known.metadata.uid == meta.uid:
            return [self._put(key, obj, Change.CHANGED, known)] if revision > before else []
        if revision < before:  # the object had the same name and an older uid
            self._entomb(meta.uid, math.inf)
            return []
        return [self._bury(key, known, math.inf), self._put(key, obj, Change.APPEARED)]

    def _put(self, key: str, obj: ApiObject, change: Change, previous: ApiObject | None = None) -> Observed:
        self._objects[key] = obj
        return Observed(resource=self._resource, change=change, object=obj, previous=previous)

    def _bury(self, key: str, last: ApiObject, revision: float) -> Observed:
        known = self._objects.pop(key)
        self._entomb(last.metadata.uid, revision)
        return Observed(resource=self._resource, change=Change.GONE, object=last, previous=known)

    def _entomb(self, uid: str, revision: float) -> None:
        """Add a tombstone for versions of `uid` up to `revision`; removes the oldest one if there are too many."""
        self._tombstones[uid] = max(revision, self._tombstones.pop(uid, -1))
        if len(self._tombstones) > self._limit:
            del self._tombstones[next(iter(self._tombstones))]


MAX_SHARED = 8192
"""Number of different parts, or words, that are kept; beyond it all are dropped and sharing starts again."""
LONGEST_SHARED_TEXT = 256
"""Length in characters up to which texts are shared."""
Part = TypeVar("Part")
_put = msgspec.structs.force_setattr


class SharedParts:
    """Interned parts of the pods seen so far."""

    def __init__(self) -> None:
        self._known: dict[Hashable, Any] = {}
        self._words: dict[str, str] = {}
        self._encode: Callable[[Any], bytes] = msgspec.msgpack.Encoder().encode

    def of(self, obj: ApiObject) -> ApiObject:
        """Return an equal object that uses shared parts where possible."""
        if isinstance(obj, Pod):
            if len(self._words) >= MAX_SHARED:
                self._words.clear()
            meta, spec = obj.metadata, obj.spec
            _put(meta, "namespace", self._word(meta.namespace))
            _put(meta, "annotations", self._texts(meta.annotations))
            _put(meta, "labels", self._texts(meta.labels))
            if meta.owner_references:
                _put(meta, "owner_references", self._built(meta.owner_references))
            _put(spec, "containers", self._built(spec.containers))
            _put(spec, "node_selector", self._texts(spec.node_selector))
            for field, part in (
                ("init_containers", spec.init_containers),
                ("tolerations", spec.tolerations),
                ("volumes", spec.volumes),
            ):
                if part:
                    _put(spec, field, self._built(part))
            _put(spec, "node_name", self._word(spec.node_name))
            _put(spec, "scheduler_name", self._word(spec.scheduler_name))
            _put(spec, "restart_policy", self._word(spec.restart_policy))
            _put(spec, "subdomain", self._word(spec.subdomain))
            if meta.creation_timestamp:
                _put(meta, "creation_timestamp", self._word(meta.creation_timestamp))
            if obj.status.phase in ("", "Pending"):
                _put(obj, "status", self._built(obj.status))
            else:
                self._status(obj.status)
        return obj

    def _status(self, status: PodStatus) -> None:
        """Share the status parts; only the address and container ids of a started pod are unique."""
        _put(status, "phase", self._word(status.phase))
        if status.start_time:
            _put(status, "start_time", self._word(status.start_time))
        if status.conditions:
            _put(status, "conditions", self._built(status.conditions))  # a gang's pods get theirs within a second
        for container in (*status.init_container_statuses, *status.container_statuses):
            self._container(container)

    def _container(self, container: ContainerStatus) -> None:
        _put(container, "name", self._word(container.name))
        _put(container, "state", self._built(container.state))
        _put(container, "last_state", self._built(container.last_state))

    def _built(self, part: Part) -> Part:
        return self._one(self._encode(part), part)

    def _texts(self, texts: Mapping[str, str]) -> Mapping[str, str]:
        """Return the same texts, shared or composed of shared words."""
        key = tuple(texts.items())
        known: Mapping[str, str] | None = self._known.get(key)
        if known is not None:
            return known
        word = self._words.setdefault
        made = {word(name, name): word(text, text) if len(text) <= LONGEST_SHARED_TEXT else text for name, text in key}
        return self._one(tuple(made.items()), made)

    def _word(self, text: str) -> str:
        return self._words.setdefault(text, text) if len(text) <= LONGEST_SHARED_TEXT else text

    def _one(self, key: Hashable, part: Part) -> Part:
        known: Part | None = self._known.get(key)
        if known is None:
            if len(self._known) >= MAX_SHARED:
                self._known.clear()
            known = self._known[key] = part
        return known
