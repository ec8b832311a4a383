"""Nodes as columns: amounts by resource and node in NumPy arrays, changed row by row.

Rows of removed nodes are reused. `clock` counts changes of rows, `changed_at` holds the clock of each row's last
change, and `freed_at` when room appeared there; caches compare these counters instead of reading every node again.
Placements of many equal tasks are deferred (`DeferredAmounts`) and written together when amounts are next read.
Oversubscription adds to allocatable as in Volcano's pkg/scheduler/api/node_info.go, setOversubscription.
"""

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from hashlib import blake2b
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from volcanoio.engine.scheduling.cluster.loads import (
    BY_NAME,
    CPU_MEMORY_COUNT,
    OCCUPIED,
    READ,
    RELEASED,
    Load,
    Quantity,
)
from volcanoio.framework.scheduling.views import AmountName, Shape, cpu_memory_column
from volcanoio.model.core import Node
from volcanoio.model.names import NAME_HASH
from volcanoio.model.resources import CPU, MEMORY, PODS, Amounts, bounded, stored_amounts

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]
_ALLOCATABLE, _USED = int(Quantity.ALLOCATABLE), int(Quantity.USED)


class CpuMemoryColumns(ABC):
    """cpu and memory of `views.Nodes` as arrays of two rows, cached while the amounts stay the same."""

    __slots__ = ("_floats", "_utilization", "all_fit")

    def __init__(self, cached: dict[int, Floats] | None = None, *, all_fit: bool = False) -> None:
        """Initialise with arrays that exist already, by quantity; `all_fit` as in `views.Nodes`."""
        self.all_fit = all_fit
        self._floats: dict[int, Floats] = {} if cached is None else cached
        self._utilization: dict[tuple[int, int], Floats] = {}

    @abstractmethod
    def cpu_memory_integers(self, quantity: int) -> Ints:
        """Return cpu and memory as integers."""

    def cpu_memory(self, what: AmountName) -> Floats:
        """Return cpu (first) and memory as one array of two rows, of the quantity of that name."""
        return self._as_floats(BY_NAME[what])

    def utilization(self, cpu: int, memory: int) -> Floats:
        """Return (used + these amounts) / allocatable of cpu (first) and memory, cached for the last amounts.

        Valid only where `all_have_cpu_memory`.
        """
        if (cached := self._utilization.get((cpu, memory))) is None:
            used, allocatable = self._as_floats(_USED), self._as_floats(_ALLOCATABLE)
            if cpu or memory:
                cached = used + cpu_memory_column(cpu, memory)
                cached /= allocatable
            else:
                cached = used / allocatable
            cached.flags.writeable = False
            self._utilization[cpu, memory] = cached
        return cached

    def clear_cache(self) -> None:
        """Drop the cached arrays after amounts changed."""
        self._floats.clear()
        self._utilization.clear()

    def _as_floats(self, quantity: int) -> Floats:
        if (cached := self._floats.get(quantity)) is None:
            cached = self._floats[quantity] = self.cpu_memory_integers(quantity).astype(np.float64)
        return cached


OVERSUBSCRIBED = "volcano.sh/oversubscription"
_AMOUNT_ANNOTATIONS = {CPU: "volcano.sh/oversubscription-cpu", MEMORY: "volcano.sh/oversubscription-memory"}
_TRUE = ("true", "True", "TRUE", "t", "T", "1")


def add_oversubscription(node: Node, allocatable: Amounts) -> None:
    """Add the oversubscribed amounts of a node; values that are not positive numbers are ignored."""
    if node.metadata.labels.get(OVERSUBSCRIBED) not in _TRUE:
        return
    for resource, name in _AMOUNT_ANNOTATIONS.items():
        try:
            amount = float(node.metadata.annotations.get(name, 0))
        except ValueError:
            continue
        if 0 < amount < float("inf"):
            allocatable[resource] = bounded(allocatable.get(resource, 0) + int(amount))


MAX_DEFERRED = 256
"""Number of deferred tasks after which all are written; larger batches are not measurably faster."""


