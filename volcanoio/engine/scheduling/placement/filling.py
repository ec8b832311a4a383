"""Alike tasks placed where answers follow from amounts alone: rows go from state to state, values are looked up.

The result is that of the one-by-one greedy: each task goes to the best row as of then. The best rows are kept in their
order from one gang of a shape to the next (`best`); a row that was taken is put where it stands by then.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from volcanoio.engine.scheduling.columns import UNKNOWN, Columns
from volcanoio.engine.scheduling.placement.answers import NAN, Answers
from volcanoio.engine.scheduling.placement.leaders import Leaders
from volcanoio.engine.scheduling.placement.onerow import NOWHERE
from volcanoio.engine.scheduling.placement.seating import Seating
from volcanoio.engine.scheduling.placement.states import States
from volcanoio.engine.scheduling.tasks import TaskInfo
from volcanoio.framework.scheduling.views import TaskStatus


class Filling:
    """Places alike tasks on idle room by states."""

    __slots__ = ("_columns", "_leaders", "_seating", "_states")

    def __init__(self, columns: Columns, states: States, leaders: Leaders, seating: Seating) -> None:
        self._columns = columns
        self._states = states
        self._leaders = leaders
        self._seating = seating

    def place(
        self, answers: Answers, tasks: Sequence[TaskInfo], lacking: Callable[[], int] | None, log: list[TaskInfo]
    ) -> tuple[int, bool]:
        """Place tasks where the answers, which are right, say; as `Placer.place`."""
        states, shape, values, one = self._states, answers.shape, answers.values, answers.one
        assert one is not None
        best, value = answers.best, answers.value
        following, state_of, slots = states.following(shape), self._columns.state.item, self._columns.slots
        known, end_known = values.table.item, len(values.table) - 1
        now: dict[int, int] = {}
        rows: list[int] = []
        placed, end = 0, len(tasks)
        ask = end if lacking is None else max(lacking(), 1)
        stop, enough = min(ask, end), False
        while placed < end:
            if best is None or not best.turns:
                best = self._leaders.look(answers)
                if best is None:
                    break
            top, place, row = best.turns.pop()
            if value.item(row) != top:
                continue
            state = now[row] if row in now else state_of(row)
            if state < 0:
                state = states.of(row)
            left = slots.item(row)
            while True:
                before, state = state, following.get(state, UNKNOWN)
                if state < 0:
                    state = states.after(before, shape)
                score = known(state) if state < end_known else NAN
                if score != score:
                    score = values.of(state, row, one)
                    known, end_known = values.table.item, len(values.table) - 1
                rows.append(row)
                placed += 1
                left -= 1
                if not left:
                    state, score = UNKNOWN, NOWHERE
                    break
                if score < top or placed == stop:
                    break
            slots[row] = left
            now[row] = state
            value[row] = score
            if score >= best.last[0]:
                best.moved(score, place, row)
            if placed == stop:
                self._write(answers, tasks, placed, rows, now, log)
                rows, now = [], {}
                if placed == ask and lacking is not None:
                    more = lacking()
                    enough = not more
                    if enough:
                        break
                    ask += more
                stop = min(ask, end)
        if rows:
            self._write(answers, tasks, placed, rows, now, log)
        return placed, enough

    def _write(
        self,
        answers: Answers,
        tasks: Sequence[TaskInfo],
        end: int,
        rows: Sequence[int],
        states: Mapping[int, int],
        log: list[TaskInfo],
    ) -> None:
        """Let everyone know of the tasks up to `end`, as many as there are rows, which are in these states now."""
        self._columns.occupy(answers.shape, rows, states)
        answers.revision = self._columns.clock
        self._seating.seated(tasks[end - len(rows) : end], TaskStatus.ALLOCATED, rows, log)
