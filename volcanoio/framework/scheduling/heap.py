"""A priority queue whose keys are computed when an item is pushed."""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterable
from typing import Any, Generic, TypeVar

Item = TypeVar("Item")


class Heap(Generic[Item]):
    """Items by key, smallest first.

    Keys must be unique per item or compare to the end: order points fall back to creation time and uid. A key is taken
    when its item is pushed; as an item's standing only changes while it is being worked on, outside the heap, that
    equals Volcano's comparison at every push and pop.
    """

    __slots__ = ("_entries", "_key", "_pushed")

    def __init__(self, key: Callable[[Item], Any], items: Iterable[Item] = ()) -> None:
        self._key = key
        self._entries: list[tuple[Any, int, Item]] = [(key(item), at, item) for at, item in enumerate(items)]
        self._pushed = len(self._entries)
        heapq.heapify(self._entries)

    def __len__(self) -> int:
        return len(self._entries)

    def push(self, item: Item) -> None:
        """Add an item where it stands now."""
        heapq.heappush(self._entries, (self._key(item), self._pushed, item))
        self._pushed += 1

    def pop(self) -> Item:
        """Take the first item; raises IndexError when there is none."""
        return heapq.heappop(self._entries)[2]
