"""Top candidates: the best rows for a shape in order, and which of equally good rows comes first.

Ties fall to a seeded hash of (cycle, shape, node), so that load spreads. The candidates of a shape stay valid within a
cycle.
"""

from bisect import insort
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from volcanoio.engine.scheduling.cluster.node_columns import NodeColumns
from volcanoio.framework.scheduling.views import Shape

MASK = (1 << 64) - 1
TAKEN = np.uint64(MASK)
"""The key of a row that was taken."""


def mix(value: int) -> int:
    """splitmix64: a well-spread 64-bit number of any other."""
    value = (value + 0x9E3779B97F4A7C15) & MASK
    value = ((value ^ (value >> 30)) * 0xBF58476D1CE4E5B9) & MASK
    value = ((value ^ (value >> 27)) * 0x94D049BB133111EB) & MASK
    return value ^ (value >> 31)


class TieKeys:
    """The keys of rows in a cycle: the smallest wins a tie.

    The nodes' part is hashed once; what differs by cycle and shape is mixed in by exclusive or.
    """

    def __init__(self, columns: NodeColumns) -> None:
        self._columns = columns
        self._base = 0
        self._salts: dict[int, np.uint64] = {}

    def open(self, cycle: int, seed: int) -> None:
        """Begin a cycle."""
        self._salts.clear()
        self._base = mix(mix(seed & MASK) ^ cycle)

    def of(self, shape: Shape, rows: NDArray[np.intp]) -> NDArray[np.uint64]:
        """Return the key of each row; rows must be distinct and in order."""
        hashes, size = self._columns.hashes, len(self._columns)
        return (hashes[:size] if len(rows) == size else hashes[rows]) ^ self._salt(shape)

    def descending(self, shape: Shape, rows: NDArray[np.intp]) -> NDArray[np.uint64]:
        """Return a number for each row that is largest for the winner of a tie."""
        return ~(self._columns.hashes[rows] ^ self._salt(shape))

    def first(self, shape: Shape, rows: NDArray[np.intp]) -> int:
        """Return which of several equally good rows is taken."""
        return rows.item(int(self.of(shape, rows).argmin()) if len(rows) > 1 else 0)

    def _salt(self, shape: Shape) -> np.uint64:
        if (salt := self._salts.get(shape.id)) is None:
            salt = self._salts[shape.id] = np.uint64(mix(self._base ^ shape.id))
        return salt


class Ties:
    """Equally good rows; `first` is the one that is taken next."""

    __slots__ = ("_keys", "_position", "_remaining", "_rows", "first")

    def __init__(self, rows: NDArray[np.intp], keys: NDArray[np.uint64]) -> None:
        self._rows = rows
        self._keys = keys
        self._remaining = len(rows)
        self._position = int(keys.argmin())
        self.first = rows.item(self._position)

    def take(self) -> bool:
        """Take the first row; return whether another is left."""
        self._remaining -= 1
        if not self._remaining:
            return False
        self._keys[self._position] = TAKEN
        self._position = int(self._keys.argmin())
        self.first = self._rows.item(self._position)
        return True


FIRST_ROWS = 64
"""Improved rows up to which inserting them is faster than searching again."""
LONGEST = 2048
"""Length above which most of a list is outdated."""

Candidate: TypeAlias = tuple[float, int, int]
"""Score, tie key and number of a row: the largest is taken next."""


class CandidateList:
    """Rows in order, the next one at the end.

    Entries whose score has changed are outdated: a changed row has another entry. Every row that would come after
    `lowest` is in `entries`; the others are searched again once these are used up.
    """

    __slots__ = ("_keys", "_shape", "entries", "lowest")

    def __init__(self, keys: TieKeys, shape: Shape, rows: NDArray[np.intp], values: NDArray[np.float64]) -> None:
        """Of some rows, at least one."""
        self._keys = keys
        self._shape = shape
        places = keys.descending(shape, rows)
        order = np.lexsort((places, values))
        self.entries: list[Candidate] = list(
            zip(values[order].tolist(), places[order].tolist(), rows[order].tolist(), strict=True)
        )
        self.lowest = self.entries[0]

    def insert(self, value: float, place: int, row: int) -> None:
        """Add a row with a new score, and its key among equally good ones."""
        turn = value, place, row
        if turn > self.lowest:
            insort(self.entries, turn)

    def update(self, rows: NDArray[np.intp], values: NDArray[np.float64]) -> bool:
        """Add rows whose scores changed; False where searching again is faster."""
        if len(better := (values >= self.lowest[0]).nonzero()[0]) > FIRST_ROWS or len(self.entries) > LONGEST:
            return False
        rows, turns, last = rows[better], self.entries, self.lowest
        places = self._keys.descending(self._shape, rows)
        for turn in zip(values[better].tolist(), places.tolist(), rows.tolist(), strict=True):
            if turn > last:
                insort(turns, turn)
        return True
