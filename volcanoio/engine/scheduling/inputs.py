"""Objects of further kinds, which plugins declare that they read (`watches`), as last seen, and facts of sources."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import Any

import msgspec

from volcanoio.framework.events import Change, Observed
from volcanoio.framework.scheduling_events import FactsSaid
from volcanoio.model.base import ApiObject

_NOTHING: Mapping[str, ApiObject] = MappingProxyType({})
_NO_FACTS: Mapping[str, Any] = MappingProxyType({})

KEPT = 1024
"""Changes of a resource that are kept at least; who is further behind looks at all objects."""


class Inputs:
    """The objects by resource and key (`namespace/name`, or the name alone); each resource has a version.

    A version is another number after every change that a reader can see: what follows from the objects holds while it
    is the same. Objects that differ in their resourceVersion alone are the same to readers.
    """

    def __init__(self) -> None:
        self._objects: dict[str, dict[str, ApiObject]] = {}
        self._facts: dict[str, dict[str, Any]] = {}
        self._versions: dict[str, int] = {}
        self._changes: dict[str, list[str]] = {}
        """By resource the keys of the latest changes, one for each version."""

    def observe(self, event: Observed) -> bool:
        """An object appeared, changed or is gone; whether a reader can see a difference."""
        obj = event.obj
        known = self._objects.setdefault(event.resource, {})
        key = obj.metadata.key
        old = known.get(key)
        if event.change is Change.GONE:
            if old is None or old.metadata.uid != obj.metadata.uid:
                return False
            del known[key]
        else:
            known[key] = obj
            if old is not None and _same(old, obj):
                return False
        self._versions[event.resource] = self._versions.get(event.resource, 0) + 1
        changes = self._changes.setdefault(event.resource, [])
        changes.append(key)
        if len(changes) > 2 * KEPT:
            del changes[:KEPT]
        return True

    def since(self, resource: str, version: int) -> Sequence[str] | None:
        """The keys of objects that came, changed or went after a version, some maybe twice; None when it is too old."""
        changes, count = self._changes.get(resource, []), self.version(resource) - version
        return changes[len(changes) - count :] if 0 <= count <= len(changes) else None

    def learn(self, event: FactsSaid) -> bool:
        """A source said something; whether a reader can see a difference."""
        known = self._facts.get(event.source, {})
        facts = dict(event.facts) if event.whole else {**known, **event.facts}
        facts = {key: fact for key, fact in facts.items() if fact is not None}
        if facts == known:
            return False
        self._facts[event.source] = facts
        self._versions[event.source] = self._versions.get(event.source, 0) + 1
        return True

    def facts(self, source: str) -> Mapping[str, Any]:
        """What a source has said, by key."""
        known = self._facts.get(source)
        return _NO_FACTS if known is None else MappingProxyType(known)

    def objects(self, resource: str) -> Mapping[str, ApiObject]:
        """The objects of a resource by key; a live, read-only view."""
        known = self._objects.get(resource)
        return _NOTHING if known is None else MappingProxyType(known)

    def version(self, resource: str) -> int:
        """The version of a resource's objects."""
        return self._versions.get(resource, 0)

    def versions(self, resources: Iterable[str]) -> tuple[int, ...]:
        """The versions of several."""
        return tuple([self._versions.get(resource, 0) for resource in resources])

    def picture(self) -> dict[str, Any]:
        """All of it, as `snapshot` shows it."""
        return {
            resource: {"version": self.version(resource), "objects": dict(known)}
            for resource, known in self._objects.items()
            if known
        } | {source: {"version": self.version(source), "facts": facts} for source, facts in self._facts.items()}


def _same(old: ApiObject, new: ApiObject) -> bool:
    """Whether two versions of an object differ in their resourceVersion at most."""
    if old.metadata.resource_version != new.metadata.resource_version:
        meta = msgspec.structs.replace(old.metadata, resource_version=new.metadata.resource_version)
        old = msgspec.structs.replace(old, metadata=meta)
    return old == new
