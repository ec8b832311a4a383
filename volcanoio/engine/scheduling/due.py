"""Amounts of placements that are not in the columns yet: those of many are written in one go."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

MOST = 256
"""How many tasks are worth to be written at once: more gain next to nothing."""


class Due:
    """What tasks add to the rows they were placed on, until somebody reads amounts. Sums: what is due may wait."""

    __slots__ = ("_deltas", "_numbers", "rows")

    def __init__(self) -> None:
        self.rows: list[int] = []
        """The row of each task."""
        self._deltas: list[NDArray[np.int64]] = []
        """What each of successive tasks adds, and of how many that is so."""
        self._numbers: list[int] = []

    def add(self, delta: NDArray[np.int64], rows: Sequence[int]) -> None:
        """Tasks that add the same were placed on rows, which may occur several times."""
        self.rows += rows
        self._deltas.append(delta)
        self._numbers.append(len(rows))

    def write(self, amounts: NDArray[np.int64]) -> None:
        """Add all of it to amounts, in a column a row."""
        lines, capacity = amounts.shape
        deltas = np.repeat(np.array(self._deltas), self._numbers, axis=0)
        at = np.array(self.rows, np.intp).reshape(-1, 1) + np.arange(0, lines * capacity, capacity)
        np.add.at(amounts.reshape(-1), at.reshape(-1), deltas.reshape(-1))
        self.rows.clear()
        self._deltas.clear()
        self._numbers.clear()
