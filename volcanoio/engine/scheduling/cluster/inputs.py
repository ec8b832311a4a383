"""Objects of the kinds that plugins declare in `watches`, and facts of sources, as last observed."""

from collections.abc import Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import Any

import msgspec

from volcanoio.framework.events import Change, Observed
from volcanoio.framework.scheduling_events import FactsSaid
from volcanoio.model.base import ApiObject

_NOTHING: Mapping[str, ApiObject] = MappingProxyType({})
_NO_FACTS: Mapping[str, Any] = MappingProxyType({})

MIN_CHANGES_KEPT = 1024
"""Changes of a resource kept at least; a reader further behind reads all objects."""


class Inputs:
    """Objects by resource and key (`namespace/name`, or the name); each resource has a version.

    A version changes with every change that a reader can see, so that results derived from the objects can be cached.
    Objects that differ only in their resourceVersion count as equal.
    """

    def __init__(self) -> None:
        self._objects: dict[str, dict[str, ApiObject]] = {}
        self._facts: dict[str, dict[str, Any]] = {}
        self._versions: dict[str, int] = {}
        self._changes: dict[str, list[str]] = {}
        """Per resource the keys of the latest changes, one for each version."""

    def observe(self, event: Observed) -> bool:
        """Add, update or delete an object; return whether a reader can see a difference."""
        obj = event.obj
        objects = self._objects.setdefault(event.resource, {})
        key = obj.metadata.key
        old = objects.get(key)
        if event.change is Change.GONE:
            if old is None or old.metadata.uid != obj.metadata.uid:
                return False
            del objects[key]
        else:
            objects[key] = obj
            if old is not None and _same(old, obj):
                return False
        self._versions[event.resource] = self._versions.get(event.resource, 0) + 1
        changes = self._changes.setdefault(event.resource, [])
        changes.append(key)
        if len(changes) > 2 * MIN_CHANGES_KEPT:
            del changes[:MIN_CHANGES_KEPT]
        return True

    def changed_since(self, resource: str, version: int) -> Sequence[str] | None:
        """Return the keys changed after a version, possibly repeated; None when it is too old."""
        changes, count = self._changes.get(resource, []), self.version(resource) - version
        return changes[len(changes) - count :] if 0 <= count <= len(changes) else None

    def observe_facts(self, event: FactsSaid) -> bool:
        """Update the facts of a source; return whether a reader can see a difference."""
        before = self._facts.get(event.source, {})
        facts = dict(event.facts) if event.whole else {**before, **event.facts}
        if (facts := {key: fact for key, fact in facts.items() if fact is not None}) == before:
            return False
        self._facts[event.source] = facts
        self._versions[event.source] = self._versions.get(event.source, 0) + 1
        return True

    def facts(self, source: str) -> Mapping[str, Any]:
        """Return the facts of a source by key."""
        return _NO_FACTS if (facts := self._facts.get(source)) is None else MappingProxyType(facts)

    def all_facts(self) -> dict[str, dict[str, Any]]:
        """Return the facts of all sources, by source and key."""
        return {source: dict(facts) for source, facts in self._facts.items() if facts}

    def objects(self, resource: str) -> Mapping[str, ApiObject]:
        """Return a live, read-only view of the objects of a resource by key."""
        return _NOTHING if (objects := self._objects.get(resource)) is None else MappingProxyType(objects)

    def version(self, resource: str) -> int:
        """Return the version of a resource's objects."""
        return self._versions.get(resource, 0)

    def versions(self, resources: Iterable[str]) -> tuple[int, ...]:
        """Return the versions of several resources."""
        return tuple([self._versions.get(resource, 0) for resource in resources])

    def dump(self) -> dict[str, Any]:
        """Return all objects, facts and versions for a state dump."""
        return {
            resource: {"version": self.version(resource), "objects": dict(objects)}
            for resource, objects in self._objects.items()
            if objects
        } | {source: {"version": self.version(source), "facts": facts} for source, facts in self._facts.items()}


def _same(old: ApiObject, new: ApiObject) -> bool:
    """Return whether two versions of an object differ at most in their resourceVersion."""
    if old.metadata.resource_version != new.metadata.resource_version:
        meta = msgspec.structs.replace(old.metadata, resource_version=new.metadata.resource_version)
        old = msgspec.structs.replace(old, metadata=meta)
    return old == new