class DeferredAmounts:
    """Amounts that placed tasks add to rows, summed into the columns when amounts are next read."""

    __slots__ = ("_counts", "_deltas", "rows")

    def __init__(self) -> None:
        self.rows: list[int] = []
        """Row of each task."""
        self._deltas: list[NDArray[np.int64]] = []
        """Amounts added by each of the following numbers of tasks."""
        self._counts: list[int] = []

    def add(self, delta: NDArray[np.int64], rows: Sequence[int]) -> None:
        """Add tasks with equal amounts on rows, which may occur several times."""
        self.rows += rows
        self._deltas.append(delta)
        self._counts.append(len(rows))

    def write(self, amounts: NDArray[np.int64]) -> None:
        """Add all deferred tasks to amounts, with one column per row."""
        height, capacity = amounts.shape
        deltas = np.repeat(np.array(self._deltas), self._counts, axis=0)
        at = np.array(self.rows, np.intp).reshape(-1, 1) + np.arange(0, height * capacity, capacity)
        np.add.at(amounts.reshape(-1), at.reshape(-1), deltas.reshape(-1))
        self.rows.clear()
        self._deltas.clear()
        self._counts.clear()


AmountsRow: TypeAlias = tuple[int, ...]
"""Amounts of one row that scorers read: all resources, quantity after quantity."""
AmountChanges: TypeAlias = tuple[tuple[int, int], ...]
"""Changes of an `AmountsRow`: position and amount."""
UNKNOWN_STATE = -1
"""State id of a row that was not looked up since it changed."""


_LOAD_SIGNS: Mapping[Load, Mapping[Quantity, int]] = {
    Load.NONE: {},
    Load.OCCUPIES: {Quantity.USED: 1, Quantity.IDLE: -1, Quantity.FUTURE: -1},
    Load.RELEASES: {Quantity.USED: 1, Quantity.IDLE: -1, Quantity.RELEASING: 1},
    Load.RESERVES: {Quantity.PIPELINED: 1, Quantity.FUTURE: -1},
}


def load_deltas(shape: Shape, resources: Mapping[str, int]) -> tuple[NDArray[np.int64], ...]:
    """Return what a task of the shape adds to a row: one array per load, then one for the start of its release.

    `resources` gives the index of each resource. Pipelined tasks count for scorers (Kubernetes: NodeInfo).
    """
    requests = {resources[name]: amount for name, amount in shape.requests.items()}
    counted = {resources[name]: amount for name, amount in shape.nonzero_requests.items()}
    vectors = []
    for load, signs in _LOAD_SIGNS.items():
        vector = np.zeros((len(Quantity), len(resources)), np.int64)
        for quantity, sign in signs.items():
            for at, amount in requests.items():
                vector[quantity, at] = sign * amount
        if load:
            for at, amount in counted.items():
                vector[Quantity.NONZERO_USED, at] = amount
        vectors.append(vector[OCCUPIED] if load is Load.OCCUPIES else vector)
    released = vectors[Load.RELEASES].copy()
    released[OCCUPIED] -= vectors[Load.OCCUPIES]
    vectors.append(released[RELEASED])
    return tuple(vectors)


LOG_SIZE = 2048
"""Number of row changes kept in the log."""
_CAPACITY_OFFSET = 8
"""Rows by which the capacity differs from a power of two, so that a row's amounts spread over cache lines."""


def name_hash(name: str) -> int:
    """Return a 64-bit hash of a node's name, the same in every process."""
    return int.from_bytes(blake2b(name.encode(), digest_size=8).digest(), "little")


def node_hash(node: Node) -> int:
    """Return the hash of a node's name; of a redacted node that of the original name, so that ties end the same."""
    text = node.metadata.annotations.get(NAME_HASH, "")
    return int(text) % (1 << 64) if text.isdecimal() and len(text) < 24 else name_hash(node.metadata.name)


