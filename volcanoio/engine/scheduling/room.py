"""Where room appeared, and whether it is of any use to tasks of a shape that found none before."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from volcanoio.engine.scheduling.columns import Columns
from volcanoio.engine.scheduling.loads import Quantity
from volcanoio.framework.scheduling.views import Shape

FEW = 16
"""Up to how many rows looking one by one is quicker than looking at all in one go."""


class Room:
    """Of shapes that found no room, when some appeared that holds one more task; times are values of `Columns.freed`.

    Only rows that were freed since a shape was last asked about are looked at.
    """

    def __init__(self, columns: Columns) -> None:
        self._columns = columns
        self._known: dict[int, tuple[int, int]] = {}
        """By `Shape.like`: up to when it was looked, and when the newest room appeared that was found."""
        self._seen: tuple[int, int, NDArray[np.intp], list[list[int]]] | None = None
        """The rows freed since some time as of some clock, and what of theirs will be idle if they are few."""

    def follow(self, shape: Shape) -> None:
        """From now on room for a shape is of interest."""
        self._known.setdefault(shape.like, (self._columns.freed, -1))

    def appeared(self, shape: Shape, *, settled: bool) -> int:
        """When room last appeared that would hold a task of a followed shape now.

        `settled` says that nothing is reserved just now: else it is looked again the next time.
        """
        columns = self._columns
        upto, newest = self._known.get(shape.like, (-1, -1))
        if upto == columns.freed:
            return newest
        if columns.freed_anywhere > upto:
            newest = columns.freed_anywhere
        rows, idle = self._freed_since(upto)
        if len(rows):
            newest = max(newest, self._newest(shape.requests, rows, idle))
        if settled:
            self._known[shape.like] = columns.freed, newest
        return newest

    def _freed_since(self, upto: int) -> tuple[NDArray[np.intp], list[list[int]]]:
        columns, seen = self._columns, self._seen
        if seen is None or seen[:2] != (upto, columns.clock):
            rows = (columns.freed_at[: len(columns)] > upto).nonzero()[0]
            idle = columns.block[Quantity.FUTURE][:, rows].T.tolist() if len(rows) <= FEW else []
            seen = self._seen = upto, columns.clock, rows, idle
        return seen[2], seen[3]

    def _newest(self, requests: Mapping[str, int], rows: NDArray[np.intp], idle: list[list[int]]) -> int:
        """When the newest of these rows was freed that hold the requests; -1 when none does."""
        columns = self._columns
        wants = [(columns.resource(name), amount) for name, amount in requests.items()]
        if idle:
            fitting = [
                row
                for row, room in zip(rows.tolist(), idle, strict=True)
                if all(room[at] >= amount for at, amount in wants)
            ]
            return max((columns.freed_at.item(row) for row in fitting), default=-1)
        fits = np.ones(len(rows), np.bool_)
        for at, amount in wants:
            fits &= columns.block[Quantity.FUTURE, at, rows] >= amount
        return int(columns.freed_at[rows[fits]].max(initial=-1))
