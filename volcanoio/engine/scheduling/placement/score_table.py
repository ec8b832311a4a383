"""Score table of a shape: which rows pass the filters, and their scores, kept across cycles.

The entry of a row is invalid when `NodeColumns.changed_at` of the row is newer than the table's `revision`; the whole
table, when the `plan` of the shape changes: other plugins, or other input versions. Nothing is computed before
`prepare` is called for the shape. Ties go to the smallest seeded hash of (cycle, shape, node), so that load spreads.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from volcanoio.engine.scheduling.cluster.inputs import Inputs
from volcanoio.engine.scheduling.cluster.loads import Quantity
from volcanoio.engine.scheduling.cluster.node_columns import NodeColumns
from volcanoio.engine.scheduling.cluster.rows import NodeRows
from volcanoio.engine.scheduling.config.plugin_parts import Numbers
from volcanoio.engine.scheduling.config.plugin_rules import Rules
from volcanoio.engine.scheduling.placement.node_states import (
    NO_FORMER_SCORES,
    NOWHERE,
    FormerScores,
    NodeStates,
    RowScorer,
    ScoresByState,
    fit_mask,
)
from volcanoio.engine.scheduling.placement.plan import Plan, plan_for
from volcanoio.engine.scheduling.placement.recent_changes import ENTRIES, RecentChanges
from volcanoio.framework.scheduling.views import Nodes, Shape
from volcanoio.model.resources import PODS

_IDLE, _FUTURE = int(Quantity.IDLE), int(Quantity.FUTURE)
MASK = (1 << 64) - 1
TAKEN = np.uint64(MASK)
"""The key of a row that was taken."""


def mix(value: int) -> int:
    """splitmix64: map a number to a well-spread 64-bit number."""
    value = (value + 0x9E3779B97F4A7C15) & MASK
    value = ((value ^ (value >> 30)) * 0xBF58476D1CE4E5B9) & MASK
    value = ((value ^ (value >> 27)) * 0x94D049BB133111EB) & MASK
    return value ^ (value >> 31)


class Ties:
    """Equally good rows; `first` is the one that is taken next, the one with the smallest key."""

    __slots__ = ("_keys", "_position", "_remaining", "_rows", "first")

    def __init__(self, rows: NDArray[np.intp], keys: NDArray[np.uint64]) -> None:
        self._rows = rows
        self._keys = keys
        self._remaining = len(rows)
        self._position = int(keys.argmin())
        self.first = rows.item(self._position)

    def take(self) -> bool:
        """Take the first row; return whether another is left."""
        self._remaining -= 1
        if not self._remaining:
            return False
        self._keys[self._position] = TAKEN
        self._position = int(self._keys.argmin())
        self.first = self._rows.item(self._position)
        return True


class PlacementCycle(NamedTuple):
    """What all score tables use in one cycle; cycles are compared by identity."""

    rules: Rules
    tie_base: int
    """Hash of the cycle's number and seed."""

    @staticmethod
    def of(rules: Rules, number: int, seed: int) -> PlacementCycle:
        """Begin a cycle."""
        return PlacementCycle(rules, mix(mix(seed & MASK) ^ number))

    def tie_salt(self, shape: Shape) -> np.uint64:
        """Return the salt that is XORed with the hashes of nodes; the results are the keys of equally good rows."""
        return np.uint64(mix(self.tie_base ^ shape.id))


PREDICATE, SCORING = "Predicate", "Scoring"
"""Stages of an evaluation of many nodes (Volcano: the labels of scheduling_stage_duration)."""


class StageTimes:
    """Durations of stages, for metrics; nothing is measured without `report`, until `measure` is called."""

    __slots__ = ("_now", "_report", "_since")

    def __init__(self, now: Callable[[], float] = float, report: Callable[[str, float], None] | None = None) -> None:
        self._now = now
        self._report = report
        self._since = 0.0

    def measure(self, now: Callable[[], float], report: Callable[[str, float], None]) -> None:
        """Pass each stage and its duration to `report`, in the unit of `now`."""
        self._now, self._report = now, report

    def begin(self) -> None:
        """Begin the first stage."""
        if self._report is not None:
            self._since = self._now()

    def end(self, stage: str) -> None:
        """End a stage and begin the next one."""
        if self._report is not None:
            since, self._since = self._since, self._now()
            self._report(stage, self._since - since)


