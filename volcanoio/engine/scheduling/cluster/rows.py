"""Selected rows, and single rows, of the node columns as plugins see them."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from volcanoio.engine.scheduling.cluster.loads import CPU_MEMORY_COUNT, Quantity
from volcanoio.engine.scheduling.cluster.node_columns import CpuMemoryColumns, Floats, Ints, NodeColumns
from volcanoio.model.core import Node

_ALLOCATABLE, _USED, _IDLE, _FUTURE, _NONZERO, *_REST = range(len(Quantity))


class NodeRows(CpuMemoryColumns):
    """Selected rows as `views.Nodes`; amounts are gathered in the given order on first use.

    Valid until the columns change.
    """

    __slots__ = ("_columns", "_cpu_memory", "_other_resources", "_rows")

    def __init__(
        self,
        columns: NodeColumns,
        rows: NDArray[np.intp],
        cached: dict[int, Floats] | None = None,
        *,
        all_fit: bool = False,
    ) -> None:
        """Initialise with the arguments of `CpuMemoryColumns`."""
        super().__init__(cached, all_fit=all_fit)
        self._columns = columns
        self._rows = rows
        self._cpu_memory: dict[int, Ints] = {}
        """cpu and memory by quantity."""
        self._other_resources: dict[tuple[int, int], Ints] = {}

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
        if (at := self._columns.resources.get(resource)) is None:
            return np.zeros(len(self._rows), np.int64)
        if at < CPU_MEMORY_COUNT:
            amounts: Ints = self.cpu_memory_integers(quantity)[at]
            return amounts
        if (cached := self._other_resources.get((quantity, at))) is None:
            taken: Ints = self._columns.block[quantity, at].take(self._rows)
            cached = self._other_resources[quantity, at] = taken
        return cached

    def cpu_memory_integers(self, quantity: int) -> Ints:
        """Return cpu and memory as integers."""
        if (cached := self._cpu_memory.get(quantity)) is None:
            cached = self._cpu_memory[quantity] = self._columns.block[quantity, :CPU_MEMORY_COUNT].take(
                self._rows, axis=1
            )
        return cached

    @property
    def all_have_cpu_memory(self) -> bool:
        """Whether every node has some allocatable cpu and memory."""
        return self._columns.all_have_cpu_memory or bool((self._as_floats(_ALLOCATABLE) > 0).all())

    def allocatable(self, resource: str) -> Ints:
        """Return the allocatable amounts; zeros for an unknown resource."""
        return self._amounts(_ALLOCATABLE, resource)

    def used(self, resource: str) -> Ints:
        """Return the used amounts: Allocated, Binding, Bound, Running and Releasing tasks."""
        return self._amounts(_USED, resource)

    def idle(self, resource: str) -> Ints:
        """Return allocatable - used."""
        return self._amounts(_IDLE, resource)

    def future_idle(self, resource: str) -> Ints:
        """Return idle + releasing - pipelined."""
        return self._amounts(_FUTURE, resource)

    def nonzero_used(self, resource: str) -> Ints:
        """Return used cpu or memory, counted by `Shape.nonzero_requests`."""
        return self._amounts(_NONZERO, resource)


class AmountIndex:
    """Positions of amounts as `views.AmountColumns`, valid for one layout of the columns."""

    __slots__ = ("_resources", "_width")

    def __init__(self, columns: NodeColumns) -> None:
        self._resources = columns.resources
        self._width = len(columns.resources)

    def _at(self, quantity: int, resource: str) -> int | None:
        return None if (at := self._resources.get(resource)) is None else quantity * self._width + at

    def allocatable(self, resource: str) -> int | None:
        """Return the position of `Nodes.allocatable`."""
        return self._at(_ALLOCATABLE, resource)

    def used(self, resource: str) -> int | None:
        """Return the position of `Nodes.used`."""
        return self._at(_USED, resource)

    def idle(self, resource: str) -> int | None:
        """Return the position of `Nodes.idle`."""
        return self._at(_IDLE, resource)

    def future_idle(self, resource: str) -> int | None:
        """Return the position of `Nodes.future_idle`."""
        return self._at(_FUTURE, resource)

    def nonzero_used(self, resource: str) -> int | None:
        """Return the position of `Nodes.nonzero_used`."""
        return self._at(_NONZERO, resource)


class RecordingIndex(AmountIndex):
    """An index that records which resources were looked up."""

    __slots__ = ("_looked_up",)

    def __init__(self, columns: NodeColumns, looked_up: set[str]) -> None:
        super().__init__(columns)
        self._looked_up = looked_up

    def _at(self, quantity: int, resource: str) -> int | None:
        self._looked_up.add(resource)
        return super()._at(quantity, resource)


class SingleRow:
    """One row as `views.NodeRow`; its amounts are read by `load`."""

    __slots__ = ("_columns", "_index", "_values", "_width", "row")

    def __init__(self, columns: NodeColumns) -> None:
        self._columns = columns
        self._index = columns.resources
        self._values: Sequence[int] = ()
        self._width = 0
        self.row = -1

    def load(self, row: int) -> None:
        """Read the current amounts of a row."""
        self.set(row, self._columns.amounts(row))

    def set(self, row: int, values: Sequence[int]) -> None:
        """Set the row and its amounts (in the layout of `NodeColumns.amounts`)."""
        self.row = row
        self._values = values
        self._width = len(self._index)

    @property
    def layout(self) -> int:
        """Version of the layout of `amounts`."""
        return self._columns.layout

    @property
    def index(self) -> AmountIndex:
        """Positions of amounts in `amounts`."""
        return AmountIndex(self._columns)

    @property
    def amounts(self) -> Sequence[int]:
        """Amounts of all resources, as from `NodeColumns.amounts`."""
        return self._values

    @property
    def name(self) -> str:
        """Name of the node."""
        return self._columns.names[self.row]

    @property
    def object(self) -> Node:
        """The Node object."""
        return self._columns.objects[self.row]

    def fits(self, requests: Sequence[tuple[int, int]], *, idle: bool) -> bool:
        """Return whether amounts (by resource index) fit the future idle room, and with `idle` the idle room."""
        values, future = self._values, _FUTURE * self._width
        room = _IDLE * self._width if idle else future
        for at, amount in requests:  # noqa: SIM110 - called after every placement: a generator would double the cost
            if values[future + at] < amount or values[room + at] < amount:
                return False
        return True

    def allocatable(self, resource: str) -> int:
        """Return the allocatable amount of a resource."""
        return 0 if (at := self._index.get(resource)) is None else self._values[at]

    def used(self, resource: str) -> int:
        """Return the used amount of a resource."""
        return 0 if (at := self._index.get(resource)) is None else self._values[self._width + at]

    def idle(self, resource: str) -> int:
        """Return allocatable - used."""
        return 0 if (at := self._index.get(resource)) is None else self._values[_IDLE * self._width + at]

    def future_idle(self, resource: str) -> int:
        """Return idle + releasing - pipelined."""
        return 0 if (at := self._index.get(resource)) is None else self._values[_FUTURE * self._width + at]

    def nonzero_used(self, resource: str) -> int:
        """Return used cpu or memory, counted by `Shape.nonzero_requests`."""
        return 0 if (at := self._index.get(resource)) is None else self._values[_NONZERO * self._width + at]
