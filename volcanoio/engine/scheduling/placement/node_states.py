"""Scores that follow from a node's amounts: computed for one row, or once per state and looked up.

Many nodes are identical and pods come in few shapes, so few combinations of amounts occur on many nodes. Each such
combination is a state with a number. What depends on amounts alone is computed once per state and looked up for every
node in it; the state after placing a task is cached too. If all nodes differ, `NodeStates.is_worthwhile` becomes false.

A state contains whether a node takes another pod, but not how many: few or many pods may use the same cpu, which would
multiply the states. The number of free pod slots is counted by row instead.
"""

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from volcanoio.engine.scheduling.cluster.loads import Load, Quantity
from volcanoio.engine.scheduling.cluster.node_columns import UNKNOWN_STATE, AmountChanges, AmountsRow, Ints, NodeColumns
from volcanoio.engine.scheduling.cluster.rows import NodeRows, RecordingIndex, SingleRow
from volcanoio.engine.scheduling.config.plugin_parts import ScorerPart
from volcanoio.engine.scheduling.placement.plan import NO_PLAN, Plan
from volcanoio.framework.scheduling.views import Shape
from volcanoio.model.resources import CPU, MEMORY, PODS

NOWHERE = float("-inf")
"""The score of a row where a task may not go."""
NAN = float("nan")
_IDLE, _FUTURE = int(Quantity.IDLE), int(Quantity.FUTURE)


class RowScorer:
    """Computes the score of one row from its amounts, with scorers that can all score a single node (`score_on`).

    Positions of amounts are looked up again when the layout of the columns changed.
    """

    __slots__ = (
        "_columns",
        "_layout",
        "_least",
        "_reads_row",
        "_requests",
        "_resources_read",
        "_row",
        "_scorers",
        "_scorers_by_amounts",
        "_shape",
    )

    def __init__(
        self,
        shape: Shape,
        columns: NodeColumns,
        scorers: Sequence[ScorerPart],
        requests: Sequence[tuple[int, int]],
    ) -> None:
        """`requests` are pairs of resource index and amount."""
        self._shape = shape
        self._columns = columns
        self._scorers = scorers
        self._requests = requests
        self._row = SingleRow(columns)
        self._layout = -1
        self._reads_row = False
        """Whether a scorer reads more than amounts."""
        self._scorers_by_amounts: list[Callable[[Sequence[int]], float]] = []
        self._least: dict[bool | None, tuple[tuple[int, int], ...]] = {}
        """Position in a row's amounts and least value there, by the argument `idle` of `score`."""
        self._resources_read: set[str] = set()
        """Resources whose positions the scorers have requested."""

    def reads(self, resource: str) -> bool:
        """Return whether scores may depend on amounts of that resource."""
        if self._layout != self._columns.layout:
            self._resolve()
        return self._reads_row or resource in self._resources_read

    def score(self, row: int, amounts: Sequence[int], *, idle: bool | None) -> float:
        """Return the sum of the scorers for a row with these `AmountsRow` amounts; NOWHERE if a task does not fit.

        A task must fit the room that will be idle; with `idle`, also the room that is idle now; None: it need not fit.
        """
        if self._layout != self._columns.layout:
            self._resolve()
        for at, least in self._least[idle]:
            if amounts[at] < least:
                return NOWHERE
        if self._reads_row:
            self._row.set(row, amounts)
        total = 0.0
        for score in self._scorers_by_amounts:
            total += score(amounts)
        return total

    def _resolve(self) -> None:
        """Look up the positions of amounts in the current layout."""
        columns, shape = self._columns, self._shape
        width = len(columns.resources)
        future = tuple([(_FUTURE * width + at, amount) for at, amount in self._requests])
        now = tuple([(_IDLE * width + at, amount) for at, amount in self._requests])
        self._least = {None: (), False: future, True: (*now, *future)}
        index, self._reads_row = RecordingIndex(columns, self._resources_read), False
        self._scorers_by_amounts = []
        for scorer in self._scorers:
            if scorer.from_amounts is not None:
                self._scorers_by_amounts.append(scorer.from_amounts(shape, index))
            elif scorer.one is not None:
                self._reads_row = True
                self._scorers_by_amounts.append(partial(_score_row, scorer.one, shape, self._row))
        self._layout = columns.layout