class TableSources(NamedTuple):
    """What all score tables read, and where they report how long it takes."""

    columns: NodeColumns
    states: NodeStates
    inputs: Inputs
    recent: RecentChanges
    times: StageTimes


_NO_UPDATE = -2, -2, np.zeros(0, np.intp)
MAX_SINGLE_ROWS = 5
"""Number of changed rows up to which scoring one by one is faster than one call for all."""
MAX_REPEATS = 2
"""Average changes per changed row above which rows are read from the columns, not from the recent changes."""
MAX_ROWS_PER_FIT = 1.5
"""When less than one row in so many fits, scorers are called for the fitting rows only."""
_ALL = np.ones(ENTRIES, np.bool_)


class ScoreTable:
    """The results for one shape, updated when they are requested.

    They are valid for the columns as they were at `revision`, a value of the columns' clock. `idle_scores` are the
    summed scores where a task fits idle room and passes every filter, NOWHERE elsewhere. `passes` is the mask of all
    filters, `feasible` that of filters which no eviction can change. `is_per_task`: some filter or scorer depends on
    more than the row; those are not in the table but called for every task. `is_by_state`: scores are looked up by node
    state, in `by_state`.
    """

    __slots__ = (
        "_all_feasible",
        "_all_scores",
        "_columns",
        "_cycle",
        "_inputs",
        "_recent_changes",
        "_requests",
        "_salt",
        "_scored_at",
        "_scores_anywhere",
        "_states",
        "_times",
        "by_state",
        "capacity",
        "feasible",
        "idle_scores",
        "is_by_state",
        "is_per_task",
        "last_update",
        "passes",
        "plan",
        "revision",
        "row_scorer",
        "shape",
    )

    def __init__(self, shape: Shape, sources: TableSources, former: FormerScores = NO_FORMER_SCORES) -> None:
        columns, self._states, self._inputs, self._recent_changes, self._times = sources
        self._columns = columns
        self.shape = shape
        self.capacity = columns.capacity
        self.idle_scores: NDArray[np.float64] = np.full(self.capacity, NOWHERE)
        self._all_scores: NDArray[np.float64] | None = None
        """Summed score by row, also where no task fits; None until it is read, which is rare when `is_by_state`.

        Entries of infeasible rows are not valid.
        """
        self._scored_at = -1
        """The columns' clock when `_all_scores` was last updated.

        Unused without a `row_scorer`: then both arrays are updated together.
        """
        self.feasible: NDArray[np.bool_] = np.zeros(self.capacity, np.bool_)
        self.passes = self.feasible
        """The same array where no filter depends on usage."""
        self._all_feasible = False
        """Whether `feasible` is true for all rows."""
        self.revision = -1
        self.last_update: tuple[int, int, NDArray[np.intp]] = _NO_UPDATE
        """`revision` before and after rows were last computed again, and these rows, possibly repeated.

        They may be a view of the log of changes, which is valid while the second number is the columns' clock.
        """
        self.plan: Plan = former.plan
        self.by_state = ScoresByState(shape, columns, self._states, former)
        self._scores_anywhere: tuple[int, dict[int, float]] = (-1, {})
        """Version of the node states, and `current_score` by state."""
        self.is_by_state = False
        self.is_per_task = False
        self.row_scorer: RowScorer | None = None
        """Computes one row; None unless scalar scorers alone give its new score after its usage changed.

        With it, a strategy that chooses several rows need not write amounts to the columns before each score.
        """
        self._requests = tuple([(columns.resource(name), amount) for name, amount in shape.requests.items()])
        self._cycle: PlacementCycle | None = None
        """The cycle in which the plan was last made."""
        self._salt = np.uint64(0)

    @property
    def former_scores(self) -> FormerScores:
        """The scores by state, from which a later table for the same shape can start."""
        return FormerScores(self.plan, self.by_state.version, self.by_state.table)

    def is_prepared_in(self, cycle: PlacementCycle) -> bool:
        """Return whether the plan is that of the cycle; rows may be outdated."""
        return self._cycle is cycle

    def is_stable_in(self, cycle: PlacementCycle) -> bool:
        """Return whether the table is prepared in that cycle, and no placement or eviction changes its filters."""
        return self._cycle is cycle and self.plan.has_static_filters

    def tie_keys(self, rows: NDArray[np.intp]) -> NDArray[np.uint64]:
        """Return the key of each row in the cycle; the smallest wins a tie."""
        keys: NDArray[np.uint64] = self._columns.hashes[rows] ^ self._salt
        return keys

    def first(self, rows: NDArray[np.intp]) -> int:
        """Return which of several equally good rows is taken."""
        return rows.item(int(self.tie_keys(rows).argmin()) if len(rows) > 1 else 0)

    def current_score(self, row: int) -> float:
        """Return the score of one row now, whether a task fits or not; requires a `row_scorer`."""
        assert self.row_scorer is not None
        if not self.is_by_state:
            return self.row_scorer.score(row, self._columns.amounts(row), idle=None)
        state, version = self._states.of(row), self._states.version
        if self._scores_anywhere[0] != version:
            self._scores_anywhere = version, {}
        by_state = self._scores_anywhere[1]
        if (score := by_state.get(state)) is None:
            score = by_state[state] = self.row_scorer.score(row, self._states.amounts[state], idle=None)
        return score

    def fits_on(self, row: int, *, idle: bool) -> bool:
        """Return whether a task fits the room of a row that will be idle; with `idle`, also the room idle now."""
        item = self._columns.block.item
        for at, amount in self._requests:
            if item(_FUTURE, at, row) < amount or (idle and item(_IDLE, at, row) < amount):
                return False
        return True

    def must_wait_on(self, row: int) -> bool:
        """Return whether a task may go to a row but must wait there.

        Static filters pass, all reservations fit, and idle room is too small.
        """
        if not self.feasible.item(row):
            return False
        item, missing = self._columns.block.item, False
        for at, amount in self._requests:  # called for every task that waits for victims
            if item(_FUTURE, at, row) < 0:
                return False
            if item(_IDLE, at, row) < amount:
                missing = True
        return missing

    def fit_mask(self, *, idle: bool) -> NDArray[np.bool_]:
        """Return `fits_on` for all nodes."""
        return fit_mask(self.shape, self._columns, idle=idle)

    def prepare(self, cycle: PlacementCycle, similar: ScoreTable | None = None) -> float:
        """Update the table for the current columns; return the share of rows that were computed.

        `similar` is the table of a similar shape, from which a new table is copied where that is valid.
        """
        columns = self._columns
        if self._cycle is not cycle:
            self._cycle, self._salt = cycle, cycle.tie_salt(self.shape)
            self._update_plan(cycle.rules)
            if similar is not None and self.revision < 0:
                self._copy_from(similar)
        if self.is_by_state:
            self.is_by_state = self._states.is_worthwhile  # the scores are the same either way
            self.by_state.sync()
        return self._refresh() if self.revision != columns.clock else 0.0

    def update_row(self, row: int) -> None:
        """Compute one row again; it must be the only one that changed since the last update."""
        if self.row_scorer is None:
            return  # the next `prepare` computes it
        if self.is_by_state:
            self.by_state.sync()
            passes = self.feasible.item(row)
            state = self._states.of(row)
            self.idle_scores[row] = self.by_state.of(state, row, self.row_scorer) if passes else NOWHERE
        else:
            self.idle_scores[row] = self.rescore(row, self._columns.amounts(row), idle=True)
        self.revision = self._columns.clock

    def all_scores_now(self) -> NDArray[np.float64]:
        """Compute the summed scores of all rows, also where no task fits; those of infeasible rows are not valid."""
        if self.row_scorer is not None:
            columns, size = self._columns, len(self._columns)
            since, self._scored_at = self._scored_at, columns.clock
            rows = columns.changed_since(since) if since >= 0 else np.arange(size)
            if len(rows):
                self._filter_and_score(rows, NodeRows(columns, rows))
        return self._score_array()

    def rescore(self, row: int, amounts: Sequence[int], *, idle: bool) -> float:
        """Compute one row again after its usage changed; return its score, NOWHERE if a filter fails or no task fits.

        `amounts` are the row's. A task must fit the room that will be idle; with `idle`, also the room that is idle
        now. The caller sets `revision` once the columns have the amounts.
        """
        if self.row_scorer is None:
            rows = np.array([row], np.intp)
            nodes = NodeRows(self._columns, rows)
            self._filter_and_score(rows, nodes)
            fits = self.passes[row] and fit_mask(self.shape, nodes, idle=idle)[0]
            return self._score_array().item(row) if fits else NOWHERE
        return self.row_scorer.score(row, amounts, idle=idle) if self.passes.item(row) else NOWHERE

    def _score_array(self) -> NDArray[np.float64]:
        if self._all_scores is None:
            self._all_scores = np.zeros(self.capacity)
        return self._all_scores

    def _update_plan(self, rules: Rules) -> None:
        """Make the plan for this cycle, and clear the results that are invalid under the new plan."""
        before = self.plan
        plan = self.plan = plan_for(self.shape, rules, self._inputs, before)
        self.is_per_task = bool(plan.live_filters or plan.live_scorers)
        if plan is not before and not plan.is_valid_after(before):
            self.revision = self._scored_at = self.by_state.version = -1
            self._scores_anywhere = -1, {}
            self.row_scorer = None
        if not plan.usage:
            self.passes = self.feasible
        elif self.passes is self.feasible:  # also in a new table that continues a plan
            self.passes = self.feasible.copy()
        if self.row_scorer is None and plan.can_score_single_rows:
            self.row_scorer = RowScorer(self.shape, self._columns, plan.scorers, self._requests)
            if plan.is_by_amounts and (self.shape.requests.get(PODS) != 1 or self.row_scorer.reads(PODS)):
                self._states.include_slots()
        self.is_by_state = self._states.is_worthwhile and plan.is_by_amounts

    def _copy_from(self, other: ScoreTable) -> None:
        """Start from the table of a similar shape, if the same plugins computed it."""
        plan, other_plan = self.plan, other.plan
        same_results = (
            plan.has_same_parts(other_plan)
            and other_plan.input_versions == plan.input_versions
            and not (other_plan.is_for_one_cycle or plan.is_for_one_cycle)
        )
        same_kind = other.revision >= 0 and other.is_by_state is self.is_by_state and other.capacity == self.capacity
        if not (same_results and same_kind and self._passes_constant() and other._passes_constant()):
            return
        self.idle_scores[:] = other.idle_scores
        self.feasible[:] = other.feasible
        self.passes[:] = other.passes
        self._all_feasible = other._all_feasible
        self._all_scores = None if other._all_scores is None else other._all_scores.copy()
        self.revision, self._scored_at = other.revision, other._scored_at
        self.by_state.version, self.by_state.table = other.by_state.version, other.by_state.table

    def _passes_constant(self) -> bool:
        """Return whether all filters whose result is the same for every node pass."""
        if not self.plan.constant:
            return True
        first = NodeRows(self._columns, np.zeros(1, np.intp))
        return all(part.feasible(self.shape, first, self._columns, (0,)).ok.item(0) for part in self.plan.constant)

    def _refresh(self) -> float:
        """Filter and score the rows that changed; return their share of all rows."""
        columns, size, since, times = self._columns, len(self._columns), self.revision, self._times
        self.revision = columns.clock
        self.last_update = _NO_UPDATE
        rows = columns.changed_since(since) if since >= 0 else None
        if rows is None or 2 * len(rows) > size:
            times.begin()
            if columns.spec_clock > since:
                self._filter_static(slice(0, size), columns, range(size))
                times.end(PREDICATE)
            if not (self.is_by_state and self._look_up_states(np.arange(size))):
                self._score_rows(slice(0, size), columns)
            times.end(SCORING)
            return 1.0
        self.last_update = since, self.revision, rows
        if not len(rows):
            return 0.0
        if columns.spec_clock > since and len(respecified := np.flatnonzero(columns.spec_changed_at[:size] > since)):
            self._filter_static(respecified, NodeRows(columns, respecified), respecified)
        if len(rows) > MAX_SINGLE_ROWS:  # for few rows the measurement would take longer
            times.begin()
        if not (self.is_by_state and self._look_up_states(rows)):
            self._rescore_rows(rows, since)
        if len(rows) > MAX_SINGLE_ROWS:
            times.end(SCORING)
        return len(rows) / size

    def _filter_static(self, rows: NDArray[np.intp] | slice, nodes: Nodes, numbers: Numbers) -> None:
        """Call the filters that depend on nothing that a placement changes."""
        ok = np.ones(len(numbers), np.bool_)
        for part in (*self.plan.constant, *self.plan.static):
            ok &= part.feasible(self.shape, nodes, self._columns, numbers).ok
        self.feasible[rows] = ok
        self._all_feasible = bool(self.feasible[: len(self._columns)].all())

    def _look_up_states(self, rows: NDArray[np.intp]) -> bool:
        """Look up the scores of rows by state; False where too many states are new."""
        assert self.row_scorer is not None
        passing = None if self._all_feasible else self.feasible
        if (scores := self.by_state.of_rows(rows, passing, self.row_scorer, self.plan.scorers)) is None:
            return False
        self.idle_scores[rows] = scores
        return True

    def _rescore_rows(self, rows: NDArray[np.intp], since: int) -> None:
        """Score rows that changed after a clock value, by the method that is fastest for so many."""
        columns, number = self._columns, len(rows)
        if self.row_scorer is None:
            self._score_rows(rows, NodeRows(columns, rows))
        elif number <= MAX_SINGLE_ROWS:
            for row in rows.tolist():
                self.idle_scores[row] = self.rescore(row, columns.amounts(row), idle=True)
        elif columns.clock - since > MAX_REPEATS * number or not self._score_recent(since):
            self._score_fitting(rows)

    def _score_rows(self, rows: NDArray[np.intp] | slice, nodes: NodeColumns | NodeRows) -> None:
        """Filter and score rows."""
        fits = fit_mask(self.shape, nodes, idle=True)
        if self.row_scorer is None:
            self._filter_and_score(rows, nodes)
            scores, passing = self._score_array()[rows], self.passes[rows]
        else:
            passing = self.feasible[rows]
            scores = self._sum_scores(rows, nodes, passing)
        self.idle_scores[rows] = np.where(fits & passing, scores, NOWHERE)

    def _score_recent(self, since: int) -> bool:
        """Score all rows that changed since a clock value from the recent changes; False if these do not reach back."""
        recent = self._recent_changes.fitting(since, self._requests, None if self._all_feasible else self.feasible)
        if recent is None:
            return False
        changed, rows, nodes = recent
        scores = self.idle_scores
        scores.argmax()  # loads the array into the CPU cache at once; scattered writes would do so in hundreds of steps
        scores[changed] = NOWHERE
        if len(rows):
            scores[rows] = self._sum_scores(rows, nodes, _ALL[: len(rows)])
        return True

    def _score_fitting(self, rows: NDArray[np.intp]) -> None:
        """Score rows when filters do not depend on usage; scorers are then needed only where a task fits."""
        if not self._all_feasible:
            self.idle_scores[rows] = NOWHERE
            rows = rows[self.feasible[rows]]
        nodes = NodeRows(self._columns, rows)
        fits = fit_mask(self.shape, nodes, idle=True)
        if MAX_ROWS_PER_FIT * np.count_nonzero(fits) >= len(rows):
            self.idle_scores[rows] = np.where(fits, self._sum_scores(rows, nodes, fits), NOWHERE)
            return
        self.idle_scores[rows] = NOWHERE
        rows, fits = rows[fits], fits[fits]
        if len(rows):
            self.idle_scores[rows] = self._sum_scores(rows, NodeRows(self._columns, rows), fits)

    def _filter_and_score(self, rows: NDArray[np.intp] | slice, nodes: Nodes) -> None:
        """Call the filters that depend on usage, and all scorers."""
        ok = self.feasible[rows]
        if self.plan.usage:
            ok = ok.copy()
            numbers: Numbers = range(rows.stop) if isinstance(rows, slice) else rows
            for part in self.plan.usage:
                ok &= part.feasible(self.shape, nodes, self._columns, numbers).ok
            self.passes[rows] = ok
        self._score_array()[rows] = self._sum_scores(rows, nodes, ok)

    def _sum_scores(
        self, rows: NDArray[np.intp] | slice, nodes: Nodes, passing: NDArray[np.bool_]
    ) -> NDArray[np.float64]:
        """Return the sum of the scorers."""
        numbers: Numbers = range(rows.stop) if isinstance(rows, slice) else rows
        total: NDArray[np.float64] | None = None
        for scorer in self.plan.scorers:
            scores = scorer.score(self.shape, nodes, passing, self._columns, numbers)
            total = scores if total is None else total + scores
        return np.zeros(len(numbers)) if total is None else total
