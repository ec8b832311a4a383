"""The amounts of recently changed rows, change after change in contiguous memory.

When a shape is scored again, it reads the changed amounts from one contiguous block instead of gathering them from
rows all over the columns. Each change of a row is one entry; it makes the row's previous entry outdated.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from volcanoio.engine.scheduling.cluster.loads import CPU_MEMORY_COUNT, Quantity
from volcanoio.engine.scheduling.cluster.node_columns import LOG_SIZE, NodeColumns
from volcanoio.engine.scheduling.cluster.rows import NodeRows

_ALLOCATABLE, _USED, _IDLE, _FUTURE, _NONZERO, *_REST = range(len(Quantity))
ENTRIES = 2 * LOG_SIZE
"""Length of the arrays; when they are full, the last `LOG_SIZE` entries are moved to the front."""
_STAGGER = 8
"""Extra length of the arrays: with a power of two, all values of an entry would fall into the same few cache sets."""
_NO_ROOM = -1
"""The room of an outdated entry: no task fits, since each requests something."""
_NONZERO_AT = 2
"""Position of non-zero used in the stored quantities of cpu and memory, after allocatable and used."""


class ChangedRows(NamedTuple):
    """Rows that changed since a clock value."""

    changed: NDArray[np.intp]
    """All of them, possibly repeated."""
    fitting: NDArray[np.intp]
    """Those where a task fits, each once."""
    nodes: NodeRows
    """The fitting rows with their amounts."""


class RecentChanges:
    """Entries of changes, updated when they are requested."""

    __slots__ = ("_basics", "_capacity", "_clock", "_columns", "_entry_of", "_first", "_layout", "_room", "_rows")

    def __init__(self, columns: NodeColumns) -> None:
        self._columns = columns
        self._first = columns.clock
        """The columns' clock before the first entry."""
        self._clock = columns.clock
        """The columns' clock at the last entry."""
        self._layout = self._capacity = -1
        self._rows: NDArray[np.intp] = np.zeros(ENTRIES, np.intp)
        self._room: NDArray[np.int64]
        """The smaller of idle and future idle, by resource and entry."""
        self._basics: NDArray[np.float64] = np.zeros((_NONZERO_AT + 1, CPU_MEMORY_COUNT, ENTRIES + _STAGGER))
        """cpu and memory as scorers read them (`views.Nodes.cpu_memory`), by quantity."""
        self._entry_of: NDArray[np.int64]
        """The clock of each row's last entry."""

    def fitting(
        self, clock: int, requests: Sequence[tuple[int, int]], passing: NDArray[np.bool_] | None
    ) -> ChangedRows | None:
        """Return the rows that changed since a clock value; None where the entries do not reach back that far.

        `requests` are the task's as pairs of resource index and amount, at least one; `passing`, if given, restricts
        the fitting rows.
        """
        self._catch_up()
        first = self._first
        if clock < first:
            return None
        start, stop = clock - first, self._clock - first
        rows = self._rows[start:stop]
        (at, amount), *others = requests
        # One resource after the other: comparing all resources at once by broadcasting is slower
        fits = self._room[at, start:stop] >= amount
        for at, amount in others:
            fits &= self._room[at, start:stop] >= amount
        if passing is not None:
            fits &= passing[rows]
        entries = fits.nonzero()[0]
        entries += start  # from here on positions in the arrays
        fitting = self._rows.take(entries)
        basics = self._basics.take(entries, axis=2, mode="clip")  # faster: indices are valid and need no check
        cpu_memory = {_ALLOCATABLE: basics[0], _USED: basics[1], _NONZERO: basics[2]}
        return ChangedRows(rows, fitting, NodeRows(self._columns, fitting, cpu_memory, all_fit=True))

    def _catch_up(self) -> None:
        """Add entries for the rows that changed since the last call."""
        columns = self._columns
        if self._layout != columns.layout or self._capacity != columns.capacity:
            self._layout, self._capacity = columns.layout, columns.capacity
            self._room = np.zeros((len(columns.resources), ENTRIES + _STAGGER), np.int64)
            self._entry_of = np.zeros(columns.capacity, np.int64)
            self._first = self._clock = columns.clock
        if self._clock == columns.clock:
            return
        if (rows := columns.logged_since(self._clock)) is None:
            self._first = self._clock = columns.clock
            return
        if columns.clock - self._first > ENTRIES:
            self._compact()
        start = self._clock - self._first
        self._write(rows, start)
        self._invalidate(rows.tolist())
        self._clock = columns.clock

    def _write(self, rows: NDArray[np.intp], start: int) -> None:
        """Write entries with the current amounts of rows."""
        stop = start + len(rows)
        self._rows[start:stop] = rows
        if len(rows) == 1:  # the usual case: one placement after another
            amounts = self._columns.block[:, :, rows.item(0)]
            np.minimum(amounts[_IDLE], amounts[_FUTURE], out=self._room[:, start])
            self._basics[:_NONZERO_AT, :, start] = amounts[: _USED + 1, :CPU_MEMORY_COUNT]
            self._basics[_NONZERO_AT, :, start] = amounts[_NONZERO, :CPU_MEMORY_COUNT]
            return
        block = self._columns.block[:, :, rows]
        np.minimum(block[_IDLE], block[_FUTURE], out=self._room[:, start:stop])
        self._basics[:_NONZERO_AT, :, start:stop] = block[: _USED + 1, :CPU_MEMORY_COUNT]
        self._basics[_NONZERO_AT, :, start:stop] = block[_NONZERO, :CPU_MEMORY_COUNT]

    def _invalidate(self, rows: Sequence[int]) -> None:
        """Mark the previous entries of changed rows as outdated."""
        clock, first, entry_of = self._clock, self._first, self._entry_of
        for row in rows:
            if (before := entry_of.item(row)) > first:  # else it has none, or `_compact` has dropped it
                self._room[:, before - first - 1] = _NO_ROOM
            clock += 1
            entry_of[row] = clock

    def _compact(self) -> None:
        """Move the last entries to the front; older ones are lost."""
        stop = self._clock - self._first
        start = stop - LOG_SIZE
        self._rows[:LOG_SIZE] = self._rows[start:stop]
        self._room[:, :LOG_SIZE] = self._room[:, start:stop]
        self._basics[:, :, :LOG_SIZE] = self._basics[:, :, start:stop]
        self._first += start
