"""What the rows that changed last amount to, change after change in one piece of memory.

A shape that is asked again finds what changed since then side by side: nothing is gathered row by row from columns that
are as long as there are nodes. Each change of a row is one entry; the entry of its change before is outdated then.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from volcanoio.engine.scheduling.columns import LOGGED, Columns
from volcanoio.engine.scheduling.loads import BASICS, Quantity
from volcanoio.engine.scheduling.rows import Rows

_ALLOCATABLE, _USED, _IDLE, _FUTURE, _NONZERO, *_REST = range(len(Quantity))
ENTRIES = 2 * LOGGED
"""There is room for as many: those that a log reaches back to are moved to the front where it ends."""
_STAGGER = 8
"""Entries by which arrays are longer: at a power of two all that is kept of an entry would share a few cache lines."""
_NO_ROOM = -1
"""The room of an outdated entry: no task fits, as each asks for something."""
_NONZERO_AT = 2
"""Of cpu and memory what is allocatable, used and counted as used is kept, in this order."""


class Recent:
    """Entries of changes, brought up to date when it is asked for them."""

    __slots__ = ("_basics", "_capacity", "_clock", "_columns", "_entry_of", "_first", "_layout", "_room", "_rows")

    def __init__(self, columns: Columns) -> None:
        self._columns = columns
        self._first = self._clock = columns.clock
        """The columns' clock before the first entry, and that of the last."""
        self._layout = self._capacity = -1
        self._rows: NDArray[np.intp] = np.zeros(ENTRIES, np.intp)
        self._room: NDArray[np.int64]
        """By resource and entry what is idle and will be, whichever is less."""
        self._basics: NDArray[np.float64] = np.zeros((_NONZERO_AT + 1, BASICS, ENTRIES + _STAGGER))
        """As scorers read cpu and memory (`views.Nodes.basics`), by quantity."""
        self._entry_of: NDArray[np.int64]
        """By row the clock of its last entry."""

    def that_fit(
        self, clock: int, wants: Sequence[tuple[int, int]], passing: NDArray[np.bool_] | None
    ) -> tuple[NDArray[np.intp], NDArray[np.intp], Rows] | None:
        """The rows that changed since then, some maybe several times, and, each once, those of them that have room.

        The latter are told as plugins see them, too. `wants` is how much room there must be, at least of one resource,
        by the resource's index; where `passing` is given, they are among these. None where entries do not reach back so
        far.
        """
        self._follow()
        first = self._first
        if clock < first:
            return None
        start, stop = clock - first, self._clock - first
        rows = self._rows[start:stop]
        (at, amount), *others = wants
        fits = self._room[at, start:stop] >= amount  # one resource after the other: a column beside the table is slower
        for at, amount in others:
            fits &= self._room[at, start:stop] >= amount
        if passing is not None:
            fits &= passing[rows]
        entries = fits.nonzero()[0]
        entries += start
        fitting = self._rows.take(entries)
        basics = self._basics.take(entries, axis=2, mode="clip")  # quicker than to have them checked
        known = {_ALLOCATABLE: basics[0], _USED: basics[1], _NONZERO: basics[2]}
        return rows, fitting, Rows(self._columns, fitting, known, have_room=True)

    def _follow(self) -> None:
        """Make entries of what changed since the last time."""
        columns = self._columns
        if self._layout != columns.layout or self._capacity != columns.capacity:
            self._layout, self._capacity = columns.layout, columns.capacity
            self._room = np.zeros((len(columns.resources), ENTRIES + _STAGGER), np.int64)
            self._entry_of = np.zeros(columns.capacity, np.int64)
            self._first = self._clock = columns.clock
        if self._clock == columns.clock:
            return
        rows = columns.logged_since(self._clock)
        if rows is None:
            self._first = self._clock = columns.clock
            return
        if columns.clock - self._first > ENTRIES:
            self._move()
        start = self._clock - self._first
        self._write(rows, start)
        self._outdate(rows.tolist())
        self._clock = columns.clock

    def _write(self, rows: NDArray[np.intp], start: int) -> None:
        """Make entries of rows as they are now."""
        stop = start + len(rows)
        self._rows[start:stop] = rows
        if len(rows) == 1:  # as of most: one placement after another
            there = self._columns.block[:, :, rows.item(0)]
            np.minimum(there[_IDLE], there[_FUTURE], out=self._room[:, start])
            self._basics[:_NONZERO_AT, :, start] = there[: _USED + 1, :BASICS]
            self._basics[_NONZERO_AT, :, start] = there[_NONZERO, :BASICS]
            return
        block = self._columns.block[:, :, rows]
        np.minimum(block[_IDLE], block[_FUTURE], out=self._room[:, start:stop])
        self._basics[:_NONZERO_AT, :, start:stop] = block[: _USED + 1, :BASICS]
        self._basics[_NONZERO_AT, :, start:stop] = block[_NONZERO, :BASICS]

    def _outdate(self, rows: Sequence[int]) -> None:
        """Of rows that changed in this order the last entry counts, the one before is of no use."""
        clock, first, entry_of = self._clock, self._first, self._entry_of
        for row in rows:
            before = entry_of.item(row)
            if before > first:
                self._room[:, before - first - 1] = _NO_ROOM
            clock += 1
            entry_of[row] = clock

    def _move(self) -> None:
        """Move the last entries to the front: who asks for more is told to look at the columns."""
        stop = self._clock - self._first
        start = stop - LOGGED
        self._rows[:LOGGED] = self._rows[start:stop]
        self._room[:, :LOGGED] = self._room[:, start:stop]
        self._basics[:, :, :LOGGED] = self._basics[:, :, start:stop]
        self._first += start
