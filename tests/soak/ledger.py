"""What really happened: every change of the store, written down where it is made."""

from __future__ import annotations

from collections import defaultdict
from typing import NamedTuple

from volcanoio.localcluster.apiserver.apimachinery.objects import Event, Ref
from volcanoio.localcluster.apiserver.storage.store import Store

MARKED = "soak.volcanoio.dev/marked"
"""The label by which some watchers select."""


class Change(NamedTuple):
    """One event as a watcher has to see it."""

    revision: int
    type: str
    key: str


class Ledger:
    """The changes of each resource, for those who see all and for those who see what is marked."""

    def __init__(self, store: Store) -> None:
        self._all: dict[str, list[Change]] = defaultdict(list)
        self._marked: dict[str, list[Change]] = defaultdict(list)
        store.observers.append(self._note)

    def between(self, resource: str, after: int, until: int, *, marked: bool) -> list[Change]:
        """The changes with a revision in (after, until]."""
        changes = (self._marked if marked else self._all)[resource]
        return [one for one in changes if after < one.revision <= until]

    def forget(self, before: int) -> None:
        """Keep nothing older: everybody has compared it."""
        for book in (self._all, self._marked):
            for resource, changes in book.items():
                book[resource] = [one for one in changes if one.revision > before]

    def _note(self, ref: Ref, event: Event) -> None:
        key = f"{ref.namespace}/{ref.name}"
        self._all[ref.resource].append(Change(event.revision, event.type, key))
        was = event.old is not None and MARKED in event.old.labels
        now = event.type != "DELETED" and MARKED in event.new.labels
        if was or now:
            seen = "MODIFIED" if was and now else "ADDED" if now else "DELETED"
            self._marked[ref.resource].append(Change(event.revision, seen, key))
