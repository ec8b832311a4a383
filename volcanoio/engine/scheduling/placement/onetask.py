"""One task placed on idle room where answers follow from the row: most turns of queues and jobs are no more than that.

The row is the one that `filling` or `greedy` would take, found without the lists that many tasks need.
"""

from __future__ import annotations

from volcanoio.engine.scheduling.columns import UNKNOWN, Columns
from volcanoio.engine.scheduling.placement.answers import Answers
from volcanoio.engine.scheduling.placement.leaders import Leaders
from volcanoio.engine.scheduling.placement.onerow import NOWHERE
from volcanoio.engine.scheduling.placement.states import States
from volcanoio.engine.scheduling.placement.ties import TieKeys


class OneTask:
    """Takes the best row and counts a task there in the columns; -1 where there is none."""

    __slots__ = ("_columns", "_keys", "_leaders", "_states")

    def __init__(self, columns: Columns, states: States, keys: TieKeys, leaders: Leaders) -> None:
        self._columns = columns
        self._states = states
        self._keys = keys
        self._leaders = leaders

    def by_state(self, answers: Answers) -> int:
        """Where answers, which are right, follow from amounts alone: as `Filling.place`."""
        states, shape, value, best = self._states, answers.shape, answers.value, answers.best
        one, values = answers.one, answers.values
        assert one is not None
        while True:
            if best is None or not best.turns:
                best = self._leaders.look(answers)
                if best is None:
                    return -1
            top, place, row = best.turns.pop()
            if value.item(row) == top:
                break
        state = self._columns.state.item(row)
        if state < 0:
            state = states.of(row)
        slots = self._columns.slots
        left = slots[row] = slots.item(row) - 1
        if left:
            after = states.following(shape).get(state, UNKNOWN)
            if after < 0:
                after = states.after(state, shape)
            score = value[row] = values.of(after, row, one)
        else:
            after, score = UNKNOWN, NOWHERE
            value[row] = NOWHERE
        best.moved(score, place, row)
        self._columns.occupy_row(shape, row, after)
        answers.revision = self._columns.clock
        return row

    def by_row(self, answers: Answers) -> int:
        """Where they follow from the row: as `Greedy.place`, but what is known of the row is not right then.

        It is asked about again with all others that change until the next task of the shape.
        """
        columns, shape = self._columns, answers.shape
        value = answers.value[: len(columns)]
        if not len(value):
            return -1
        row = int(value.argmax())
        top = value.item(row)
        if top == NOWHERE:
            return -1
        rows = (value == top).nonzero()[0]
        if len(rows) > 1:
            row = self._keys.best(shape, rows)
        columns.occupy_row(shape, row)
        return row
