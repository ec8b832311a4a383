"""`Uids`: an immutable set of uids of which a changed copy is cheap, as pods of a big job go one by one."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from collections.abc import Set as AbstractSet

from volcanoio.engine.jobs.overlay import Overlay


class Uids(AbstractSet[str]):
    """A set as a value: it never changes. Equal to any set of the same uids."""

    __slots__ = ("_items",)

    def __init__(self, uids: Iterable[str] = ()) -> None:
        self._items: Overlay[str, bool] = Overlay(dict.fromkeys(uids, True))

    def plus(self, uids: Iterable[str]) -> Uids:
        """A copy with these uids too."""
        return self._of(self._items.with_items(dict.fromkeys(uids, True)))

    def minus(self, uids: Iterable[str]) -> Uids:
        """A copy without these uids; those that are not there are no error."""
        return self._of(self._items.without(uids))

    def differing(self, other: Uids) -> list[str]:
        """The uids that one of both has."""
        return self._items.differing(other._items)

    @staticmethod
    def _of(items: Overlay[str, bool]) -> Uids:
        made = Uids.__new__(Uids)
        made._items = items
        return made

    def __contains__(self, uid: object) -> bool:
        return uid in self._items

    def __iter__(self) -> Iterator[str]:
        return iter(self._items)

    def __len__(self) -> int:
        return len(self._items)

    def __repr__(self) -> str:
        return f"Uids({sorted(self)!r})"
