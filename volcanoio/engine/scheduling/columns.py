"""Nodes as columns: one int64 array per quantity and resource, updated in place.

Rows are dense: when a node goes, the last row moves into its place. Every change of a row gives it a new revision, so
that whoever keeps answers per row finds the ones to recompute.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from hashlib import blake2b
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from volcanoio.engine.scheduling.basics import Basics
from volcanoio.engine.scheduling.due import MOST, Due
from volcanoio.engine.scheduling.loads import BASICS, GIVEN_UP, OCCUPIED, READ, Load, Quantity, deltas
from volcanoio.engine.scheduling.oversubscription import OVERSUBSCRIBED, lend
from volcanoio.framework.scheduling.views import AmountName, Shape
from volcanoio.model.core import Node
from volcanoio.model.resources import CPU, MEMORY, PODS, amounts

Ints = NDArray[np.int64]
Amounts: TypeAlias = tuple[int, ...]
"""What scorers read of one row: the amounts of all resources, quantity after quantity."""
Steps: TypeAlias = tuple[tuple[int, int], ...]
"""Changes of `Amounts`: index and amount."""
UNKNOWN = -1
"""The state of a row that was not looked up since it changed."""


LOGGED = 2048
"""How many changes of rows are logged."""
_STAGGER = 8
"""Rows by which the capacity is off a power of two: at one, all of a row's amounts would share a few cache lines."""


def name_hash(name: str) -> int:
    """A 64-bit hash of a node's name, the same in every process."""
    return int.from_bytes(blake2b(name.encode(), digest_size=8).digest(), "little")


