"""The store: every object under one global, strictly increasing resourceVersion.

Pure: no I/O, no clock. A `Collection` holds one resource's objects, the window of its last events, and its watchers;
the `Store` holds all collections and calls observers after each event.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import deque
from collections.abc import Callable, Hashable, Iterator
from typing import TypeAlias

from volcanoio.kube.transport import SharedObject
from volcanoio.localcluster.apiserver.apimachinery.objects import Event, EventType, Ref, Stored, View
from volcanoio.localcluster.apiserver.apimachinery.selectors import EVERYTHING, Selection
from volcanoio.model.base import Manifest

WINDOW = 10_000
"""Events kept per resource: the oldest version at which a watch may start."""

BACKLOG = 20_000
"""Maximal number of queued lines of a watcher before it is closed."""


class Watcher:
    """A bounded queue of watch lines.

    `overrun` is set, and the queue stopped, when its reader is too slow.
    """

    __slots__ = ("_backlog", "_view", "_view_key", "overrun", "pending", "selection", "wake")

    def __init__(
        self,
        selection: Selection = EVERYTHING,
        view: View | None = None,
        view_key: Hashable = None,
        backlog: int = BACKLOG,
    ) -> None:
        self.selection = selection
        self.pending: list[bytes] = []
        self.overrun = False
        self.wake: Callable[[], None] | None = None
        self._view = view
        self._view_key = view_key
        self._backlog = backlog

    def offer(self, event: Event) -> None:
        """Queue the event for this selection: leaving objects are DELETED, entering ones ADDED."""
        selection = self.selection
        type_: EventType = event.type
        if not selection.all:
            now = selection.selects(event.new)
            before = event.old is not None and selection.selects(event.old)
            if type_ == "DELETED":
                if not before:
                    return
            elif now:
                type_ = "MODIFIED" if before else "ADDED"
            elif before:
                type_ = "DELETED"
            else:
                return
        if len(self.pending) >= self._backlog:
            self.overrun = True
        elif not self.overrun:
            self.pending.append(event.frame(type_, self._view, self._view_key))
        if self.wake is not None:
            self.wake()

    def take(self) -> list[bytes]:
        """Remove and return all queued lines."""
        taken, self.pending = self.pending, []
        return taken


class Collection:
    """All objects of one resource.

    `floor` is the version of the newest event that the window has dropped.
    """

    def __init__(self, floor: int, window: int = WINDOW) -> None:
        self.objects: dict[tuple[str, str], Stored] = {}
        self.floor = floor
        self.reads_fields: Callable[[Manifest], dict[str, str]] | None = None
        """Reads the selectable fields of each object, once a watcher has selected by field."""
        self._ring: deque[Event] = deque()
        self._window = window
        self._keys: list[tuple[str, str]] = []
        self._unsorted = False
        self._watchers: dict[Watcher, None] = {}

    def keys(self) -> list[tuple[str, str]]:
        """Return all (namespace, name), sorted on demand: writes are far more frequent than lists."""
        if self._unsorted:
            self._keys = sorted(self.objects)
            self._unsorted = False
        return self._keys

    def select(self, selection: Selection) -> list[Stored]:
        """Return the selected objects, sorted by namespace and name."""
        objects = self.objects
        if selection.name and selection.namespace:
            one = objects.get((selection.namespace, selection.name))
            return [one] if one is not None and selection.selects(one) else []
        keys: list[tuple[str, str]] | Iterator[tuple[str, str]] = self.keys()
        if selection.namespace:
            first = bisect_left(self._keys, (selection.namespace, ""))
            keys = self._keys[first : bisect_left(self._keys, (selection.namespace + "\0", ""))]
        if selection.all:
            return [objects[key] for key in keys]
        selects = selection.selects
        return [one for key in keys if selects(one := objects[key])]

    def has_next(self, last: Stored, namespace: str) -> bool:
        """Return whether another object of the namespace (or of any, if empty) follows one."""
        keys = self.keys()
        after = bisect_right(keys, (last.namespace, last.name))
        return after < len(keys) and (not namespace or keys[after][0] == namespace)

    def apply(self, event: Event) -> None:
        """Apply a change and send it to the watchers."""
        new = event.new
        key = (new.namespace, new.name)
        if event.type == "DELETED":
            del self.objects[key]
            self._unsorted = True
        else:
            self.objects[key] = new
            if event.type == "ADDED":
                self._unsorted = True
        ring = self._ring
        ring.append(event)
        if len(ring) > self._window:
            self.floor = ring.popleft().revision
        for watcher in self._watchers:
            watcher.offer(event)
        event.sent()

    def load(self, stored: Stored) -> None:
        """Add an object without an event: from the disk, or converted for a newer definition."""
        self.objects[stored.namespace, stored.name] = stored
        self._unsorted = True

    def subscribe(self, watcher: Watcher, since: int) -> None:
        """Queue the events after `since` and all later ones.

        The caller has compared `since` with `floor`.
        """
        if self._ring and self._ring[-1].revision > since:
            for event in self._ring:
                if event.revision > since:
                    watcher.offer(event)
        self._watchers[watcher] = None
        self.reads_fields = watcher.selection.reads_fields or self.reads_fields

    @property
    def watchers(self) -> int:
        """The number of watchers."""
        return len(self._watchers)

    def unsubscribe(self, watcher: Watcher) -> None:
        """Stop queueing events."""
        self._watchers.pop(watcher, None)


Observer: TypeAlias = Callable[[Ref, Event], None]
"""Called synchronously after each change; must not write to the store."""


class Store:
    """All objects.

    The store checks no rules. `observers` are called after each change is visible.
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
        """Call a listener for changes of one resource; costs other resources nothing."""
        self._listeners.setdefault(resource, []).append(listener)

    def off(self, resource: str, listener: Observer) -> None:
        """Remove a listener."""
        listeners = self._listeners[resource]
        listeners.remove(listener)
        if not listeners:
            del self._listeners[resource]

    def collection(self, resource: str) -> Collection:
        """Return the objects of a resource, named `plural.group`."""
        found = self._collections.get(resource)
        if found is None:
            found = self._collections[resource] = Collection(self._start, self._window)
        return found

    def collections(self) -> Iterator[tuple[str, Collection]]:
        """Yield all resources that have, or had, objects."""
        yield from self._collections.items()

    def get(self, ref: Ref) -> Stored | None:
        """Return the object, if there is one."""
        return self.collection(ref.resource).objects.get((ref.namespace, ref.name))

    def by_uid(self, uid: str) -> Ref | None:
        """Return the key of the object with that uid."""
        return self._by_uid.get(uid)

    def dependents(self, uid: str) -> list[Ref]:
        """Return objects with an owner reference to this uid."""
        return list(self._dependents.get(uid, ()))

    def put(self, ref: Ref, obj: Manifest) -> Stored:
        """Create or replace; the object gets the next resourceVersion."""
        collection = self.collection(ref.resource)

        def made(revision: int) -> Stored:
            obj["metadata"]["resourceVersion"] = str(revision)
            return _stored(collection, ref, revision, obj)

        return self.put_with(ref, made)

    def put_with(self, ref: Ref, make: Callable[[int], Stored]) -> Stored:
        """Create or replace with the result of `make` for the next resourceVersion.

        No change when it raises.
        """
        collection = self.collection(ref.resource)
        old = collection.objects.get((ref.namespace, ref.name))
        new = make(self.revision + 1)
        self.revision += 1
        self._index(ref, old, new)
        self._publish(ref, collection, Event("ADDED" if old is None else "MODIFIED", new, old))
        return new

    def shared(self, data: bytes) -> bytes:
        """Return JSON that carries the decoded object which watchers share.

        This holds for the last written object; for any other, `data` is returned unchanged.
        """
        newest, decoded = self._newest
        if data is not newest:
            return data
        found = SharedObject(data)
        found.decoded = decoded
        return found

    def remove(self, ref: Ref, last_state: Manifest | None = None) -> Stored:
        """Delete; returns the last state (the stored one by default) at the version of its deletion."""
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
        """Add an object from the disk, without an event."""
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
    """Return a version of an object.

    The fields that its watchers select by are read from `obj`.
    """
    new = Stored(ref.namespace, ref.name, revision, obj)
    if collection.reads_fields is not None:
        new.fields = collection.reads_fields(obj)
    return new
