"""The log and its fold: every object under one global, strictly increasing resourceVersion. Pure: no I/O, no clock."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TypeAlias

from volcanoio.kube.transport import SharedObject
from volcanoio.localcluster.apiserver.collection import WINDOW, Collection
from volcanoio.localcluster.apiserver.objects import Event, Ref, Stored
from volcanoio.model.base import Manifest

Observer: TypeAlias = Callable[[Ref, Event], None]
"""Told of each change at once and synchronously; must not write, only note what to do."""


class Store:
    """All objects. Writes are the caller's decisions already made: no rule is checked here.

    `observers` are told of each change after it is visible.
    """

    def __init__(self, revision: int = 0, window: int = WINDOW) -> None:
        self.revision = revision
        self.observers: list[Observer] = []
        self._newest: tuple[bytes, dict[type[object], object]] = (b"", {})
        self._listeners: dict[str, list[Observer]] = {}
        self._window = window
        self._start = revision
        self._collections: dict[str, Collection] = {}
        self._by_uid: dict[str, Ref] = {}
        self._dependents: dict[str, dict[Ref, None]] = {}

    def on(self, resource: str, listener: Observer) -> None:
        """Tell of the changes of one resource, as observers are told of all; costs the others nothing."""
        self._listeners.setdefault(resource, []).append(listener)

    def off(self, resource: str, listener: Observer) -> None:
        """Tell a listener no more."""
        listeners = self._listeners[resource]
        listeners.remove(listener)
        if not listeners:
            del self._listeners[resource]

    def collection(self, resource: str) -> Collection:
        """The objects of a resource, named `plural.group`."""
        found = self._collections.get(resource)
        if found is None:
            found = self._collections[resource] = Collection(self._start, self._window)
        return found

    def collections(self) -> Iterator[tuple[str, Collection]]:
        """All resources that have, or had, objects."""
        yield from self._collections.items()

    def get(self, ref: Ref) -> Stored | None:
        """The object, if there is one."""
        return self.collection(ref.resource).objects.get((ref.namespace, ref.name))

    def by_uid(self, uid: str) -> Ref | None:
        """Where the object with that uid is."""
        return self._by_uid.get(uid)

    def dependents(self, uid: str) -> list[Ref]:
        """The objects that name this uid as an owner."""
        return list(self._dependents.get(uid, ()))

    def put(self, ref: Ref, obj: Manifest) -> Stored:
        """Create or replace; the object gets the next resourceVersion."""
        collection = self.collection(ref.resource)

        def made(revision: int) -> Stored:
            obj["metadata"]["resourceVersion"] = str(revision)
            return _stored(collection, ref, revision, obj)

        return self.put_made(ref, made)

    def put_made(self, ref: Ref, make: Callable[[int], Stored]) -> Stored:
        """Create or replace by what `make` makes of the next resourceVersion; nothing happens where it raises."""
        collection = self.collection(ref.resource)
        old = collection.objects.get((ref.namespace, ref.name))
        new = make(self.revision + 1)
        self.revision += 1
        self._index(ref, old, new)
        self._publish(ref, collection, Event("ADDED" if old is None else "MODIFIED", new, old))
        return new

    def shared(self, data: bytes) -> bytes:
        """The JSON of what was written last, so that its readers decode it once with those who watch; else the JSON."""
        newest, decoded = self._newest
        if data is not newest:
            return data
        found = SharedObject(data)
        found.decoded = decoded
        return found

    def remove(self, ref: Ref, last_state: Manifest | None = None) -> Stored:
        """Delete; returns the last state (the stored one, unless given) at the version of its deletion."""
        collection = self.collection(ref.resource)
        old = collection.objects[ref.namespace, ref.name]
        self.revision += 1
        if last_state is None:
            last = old.at(self.revision)
        else:
            last_state["metadata"]["resourceVersion"] = str(self.revision)
            last = _stored(collection, ref, self.revision, last_state)
        self._index(ref, old, None)
        self._publish(ref, collection, Event("DELETED", last, old))
        return last

    def load(self, ref: Ref, stored: Stored) -> None:
        """Take over an object as it was stored before, without an event."""
        collection = self.collection(ref.resource)
        self._index(ref, collection.objects.get((ref.namespace, ref.name)), stored)
        collection.load(stored)

    def _publish(self, ref: Ref, collection: Collection, event: Event) -> None:
        self._newest = event.new.data, event.decoded
        collection.apply(event)
        for observer in self.observers:
            observer(ref, event)
        if ref.resource in self._listeners:
            for listener in tuple(self._listeners[ref.resource]):
                listener(ref, event)

    def _index(self, ref: Ref, old: Stored | None, new: Stored | None) -> None:
        before, after = (old.owners if old else ()), (new.owners if new else ())
        if before != after:
            for uid in before:
                dependents = self._dependents.get(uid)
                if dependents is not None:
                    dependents.pop(ref, None)
                    if not dependents:
                        del self._dependents[uid]
            for uid in after:
                self._dependents.setdefault(uid, {})[ref] = None
        if new is None:
            if old is not None:
                self._by_uid.pop(old.uid, None)
        elif old is None:
            self._by_uid[new.uid] = ref


def _stored(collection: Collection, ref: Ref, revision: int, obj: Manifest) -> Stored:
    """A version of an object; what its watchers select by is read here, where it need not be decoded for it."""
    new = Stored(ref.namespace, ref.name, revision, obj)
    if collection.reads_fields is not None:
        new.fields = collection.reads_fields(obj)
    return new
