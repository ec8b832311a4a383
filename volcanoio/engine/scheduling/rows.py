"""Some rows of the columns, and one of them, as plugins see them."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from volcanoio.engine.scheduling.basics import Basics, Floats
from volcanoio.engine.scheduling.columns import Columns, Ints
from volcanoio.engine.scheduling.loads import BASICS, Quantity
from volcanoio.model.core import Node

_ALLOCATABLE, _USED, _IDLE, _FUTURE, _NONZERO, *_REST = range(len(Quantity))


class Rows(Basics):
    """Some rows of the columns as `views.Nodes`: their amounts are gathered, in the order given, as they are asked for.

    To be used before the columns change.
    """

    __slots__ = ("_columns", "_others", "_pairs", "_rows")

    def __init__(
        self,
        columns: Columns,
        rows: NDArray[np.intp],
        known: dict[int, Floats] | None = None,
        *,
        have_room: bool = False,
    ) -> None:
        """`known` and `have_room` as in `Basics`."""
        super().__init__(known, have_room=have_room)
        self._columns = columns
        self._rows = rows
        self._pairs: dict[int, Ints] = {}
        """By quantity those of cpu and memory."""
        self._others: dict[tuple[int, int], Ints] = {}

    def __len__(self) -> int:
        return len(self._rows)

    @property
    def names(self) -> Sequence[str]:
        """Node names."""
        names = self._columns.names
        return [names[row] for row in self._rows.tolist()]

    @property
    def objects(self) -> Sequence[Node]:
        """Node objects."""
        objects = self._columns.objects
        return [objects[row] for row in self._rows.tolist()]

    def _amounts(self, quantity: int, resource: str) -> Ints:
        at = self._columns.resources.get(resource)
        if at is None:
            return np.zeros(len(self._rows), np.int64)
        if at < BASICS:
            both: Ints = self.whole_basics(quantity)[at]
            return both
        known = self._others.get((quantity, at))
        if known is None:
            gathered: Ints = self._columns.block[quantity, at].take(self._rows)
            known = self._others[quantity, at] = gathered
        return known

    def whole_basics(self, quantity: int) -> Ints:
        """cpu and memory as the integers they are."""
        known = self._pairs.get(quantity)
        if known is None:
            known = self._pairs[quantity] = self._columns.block[quantity, :BASICS].take(self._rows, axis=1)
        return known

    @property
    def all_have_basics(self) -> bool:
        """As `views.Nodes`."""
        return self._columns.all_have_basics or bool((self._of(_ALLOCATABLE) > 0).all())

    def allocatable(self, resource: str) -> Ints:
        """As `views.Nodes`."""
        return self._amounts(_ALLOCATABLE, resource)

    def used(self, resource: str) -> Ints:
        """As `views.Nodes`."""
        return self._amounts(_USED, resource)

    def idle(self, resource: str) -> Ints:
        """As `views.Nodes`."""
        return self._amounts(_IDLE, resource)

    def future_idle(self, resource: str) -> Ints:
        """As `views.Nodes`."""
        return self._amounts(_FUTURE, resource)

    def nonzero_used(self, resource: str) -> Ints:
        """As `views.Nodes`."""
        return self._amounts(_NONZERO, resource)


class Index:
    """Where amounts stand in `columns.Amounts`, as `views.AmountsAt`; right until the columns have another layout."""

    __slots__ = ("_resources", "_width")

    def __init__(self, columns: Columns) -> None:
        self._resources = columns.resources
        self._width = len(columns.resources)

    def _at(self, quantity: int, resource: str) -> int | None:
        at = self._resources.get(resource)
        return None if at is None else quantity * self._width + at

    def allocatable(self, resource: str) -> int | None:
        """As `views.AmountsAt`."""
        return self._at(_ALLOCATABLE, resource)

    def used(self, resource: str) -> int | None:
        """As `views.AmountsAt`."""
        return self._at(_USED, resource)

    def idle(self, resource: str) -> int | None:
        """As `views.AmountsAt`."""
        return self._at(_IDLE, resource)

    def future_idle(self, resource: str) -> int | None:
        """As `views.AmountsAt`."""
        return self._at(_FUTURE, resource)

    def nonzero_used(self, resource: str) -> int | None:
        """As `views.AmountsAt`."""
        return self._at(_NONZERO, resource)


class Row:
    """One row as `views.NodeRow`; its amounts are read when it is pointed at a row."""

    __slots__ = ("_columns", "_index", "_values", "_width", "row")

    def __init__(self, columns: Columns) -> None:
        self._columns = columns
        self._index = columns.resources
        self._values: Sequence[int] = ()
        self._width = 0
        self.row = -1

    def point(self, row: int) -> None:
        """Be that row, as it is now."""
        self.become(row, self._columns.amounts(row))

    def become(self, row: int, values: Sequence[int]) -> None:
        """Be that row with these amounts (`columns.Amounts`)."""
        self.row = row
        self._values = values
        self._width = len(self._index)

    @property
    def layout(self) -> int:
        """While it is the same, amounts stand where they stood."""
        return self._columns.layout

    @property
    def index(self) -> Index:
        """Where amounts stand."""
        return Index(self._columns)

    @property
    def amounts(self) -> Sequence[int]:
        """All its amounts, as `columns.Amounts`."""
        return self._values

    @property
    def name(self) -> str:
        """The node's name."""
        return self._columns.names[self.row]

    @property
    def object(self) -> Node:
        """The Node."""
        return self._columns.objects[self.row]

    def fits(self, wants: Sequence[tuple[int, int]], *, idle: bool) -> bool:
        """Whether amounts (by the resource's index) fit the future idle room, and with `idle` the idle room too."""
        values, future = self._values, _FUTURE * self._width
        room = _IDLE * self._width if idle else future
        for at, amount in wants:  # noqa: SIM110 - asked after every placement: a generator would cost as much again
            if values[future + at] < amount or values[room + at] < amount:
                return False
        return True

    def allocatable(self, resource: str) -> int:
        """As `views.NodeRow`."""
        at = self._index.get(resource)
        return 0 if at is None else self._values[at]

    def used(self, resource: str) -> int:
        """As `views.NodeRow`."""
        at = self._index.get(resource)
        return 0 if at is None else self._values[self._width + at]

    def idle(self, resource: str) -> int:
        """As `views.NodeRow`."""
        at = self._index.get(resource)
        return 0 if at is None else self._values[_IDLE * self._width + at]

    def future_idle(self, resource: str) -> int:
        """As `views.NodeRow`."""
        at = self._index.get(resource)
        return 0 if at is None else self._values[_FUTURE * self._width + at]

    def nonzero_used(self, resource: str) -> int:
        """As `views.NodeRow`."""
        at = self._index.get(resource)
        return 0 if at is None else self._values[_NONZERO * self._width + at]
