"""States: the distinct amounts that rows have, interned.

Nodes are bought by the dozen and pods come in shapes, so few combinations of amounts occur on many nodes. What depends
on a node's amounts alone is worked out once a state and looked up for every node that comes to be in it; which state
follows when a task is placed is remembered, too. Where nodes are all different, `useful` becomes false.

Nodes that differ in how many pods they take and in nothing else are in the same state, if they take any: the same cpu
is used by few pods or by many, so there would be several times as many states. Slots are counted by row instead.
"""

from __future__ import annotations

from volcanoio.engine.scheduling.columns import UNKNOWN, Amounts, Columns, Steps
from volcanoio.engine.scheduling.loads import Load, Quantity
from volcanoio.framework.scheduling.views import Shape
from volcanoio.model.resources import PODS

MOST = 16_384
"""States known at once: then all are forgotten, so that answers by state (8 bytes each) need no more room."""
MOST_STEPS = 8 * MOST
WINDOW = 1 << 16
"""Rows looked up between two judgements whether looking up pays."""
WORTH = 5
"""It does while at most one of so many rows is in a state that is new to its shape."""
UNCOUNTED = 1 << 62
"""The slots of rows where they are a part of states."""
_IDLE, _FUTURE = int(Quantity.IDLE), int(Quantity.FUTURE)


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
        self._added: dict[int, Steps] = {}
        """What a task of a shape adds to the amounts of a state, by `Shape.like`."""
        self._layout = columns.layout
        self._whole = False

    def open(self) -> None:
        """Other plugins answer from now on: those that care for slots will say so."""
        if self._whole:
            self._whole = False
            self._forget()

    def count_slots(self) -> None:
        """How many pods a node takes is a part of its state from now on: somebody's answers follow from it."""
        if not self._whole:
            self._whole = True
            self._forget()

    def settle(self) -> None:
        """Between placements: forget all where there are too many, or amounts have another layout."""
        if self._layout != self._columns.layout or len(self.amounts) > MOST or self._steps > MOST_STEPS:
            self._layout = self._columns.layout
            self._forget()

    def of(self, row: int) -> int:
        """The state a row is in; its slots are known then."""
        columns = self._columns
        state = columns.state.item(row)
        if state == UNKNOWN:
            amounts, slots = columns.amounts(row), UNCOUNTED
            if not self._whole:
                amounts, slots = self._without_slots(amounts)
            columns.slots[row] = slots
            state = columns.state[row] = self._intern(amounts)
        return state

    def following(self, shape: Shape) -> dict[int, int]:
        """Known states after a task of the shape was allocated, by the one before."""
        known = self._next.get(shape.like)
        if known is None:
            known = self._next[shape.like] = {}
        return known

    def after(self, state: int, shape: Shape) -> int:
        """The state that follows when a task of the shape is allocated; where slots are left then."""
        values = list(self.amounts[state])
        added = self._added.get(shape.like)
        if added is None:
            added = self._added[shape.like] = self._steps_of(shape)
        for at, amount in added:
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

    def _steps_of(self, shape: Shape) -> Steps:
        """What a task adds, slots aside where they are not a part of states."""
        steps, index = self._columns.steps(shape, Load.OCCUPIES), self._columns.resources
        return tuple([step for step in steps if self._whole or step[0] % len(index) != index[PODS]])

    def _without_slots(self, amounts: Amounts) -> tuple[Amounts, int]:
        """The amounts of a row as those of its state: of slots, whether there is one; and how many there are."""
        at, width = self._columns.resources[PODS], len(self._columns.resources)
        slots = min(amounts[_IDLE * width + at], amounts[_FUTURE * width + at])
        values = list(amounts)
        values[at::width] = [0] * (len(values) // width)
        values[_IDLE * width + at] = values[_FUTURE * width + at] = int(slots > 0)
        return tuple(values), slots

    def _forget(self) -> None:
        self._ids.clear()
        self.amounts = []
        self._next.clear()
        self._added.clear()
        self._steps = 0
        self.version += 1
        self._columns.state[:] = UNKNOWN

    def _intern(self, values: Amounts) -> int:
        state = self._ids.get(values)
        if state is None:
            state = self._ids[values] = len(self.amounts)
            self.amounts.append(values)
        return state
