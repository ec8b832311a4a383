"""States: the distinct amounts that rows have, interned.

Nodes are bought by the dozen and pods come in shapes, so few combinations of amounts occur on many nodes. What depends
on a node's amounts alone is worked out once a state and looked up for every node that comes to be in it; which state
follows when a task is placed is remembered, too. Where nodes are all different, `useful` becomes false.
"""

from __future__ import annotations

from volcanoio.engine.scheduling.columns import UNKNOWN, Amounts, Columns
from volcanoio.engine.scheduling.loads import Load
from volcanoio.framework.scheduling.views import Shape

MOST = 16_384
"""States known at once: then all are forgotten, so that answers by state (8 bytes each) need no more room."""
MOST_STEPS = 8 * MOST
WINDOW = 1 << 16
"""Rows looked up between two judgements whether looking up pays."""
WORTH = 5
"""It does while at most one of so many rows is in a state that is new to its shape."""


class States:
    """Ids of states, dense from 0; `amounts` are theirs. `version` changes when all ids are forgotten."""

    def __init__(self, columns: Columns) -> None:
        self._columns = columns
        self._ids: dict[Amounts, int] = {}
        self.amounts: list[Amounts] = []
        self.version = 0
        self.useful = True
        self._asked = self._missed = 0
        self._next: dict[int, dict[int, int]] = {}
        self._steps = 0
        self._layout = columns.layout

    def settle(self) -> None:
        """Between placements: forget all where there are too many, or amounts have another layout."""
        if self._layout != self._columns.layout or len(self.amounts) > MOST or self._steps > MOST_STEPS:
            self._layout = self._columns.layout
            self._ids.clear()
            self.amounts = []
            self._next.clear()
            self._steps = 0
            self.version += 1
            self._columns.state[:] = UNKNOWN

    def of(self, row: int) -> int:
        """The state a row is in."""
        state = self._columns.state.item(row)
        if state == UNKNOWN:
            state = self._columns.state[row] = self._intern(self._columns.amounts(row))
        return state

    def following(self, shape: Shape) -> dict[int, int]:
        """Known states after a task of the shape was allocated, by the one before."""
        known = self._next.get(shape.like)
        if known is None:
            known = self._next[shape.like] = {}
        return known

    def after(self, state: int, shape: Shape) -> int:
        """The state that follows when a task of the shape is allocated."""
        values = list(self.amounts[state])
        for at, amount in self._columns.steps(shape, Load.OCCUPIES):
            values[at] += amount
        following = self.following(shape)[state] = self._intern(tuple(values))
        self._steps += 1
        return following

    def count(self, asked: int, missed: int) -> None:
        """Note how many rows were looked up and how many of them in vain."""
        self._asked += asked
        self._missed += missed
        if self._asked >= WINDOW:
            self.useful = WORTH * self._missed < self._asked
            self._asked = self._missed = 0

    def _intern(self, values: Amounts) -> int:
        state = self._ids.get(values)
        if state is None:
            state = self._ids[values] = len(self.amounts)
            self.amounts.append(values)
        return state