def _score_row(one: Callable[[Shape, SingleRow], float], shape: Shape, at: SingleRow, _values: Sequence[int]) -> float:
    return one(shape, at)


MAX_STATES = 16_384
"""Number of states above which all are dropped; bounds the tables of scores by state (8 bytes per entry)."""
MAX_SUCCESSORS = 8 * MAX_STATES
"""Number of known successors above which all states are dropped."""
REVIEW_ROWS = 1 << 16
"""Number of rows looked up between two decisions whether looking up is worthwhile."""
MIN_LOOKUPS_PER_MISS = 5
"""Looking up is worthwhile while fewer than one in so many rows has a state that was not computed for its shape."""
SLOTS_IN_STATE = 1 << 62
"""Value of `NodeColumns.pod_slots` while pod slots are part of states and not counted by row."""


class NodeStates:
    """Numbers of states, dense from 0, with their `amounts`. `version` changes when states are numbered again.

    They are numbered again when there are too many, when the columns have a new resource, and when scorers begin or
    cease to read pod slots. The state of a row (`NodeColumns.state_ids`) is unknown after any other change of the row.
    """

    def __init__(self, columns: NodeColumns) -> None:
        self._columns = columns
        self._numbers: dict[AmountsRow, int] = {}
        self.amounts: list[AmountsRow] = []
        self.version = 0
        self.is_worthwhile = True
        """Whether rows share states often enough for looking up scores to be faster than computing them."""
        self._lookups = self._misses = 0
        self._successors: dict[int, dict[int, int]] = {}
        """The state after a task was allocated, by `Shape.base_id` and the state before."""
        self._successor_count = 0
        self._amounts_added: dict[int, AmountChanges] = {}
        """Amounts that a task of a shape adds to a state, by `Shape.base_id`."""
        self._layout = columns.layout
        self._includes_slots = False

    def reset_for_rules(self) -> None:
        """Prepare for other plugins; `include_slots` is called again for those that read slots."""
        if self._includes_slots:
            self._includes_slots = False
            self._reset()

    def include_slots(self) -> None:
        """Make the number of free pod slots part of a state: some scorer depends on it."""
        if not self._includes_slots:
            self._includes_slots = True
            self._reset()

    def reset_if_outgrown(self) -> None:
        """Reset between placements if there are too many states, or amounts have another layout."""
        if (
            self._layout != self._columns.layout
            or len(self.amounts) > MAX_STATES
            or self._successor_count > MAX_SUCCESSORS
        ):
            self._layout = self._columns.layout
            self._reset()

    def of(self, row: int) -> int:
        """Return the state of a row; its slots are known afterwards."""
        columns = self._columns
        if (state := columns.state_ids.item(row)) == UNKNOWN_STATE:
            amounts, slots = columns.amounts(row), SLOTS_IN_STATE
            if not self._includes_slots:
                amounts, slots = self._without_slots(amounts)
            columns.pod_slots[row] = slots
            state = columns.state_ids[row] = self._intern(amounts)
        return state

    def successors(self, shape: Shape) -> dict[int, int]:
        """Return the known states after a task of the shape was allocated, by the state before."""
        if (successors := self._successors.get(shape.base_id)) is None:
            successors = self._successors[shape.base_id] = {}
        return successors

    def successor(self, state: int, shape: Shape) -> int:
        """Return the state after a task of the shape is allocated, where slots are left."""
        if (added := self._amounts_added.get(shape.base_id)) is None:
            added = self._amounts_added[shape.base_id] = self._amounts_added_by(shape)
        amounts = list(self.amounts[state])
        for at, amount in added:
            amounts[at] += amount
        after = self.successors(shape)[state] = self._intern(tuple(amounts))
        self._successor_count += 1
        return after

    def record_lookups(self, lookups: int, misses: int) -> None:
        """Count looked up rows, and how many scores of states had to be computed for them."""
        self._lookups += lookups
        self._misses += misses
        if self._lookups >= REVIEW_ROWS:
            self.is_worthwhile = MIN_LOOKUPS_PER_MISS * self._misses < self._lookups
            self._lookups = self._misses = 0

    def _amounts_added_by(self, shape: Shape) -> AmountChanges:
        """Return the amounts that a task adds, without pod slots where these are not part of states."""
        added, index = self._columns.amount_changes(shape, Load.OCCUPIES), self._columns.resources
        return tuple([change for change in added if self._includes_slots or change[0] % len(index) != index[PODS]])

    def _without_slots(self, amounts: AmountsRow) -> tuple[AmountsRow, int]:
        """Return the amounts that make up a row's state, and its slots."""
        at, width = self._columns.resources[PODS], len(self._columns.resources)
        slots = min(amounts[_IDLE * width + at], amounts[_FUTURE * width + at])
        in_state = list(amounts)
        in_state[at::width] = [0] * (len(in_state) // width)
        in_state[_IDLE * width + at] = in_state[_FUTURE * width + at] = int(slots > 0)
        return tuple(in_state), slots

    def _reset(self) -> None:
        self._numbers.clear()
        self.amounts = []
        self._successors.clear()
        self._amounts_added.clear()
        self._successor_count = 0
        self.version += 1
        self._columns.state_ids[:] = UNKNOWN_STATE

    def _intern(self, amounts: AmountsRow) -> int:
        if (state := self._numbers.get(amounts)) is None:
            state = self._numbers[amounts] = len(self.amounts)
            self.amounts.append(amounts)
        return state


FEW_STATES = 24
"""Number of states up to which computing them one by one is faster than one call for all."""
MAX_NEW_STATES_PER_CALL = 512
"""Number of rows whose unknown state is determined in one call; the next call determines the states of more."""
_MIN_LENGTH = 64
"""Minimum length of a table of scores by state."""


class FormerScores(NamedTuple):
    """Scores by state of a dropped table, with its plan and the version of the states."""

    plan: Plan
    version: int
    table: NDArray[np.float64]


NO_FORMER_SCORES = FormerScores(NO_PLAN, -1, np.full(1, np.nan))


class ScoresByState:
    """The scores by state for one shape; dropped when `version` is no longer that of the node states.

    `table` has one entry per state: NOWHERE where a task does not fit, NaN where it was not computed yet. Its last
    entry never belongs to a state, so that rows of state UNKNOWN_STATE (-1) read NaN.
    """

    __slots__ = ("_columns", "_shape", "_states", "table", "version")

    def __init__(self, shape: Shape, columns: NodeColumns, states: NodeStates, former: FormerScores) -> None:
        self._shape = shape
        self._columns = columns
        self._states = states
        self.table = former.table
        self.version = former.version

    def sync(self) -> None:
        """Make room in the table for all states, numbered again if there are too many.

        All scores are dropped when the numbers changed.
        """
        self._states.reset_if_outgrown()
        if self.version != self._states.version:
            self.version = self._states.version
            self.table = np.full(max(2 * len(self._states.amounts), _MIN_LENGTH), np.nan)
        elif len(self._states.amounts) >= len(self.table):
            self._extend()

    def of(self, state: int, row: int, scorer: RowScorer) -> float:
        """Return the score of a state that a row has or gets."""
        if state >= len(self.table) - 1:
            self._extend()
        if (score := self.table.item(state)) != score:  # NaN
            score = self.table[state] = scorer.score(row, self._states.amounts[state], idle=True)
        return score

    def of_rows(
        self, rows: NDArray[np.intp], passing: NDArray[np.bool_] | None, scorer: RowScorer, parts: Sequence[ScorerPart]
    ) -> NDArray[np.float64] | None:
        """Return the scores of rows, NOWHERE where not `passing`; None when too many states are new.

        `parts` are the scorers that `scorer` calls. Call `sync` before.
        """
        states = self._columns.state_ids[rows]
        scores = self.table[states]
        if passing is not None:
            scores[~passing[rows]] = NOWHERE
        missing = np.isnan(scores).nonzero()[0]
        number_new = 0
        if 0 < len(missing) <= FEW_STATES:
            new = set()
            for at, state in zip(missing.tolist(), states[missing].tolist(), strict=True):
                row = rows.item(at)
                if state == UNKNOWN_STATE:
                    state = self._states.of(row)
                scores[at] = self.of(state, row, scorer)
                new.add(state)
            number_new = len(new)
        elif len(missing):
            states_missing = states[missing]
            if (examples := self._examples(states_missing, rows[missing])) is None:
                return None
            self._compute(examples, scorer, parts)
            scores[missing] = self.table[states_missing]
            number_new = len(examples)
        self._states.record_lookups(len(rows), number_new)
        return scores

    def _extend(self) -> None:
        """Make room for more states than exist."""
        extra = max(2 * len(self._states.amounts), _MIN_LENGTH) - len(self.table)
        self.table = np.concatenate([self.table, np.full(extra, np.nan)])

    def _examples(self, states: NDArray[np.int64], rows: NDArray[np.intp]) -> dict[int, int] | None:
        """Return one row for each state of these rows; unknown states are determined and written to `states`.

        None where too many are unknown: then the first ones are determined, so that the next call can succeed.
        """
        if len(rows) > MAX_NEW_STATES_PER_CALL:  # many rows, as of a new shape: an array is faster than a dict
            unknown = (states == UNKNOWN_STATE).nonzero()[0]
            self._determine(unknown[:MAX_NEW_STATES_PER_CALL].tolist(), states, rows)
            if len(unknown) > MAX_NEW_STATES_PER_CALL:
                return None
            example = np.full(len(self.table), -1, np.intp)
            example[states] = rows
            at = (example >= 0).nonzero()[0]
            return dict(zip(at.tolist(), example[at].tolist(), strict=True))
        numbers = rows.tolist()
        examples = dict(zip(states.tolist(), numbers, strict=True))
        if UNKNOWN_STATE in examples:
            self._determine((states == UNKNOWN_STATE).nonzero()[0].tolist(), states, rows)
            examples = dict(zip(states.tolist(), numbers, strict=True))
        return examples

    def _determine(self, positions: Sequence[int], states: NDArray[np.int64], rows: NDArray[np.intp]) -> None:
        """Write the states of the rows at these positions to `states`."""
        for position in positions:
            states[position] = self._states.of(rows.item(position))
        if len(self._states.amounts) >= len(self.table):
            self._extend()

    def _compute(self, examples: Mapping[int, int], scorer: RowScorer, parts: Sequence[ScorerPart]) -> None:
        """Compute the scores of states, each with a row that has it."""
        if len(examples) <= FEW_STATES:
            for state, row in examples.items():
                self.table[state] = scorer.score(row, self._states.amounts[state], idle=True)
            return
        rows = list(examples.values())
        nodes = NodeRows(self._columns, np.array(rows, np.intp))
        total = np.zeros(len(rows), np.float64)
        everywhere = np.ones(len(rows), np.bool_)
        for part in parts:
            total += part.score(self._shape, nodes, everywhere, self._columns, rows)
        states = np.fromiter(examples, np.intp, len(examples))
        self.table[states] = np.where(fit_mask(self._shape, nodes, idle=True), total, NOWHERE)


_BASICS = (CPU, MEMORY)


def fitting_counts(shape: Shape, columns: NodeColumns, mask: NDArray[np.bool_], more: Ints | None = None) -> Ints:
    """Return how many tasks of a shape fit the room of each node that will be idle, 0 where `mask` is false.

    `more` is further room, by the resource's index and row.
    """
    size = len(columns)
    least: Ints = np.full(size, np.iinfo(np.int64).max, np.int64)
    for name, amount in shape.requests.items():
        room = columns.future_idle(name)
        if more is not None:
            room = room + more[columns.resources[name], :size]
        np.minimum(least, room // amount, out=least)
    least[~mask] = 0
    np.maximum(least, 0, out=least)
    return least


def fit_mask(shape: Shape, nodes: NodeColumns | NodeRows, *, idle: bool) -> NDArray[np.bool_]:
    """Return which nodes have enough room in Quantity.FUTURE; with `idle`, also in Quantity.IDLE."""
    requests = shape.requests
    both = CPU in requests and MEMORY in requests
    if both:  # as most shapes do: one comparison for both
        requested = np.array([[requests[CPU]], [requests[MEMORY]]], np.int64)
        fits = nodes.cpu_memory_integers(Quantity.FUTURE) >= requested
        if idle:
            fits &= nodes.cpu_memory_integers(Quantity.IDLE) >= requested
        ok: NDArray[np.bool_] = fits[0] & fits[1]
    else:
        ok = np.ones(len(nodes), np.bool_)
    for name, amount in requests.items():
        if not both or name not in _BASICS:
            ok &= nodes.future_idle(name) >= amount
            if idle:
                ok &= nodes.idle(name) >= amount
    return ok
