"""Lookups of references, and who is woken when what they looked up changes."""

from __future__ import annotations

import bisect
from collections.abc import Collection, Mapping

from volcanoio.engine.hosting.cache import ObjectCache
from volcanoio.model.base import ApiObject
from volcanoio.model.kinds import Kind

_MANY = 64
"""From how many objects of a key on their order is kept instead of being sorted at each look."""
_EVERY = ""  # stands for "all objects of the resource": no object has an empty key


class References:
    """The `Lookup` of one controller: reads the cache and remembers for each key what it asked for.

    `members` are the (resource, object key) of the inputs' objects by controller key; the host keeps it.

    What a key looked up stays remembered until the key is forgotten: a needless wake is cheap, a missed one is a hang.
    """

    def __init__(
        self, cache: ObjectCache, resources: frozenset[str], members: Mapping[str, Collection[tuple[str, str]]]
    ) -> None:
        self._cache = cache
        self._resources = resources
        self._members = members
        self._asked: dict[str, set[tuple[str, str]]] = {}
        self._askers: dict[tuple[str, str], set[str]] = {}
        self._order: dict[tuple[str, str], list[str]] = {}
        """Of keys with many objects that were looked at: their names in order, by (controller key, resource)."""
        self.asking = ""

    def get(self, kind: Kind, name: str, namespace: str = "") -> ApiObject | None:
        """The object, or None; the asking key is woken when it appears, changes or goes."""
        key = f"{namespace}/{name}" if namespace else name
        self._remember(kind, key)
        return self._cache.get(kind.resource, key)

    def all(self, kind: Kind) -> list[ApiObject]:
        """All objects of a reference kind, sorted by namespace and name; the asking key is woken by any change."""
        self._remember(kind, _EVERY)
        return self._cache.all(kind.resource)

    def mine(self, kind: Kind) -> list[ApiObject]:
        """The objects of an input that belong to the asking key, sorted by namespace and name."""
        return self.belonging(self.asking, kind.resource)

    def belonging(self, key: str, resource: str) -> list[ApiObject]:
        """The cached objects of an input that belong to a key, sorted by namespace and name."""
        names = self._order.get((key, resource))
        if names is None:
            names = sorted(name for of, name in self._members.get(key, ()) if of == resource)
            if len(names) >= _MANY:
                self._order[key, resource] = names
        return self._cache.some(resource, names)

    def joined(self, key: str, member: tuple[str, str]) -> None:
        """An object has come to belong to a key."""
        resource, name = member
        names = self._order.get((key, resource))
        if names is not None:
            bisect.insort(names, name)

    def parted(self, key: str, member: tuple[str, str]) -> None:
        """An object does no longer belong to a key."""
        resource, name = member
        names = self._order.get((key, resource))
        if names is not None:
            del names[bisect.bisect_left(names, name)]
            if len(names) < _MANY:
                del self._order[key, resource]

    def askers(self, resource: str, object_key: str) -> list[str]:
        """The keys to wake for a change of that object, sorted."""
        one = self._askers.get((resource, object_key))
        every = self._askers.get((resource, _EVERY))
        if one and every:
            return sorted(one | every)
        return sorted(one or every or ())

    def forget(self, key: str) -> None:
        """Forget what a key asked for."""
        for asked in self._asked.pop(key, ()):
            askers = self._askers[asked]
            askers.discard(key)
            if not askers:
                del self._askers[asked]

    def _remember(self, kind: Kind, object_key: str) -> None:
        if kind.resource not in self._resources:
            msg = f"{kind} is looked up but not declared: add Reference({kind.kind}) to the controller's references"
            raise LookupError(msg)
        asked = (kind.resource, object_key)
        mine = self._asked.setdefault(self.asking, set())
        if asked not in mine:
            mine.add(asked)
            self._askers.setdefault(asked, set()).add(self.asking)
