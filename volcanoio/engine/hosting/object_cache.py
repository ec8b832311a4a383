"""Cache of observed objects, and lookups of references that wake the keys which read them."""

import bisect
from collections.abc import Collection, Iterable, Mapping

from volcanoio.framework.events import Change, Observed, Relisting, Synced
from volcanoio.framework.objects import Index
from volcanoio.model.base import ApiObject
from volcanoio.model.kinds import Kind


class ObjectCache:
    """The newest object of every resource, by `namespace/name`; shared by all controllers of a process."""

    def __init__(self) -> None:
        self._objects: dict[str, dict[str, ApiObject]] = {}
        self._synced: set[str] = set()
        self._indexes: dict[str, dict[Index, dict[str, dict[str, ApiObject]]]] = {}
        """By resource and index; only those that were read."""

    def fold(self, event: Observed | Synced | Relisting) -> None:
        """Fold one observation."""
        if isinstance(event, Observed):
            objects = self._objects.setdefault(event.resource, {})
            obj = event.obj
            key = obj.metadata.key
            gone = event.change is Change.GONE
            for index, groups in self._indexes.get(event.resource, {}).items():
                _regroup(index, groups, objects.get(key), None if gone else obj)
            if gone:
                objects.pop(key, None)
            else:
                objects[key] = obj
        elif isinstance(event, Synced):
            self._synced.add(event.resource)
        else:
            self._synced.discard(event.resource)

    def synced(self, resources: Iterable[str]) -> bool:
        """Return whether all of these are listed and none is being relisted."""
        return self._synced.issuperset(resources)

    @property
    def resources(self) -> list[str]:
        """Every resource with an observed object or a finished list, sorted."""
        return sorted({*self._objects, *self._synced})

    def get(self, resource: str, key: str) -> ApiObject | None:
        """Return one object by `namespace/name`, or the name alone."""
        return self._objects.get(resource, {}).get(key)

    def by_key(self, resource: str) -> Mapping[str, ApiObject]:
        """Return all objects of a resource by `namespace/name`, a live view."""
        return self._objects.setdefault(resource, {})

    def indexed(self, resource: str, index: Index) -> Mapping[str, Mapping[str, ApiObject]]:
        """Return the objects of a resource by value of an index, then by `namespace/name`; a live view."""
        indexes = self._indexes.setdefault(resource, {})
        if (groups := indexes.get(index)) is None:
            groups = indexes[index] = {}
            for obj in self._objects.get(resource, {}).values():
                _regroup(index, groups, None, obj)
        return groups

    def get_existing(self, resource: str, keys: Iterable[str]) -> list[ApiObject]:
        """Return the existing objects among the keys, in their order."""
        objects = self._objects.get(resource, {})
        return [obj for key in keys if (obj := objects.get(key)) is not None]

    def all(self, resource: str) -> list[ApiObject]:
        """Return all objects of a resource, sorted by namespace and name."""
        objects = self._objects.get(resource, {})
        return [objects[key] for key in sorted(objects, key=lambda key: key.rpartition("/")[::2])]


def _regroup(
    index: Index, groups: dict[str, dict[str, ApiObject]], before: ApiObject | None, after: ApiObject | None
) -> None:
    """Replace a version of an object in an index; None where there is none."""
    old = None if before is None else index.value(before)
    new = None if after is None else index.value(after)
    if before is not None and old is not None and old != new:
        group = groups[old]
        del group[before.metadata.key]
        if not group:
            del groups[old]
    if after is not None and new is not None:
        groups.setdefault(new, {})[after.metadata.key] = after


_SORTED_FROM = 64
"""Number of objects of a key from which their order is kept instead of being sorted for each lookup."""
_ALL_OBJECTS = ""  # stands for "all objects of the resource": no object has an empty key


class References:
    """The `Lookup` of one controller: reads the cache and remembers what each key looked up.

    `members` are the (resource, object key) of the inputs' objects by controller key; the host updates it. Lookups are
    remembered until the key is forgotten: a needless wake-up is cheap, a missed one blocks the key.
    """

    def __init__(
        self, cache: ObjectCache, resources: frozenset[str], members: Mapping[str, Collection[tuple[str, str]]]
    ) -> None:
        self._cache = cache
        self._resources = resources
        self._members = members
        self._lookups: dict[str, set[tuple[str, str]]] = {}
        self._readers: dict[tuple[str, str], set[str]] = {}
        self._sorted_names: dict[tuple[str, str], list[str]] = {}
        """Sorted names of keys with many objects, by (controller key, resource)."""
        self.current_key = ""

    def get(self, kind: Kind, name: str, namespace: str = "") -> ApiObject | None:
        """Return the object, or None; the current key is woken when it appears, changes or disappears."""
        key = f"{namespace}/{name}" if namespace else name
        self._remember(kind, key)
        return self._cache.get(kind.resource, key)

    def all(self, kind: Kind) -> list[ApiObject]:
        """Return all objects of a reference kind, sorted by namespace and name; any change wakes the current key."""
        self._remember(kind, _ALL_OBJECTS)
        return self._cache.all(kind.resource)

    def for_key(self, kind: Kind) -> list[ApiObject]:
        """Return the objects of an input that belong to the current key, sorted by namespace and name."""
        return self.objects_of(self.current_key, kind.resource)

    def objects_of(self, key: str, resource: str) -> list[ApiObject]:
        """Return the cached objects of an input that belong to a key, sorted by namespace and name."""
        if (names := self._sorted_names.get((key, resource))) is None:
            names = sorted(name for of, name in self._members.get(key, ()) if of == resource)
            if len(names) >= _SORTED_FROM:
                self._sorted_names[key, resource] = names
        return self._cache.get_existing(resource, names)

    def member_added(self, key: str, member: tuple[str, str]) -> None:
        """Update the order for an object that belongs to a key now."""
        resource, name = member
        if (names := self._sorted_names.get((key, resource))) is not None:
            bisect.insort(names, name)

    def member_removed(self, key: str, member: tuple[str, str]) -> None:
        """Update the order for an object that does not belong to a key any more."""
        resource, name = member
        if (names := self._sorted_names.get((key, resource))) is not None:
            del names[bisect.bisect_left(names, name)]
            if len(names) < _SORTED_FROM:
                del self._sorted_names[key, resource]

    def reading_keys(self, resource: str, object_key: str) -> list[str]:
        """Return the keys to wake for a change of that object, sorted."""
        one = self._readers.get((resource, object_key))
        every = self._readers.get((resource, _ALL_OBJECTS))
        return sorted(one | every) if one and every else sorted(one or every or ())

    def forget(self, key: str) -> None:
        """Forget what a key looked up."""
        for lookup in self._lookups.pop(key, ()):
            askers = self._readers[lookup]
            askers.discard(key)
            if not askers:
                del self._readers[lookup]

    def _remember(self, kind: Kind, object_key: str) -> None:
        if kind.resource not in self._resources:
            msg = f"{kind} is looked up but not declared: add Reference({kind.kind}) to the controller's references"
            raise LookupError(msg)
        lookup = (kind.resource, object_key)
        lookups = self._lookups.setdefault(self.current_key, set())
        if lookup not in lookups:
            lookups.add(lookup)
            self._readers.setdefault(lookup, set()).add(self.current_key)
