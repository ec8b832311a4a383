"""A priority queue whose keys are computed when an item is pushed."""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterable
from typing import Any, Generic, TypeAlias, TypeVar

Item = TypeVar("Item")
_Entry: TypeAlias = tuple[Any, int, Item]

RUN = 256
"""How many items that are pushed in a row are sorted in one go."""


class Heap(Generic[Item]):
    """Items by key, smallest first; of equal keys the one pushed first.

    Keys should be unique per item or compare to the end: order points fall back to creation time and uid. A key is
    taken when its item is pushed; as an item's standing only changes while it is being worked on, outside the heap,
    that equals Volcano's comparison at every push and pop.

    What is pushed in a row is sorted as runs, and the heap is one of runs by their first items: a backlog comes in
    order or nearly so, sorting that is a pass, and a heap of few runs is shallow.
    """

    __slots__ = ("_fresh", "_key", "_pushed", "_runs")

    def __init__(self, key: Callable[[Item], Any], items: Iterable[Item] = ()) -> None:
        self._key = key
        self._pushed = 0
        self._fresh: list[_Entry[Item]] = []
        """Pushed and not yet in a run."""
        self._runs: list[tuple[Any, int, Item, list[_Entry[Item]]]] = []
        """The first entry of each run, with the others, last first."""
        for item in items:
            self.push(item)

    def __len__(self) -> int:
        return len(self._fresh) + sum(1 + len(rest) for *_, rest in self._runs)

    def __bool__(self) -> bool:
        return bool(self._fresh or self._runs)

    def push(self, item: Item) -> None:
        """Add an item where it stands now."""
        self._fresh.append((self._key(item), self._pushed, item))
        self._pushed += 1
        if len(self._fresh) >= RUN:
            self._sort()

    def pop(self) -> Item:
        """Take the first item; raises IndexError when there is none."""
        if self._fresh:
            self._sort()
        first = self._runs[0]
        rest = first[3]
        if rest:
            heapq.heapreplace(self._runs, (*rest.pop(), rest))
        else:
            heapq.heappop(self._runs)
        return first[2]

    def _sort(self) -> None:
        """Make a run of what is fresh."""
        rest, self._fresh = self._fresh, []
        rest.sort(reverse=True)
        heapq.heappush(self._runs, (*rest.pop(), rest))
