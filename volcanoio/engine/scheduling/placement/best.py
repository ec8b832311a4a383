"""The best rows for a shape, in the order in which tasks take them."""

from __future__ import annotations

from bisect import insort
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from volcanoio.engine.scheduling.placement.ties import TieKeys
from volcanoio.framework.scheduling.views import Shape

SOME = 64
"""Up to how many rows that got a better place are put where they belong: for more it is quicker to look anew."""
LONGEST = 2048
"""Of a longer list, most is outdated."""

Turn: TypeAlias = tuple[float, int, int]
"""A row with the value it had and its key among equally good ones: the largest is taken next."""


class Best:
    """Rows in turn, the one that is taken next at the end.

    Those whose value is another by now are out: a row that changed has another turn. Every row whose turn would be
    after `last` has it in `turns`; for others one looks again once these are used up.
    """

    __slots__ = ("_keys", "_shape", "last", "turns")

    def __init__(self, keys: TieKeys, shape: Shape, rows: NDArray[np.intp], values: NDArray[np.float64]) -> None:
        """Of some rows, at least one."""
        self._keys = keys
        self._shape = shape
        places = keys.last_first(shape, rows)
        order = np.lexsort((places, values))
        self.turns: list[Turn] = list(
            zip(values[order].tolist(), places[order].tolist(), rows[order].tolist(), strict=True)
        )
        self.last = self.turns[0]

    def moved(self, value: float, place: int, row: int) -> None:
        """A row with that place among equally good ones has this value from now on."""
        turn = value, place, row
        if turn > self.last:
            insort(self.turns, turn)

    def follow(self, rows: NDArray[np.intp], values: NDArray[np.float64]) -> bool:
        """Take in values of rows that changed; False where it is quicker to look anew."""
        better = (values >= self.last[0]).nonzero()[0]
        if len(better) > SOME or len(self.turns) > LONGEST:
            return False
        rows, turns, last = rows[better], self.turns, self.last
        places = self._keys.last_first(self._shape, rows)
        for turn in zip(values[better].tolist(), places.tolist(), rows.tolist(), strict=True):
            if turn > last:
                insort(turns, turn)
        return True
