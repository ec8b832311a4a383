"""Equally good rows: a seeded hash of (cycle, shape, node) says which is taken first, so that load spreads."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from volcanoio.engine.scheduling.columns import Columns
from volcanoio.framework.scheduling.views import Shape

MASK = (1 << 64) - 1
TAKEN = np.uint64(MASK)
"""The key of a row that is out."""


def mix(value: int) -> int:
    """splitmix64: a well-spread 64-bit number of any other."""
    value = (value + 0x9E3779B97F4A7C15) & MASK
    value = ((value ^ (value >> 30)) * 0xBF58476D1CE4E5B9) & MASK
    value = ((value ^ (value >> 27)) * 0x94D049BB133111EB) & MASK
    return value ^ (value >> 31)


class TieKeys:
    """The keys of rows in a cycle: the smallest wins a tie.

    The nodes' part is hashed once for all; what differs by cycle and shape is mixed in by exclusive or.
    """

    def __init__(self, columns: Columns) -> None:
        self._columns = columns
        self._base = 0
        self._salts: dict[int, np.uint64] = {}

    def open(self, cycle: int, seed: int) -> None:
        """A cycle begins."""
        self._salts.clear()
        self._base = mix(mix(seed & MASK) ^ cycle)

    def of(self, shape: Shape, rows: NDArray[np.intp]) -> NDArray[np.uint64]:
        """The key of each row; of rows that are in order, each once."""
        hashes, size = self._columns.hashes, len(self._columns)
        return (hashes[:size] if len(rows) == size else hashes[rows]) ^ self._salt(shape)

    def last_first(self, shape: Shape, rows: NDArray[np.intp]) -> NDArray[np.uint64]:
        """A number by row, of any rows, that is the largest of the one that wins a tie."""
        return ~(self._columns.hashes[rows] ^ self._salt(shape))

    def best(self, shape: Shape, rows: NDArray[np.intp]) -> int:
        """Which of several equally good rows is taken."""
        return rows.item(int(self.of(shape, rows).argmin()) if len(rows) > 1 else 0)

    def _salt(self, shape: Shape) -> np.uint64:
        salt = self._salts.get(shape.id)
        if salt is None:
            salt = self._salts[shape.id] = np.uint64(mix(self._base ^ shape.id))
        return salt


class Ties:
    """Equally good rows; `first` is the one that is taken next."""

    __slots__ = ("_at", "_keys", "_left", "_rows", "first")

    def __init__(self, rows: NDArray[np.intp], keys: NDArray[np.uint64]) -> None:
        self._rows = rows
        self._keys = keys
        self._left = len(rows)
        self._at = int(keys.argmin())
        self.first = rows.item(self._at)

    def take(self) -> bool:
        """The first one is taken; whether another is left."""
        self._left -= 1
        if not self._left:
            return False
        self._keys[self._at] = TAKEN
        self._at = int(self._keys.argmin())
        self.first = self._rows.item(self._at)
        return True
