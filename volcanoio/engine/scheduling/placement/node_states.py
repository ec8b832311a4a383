"""Node states: the distinct amounts of rows, interned, and scores by state.

Many nodes are identical and pods come in few shapes, so few combinations of amounts occur on many nodes. What depends
on a node's amounts alone is computed once per state and looked up for every node in it; the state after placing a task
is cached too. If all nodes differ, `is_worthwhile` becomes false.

A state contains whether a node takes another pod, but not how many: few or many pods may use the same cpu, which would
multiply the states. The number of free pod slots is counted by row instead.
"""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from volcanoio.engine.scheduling.cluster.loads import Load, Quantity
from volcanoio.engine.scheduling.cluster.node_columns import UNKNOWN_STATE, AmountChanges, AmountsRow, NodeColumns
from volcanoio.engine.scheduling.cluster.rows import NodeRows
from volcanoio.engine.scheduling.config.plugin_parts import ScorerPart
from volcanoio.engine.scheduling.placement.plan import NO_PLAN, Plan
from volcanoio.engine.scheduling.placement.row_scorer import NOWHERE, RowScorer
from volcanoio.framework.scheduling.views import Shape
from volcanoio.model.resources import CPU, MEMORY, PODS

MOST_STATES = 16_384
"""Number of states above which all are dropped; bounds the tables of scores by state (8 bytes per entry)."""
MOST_STEPS = 8 * MOST_STATES
WINDOW = 1 << 16
"""Number of rows looked up between two decisions whether looking up is worthwhile."""
WORTH = 5
"""Looking up is worthwhile while fewer than one in so many rows has a state that is new to its shape."""
UNCOUNTED = 1 << 62
"""Value of the free pod slots by row while they are part of states."""
_IDLE, _FUTURE = int(Quantity.IDLE), int(Quantity.FUTURE)


