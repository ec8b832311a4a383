"""Nodes for the search: as amounts of free room, or, where pods depend on each other, as the session itself.

`RoomBoard` counts alike nodes together and changes nothing in the session. `SessionBoard` places each pod in a
statement and asks all filters: about fifty times as slow.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from volcanoio.engine.scheduling.cluster.loads import Quantity
from volcanoio.engine.scheduling.cluster.node_columns import NodeColumns
from volcanoio.framework.scheduling.session import Run, Statement
from volcanoio.framework.scheduling.views import Shape, Task

Rows: TypeAlias = NDArray[np.intp]
Mask: TypeAlias = NDArray[np.bool_]


class AlikeNodes(NamedTuple):
    """Alike nodes: those in the same domains, for the same shapes of pods (as bits), with as much free."""

    cell: int
    shapes: int
    free: tuple[int, ...]


class NodeRooms:
    """The nodes of some domains by what they offer to a gang.

    `shapes` are the shapes of the gang's pods with their number, and `masks` the nodes that each may run on, whatever
    is free. Amounts above what the gang requests in all count as that, so that more nodes are alike.
    """

    def __init__(
        self,
        columns: NodeColumns,
        rows_by_domain: Mapping[str, Rows],
        shapes: Sequence[tuple[Shape, int]],
        masks: Sequence[Mask],
    ) -> None:
        self._columns = columns
        self._resources = sorted({name for shape, _ in shapes for name, amount in shape.requests.items() if amount})
        self.requests = [tuple([shape.requests.get(name, 0) for name in self._resources]) for shape, _ in shapes]
        total = [sum(shape.requests.get(name, 0) * count for shape, count in shapes) for name in self._resources]
        self._total = np.array(total, np.int64).reshape(-1, 1)
        inside: Rows = np.unique(np.concatenate([*rows_by_domain.values(), np.zeros(0, np.intp)]))
        cells, self.cells = _cells(inside, rows_by_domain)
        """The cells of each domain."""
        bits = np.zeros(len(inside), np.int64)
        for at, mask in enumerate(masks):
            bits |= mask[inside].astype(np.int64) << at
        usable = bits > 0
        self._rows: Rows = inside[usable]
        self._bits = bits[usable]
        """The shapes that may run on each of these rows, as bits."""
        self._cells = cells[usable]
        """The cell of each of these rows."""

    def are_enough(self, rows_by_room: Mapping[AlikeNodes, Sequence[int]]) -> bool:
        """Return whether these nodes have enough free in all for every pod."""
        free = np.zeros_like(self._total[:, 0])
        for room, rows in rows_by_room.items():
            free += np.array(room.free, np.int64) * len(rows)
        return bool((free >= self._total[:, 0]).all())

    def by_room(self, *, idle: bool) -> dict[AlikeNodes, list[int]]:
        """Return the rows of alike nodes on which some pod fits, by the room that will be idle, or with `idle` is."""
        block, rows = self._columns.block, self._rows
        index = np.array([self._columns.resource(name) for name in self._resources], np.intp)
        free = block[Quantity.FUTURE][index][:, rows]
        if idle:
            free = np.minimum(free, block[Quantity.IDLE][index][:, rows])
        free = np.minimum(free, self._total)
        fits = np.zeros(len(rows), np.bool_)
        for wanted in self.requests:
            fits |= (free >= np.array(wanted, np.int64).reshape(-1, 1)).all(axis=0)
        free = free[:, fits]
        found: dict[AlikeNodes, list[int]] = {}
        for cell, shapes, amounts, row in zip(
            self._cells[fits].tolist(), self._bits[fits].tolist(), free.T.tolist(), rows[fits].tolist(), strict=True
        ):
            found.setdefault(AlikeNodes(cell, shapes, tuple(amounts)), []).append(row)
        return found


def _cells(inside: Rows, rows_by_domain: Mapping[str, Rows]) -> tuple[NDArray[np.intp], dict[str, list[int]]]:
    """Return a number for the combination of domains that each row inside them is in, and the numbers of each domain.

    Consecutive domains that have no row in common are added at once: sorting all rows for each is far slower.
    """
    positions = {name: np.searchsorted(inside, rows) for name, rows in rows_by_domain.items()}
    cells, added = np.zeros(len(inside), np.intp), np.zeros(len(inside), np.intp)
    for at, some in enumerate(positions.values(), 1):
        if added[some].any():
            cells, added = _combined(cells, added), np.zeros(len(inside), np.intp)
        added[some] = at
    cells = _combined(cells, added)
    return cells, {name: sorted(set(cells[some].tolist())) for name, some in positions.items()}


def _combined(cells: NDArray[np.intp], others: NDArray[np.intp]) -> NDArray[np.intp]:
    """Return a number from 0 on for each pair of two numbers."""
    pairs = cells * (others.max(initial=0) + 1) + others
    return np.unique(pairs, return_inverse=True)[1]


class RoomBoard:
    """Only amounts decide: implements `search.Board`. An option is one of the `AlikeNodes`."""

    def __init__(self, rooms: NodeRooms, shape_of: Sequence[int], *, idle: bool) -> None:
        """Begin with the room that will be idle, or with `idle` is; `shape_of` is the index of each kind's shape."""
        self._rows = rows = rooms.by_room(idle=idle)
        self.can_hold_all = rooms.are_enough(rows)
        self._shape_of = shape_of
        self._requests = [rooms.requests[at] for at in shape_of]
        self._cells = rooms.cells
        self._counts: dict[int, dict[AlikeNodes, int]] = {}
        """Number of alike nodes, by cell."""
        for room, found in rows.items():
            self._counts.setdefault(room.cell, {})[room] = len(found)
        cells_of = [cell for cells in rooms.cells.values() for cell in cells]
        self._is_flat = len(cells_of) == len(set(cells_of))
        """Whether no two domains have a node in common."""
        self._changes: dict[AlikeNodes, int] = {}
        """By how much the number of alike nodes differs from the one at the start."""
        self._placed: list[tuple[int, AlikeNodes]] = []
        """Kind and node of each pod, in order."""

    def options(self, kind: int, domain: str) -> Iterable[AlikeNodes]:
        """Return where a pod fits, those with the least free first."""
        wanted, bit = self._requests[kind], 1 << self._shape_of[kind]
        found = [
            room
            for cell in self._cells[domain]
            for room in self._counts.get(cell, {})
            if room.shapes & bit and all(a >= r for a, r in zip(room.free, wanted, strict=True))
        ]
        found.sort(key=lambda room: (room.free, room.shapes, room.cell))
        return found

    def put(self, kind: int, option: AlikeNodes) -> None:
        """Put a pod on one of these nodes."""
        self._placed.append((kind, option))
        self._move(option, self._after(kind, option))

    def undo(self) -> None:
        """Undo the last placement."""
        kind, option = self._placed.pop()
        self._move(self._after(kind, option), option)

    def state(self) -> Hashable:
        """Return what has changed since the start."""
        return frozenset(self._changes.items())

    def content(self, domain: str) -> Hashable:
        """Return the nodes of a domain without their names; the domain itself where domains overlap."""
        if not self._is_flat:
            return domain
        return frozenset(
            (room.shapes, room.free, count)
            for cell in self._cells[domain]
            for room, count in self._counts.get(cell, {}).items()
        )

    def chosen_rows(self) -> list[tuple[int, int]]:
        """Return kind and row of each pod."""
        rows = {room: list(found) for room, found in self._rows.items()}
        chosen = []
        for kind, room in self._placed:
            row = rows[room].pop()
            rows.setdefault(self._after(kind, room), []).append(row)
            chosen.append((kind, row))
        return chosen

    def _after(self, kind: int, room: AlikeNodes) -> AlikeNodes:
        return room._replace(free=tuple([a - r for a, r in zip(room.free, self._requests[kind], strict=True)]))

    def _move(self, before: AlikeNodes, after: AlikeNodes) -> None:
        counts = self._counts[before.cell]
        counts[before] -= 1
        if not counts[before]:
            del counts[before]
        counts[after] = counts.get(after, 0) + 1
        for room, change in ((before, -1), (after, 1)):
            if changed := self._changes.pop(room, 0) + change:
                self._changes[room] = changed