class Columns(Basics):
    """The columns. Implements `views.Nodes` for all rows."""

    def __init__(self, capacity: int = 64) -> None:
        super().__init__()
        self.resources: dict[str, int] = {}
        self.rows: dict[str, int] = {}
        self.clock = 0
        """Counts changes; the revision of the newest."""
        self.spec_clock = 0
        """The revision of the newest change of a node's own object."""
        self.freed = 0
        """Counts the times when room may have appeared, what a session takes back not among them."""
        self.freed_anywhere = 0
        """`freed` when that was last so of any row."""
        self.capacity = capacity
        """How many rows the arrays hold."""
        self.layout = 0
        """Counts the times when `Amounts` got another layout."""
        self._block: Ints
        self._flat: Ints
        """All amounts of a row in one column."""
        self._occupied: Ints
        """Those that a task changes which occupies its node."""
        self._given_up: Ints
        """Those that change when such a task begins to release its node."""
        self._due = Due()
        """What is to be added to `_occupied` before amounts are read."""
        self._lay(np.zeros((len(Quantity), 0, capacity), np.int64))
        self.state: Ints = np.full(capacity, UNKNOWN, np.int64)
        """By row the id of what it amounts to, see `states`."""
        self.slots: Ints = np.zeros(capacity, np.int64)
        """By row whose state is known, how many more pods it takes."""
        self.changed: NDArray[np.float64] = np.zeros(capacity)
        """By row the clock of its last change; as floats (exact up to 2^53) these compare more than twice as quickly.
        """
        self._log: NDArray[np.intp] = np.zeros(LOGGED, np.intp)
        """The rows that changed last: what the clock counted n-th is at n % LOGGED."""
        self._dropped_at = 0
        """The clock when a row last ceased to be."""
        self.respecified: Ints = np.zeros(capacity, np.int64)
        self.freed_at: Ints = np.zeros(capacity, np.int64)
        """By row `freed` when room may have appeared there last."""
        self.hashes: NDArray[np.uint64] = np.zeros(capacity, np.uint64)
        self._names: list[str] = []
        self._objects: list[Node] = []
        self._views: dict[tuple[int, str], Ints] = {}
        self._pairs: dict[int, Ints] = {}
        self._have_basics, self._basics_at = True, 0
        """Whether every node offers cpu and memory, and the `spec_clock` as of which."""
        self._basics_clock = -1
        """The clock as of which it is known what scorers read of cpu and memory."""
        self._deltas: dict[int, tuple[Ints, ...]] = {}
        """As `loads.deltas`, each in one row: half as much work where few rows are changed at a time."""
        self._steps: dict[tuple[int, Load], Steps] = {}
        for resource in (CPU, MEMORY, PODS):
            self.resource(resource)

    @property
    def block(self) -> Ints:
        """All amounts: by quantity, resource and row."""
        if self._due.rows:
            self._due.write(self._occupied)
        return self._block

    def __len__(self) -> int:
        return len(self._names)

    @property
    def names(self) -> Sequence[str]:
        """Node names by row."""
        return self._names

    def name(self, row: int) -> str:
        """The name of one row."""
        return self._names[row]

    @property
    def objects(self) -> Sequence[Node]:
        """Node objects by row."""
        return self._objects

    def resource(self, name: str) -> int:
        """The index of a resource, made when it is new."""
        index = self.resources.get(name)
        if index is None:
            index = self.resources[name] = len(self.resources)
            grown = np.zeros((len(Quantity), index + 1, self.capacity), np.int64)
            grown[:, :index] = self.block
            self._lay(grown)
            self.layout += 1
            self._deltas.clear()
            self._steps.clear()
            self._views.clear()
            self._pairs.clear()
        return index

    def put(self, node: Node) -> int:
        """Take in a node, new or changed; its row. What is placed on a known node stays."""
        row = self.rows.get(node.metadata.name)
        offered = amounts(node.status.allocatable)
        if OVERSUBSCRIBED in node.metadata.labels:
            lend(node, offered)
        for name in offered:
            self.resource(name)
        if row is None:
            row = self._append(node)
        self._objects[row] = node
        column = self.block[:, :, row]
        column[Quantity.ALLOCATABLE] = 0
        for name, amount in offered.items():
            column[Quantity.ALLOCATABLE, self.resources[name]] = amount
        column[Quantity.IDLE] = column[Quantity.ALLOCATABLE] - column[Quantity.USED]
        column[Quantity.FUTURE] = column[Quantity.IDLE] + column[Quantity.RELEASING] - column[Quantity.PIPELINED]
        self._respecify(row)
        return row

    def refresh(self, row: int, node: Node) -> None:
        """Take in what only scores read of a node, such as its images."""
        self._objects[row] = node
        self.touch((row,))

    def drop(self, name: str) -> None:
        """Forget a node and all that is counted on it; the last row takes its place."""
        row = self.rows.pop(name)
        last = len(self._names) - 1
        if row != last:
            moved = self._names[last]
            self.rows[moved] = row
            self._names[row], self._objects[row] = moved, self._objects[last]
            self.block[:, :, row] = self.block[:, :, last]
            self.hashes[row] = self.hashes[last]
            self._respecify(row)
        self.block[:, :, last] = 0
        self.state[last] = UNKNOWN
        self._names.pop()
        self._objects.pop()
        self.clock += 1
        self.spec_clock = self._dropped_at = self.clock
        self._views.clear()
        self._pairs.clear()

    def apply(self, row: int, shape: Shape, load: Load, sign: int) -> None:
        """Count a task of that shape in (sign 1) or out (-1)."""
        deltas = self._deltas.get(shape.like)
        if deltas is None:
            deltas = self._delta(shape)
        column = (self._occupied if load is Load.OCCUPIES else self._flat)[:, row]
        if sign > 0:
            column += deltas[load]
        else:
            column -= deltas[load]
        self.state[row] = UNKNOWN
        self.clock = clock = self.clock + 1
        self.changed[row] = clock
        self._log[clock % LOGGED] = row

    def release(self, row: int, shape: Shape) -> None:
        """A task of that shape that occupies a row begins to release it."""
        deltas = self._deltas.get(shape.like)
        if deltas is None:
            deltas = self._delta(shape)
        column = self._given_up[:, row]
        column += deltas[-1]
        self.state[row] = UNKNOWN
        self.clock = clock = self.clock + 1
        self.changed[row] = clock
        self._log[clock % LOGGED] = row

    def touch(self, rows: Iterable[int]) -> None:
        """Let whoever keeps something per row look again: whose tasks are there has changed, their amounts have not."""
        for row in rows:
            self._note(row)

    def apply_all(self, counts: Mapping[int, int], shape: Shape, load: Load, sign: int = 1) -> None:
        """`apply` of tasks of one shape at once: how many are counted, by row."""
        if len(counts) == 1:
            for row, count in counts.items():
                for _ in range(count):
                    self.apply(row, shape, load, sign)
            return
        delta = (self._deltas.get(shape.like) or self._delta(shape))[load]
        rows = np.fromiter(counts, np.intp, len(counts))
        times = np.fromiter(counts.values(), np.int64, len(counts))
        flat = self._occupied if load is Load.OCCUPIES else self._flat
        amounts_there = flat.take(rows, axis=1)
        if sign < 0:
            times = -times
        amounts_there += delta.reshape(-1, 1) * times
        flat[:, rows] = amounts_there
        self.state[rows] = UNKNOWN
        self._note_all(rows)

    def occupy(self, shape: Shape, rows: Sequence[int], states: Mapping[int, int]) -> None:
        """Count tasks of one shape that were allocated on these rows, which are in these states then."""
        number = len(states)
        self._due.add((self._deltas.get(shape.like) or self._delta(shape))[Load.OCCUPIES], rows)
        if len(self._due.rows) >= MOST:
            self._due.write(self._occupied)
        at = np.fromiter(states, np.intp, number)
        self.state[at] = np.fromiter(states.values(), np.int64, number)
        self._note_all(at)

    def occupy_row(self, shape: Shape, row: int, state: int = UNKNOWN, number: int = 1) -> None:
        """`occupy` of one row."""
        delta = (self._deltas.get(shape.like) or self._delta(shape))[Load.OCCUPIES]
        column = self._occupied[:, row]
        column += delta if number == 1 else delta * number
        self.state[row] = state
        self.clock = clock = self.clock + 1
        self.changed[row] = clock
        self._log[clock % LOGGED] = row

    def changed_since(self, clock: int) -> NDArray[np.intp]:
        """The rows that changed since then, some maybe several times."""
        size = len(self._names)
        few = 8 * (self.clock - clock) <= max(size, LOGGED // 4)
        rows = self.logged_since(clock) if few else None
        return (self.changed[:size] > clock).nonzero()[0] if rows is None else rows

    def logged_since(self, clock: int) -> NDArray[np.intp] | None:
        """The rows that changed since then, in order, one a change; None where the log does not reach back so far."""
        if clock < self._dropped_at or self.clock - clock > LOGGED:
            return None
        start, stop = (clock + 1) % LOGGED, (self.clock + 1) % LOGGED
        return self._log[start:stop] if start <= stop else np.concatenate([self._log[start:], self._log[:stop]])

    def _note(self, row: int) -> None:
        """A row changed."""
        self.clock = clock = self.clock + 1
        self.changed[row] = clock
        self._log[clock % LOGGED] = row

    def _note_all(self, rows: NDArray[np.intp]) -> None:
        """Several rows changed."""
        number = len(rows)
        start = (self.clock + 1) % LOGGED
        self.clock += number
        self.changed[rows] = self.clock
        if start + number <= LOGGED:
            self._log[start : start + number] = rows
        elif number <= LOGGED:
            left = LOGGED - start
            self._log[start:], self._log[: number - left] = rows[:left], rows[left:]

    def amounts(self, row: int) -> Amounts:
        """What scorers read of a row, as it is now."""
        if self._due.rows:
            self._due.write(self._occupied)
        return tuple(self._flat[: READ.stop * len(self.resources), row].tolist())

    def steps(self, shape: Shape, load: Load) -> Steps:
        """What one task of the shape adds to the amounts of a row."""
        known = self._steps.get((shape.like, load))
        if known is None:
            delta = (self._deltas.get(shape.like) or self._delta(shape))[load]
            first = OCCUPIED.start if load is Load.OCCUPIES else 0
            known = self._steps[shape.like, load] = tuple(
                ((quantity + first) * len(self.resources) + at, amount)
                for quantity, amounts_of in enumerate(delta.reshape(-1, len(self.resources)).tolist())
                for at, amount in enumerate(amounts_of)
                if amount and quantity + first < READ.stop
            )
        return known

    def view(self, quantity: Quantity, resource: str) -> Ints:
        """One column over all rows, read-only."""
        if self._due.rows:
            self._due.write(self._occupied)
        key = (quantity, resource)
        view = self._views.get(key)
        if view is None:
            index = self.resources.get(resource)
            size = len(self._names)
            view = np.zeros(size, np.int64) if index is None else self.block[quantity, index, :size]
            view.flags.writeable = False
            self._views[key] = view
        return view

    def allocatable(self, resource: str) -> Ints:
        """As `views.Nodes`."""
        return self.view(Quantity.ALLOCATABLE, resource)

    def used(self, resource: str) -> Ints:
        """As `views.Nodes`."""
        return self.view(Quantity.USED, resource)

    def idle(self, resource: str) -> Ints:
        """As `views.Nodes`."""
        return self.view(Quantity.IDLE, resource)

    def future_idle(self, resource: str) -> Ints:
        """As `views.Nodes`."""
        return self.view(Quantity.FUTURE, resource)

    def nonzero_used(self, resource: str) -> Ints:
        """As `views.Nodes`."""
        return self.view(Quantity.NONZERO_USED, resource)

    def whole_basics(self, quantity: int) -> Ints:
        """cpu and memory, the first two resources of all columns: read-only."""
        if self._due.rows:
            self._due.write(self._occupied)
        view = self._pairs.get(quantity)
        if view is None:
            view = self._pairs[quantity] = self.block[quantity, :BASICS, : len(self._names)]
            view.flags.writeable = False
        return view

    def basics(self, what: AmountName) -> NDArray[np.float64]:
        """As `views.Nodes`."""
        if self._basics_clock != self.clock:
            self._forget_basics()
        return super().basics(what)

    def filled(self, cpu: int, memory: int) -> NDArray[np.float64]:
        """As `views.Nodes`."""
        if self._basics_clock != self.clock:
            self._forget_basics()
        return super().filled(cpu, memory)

    def _forget_basics(self) -> None:
        self.forget()
        self._basics_clock = self.clock

    @property
    def all_have_basics(self) -> bool:
        """As `views.Nodes`."""
        if self._basics_at != self.spec_clock:
            self._have_basics = bool((self.whole_basics(Quantity.ALLOCATABLE) > 0).all())
            self._basics_at = self.spec_clock
        return self._have_basics

    def totals(self, quantity: Quantity) -> dict[str, int]:
        """The sum over all rows of each resource that has any."""
        sums = self.block[quantity, :, : len(self._names)].sum(axis=1).tolist()
        return {name: sums[index] for name, index in self.resources.items() if sums[index]}

    def _lay(self, block: Ints) -> None:
        """Take a block with other room."""
        _, resources, capacity = block.shape
        self.capacity = capacity
        self._block, self._flat = block, block.reshape(-1, capacity)
        self._occupied = self._flat[OCCUPIED.start * resources : OCCUPIED.stop * resources]
        self._given_up = self._flat[GIVEN_UP.start * resources : GIVEN_UP.stop * resources]

    def _append(self, node: Node) -> int:
        row = len(self._names)
        if row == self.capacity:
            self._grow(row + row // 4 + _STAGGER)
        name = node.metadata.name
        self.rows[name] = row
        self._names.append(name)
        self._objects.append(node)
        self.hashes[row] = name_hash(name)
        self._views.clear()
        self._pairs.clear()
        return row

    def _grow(self, capacity: int) -> None:
        extra = capacity - self.capacity
        self._lay(np.pad(self.block, ((0, 0), (0, 0), (0, extra))))
        self.state = np.pad(self.state, (0, extra), constant_values=UNKNOWN)
        self.slots = np.pad(self.slots, (0, extra))
        self.changed = np.pad(self.changed, (0, extra))
        self.respecified = np.pad(self.respecified, (0, extra))
        self.freed_at = np.pad(self.freed_at, (0, extra))
        self.hashes = np.pad(self.hashes, (0, extra))

    def free(self, row: int) -> None:
        """Room may have appeared on a row."""
        self.freed += 1
        self.freed_at[row] = self.freed

    def free_anywhere(self) -> None:
        """Room may have appeared, or rules have changed: what found no node may find one now, on any row."""
        self.freed += 1
        self.freed_anywhere = self.freed

    def _respecify(self, row: int) -> None:
        self.free(row)
        self._note(row)
        self.spec_clock = self.respecified[row] = self.clock
        self.state[row] = UNKNOWN

    def _delta(self, shape: Shape) -> tuple[Ints, ...]:
        """Work them out."""
        for name in (*shape.requests, *shape.nonzero_requests):
            self.resource(name)
        known = self._deltas[shape.like] = tuple([delta.reshape(-1) for delta in deltas(shape, self.resources)])
        return known