class NodeStates:
    """Ids of states, dense from 0, with their `amounts`. `version` changes when all ids are reset."""

    def __init__(self, columns: NodeColumns) -> None:
        self._columns = columns
        self._ids: dict[AmountsRow, int] = {}
        self.amounts: list[AmountsRow] = []
        self.version = 0
        self.is_worthwhile = True
        self._lookups = self._misses = 0
        self._successors: dict[int, dict[int, int]] = {}
        self._steps = 0
        self._steps_by_shape: dict[int, AmountChanges] = {}
        """Amounts that a task of a shape adds to a state, by `Shape.base_id`."""
        self._layout = columns.layout
        self._includes_slots = False

    def open(self) -> None:
        """Reset for other plugins; `count_slots` is called again for those that read slots."""
        if self._includes_slots:
            self._includes_slots = False
            self._reset()

    def count_slots(self) -> None:
        """Make the number of free pod slots part of a state: some scorer depends on it."""
        if not self._includes_slots:
            self._includes_slots = True
            self._reset()

    def trim(self) -> None:
        """Reset between placements if there are too many states, or amounts have another layout."""
        if self._layout != self._columns.layout or len(self.amounts) > MOST_STATES or self._steps > MOST_STEPS:
            self._layout = self._columns.layout
            self._reset()

    def of(self, row: int) -> int:
        """Return the state of a row; its slots are known afterwards."""
        columns = self._columns
        if (state := columns.state_ids.item(row)) == UNKNOWN_STATE:
            amounts, slots = columns.amounts(row), UNCOUNTED
            if not self._includes_slots:
                amounts, slots = self._without_slots(amounts)
            columns.pod_slots[row] = slots
            state = columns.state_ids[row] = self._intern(amounts)
        return state

    def successors(self, shape: Shape) -> dict[int, int]:
        """Return the known states after a task of the shape was allocated, by the state before."""
        if (known := self._successors.get(shape.base_id)) is None:
            known = self._successors[shape.base_id] = {}
        return known

    def successor(self, state: int, shape: Shape) -> int:
        """Return the state after a task of the shape is allocated, where slots are left."""
        values = list(self.amounts[state])
        if (added := self._steps_by_shape.get(shape.base_id)) is None:
            added = self._steps_by_shape[shape.base_id] = self._steps_of(shape)
        for at, amount in added:
            values[at] += amount
        following = self.successors(shape)[state] = self._intern(tuple(values))
        self._steps += 1
        return following

    def count(self, asked: int, missed: int) -> None:
        """Count looked up rows, and how many of them had a new state."""
        self._lookups += asked
        self._misses += missed
        if self._lookups >= WINDOW:
            self.is_worthwhile = WORTH * self._misses < self._lookups
            self._lookups = self._misses = 0

    def _steps_of(self, shape: Shape) -> AmountChanges:
        """Return the amounts that a task adds, without pod slots where these are not part of states."""
        steps, index = self._columns.amount_changes(shape, Load.OCCUPIES), self._columns.resources
        return tuple([step for step in steps if self._includes_slots or step[0] % len(index) != index[PODS]])

    def _without_slots(self, amounts: AmountsRow) -> tuple[AmountsRow, int]:
        """Return the amounts that make up a row's state, and its slots."""
        at, width = self._columns.resources[PODS], len(self._columns.resources)
        slots = min(amounts[_IDLE * width + at], amounts[_FUTURE * width + at])
        values = list(amounts)
        values[at::width] = [0] * (len(values) // width)
        values[_IDLE * width + at] = values[_FUTURE * width + at] = int(slots > 0)
        return tuple(values), slots

    def _reset(self) -> None:
        self._ids.clear()
        self.amounts = []
        self._successors.clear()
        self._steps_by_shape.clear()
        self._steps = 0
        self.version += 1
        self._columns.state_ids[:] = UNKNOWN_STATE

    def _intern(self, values: AmountsRow) -> int:
        if (state := self._ids.get(values)) is None:
            state = self._ids[values] = len(self.amounts)
            self.amounts.append(values)
        return state


FEW_STATES = 24
"""Number of states up to which computing them one by one is faster than one call for all."""
INTERNED = 512
"""Most rows whose state is determined in one call."""
_LEAST = 64
_BASICS = (CPU, MEMORY)


class KnownScoresByState(NamedTuple):
    """Scores by state of a dropped table, with its plan and the version of the states."""

    plan: Plan
    version: int
    table: NDArray[np.float64]


NOTHING = KnownScoresByState(NO_PLAN, -1, np.full(1, np.nan))


class ScoresByState:
    """The scores by state for one shape.

    `table` has one entry per state: NOWHERE where a task does not fit, NaN where it was not computed yet. Its last
    entry never belongs to a state, so that rows of state UNKNOWN read NaN.
    """

    __slots__ = ("_columns", "_shape", "_states", "table", "version")

    def __init__(self, shape: Shape, columns: NodeColumns, states: NodeStates, learned: KnownScoresByState) -> None:
        self._shape = shape
        self._columns = columns
        self._states = states
        self.table = learned.table
        self.version = learned.version

    def sync(self) -> None:
        """Reset if the states were numbered again, and make room for all states."""
        known = len(self._states.amounts)
        if self.version != self._states.version:
            self.version = self._states.version
            self.table = np.full(max(2 * known, _LEAST), np.nan)
        elif known >= len(self.table):
            self.extend()

    def extend(self) -> None:
        """Make room for more states than exist."""
        extra = max(2 * len(self._states.amounts), _LEAST) - len(self.table)
        self.table = np.concatenate([self.table, np.full(extra, np.nan)])

    def of(self, state: int, row: int, one: RowScorer) -> float:
        """Return the score of a state that a row has or gets."""
        if state >= len(self.table) - 1:
            self.extend()
        if (value := self.table.item(state)) != value:
            value = self.table[state] = one.value(row, self._states.amounts[state])
        return value

    def of_rows(
        self, rows: NDArray[np.intp], passing: NDArray[np.bool_] | None, one: RowScorer, scorers: Sequence[ScorerPart]
    ) -> NDArray[np.float64] | None:
        """Return the scores of rows, NOWHERE where not `passing`; None when too many states are new."""
        self.sync()
        state = self._columns.state_ids[rows]
        value = self.table[state]
        if passing is not None:
            value[~passing[rows]] = NOWHERE
        missing = np.isnan(value).nonzero()[0]
        learned = 0
        if 0 < len(missing) <= FEW_STATES:
            new = set()
            for at, known in zip(missing.tolist(), state[missing].tolist(), strict=True):
                row = rows.item(at)
                there = self._states.of(row) if known == UNKNOWN_STATE else known
                value[at] = self.of(there, row, one)
                new.add(there)
            learned = len(new)
        elif len(missing):
            asked = state[missing]
            if (found := self._examples(asked, rows[missing])) is None:
                return None
            learned = self._compute(found, one, scorers)
            value[missing] = self.table[asked]
        self._states.count(len(rows), learned)
        return value

    def _examples(self, state: NDArray[np.int64], rows: NDArray[np.intp]) -> dict[int, int] | None:
        """Return one row for each state of these rows; unknown ids are determined and written to `state`.

        None where too many are unknown.
        """
        if len(rows) > INTERNED:  # all rows of a new shape: a column separates them, too costly for few rows
            unknown = (state == UNKNOWN_STATE).nonzero()[0]
            self._intern(unknown[:INTERNED].tolist(), state, rows)
            if len(unknown) > INTERNED:
                return None
            example = np.full(len(self.table), -1, np.intp)
            example[state] = rows
            at = (example >= 0).nonzero()[0]
            return dict(zip(at.tolist(), example[at].tolist(), strict=True))
        numbers = rows.tolist()
        examples = dict(zip(state.tolist(), numbers, strict=True))
        if UNKNOWN_STATE in examples:
            self._intern((state == UNKNOWN_STATE).nonzero()[0].tolist(), state, rows)
            examples = dict(zip(state.tolist(), numbers, strict=True))
        return examples

    def _intern(self, positions: Sequence[int], state: NDArray[np.int64], rows: NDArray[np.intp]) -> None:
        for position in positions:
            state[position] = self._states.of(rows.item(position))
        if len(self._states.amounts) >= len(self.table):
            self.extend()

    def _compute(self, examples: Mapping[int, int], one: RowScorer, scorers: Sequence[ScorerPart]) -> int:
        """Compute the scores of states, each with a row that has it; return their number."""
        if len(examples) <= FEW_STATES:
            table, amounts, ask = self.table, self._states.amounts, one.value
            for state, row in examples.items():
                table[state] = ask(row, amounts[state])
            return len(examples)
        numbers = list(examples.values())
        nodes = NodeRows(self._columns, np.array(numbers, np.intp))
        total = np.zeros(len(numbers), np.float64)
        everywhere = np.ones(len(numbers), np.bool_)
        for scorer in scorers:
            total += scorer.score(self._shape, nodes, everywhere, self._columns, numbers)
        known = np.fromiter(examples, np.intp, len(examples))
        self.table[known] = np.where(fit_mask(self._shape, nodes, idle=True), total, NOWHERE)
        return len(known)


def fit_mask(shape: Shape, nodes: NodeColumns | NodeRows, *, idle: bool) -> NDArray[np.bool_]:
    """Return which nodes have enough room that will be idle; with `idle`, also enough room that is idle now."""
    requests = shape.requests
    both = CPU in requests and MEMORY in requests
    if both:  # as most shapes do
        least = np.array([[requests[CPU]], [requests[MEMORY]]], np.int64)
        fits = nodes.cpu_memory_integers(Quantity.FUTURE) >= least
        if idle:
            fits &= nodes.cpu_memory_integers(Quantity.IDLE) >= least
        ok: NDArray[np.bool_] = fits[0] & fits[1]
    else:
        ok = np.ones(len(nodes), np.bool_)
    for name, amount in requests.items():
        if not both or name not in _BASICS:
            ok &= nodes.future_idle(name) >= amount
            if idle:
                ok &= nodes.idle(name) >= amount
    return ok
