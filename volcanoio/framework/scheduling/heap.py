"""Priority queues: one whose keys are taken when an item is pushed, and two for keys that move meanwhile."""

from __future__ import annotations

import heapq
from collections.abc import Callable, Hashable, Iterable
from typing import Any, Generic, Protocol, TypeAlias, TypeVar

Item = TypeVar("Item")
Named = TypeVar("Named", bound=Hashable)
_Entry: TypeAlias = tuple[Any, int, Item]

RUN = 256
"""How many items that are pushed in a row are sorted in one go."""


class Turns(Protocol[Item]):
    """Items in the order in which they have their turns; one that is worked on is outside."""

    def __len__(self) -> int: ...

    def push(self, item: Item) -> None:
        """Add an item where it stands."""
        ...

    def pop(self) -> Item:
        """Take the first item; raises IndexError when there is none."""
        ...


class Heap(Generic[Item]):
    """Items by key, smallest first; of equal keys the one pushed first.

    Keys should be unique per item or compare to the end: order points fall back to creation time and uid. A key is
    taken when its item is pushed: where an item's standing only changes while it is being worked on, outside the heap,
    that equals Volcano's comparison at every push and pop. `MovingHeap` is for where it does not.

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
        fresh = self._fresh
        if len(fresh) == 1:  # as when turns go round among a few
            first = heapq.heappushpop(self._runs, (*fresh.pop(), []))
            if first[3]:
                heapq.heappush(self._runs, (*first[3].pop(), first[3]))
            return first[2]
        if fresh:
            self._sort()
        first = self._runs[0]
        rest = first[3]
        if rest:
            heapq.heapreplace(self._runs, (*rest.pop(), rest))
        else:
            heapq.heappop(self._runs)
        return first[2]

    def first(self) -> Item:
        """The item that `pop` would take; raises IndexError when there is none."""
        if self._fresh:
            self._sort()
        return self._runs[0][2]

    def _sort(self) -> None:
        """Make a run of what is fresh."""
        rest, self._fresh = self._fresh, []
        rest.sort(reverse=True)
        heapq.heappush(self._runs, (*rest.pop(), rest))


class MovingHeap(Generic[Named]):
    """Different items by keys that move while they are inside, because others had their turns.

    While `epoch` returns the same number a key only grows: then it is enough to ask the first item's key again before
    it is taken, and to put it back where it has grown. When the number is another one, all keys are asked again.
    """

    __slots__ = ("_entries", "_epoch", "_key", "_pushed", "_seen", "_valid")

    def __init__(self, key: Callable[[Named], Any], epoch: Callable[[], Any], items: Iterable[Named] = ()) -> None:
        self._key = key
        self._epoch = epoch
        self._seen = epoch()
        self._pushed = 0
        self._entries: list[_Entry[Named]] = []
        self._valid: dict[Named, int] = {}
        """The number of each item's entry; entries of other numbers are left over."""
        for item in items:
            self.push(item)

    def __len__(self) -> int:
        return len(self._valid)

    def push(self, item: Named) -> None:
        """Add an item where it stands now; one that is inside moves there."""
        self._valid[item] = self._pushed
        heapq.heappush(self._entries, (self._key(item), self._pushed, item))
        self._pushed += 1

    def pop(self) -> Named:
        """Take the first item as of now; raises IndexError when there is none."""
        if (epoch := self._epoch()) != self._seen:
            self._seen = epoch
            self._entries = [(self._key(item), number, item) for item, number in self._valid.items()]
            heapq.heapify(self._entries)
        while True:
            key, number, item = self._entries[0]
            if self._valid.get(item) != number:
                heapq.heappop(self._entries)
                continue
            now = self._key(item)
            if now == key:
                heapq.heappop(self._entries)
                del self._valid[item]
                return item
            heapq.heapreplace(self._entries, (now, number, item))


class GroupedHeap(Generic[Item, Named]):
    """Items in groups whose standing moves: the first group has the turn, and in it its first item.

    `member_key` orders items of one group and moves only while its item is outside; `key` is the whole key of a group's
    first item, in which the group's standing has its place; it grows with the turns of the group's items, and otherwise
    moves when `epoch` does. Both orders agree within a group. So a turn costs two comparisons of few groups, however
    many items wait.
    """

    __slots__ = ("_group_of", "_groups", "_grown", "_member_key", "_members", "_number")

    def __init__(
        self,
        group_of: Callable[[Item], Named],
        member_key: Callable[[Item], Any],
        key: Callable[[Item], Any],
        epoch: Callable[[], Any],
    ) -> None:
        self._group_of = group_of
        self._member_key = member_key
        self._members: dict[Named, Heap[Item]] = {}
        self._grown: dict[Named, None] = {}
        """Groups that gained items since they were put in order."""
        self._groups: MovingHeap[Named] = MovingHeap(lambda group: key(self._members[group].first()), epoch)
        self._number = 0

    def __len__(self) -> int:
        return self._number

    def push(self, item: Item) -> None:
        """Add an item to its group."""
        group = self._group_of(item)
        members = self._members.get(group)
        if members is None:
            members = self._members[group] = Heap(self._member_key)
        members.push(item)
        self._grown[group] = None
        self._number += 1

    def pop(self) -> Item:
        """Take the first item of the group that stands first now; raises IndexError when there is none."""
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
