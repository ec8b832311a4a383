"""The rows that are best for a shape, kept from one placement to the next of a cycle."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from volcanoio.engine.scheduling.columns import Columns
from volcanoio.engine.scheduling.placement.answers import Answers
from volcanoio.engine.scheduling.placement.best import Best
from volcanoio.engine.scheduling.placement.onerow import NOWHERE
from volcanoio.engine.scheduling.placement.ties import TieKeys
from volcanoio.framework.scheduling.views import Shape

KEPT = 64
"""For how many shapes the best rows are kept."""
LEAST, MOST = 64, 256
"""How many rows are worth to be put in order at once, for a shape whose best rows were used up before."""
FIRST = 64
"""How many of more equally good rows are put in order at once."""


class Leaders:
    """Finds best rows, and keeps them at the answers (`Answers.best`)."""

    __slots__ = ("_columns", "_kept", "_keys")

    def __init__(self, columns: Columns, keys: TieKeys) -> None:
        self._columns = columns
        self._keys = keys
        self._kept: dict[int, Answers] = {}
        """The answers that know their best rows, by the shape's id; the one that looked last at the end."""

    def open(self) -> None:
        """A cycle begins: other rows are first among equals."""
        for answers in self._kept.values():
            answers.best = None
        self._kept.clear()

    def look(self, answers: Answers) -> Best | None:
        """Keep the rows that are best now, if a task may go anywhere.

        Where it is done again as those known before are used up, some that are less good are put in order, too.
        """
        value, kept, shape = answers.value[: len(self._columns)], self._kept, answers.shape
        again, answers.best = answers.best is not None, None
        kept.pop(shape.id, None)
        if not len(value):
            return None
        top = value.item(value.argmax())
        if top == NOWHERE:
            return None
        rows = (value >= top - answers.span).nonzero()[0]
        if len(rows) > MOST:
            answers.span /= 2
            rows = self._first_of(shape, rows, value[rows], top)
        elif again and len(rows) < LEAST:
            answers.span = max(2 * answers.span, 1.0)
        best = answers.best = Best(self._keys, shape, rows, value[rows])
        kept[shape.id] = answers
        if len(kept) > KEPT:
            kept.pop(next(iter(kept))).best = None
        return best

    def _first_of(
        self, shape: Shape, rows: NDArray[np.intp], values: NDArray[np.float64], top: float
    ) -> NDArray[np.intp]:
        """Of too many rows those that are better than the others, or the first of equally good ones."""
        least = np.partition(values, -FIRST).item(-FIRST)
        if least < top:
            return rows[values > least]
        rows = rows[values == top]
        return rows[self._keys.of(shape, rows).argpartition(FIRST)[:FIRST]] if len(rows) > MOST else rows