class SessionBoard:
    """Pods are placed in a statement: implements `search.Board`. An option is a row."""

    can_hold_all = True

    def __init__(
        self,
        statement: Statement,
        columns: NodeColumns,
        tasks: Sequence[Sequence[Task]],
        rows_by_domain: Mapping[str, Rows],
        fitting: Callable[[Shape], Mask],
    ) -> None:
        self._statement = statement
        self._columns = columns
        self._tasks = tasks
        self._rows_by_domain = rows_by_domain
        self._fitting = fitting
        self._marks: list[Any] = []
        self._used = [0] * len(tasks)
        self._placed: list[tuple[int, int]] = []
        """Kind and row of each pod, in order."""

    def options(self, kind: int, domain: str) -> Iterable[int]:
        """Return where a pod passes all filters and fits now, those with the least free cpu first."""
        rows = self._rows_by_domain[domain]
        fitting = rows[self._fitting(self._tasks[kind][0].shape)[rows]]
        order = np.lexsort((self._columns.hashes[fitting], self._columns.future_idle("cpu")[fitting]))
        found: list[int] = fitting[order].tolist()
        return found

    def put(self, kind: int, option: int) -> None:
        """Place a pod on a node that fits it."""
        task = self._tasks[kind][self._used[kind]]
        self._marks.append(self._statement.savepoint())
        run = Run(task.shape, task.role, [task], self._columns.names[option])
        self._statement.allocate(run, 0, 1, until_ready=False)
        self._used[kind] += 1
        self._placed.append((kind, option))

    def undo(self) -> None:
        """Undo the last placement."""
        kind, _ = self._placed.pop()
        self._used[kind] -= 1
        self._statement.rollback(self._marks.pop())

    def state(self) -> Hashable:
        """Return which kinds are on which nodes."""
        counts: dict[tuple[int, int], int] = {}
        for one in self._placed:
            counts[one] = counts.get(one, 0) + 1
        return frozenset(counts.items())

    def chosen_rows(self) -> list[tuple[int, int]]:
        """Return kind and row of each pod."""
        return list(self._placed)

    def content(self, domain: str) -> Hashable:
        """Return the domain itself: filters may distinguish its nodes from others."""
        return domain
