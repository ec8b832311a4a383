"""Immutable mapping and set with cheap changed copies, as the pods of a big job change one by one.

Copies share a dict that rarely changes; recent changes are in a small dict of their own. With n items a change costs
the square root of n, where copying a dict costs n.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from collections.abc import Set as AbstractSet
from math import isqrt
from typing import Any, Generic, TypeVar

K = TypeVar("K")
V = TypeVar("V")

_REMOVED: Any = object()
_MIN_CHANGES = 16
"""Number of changes that are kept apart however few items there are."""


class PersistentMap(Mapping[K, V], Generic[K, V]):
    """An immutable mapping. Equal to any mapping of the same items."""

    __slots__ = ("_base", "_changes", "_length")

    def __init__(self, items: Mapping[K, V] | None = None) -> None:
        self._base: dict[K, V] = dict(items or {})
        self._changes: dict[K, V] = {}
        self._length = len(self._base)

    def with_item(self, key: K, value: V) -> PersistentMap[K, V]:
        """Return a copy with a value under a key."""
        return self._changed({key: value}, self._length + (key not in self))

    def with_items(self, items: Mapping[K, V]) -> PersistentMap[K, V]:
        """Return a copy with these values under their keys."""
        new = sum(1 for key in items if key not in self)
        return self._changed(dict(items), self._length + new) if items else self

    def without(self, keys: Iterable[K]) -> PersistentMap[K, V]:
        """Return a copy without these keys; missing ones are ignored."""
        removed = {key for key in keys if key in self}
        return self._changed(dict.fromkeys(removed, _REMOVED), self._length - len(removed))

    def changed_keys(self, other: PersistentMap[K, V]) -> list[K]:
        """Return the keys whose values are not identical in both; quick for copies of each other."""
        if self._base is other._base:
            keys: Iterable[K] = {**self._changes, **other._changes}
            return [key for key in keys if self.get(key) is not other.get(key)]
        own, others = self._merged(), other._merged()
        new = [key for key, value in others.items() if own.get(key) is not value]
        return new + [key for key in own if key not in others]

    @property
    def needs_compaction(self) -> bool:
        """Whether one more change makes a new base of all items."""
        return len(self._changes) >= max(_MIN_CHANGES, 2 * isqrt(len(self._base)))

    def compacted(self) -> PersistentMap[K, V]:
        """Return a copy in which no change is kept apart."""
        created: PersistentMap[K, V] = PersistentMap.__new__(PersistentMap)
        created._base, created._changes, created._length = self._merged(), {}, self._length
        return created

    def _changed(self, changes: dict[K, V], length: int) -> PersistentMap[K, V]:
        created: PersistentMap[K, V] = PersistentMap.__new__(PersistentMap)
        created._base, created._changes, created._length = self._base, {**self._changes, **changes}, length
        if len(created._changes) > max(_MIN_CHANGES, 2 * isqrt(len(created._base))):
            created._base, created._changes = created._merged(), {}
        return created

    def _merged(self) -> dict[K, V]:
        if not self._changes:
            return self._base
        merged = {**self._base, **self._changes}
        for key, value in self._changes.items():
            if value is _REMOVED:
                del merged[key]
        return merged

    def __getitem__(self, key: K) -> V:
        value = self._changes[key] if key in self._changes else self._base[key]
        if value is _REMOVED:
            raise KeyError(key)
        return value

    def get(self, key: K, default: Any = None) -> Any:
        """Return the value under a key, or the default."""
        value = self._changes[key] if key in self._changes else self._base.get(key, default)
        return default if value is _REMOVED else value

    def __contains__(self, key: object) -> bool:
        return self._changes[key] is not _REMOVED if key in self._changes else key in self._base

    def __iter__(self) -> Iterator[K]:
        return iter(self._merged())

    def __len__(self) -> int:
        return self._length

    def values(self) -> Any:
        """Return all values."""
        return self._merged().values()

    def items(self) -> Any:
        """Return all items."""
        return self._merged().items()

    def __repr__(self) -> str:
        return f"PersistentMap({self._merged()!r})"


class UidSet(AbstractSet[str]):
    """An immutable set. Equal to any set of the same uids."""

    __slots__ = ("_items",)

    def __init__(self, uids: Iterable[str] = ()) -> None:
        self._items: PersistentMap[str, bool] = PersistentMap(dict.fromkeys(uids, True))

    def with_uids(self, uids: Iterable[str]) -> UidSet:
        """Return a copy with these uids too."""
        return self._of(self._items.with_items(dict.fromkeys(uids, True)))

    def without_uids(self, uids: Iterable[str]) -> UidSet:
        """Return a copy without these uids; missing ones are ignored."""
        return self._of(self._items.without(uids))

    def changed_keys(self, other: UidSet) -> list[str]:
        """Return the uids that only one of both has."""
        return self._items.changed_keys(other._items)

    @staticmethod
    def _of(items: PersistentMap[str, bool]) -> UidSet:
        created = UidSet.__new__(UidSet)
        created._items = items
        return created

    def __contains__(self, uid: object) -> bool:
        return uid in self._items

    def __iter__(self) -> Iterator[str]:
        return iter(self._items)

    def __len__(self) -> int:
        return len(self._items)

    def __repr__(self) -> str:
        return f"UidSet({sorted(self)!r})"