class NodeColumns(CpuMemoryColumns):
    """Columns of all nodes. Implements `views.Nodes`."""

    _block: Ints
    _flat: Ints
    """All amounts of a row in one column."""
    _occupied: Ints
    """View of the amounts that a task changes when it occupies its node."""
    _released: Ints
    """View of the amounts that change when such a task begins to release its node."""

    def __init__(self, capacity: int = 64) -> None:
        super().__init__()
        self.resources: dict[str, int] = {}
        self.ignored_resources: frozenset[str] = frozenset()
        """Resources that nodes do not have as plain amounts."""
        self._ignored_on: dict[str, set[str]] = {}  # the nodes that have some of an ignored resource
        self.rows: dict[str, int] = {}
        self.clock = 0
        """Number of row changes."""
        self.spec_clock = 0
        """Clock of the newest change of a Node object."""
        self.freed_count = 0
        """Number of times room may have appeared, without changes that a session undoes."""
        self.freed_anywhere_at = 0
        """`freed_count` when room last may have appeared on any row."""
        self.capacity = capacity
        """Number of rows that the arrays hold."""
        self.layout = 0
        """Number of times the layout of an `AmountsRow` changed."""
        self._deferred = DeferredAmounts()
        """Amounts to add to `_occupied` before amounts are read."""
        self._set_block(np.zeros((len(Quantity), 0, capacity), np.int64))
        self.state_ids: Ints = np.full(capacity, UNKNOWN_STATE, np.int64)
        """State id per row, see `placement.node_states`."""
        self.pod_slots: Ints = np.zeros(capacity, np.int64)
        """Number of further pods per row, valid where the state is known."""
        self.changed_at: NDArray[np.float64] = np.zeros(capacity)
        """Clock of the last change per row; as floats (exact up to 2^53) these compare more than twice as fast."""
        self._log: NDArray[np.intp] = np.zeros(LOG_SIZE, np.intp)
        """Rows that changed last: the n-th change of the clock is at n % LOG_SIZE."""
        self._node_removed_at = 0  # clock when a node was last removed
        self.spec_changed_at: Ints = np.zeros(capacity, np.int64)
        self.freed_at: Ints = np.zeros(capacity, np.int64)
        """`freed_count` when room may have last appeared per row."""
        self.hashes: NDArray[np.uint64] = np.zeros(capacity, np.uint64)
        self.names: list[str] = []
        """Node names by row."""
        self.objects: list[Node] = []
        """Node objects by row."""
        self._views: dict[tuple[int, str], Ints] = {}
        self._cpu_memory_views: dict[int, Ints] = {}
        self._all_have_cpu_memory, self._cpu_memory_checked_at = True, 0
        """Whether every node has cpu and memory, and the `spec_clock` at which this was computed."""
        self._floats_clock = -1
        """Clock at which the float arrays were computed."""
        self._deltas: dict[int, tuple[Ints, ...]] = {}
        """`load_deltas` by shape, flattened: half the work where few rows change at a time."""
        self._amount_changes: dict[tuple[int, Load], AmountChanges] = {}
        for resource in (CPU, MEMORY, PODS):
            self.resource(resource)

    @property
    def block(self) -> Ints:
        """All amounts, by quantity, resource and row."""
        if self._deferred.rows:
            self._deferred.write(self._occupied)
        return self._block

    def __len__(self) -> int:
        return len(self.names)

    def resource(self, name: str) -> int:
        """Return the index of a resource, adding it if missing."""
        if (index := self.resources.get(name)) is None:
            index = self.resources[name] = len(self.resources)
            grown = np.zeros((len(Quantity), index + 1, self.capacity), np.int64)
            grown[:, :index] = self.block
            self._set_block(grown)
            self.layout += 1
            self._deltas.clear()
            self._amount_changes.clear()
            self._views.clear()
            self._cpu_memory_views.clear()
        return index

    def put_node(self, node: Node) -> int:
        """Add or update a node and return its row; tasks counted on a known node stay."""
        row = self.rows.get(node.metadata.name)
        allocatable = stored_amounts(node.status.allocatable)
        for name in self.ignored_resources:
            if allocatable.pop(name, 0) > 0:
                self._ignored_on.setdefault(name, set()).add(node.metadata.name)
            elif name in self._ignored_on:
                self._ignored_on[name].discard(node.metadata.name)
        if OVERSUBSCRIBED in node.metadata.labels:
            add_oversubscription(node, allocatable)
        for name in allocatable:
            self.resource(name)
        if row is None:
            row = self._append(node)
        self.objects[row] = node
        column = self.block[:, :, row]
        column[Quantity.ALLOCATABLE] = 0
        for name, amount in allocatable.items():
            column[Quantity.ALLOCATABLE, self.resources[name]] = amount
        column[Quantity.IDLE] = column[Quantity.ALLOCATABLE] - column[Quantity.USED]
        column[Quantity.FUTURE] = column[Quantity.IDLE] + column[Quantity.RELEASING] - column[Quantity.PIPELINED]
        self._spec_changed(row)
        return row

    def ignore_resources(self, names: frozenset[str]) -> None:
        """Leave resources out of what nodes have, from now on."""
        self.ignored_resources = names
        self._ignored_on = {name: nodes for name, nodes in self._ignored_on.items() if name in names}

    def has_resource(self, name: str) -> bool:
        """Return whether a node has some of a resource, be it ignored or not."""
        if name in self.ignored_resources:
            return bool(self._ignored_on.get(name))
        index = self.resources.get(name)
        return index is not None and bool(self.block[Quantity.ALLOCATABLE, index].any())

    def update_object(self, row: int, node: Node) -> None:
        """Update a node of which only fields for scores changed, such as images."""
        self.objects[row] = node
        self.mark_changed((row,))

    def remove_node(self, name: str) -> None:
        """Remove a node and its amounts; the last row moves to its place."""
        row = self.rows.pop(name)
        for nodes in self._ignored_on.values():
            nodes.discard(name)
        last = len(self.names) - 1
        if row != last:
            moved_name = self.names[last]
            self.rows[moved_name] = row
            self.names[row], self.objects[row] = moved_name, self.objects[last]
            self.block[:, :, row] = self.block[:, :, last]
            self.hashes[row] = self.hashes[last]
            self._spec_changed(row)
        self.block[:, :, last] = 0
        self.state_ids[last] = UNKNOWN_STATE
        self.names.pop()
        self.objects.pop()
        self.clock += 1
        self.spec_clock = self._node_removed_at = self.clock
        self._views.clear()
        self._cpu_memory_views.clear()

    def apply(self, row: int, shape: Shape, load: Load, sign: int) -> None:
        """Count a task of that shape in (sign 1) or out (sign -1)."""
        if (deltas := self._deltas.get(shape.base_id)) is None:
            deltas = self._compute_deltas(shape)
        column = (self._occupied if load is Load.OCCUPIES else self._flat)[:, row]
        if sign > 0:
            column += deltas[load]
        else:
            column -= deltas[load]
        self.state_ids[row] = UNKNOWN_STATE
        self.clock = clock = self.clock + 1
        self.changed_at[row] = clock
        self._log[clock % LOG_SIZE] = row

    def begin_release(self, row: int, shape: Shape) -> None:
        """Count a task of that shape as Releasing that occupied the row."""
        if (deltas := self._deltas.get(shape.base_id)) is None:
            deltas = self._compute_deltas(shape)
        column = self._released[:, row]
        column += deltas[-1]
        self.state_ids[row] = UNKNOWN_STATE
        self.clock = clock = self.clock + 1
        self.changed_at[row] = clock
        self._log[clock % LOG_SIZE] = row

    def mark_changed(self, rows: Iterable[int]) -> None:
        """Mark rows as changed whose tasks changed while their amounts did not."""
        for row in rows:
            self._log_change(row)

    def apply_all(self, counts: Mapping[int, int], shape: Shape, load: Load, sign: int = 1) -> None:
        """Call `apply` for tasks of one shape, with their number per row."""
        if len(counts) == 1:
            for row, count in counts.items():
                for _ in range(count):
                    self.apply(row, shape, load, sign)
            return
        delta = (self._deltas.get(shape.base_id) or self._compute_deltas(shape))[load]
        rows = np.fromiter(counts, np.intp, len(counts))
        times = np.fromiter(counts.values(), np.int64, len(counts))
        flat = self._occupied if load is Load.OCCUPIES else self._flat
        amounts_there = flat.take(rows, axis=1)
        if sign < 0:
            times = -times
        amounts_there += delta.reshape(-1, 1) * times
        flat[:, rows] = amounts_there
        self.state_ids[rows] = UNKNOWN_STATE
        self._log_changes(rows)

    def occupy(self, shape: Shape, rows: Sequence[int], states: Mapping[int, int]) -> None:
        """Count Allocated tasks of one shape on rows, with the resulting state ids."""
        number = len(states)
        self._deferred.add((self._deltas.get(shape.base_id) or self._compute_deltas(shape))[Load.OCCUPIES], rows)
        if len(self._deferred.rows) >= MAX_DEFERRED:
            self._deferred.write(self._occupied)
        at = np.fromiter(states, np.intp, number)
        self.state_ids[at] = np.fromiter(states.values(), np.int64, number)
        self._log_changes(at)

    def occupy_row(self, shape: Shape, row: int, state: int = UNKNOWN_STATE, number: int = 1) -> None:
        """Call `occupy` for one row."""
        delta = (self._deltas.get(shape.base_id) or self._compute_deltas(shape))[Load.OCCUPIES]
        column = self._occupied[:, row]
        column += delta if number == 1 else delta * number
        self.state_ids[row] = state
        self.clock = clock = self.clock + 1
        self.changed_at[row] = clock
        self._log[clock % LOG_SIZE] = row

    def changed_since(self, clock: int) -> NDArray[np.intp]:
        """Return the rows that changed since a clock, possibly repeated."""
        size = len(self.names)
        is_short = 8 * (self.clock - clock) <= max(size, LOG_SIZE // 4)
        rows = self.logged_since(clock) if is_short else None
        return (self.changed_at[:size] > clock).nonzero()[0] if rows is None else rows

    def logged_since(self, clock: int) -> NDArray[np.intp] | None:
        """Return the rows changed since a clock, one per change, in order; None when the log is too short."""
        if clock < self._node_removed_at or self.clock - clock > LOG_SIZE:
            return None
        start, stop = (clock + 1) % LOG_SIZE, (self.clock + 1) % LOG_SIZE
        return self._log[start:stop] if start <= stop else np.concatenate([self._log[start:], self._log[:stop]])

    def _log_change(self, row: int) -> None:
        self.clock = clock = self.clock + 1
        self.changed_at[row] = clock
        self._log[clock % LOG_SIZE] = row

    def _log_changes(self, rows: NDArray[np.intp]) -> None:
        number = len(rows)
        start = (self.clock + 1) % LOG_SIZE
        self.clock += number
        self.changed_at[rows] = self.clock
        if start + number <= LOG_SIZE:
            self._log[start : start + number] = rows
        elif number <= LOG_SIZE:
            at_end = LOG_SIZE - start
            self._log[start:], self._log[: number - at_end] = rows[:at_end], rows[at_end:]

    def amounts(self, row: int) -> AmountsRow:
        """Return the current amounts of a row that scorers read."""
        if self._deferred.rows:
            self._deferred.write(self._occupied)
        return tuple(self._flat[: READ.stop * len(self.resources), row].tolist())

    def amount_changes(self, shape: Shape, load: Load) -> AmountChanges:
        """Return what one task of the shape adds to an `AmountsRow`."""
        if (cached := self._amount_changes.get((shape.base_id, load))) is None:
            delta = (self._deltas.get(shape.base_id) or self._compute_deltas(shape))[load]
            first = OCCUPIED.start if load is Load.OCCUPIES else 0
            cached = self._amount_changes[shape.base_id, load] = tuple(
                ((quantity + first) * len(self.resources) + at, amount)
                for quantity, amounts_of in enumerate(delta.reshape(-1, len(self.resources)).tolist())
                for at, amount in enumerate(amounts_of)
                if amount and quantity + first < READ.stop
            )
        return cached

    def view(self, quantity: Quantity, resource: str) -> Ints:
        """Return one column over all rows, read-only."""
        if self._deferred.rows:
            self._deferred.write(self._occupied)
        key = (quantity, resource)
        if (view := self._views.get(key)) is None:
            index = self.resources.get(resource)
            size = len(self.names)
            view = np.zeros(size, np.int64) if index is None else self.block[quantity, index, :size]
            view.flags.writeable = False
            self._views[key] = view
        return view

    def allocatable(self, resource: str) -> Ints:
        """Return the allocatable amounts; zeros for an unknown resource."""
        return self.view(Quantity.ALLOCATABLE, resource)

    def used(self, resource: str) -> Ints:
        """Return the used amounts: Allocated, Binding, Bound, Running and Releasing tasks."""
        return self.view(Quantity.USED, resource)

    def idle(self, resource: str) -> Ints:
        """Return allocatable - used."""
        return self.view(Quantity.IDLE, resource)

    def future_idle(self, resource: str) -> Ints:
        """Return idle + releasing - pipelined."""
        return self.view(Quantity.FUTURE, resource)

    def nonzero_used(self, resource: str) -> Ints:
        """Return used cpu or memory, counted by `Shape.nonzero_requests`."""
        return self.view(Quantity.NONZERO_USED, resource)

    def cpu_memory_integers(self, quantity: int) -> Ints:
        """Return cpu and memory as integers, read-only."""
        if self._deferred.rows:
            self._deferred.write(self._occupied)
        if (view := self._cpu_memory_views.get(quantity)) is None:
            view = self._cpu_memory_views[quantity] = self.block[quantity, :CPU_MEMORY_COUNT, : len(self.names)]
            view.flags.writeable = False
        return view

    def cpu_memory(self, what: AmountName) -> NDArray[np.float64]:
        """Return cpu (first) and memory as one array of two rows, of the quantity of that name."""
        if self._floats_clock != self.clock:
            self._clear_floats()
        return super().cpu_memory(what)

    def utilization(self, cpu: int, memory: int) -> NDArray[np.float64]:
        """Return (used + these amounts) / allocatable of cpu (first) and memory, where `all_have_cpu_memory`."""
        if self._floats_clock != self.clock:
            self._clear_floats()
        return super().utilization(cpu, memory)

    def _clear_floats(self) -> None:
        self.clear_cache()
        self._floats_clock = self.clock

    @property
    def all_have_cpu_memory(self) -> bool:
        """Whether every node has some allocatable cpu and memory."""
        if self._cpu_memory_checked_at != self.spec_clock:
            self._all_have_cpu_memory = bool((self.cpu_memory_integers(Quantity.ALLOCATABLE) > 0).all())
            self._cpu_memory_checked_at = self.spec_clock
        return self._all_have_cpu_memory

    def totals(self, quantity: Quantity) -> dict[str, int]:
        """Return the non-zero sums over all rows by resource."""
        sums = self.block[quantity, :, : len(self.names)].sum(axis=1).tolist()
        return {name: sums[index] for name, index in self.resources.items() if sums[index]}

    def _set_block(self, block: Ints) -> None:
        _, resources, capacity = block.shape
        self.capacity = capacity
        self._block, self._flat = block, block.reshape(-1, capacity)
        self._occupied = self._flat[OCCUPIED.start * resources : OCCUPIED.stop * resources]
        self._released = self._flat[RELEASED.start * resources : RELEASED.stop * resources]

    def _append(self, node: Node) -> int:
        if (row := len(self.names)) == self.capacity:
            self._grow(row + row // 4 + _CAPACITY_OFFSET)
        name = node.metadata.name
        self.rows[name] = row
        self.names.append(name)
        self.objects.append(node)
        self.hashes[row] = node_hash(node)
        self._views.clear()
        self._cpu_memory_views.clear()
        return row

    def _grow(self, capacity: int) -> None:
        extra = capacity - self.capacity
        self._set_block(np.pad(self.block, ((0, 0), (0, 0), (0, extra))))
        self.state_ids = np.pad(self.state_ids, (0, extra), constant_values=UNKNOWN_STATE)
        self.pod_slots = np.pad(self.pod_slots, (0, extra))
        self.changed_at = np.pad(self.changed_at, (0, extra))
        self.spec_changed_at = np.pad(self.spec_changed_at, (0, extra))
        self.freed_at = np.pad(self.freed_at, (0, extra))
        self.hashes = np.pad(self.hashes, (0, extra))

    def mark_freed(self, row: int) -> None:
        """Record that room may have appeared on a row."""
        self.freed_count += 1
        self.freed_at[row] = self.freed_count

    def mark_all_freed(self) -> None:
        """Record that room may have appeared anywhere, or that rules changed."""
        self.freed_count += 1
        self.freed_anywhere_at = self.freed_count

    def mark_respecified(self, row: int) -> None:
        """Record that a row must be filtered and scored again, as if its Node object had changed."""
        self._spec_changed(row)

    def _spec_changed(self, row: int) -> None:
        self.mark_freed(row)
        self._log_change(row)
        self.spec_clock = self.spec_changed_at[row] = self.clock
        self.state_ids[row] = UNKNOWN_STATE

    def _compute_deltas(self, shape: Shape) -> tuple[Ints, ...]:
        for name in (*shape.requests, *shape.nonzero_requests):
            self.resource(name)
        cached = self._deltas[shape.base_id] = tuple(
            [delta.reshape(-1) for delta in load_deltas(shape, self.resources)]
        )
        return cached
