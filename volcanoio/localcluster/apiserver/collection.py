"""One resource's objects, the window of its last events, and those who watch it."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import deque
from collections.abc import Callable, Hashable, Iterator

from volcanoio.localcluster.apiserver.objects import Event, EventType, Stored, View
from volcanoio.localcluster.apiserver.selection import EVERYTHING, Selection
from volcanoio.model.base import Manifest

WINDOW = 10_000
"""Events kept per resource: how far back a watch may start."""

BACKLOG = 20_000
"""Lines a watcher may lag behind before it is cut off."""


class Watcher:
    """A bounded queue of watch lines. `overrun` is set, and the queue stopped, when its reader is too slow."""

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
        """Queue the event as this watcher's selection sees it: leaving is DELETED, entering ADDED."""
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
        """All lines queued so far."""
        taken, self.pending = self.pending, []
        return taken


class Collection:
    """All objects of one resource. `floor` is the version of the newest event no longer kept."""

    def __init__(self, floor: int, window: int = WINDOW) -> None:
        self.objects: dict[tuple[str, str], Stored] = {}
        self.floor = floor
        self.reads_fields: Callable[[Manifest], dict[str, str]] | None = None
        """Reads the fields that watchers select by, once there was such a watcher: then each object needs them."""
        self._ring: deque[Event] = deque()
        self._window = window
        self._keys: list[tuple[str, str]] = []
        self._unsorted = False
        self._watchers: dict[Watcher, None] = {}

    def keys(self) -> list[tuple[str, str]]:
        """All (namespace, name), sorted. Sorted when asked for, since writes come far more often than lists."""
        if self._unsorted:
            self._keys = sorted(self.objects)
            self._unsorted = False
        return self._keys

    def select(self, selection: Selection) -> list[Stored]:
        """The selected objects by namespace and name."""
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

    def followed(self, last: Stored, namespace: str) -> bool:
        """Whether another object comes after one: in its namespace, or anywhere when none is asked for."""
        keys = self.keys()
        after = bisect_right(keys, (last.namespace, last.name))
        return after < len(keys) and (not namespace or keys[after][0] == namespace)

    def apply(self, event: Event) -> None:
        """Take over a change and tell those who watch."""
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
        """Take over an object without an event: from the disk, or rewritten by a newer definition."""
        self.objects[stored.namespace, stored.name] = stored
        self._unsorted = True

    def subscribe(self, watcher: Watcher, since: int) -> None:
        """Queue the events after `since`, and all that come; the caller has compared `since` with `floor`."""
        if self._ring and self._ring[-1].revision > since:
            for event in self._ring:
                if event.revision > since:
                    watcher.offer(event)
        self._watchers[watcher] = None
        self.reads_fields = watcher.selection.reads_fields or self.reads_fields

    @property
    def watchers(self) -> int:
        """How many watch."""
        return len(self._watchers)

    def unsubscribe(self, watcher: Watcher) -> None:
        """Queue nothing any more."""
        self._watchers.pop(watcher, None)
