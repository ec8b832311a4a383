"""Priority queues: one whose keys are fixed on push, and two whose keys change while items are inside."""

import heapq
from collections.abc import Callable, Hashable, Iterable
from typing import Any, Generic, Protocol, TypeAlias, TypeVar

Item = TypeVar("Item")
Named = TypeVar("Named", bound=Hashable)
_Entry: TypeAlias = tuple[Any, int, Item]

RUN_LENGTH = 256
"""Number of items pushed in a row that are sorted at once."""


class PriorityQueue(Protocol[Item]):
    """Items in their current order; an item that is being processed is outside."""

    def __len__(self) -> int: ...

    def push(self, item: Item) -> None:
        """Add an item at its place in the order."""
        ...

    def pop(self) -> Item:
        """Remove and return the first item; raises IndexError when there is none."""
        ...


class Heap(Generic[Item]):
    """Items by key, smallest first; equal keys in the order of pushes.

    Keys should be unique per item: the order points fall back to creation time and name. A key is computed when its
    item is pushed: if an item's key only changes while it is being processed, outside the heap, that equals Volcano's
    comparison at every push and pop. Otherwise use `MovingHeap`.

    Items pushed in a row are sorted as a run, and the heap orders runs by their first items: a backlog arrives nearly
    sorted, so sorting it is one pass, and a heap of few runs is shallow.
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
        return len(self._fresh) + sum(1 + len(others) for *_, others in self._runs)

    def __bool__(self) -> bool:
        return bool(self._fresh or self._runs)

    def push(self, item: Item) -> None:
        """Add an item with its current key."""
        self._fresh.append((self._key(item), self._pushed, item))
        self._pushed += 1
        if len(self._fresh) >= RUN_LENGTH:
            self._sort()

    def pop(self) -> Item:
        """Remove and return the first item; raises IndexError when there is none."""
        if len(fresh := self._fresh) == 1:  # a few items that are pushed again after each pop
            first = heapq.heappushpop(self._runs, (*fresh.pop(), []))
            if first[3]:
                heapq.heappush(self._runs, (*first[3].pop(), first[3]))
            return first[2]
        if fresh:
            self._sort()
        first = self._runs[0]
        if others := first[3]:
            heapq.heapreplace(self._runs, (*others.pop(), others))
        else:
            heapq.heappop(self._runs)
        return first[2]

    def first(self) -> Item:
        """Return the item that `pop` would remove; raises IndexError when there is none."""
        if self._fresh:
            self._sort()
        return self._runs[0][2]

    def _sort(self) -> None:
        run, self._fresh = self._fresh, []
        run.sort(reverse=True)
        heapq.heappush(self._runs, (*run.pop(), run))


class MovingHeap(Generic[Named]):
    """Distinct items by keys that change while they are inside, because other items were processed.

    While `generation` returns the same number, keys only grow: then it is enough to compute the first item's key again
    before it is removed, and to reinsert the item if its key has grown. When the number changes, all keys are computed
    again.
    """

    __slots__ = ("_entries", "_generation", "_key", "_pushed", "_seen", "_valid")

    def __init__(self, key: Callable[[Named], Any], generation: Callable[[], Any], items: Iterable[Named] = ()) -> None:
        self._key = key
        self._generation = generation
        self._seen = generation()
        self._pushed = 0
        self._entries: list[_Entry[Named]] = []
        self._valid: dict[Named, int] = {}
        """The number of each item's entry; entries with other numbers are obsolete."""
        for item in items:
            self.push(item)

    def __len__(self) -> int:
        return len(self._valid)

    def push(self, item: Named) -> None:
        """Add an item with its current key; an item that is inside already moves."""
        self._valid[item] = self._pushed
        heapq.heappush(self._entries, (self._key(item), self._pushed, item))
        self._pushed += 1

    def pop(self) -> Named:
        """Remove and return the item that is first now; raises IndexError when there is none."""
        if (generation := self._generation()) != self._seen:
            self._seen = generation
            self._entries = [(self._key(item), number, item) for item, number in self._valid.items()]
            heapq.heapify(self._entries)
        while True:
            key, number, item = self._entries[0]
            if self._valid.get(item) != number:
                heapq.heappop(self._entries)
                continue
            if (current_key := self._key(item)) == key:
                heapq.heappop(self._entries)
                del self._valid[item]
                return item
            heapq.heapreplace(self._entries, (current_key, number, item))


class GroupedHeap(Generic[Item, Named]):
    """Items in groups whose order changes: the first item of the first group comes first.

    `member_key` orders items of one group and changes only while its item is outside; `key` is the complete key of a
    group's first item and includes the group's order; it grows as items of the group are processed, and otherwise
    changes with `generation`. Both orders agree within a group. So a pop compares a few groups, however many items
    there are.
    """

    __slots__ = ("_group_of", "_groups", "_grown", "_member_key", "_members", "_number")

    def __init__(
        self,
        group_of: Callable[[Item], Named],
        member_key: Callable[[Item], Any],
        key: Callable[[Item], Any],
        generation: Callable[[], Any],
    ) -> None:
        self._group_of = group_of
        self._member_key = member_key
        self._members: dict[Named, Heap[Item]] = {}
        self._grown: dict[Named, None] = {}
        """Groups that gained items since they were last sorted."""
        self._groups: MovingHeap[Named] = MovingHeap(lambda group: key(self._members[group].first()), generation)
        self._number = 0

    def __len__(self) -> int:
        return self._number

    def push(self, item: Item) -> None:
        """Add an item to its group."""
        group = self._group_of(item)
        if (members := self._members.get(group)) is None:
            members = self._members[group] = Heap(self._member_key)
        members.push(item)
        self._grown[group] = None
        self._number += 1

    def pop(self) -> Item:
        """Remove and return the first item of the group that is first now; raises IndexError when there is none."""
        for group in self._grown:
            self._groups.push(group)
        self._grown.clear()
        group = self._groups.pop()
        members = self._members[group]
        item = members.pop()
        self._number -= 1
        if members:
            self._groups.push(group)
        return item
