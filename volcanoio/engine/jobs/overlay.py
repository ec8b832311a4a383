"""`Overlay`: an immutable mapping of which a changed copy is cheap, as a job of many pods changes pod by pod.

What rarely changes is a dict that copies share; the last changes lie over it in a small one of their own. With n items
a change costs the square root of n, where a copied dict costs n.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from math import isqrt
from typing import Any, Generic, TypeVar

K = TypeVar("K")
V = TypeVar("V")

_GONE: Any = object()
_FEWEST = 16
"""Changes that are kept apart however few items there are."""


class Overlay(Mapping[K, V], Generic[K, V]):
    """A mapping as a value: it never changes. Equal to any mapping of the same items."""

    __slots__ = ("_base", "_changes", "_length")

    def __init__(self, items: Mapping[K, V] | None = None) -> None:
        self._base: dict[K, V] = dict(items or {})
        self._changes: dict[K, V] = {}
        self._length = len(self._base)

    def with_item(self, key: K, value: V) -> Overlay[K, V]:
        """A copy that holds a value under a key."""
        return self._changed({key: value}, self._length + (key not in self))

    def with_items(self, items: Mapping[K, V]) -> Overlay[K, V]:
        """A copy that holds these values under their keys."""
        new = sum(1 for key in items if key not in self)
        return self._changed(dict(items), self._length + new) if items else self

    def without(self, keys: Iterable[K]) -> Overlay[K, V]:
        """A copy without these keys; those that are not there are no error."""
        there = {key for key in keys if key in self}
        return self._changed(dict.fromkeys(there, _GONE), self._length - len(there))

    def differing(self, other: Overlay[K, V]) -> list[K]:
        """The keys under which two mappings do not hold the very same value; quick for copies of each other."""
        if self._base is other._base:
            keys: Iterable[K] = {**self._changes, **other._changes}
            return [key for key in keys if self.get(key) is not other.get(key)]
        mine, others = self._merged(), other._merged()
        new = [key for key, value in others.items() if mine.get(key) is not value]
        return new + [key for key in mine if key not in others]

    @property
    def crowded(self) -> bool:
        """Whether so many changes are kept apart that one more makes a new base of all items."""
        return len(self._changes) >= max(_FEWEST, 2 * isqrt(len(self._base)))

    def settled(self) -> Overlay[K, V]:
        """A copy in which no change is kept apart."""
        made: Overlay[K, V] = Overlay.__new__(Overlay)
        made._base, made._changes, made._length = self._merged(), {}, self._length
        return made

    def _changed(self, changes: dict[K, V], length: int) -> Overlay[K, V]:
        made: Overlay[K, V] = Overlay.__new__(Overlay)
        made._base, made._changes, made._length = self._base, {**self._changes, **changes}, length
        if len(made._changes) > max(_FEWEST, 2 * isqrt(len(made._base))):
            made._base, made._changes = made._merged(), {}
        return made

    def _merged(self) -> dict[K, V]:
        if not self._changes:
            return self._base
        merged = {**self._base, **self._changes}
        for key, value in self._changes.items():
            if value is _GONE:
                del merged[key]
        return merged

    def __getitem__(self, key: K) -> V:
        value = self._changes[key] if key in self._changes else self._base[key]
        if value is _GONE:
            raise KeyError(key)
        return value

    def get(self, key: K, default: Any = None) -> Any:
        """The value under a key, or the default."""
        value = self._changes[key] if key in self._changes else self._base.get(key, default)
        return default if value is _GONE else value

    def __contains__(self, key: object) -> bool:
        if key in self._changes:
            return self._changes[key] is not _GONE
        return key in self._base

    def __iter__(self) -> Iterator[K]:
        return iter(self._merged())

    def __len__(self) -> int:
        return self._length

    def values(self) -> Any:
        """All values."""
        return self._merged().values()

    def items(self) -> Any:
        """All items."""
        return self._merged().items()

    def __repr__(self) -> str:
        return f"Overlay({self._merged()!r})"
