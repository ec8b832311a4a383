"""What tasks of a shape score by state, where their answers follow from amounts alone."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from volcanoio.engine.scheduling.adapters import ScorerPart
from volcanoio.engine.scheduling.columns import UNKNOWN, Columns
from volcanoio.engine.scheduling.loads import Quantity
from volcanoio.engine.scheduling.placement.onerow import NOWHERE, OneRow
from volcanoio.engine.scheduling.placement.plan import NO_PLAN, Plan
from volcanoio.engine.scheduling.placement.states import States
from volcanoio.engine.scheduling.rows import Rows
from volcanoio.framework.scheduling.views import Shape
from volcanoio.model.resources import CPU, MEMORY

FEW = 24
"""Up to how many states asking one by one is quicker than asking in one call."""
INTERNED = 512
"""How many rows are looked up one by one in one go."""
_LEAST = 64
_BASICS = (CPU, MEMORY)


class Learned(NamedTuple):
    """What is worth keeping of answers that are dropped: values by state, of which plan and which version of states."""

    plan: Plan
    version: int
    table: NDArray[np.float64]


NOTHING = Learned(NO_PLAN, -1, np.full(1, np.nan))


class StateValues:
    """The values by state for one shape.

    `table` has one a state: NOWHERE where a task does not fit, not a number where nobody asked yet. Its last entry is
    never a state's, so that rows of state UNKNOWN find that they are to be asked about.
    """

    __slots__ = ("_columns", "_shape", "_states", "table", "version")

    def __init__(self, shape: Shape, columns: Columns, states: States, learned: Learned) -> None:
        self._shape = shape
        self._columns = columns
        self._states = states
        self.table = learned.table
        self.version = learned.version

    def begin(self) -> None:
        """Forget what was known of states that have other ids now, and make room for all there are."""
        known = len(self._states.amounts)
        if self.version != self._states.version:
            self.version = self._states.version
            self.table = np.full(max(2 * known, _LEAST), np.nan)
        elif known >= len(self.table):
            self.extend()

    def extend(self) -> None:
        """Make room for more states than there are."""
        extra = max(2 * len(self._states.amounts), _LEAST) - len(self.table)
        self.table = np.concatenate([self.table, np.full(extra, np.nan)])

    def of(self, state: int, row: int, one: OneRow) -> float:
        """The value of a state that a row is in or comes to be in."""
        if state >= len(self.table) - 1:
            self.extend()
        value = self.table.item(state)
        if value != value:
            value = self.table[state] = one.value(row, self._states.amounts[state])
        return value

    def at(
        self, rows: NDArray[np.intp], passing: NDArray[np.bool_] | None, one: OneRow, scorers: Sequence[ScorerPart]
    ) -> NDArray[np.float64] | None:
        """The values of rows, NOWHERE where `passing` says so; None when too many have amounts that are new."""
        self.begin()
        state = self._columns.state[rows]
        value = self.table[state]
        if passing is not None:
            value[~passing[rows]] = NOWHERE
        missing = np.isnan(value).nonzero()[0]
        learned = 0
        if 0 < len(missing) <= FEW:
            new = set()
            for at, known in zip(missing.tolist(), state[missing].tolist(), strict=True):
                row = rows.item(at)
                there = self._states.of(row) if known == UNKNOWN else known
                value[at] = self.of(there, row, one)
                new.add(there)
            learned = len(new)
        elif len(missing):
            asked = state[missing]
            found = self._examples(asked, rows[missing])
            if found is None:
                return None
            learned = self._learn(found, one, scorers)
            value[missing] = self.table[asked]
        self._states.count(len(rows), learned)
        return value

    def _examples(self, state: NDArray[np.int64], rows: NDArray[np.intp]) -> dict[int, int] | None:
        """A row of each state that these rows are in; ids that are not known are found and put into `state`.

        None where that is so of too many.
        """
        if len(rows) > INTERNED:  # all rows of a new shape: told apart by a column, which is dear for a few
            unknown = (state == UNKNOWN).nonzero()[0]
            self._intern(unknown[:INTERNED].tolist(), state, rows)
            if len(unknown) > INTERNED:
                return None
            example = np.full(len(self.table), -1, np.intp)
            example[state] = rows
            at = (example >= 0).nonzero()[0]
            return dict(zip(at.tolist(), example[at].tolist(), strict=True))
        numbers = rows.tolist()
        examples = dict(zip(state.tolist(), numbers, strict=True))
        if UNKNOWN in examples:
            self._intern((state == UNKNOWN).nonzero()[0].tolist(), state, rows)
            examples = dict(zip(state.tolist(), numbers, strict=True))
        return examples

    def _intern(self, positions: Sequence[int], state: NDArray[np.int64], rows: NDArray[np.intp]) -> None:
        for position in positions:
            state[position] = self._states.of(rows.item(position))
        if len(self._states.amounts) >= len(self.table):
            self.extend()

    def _learn(self, examples: Mapping[int, int], one: OneRow, scorers: Sequence[ScorerPart]) -> int:
        """Work out the values of states, each with a row that is in it; how many there are."""
        if len(examples) <= FEW:
            table, amounts, ask = self.table, self._states.amounts, one.value
            for state, row in examples.items():
                table[state] = ask(row, amounts[state])
            return len(examples)
        numbers = list(examples.values())
        nodes = Rows(self._columns, np.array(numbers, np.intp))
        total = np.zeros(len(numbers), np.float64)
        everywhere = np.ones(len(numbers), np.bool_)
        for scorer in scorers:
            total += scorer.score(self._shape, nodes, everywhere, self._columns, numbers)
        known = np.fromiter(examples, np.intp, len(examples))
        self.table[known] = np.where(fit_mask(self._shape, nodes, idle=True), total, NOWHERE)
        return len(known)


def fit_mask(shape: Shape, nodes: Columns | Rows, *, idle: bool) -> NDArray[np.bool_]:
    """Which nodes have room for a task that will be idle, and with `idle` that is idle now, too."""
    requests = shape.requests
    both = CPU in requests and MEMORY in requests
    if both:  # as of most
        least = np.array([[requests[CPU]], [requests[MEMORY]]], np.int64)
        fits = nodes.whole_basics(Quantity.FUTURE) >= least
        if idle:
            fits &= nodes.whole_basics(Quantity.IDLE) >= least
        ok: NDArray[np.bool_] = fits[0] & fits[1]
    else:
        ok = np.ones(len(nodes), np.bool_)
    for name, amount in requests.items():
        if not both or name not in _BASICS:
            ok &= nodes.future_idle(name) >= amount
            if idle:
                ok &= nodes.idle(name) >= amount
    return ok
