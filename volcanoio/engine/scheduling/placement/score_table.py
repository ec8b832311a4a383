"""Score table of a shape: the feasible mask and the score by node row, kept across cycles.

The entry of a row is invalid when `NodeColumns.changed_at` of the row is newer than the table's `revision`. The whole
table is invalid when the `plan` of the shape changes: other plugins, or other input versions.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from volcanoio.engine.scheduling.cluster.inputs import Inputs
from volcanoio.engine.scheduling.cluster.loads import Quantity
from volcanoio.engine.scheduling.cluster.node_columns import NodeColumns
from volcanoio.engine.scheduling.cluster.rows import NodeRows
from volcanoio.engine.scheduling.config.plugin_parts import FilterPart, Numbers, ScorerPart
from volcanoio.engine.scheduling.config.plugin_rules import Rules
from volcanoio.engine.scheduling.placement.node_states import (
    NOTHING,
    KnownScoresByState,
    NodeStates,
    ScoresByState,
    fit_mask,
)
from volcanoio.engine.scheduling.placement.plan import Plan, plan_for
from volcanoio.engine.scheduling.placement.recent_changes import ENTRIES, RecentChanges
from volcanoio.engine.scheduling.placement.row_scorer import NOWHERE, RowScorer
from volcanoio.engine.scheduling.placement.top_candidates import CandidateList
from volcanoio.framework.scheduling.views import Nodes, Shape
from volcanoio.model.resources import PODS

_IDLE, _FUTURE = int(Quantity.IDLE), int(Quantity.FUTURE)


class TableSources(NamedTuple):
    """What all score tables read."""

    columns: NodeColumns
    states: NodeStates
    inputs: Inputs
    recent: RecentChanges


class KnownScores:
    """The results for one shape, valid for the columns as they were at `revision`.

    `value` is the summed score where a task fits idle room and passes every filter, NOWHERE elsewhere; `score` is the
    sum everywhere. `passes` is the mask of all filters, `feasible` that of filters which no eviction can change.
    `is_per_task`: some filter or scorer depends on more than the row; those are not in the table but called for every
    task. `is_by_state`: scores are looked up by node state, in `values`. `revision` is the columns' clock; `candidates`
    are the best rows, once computed.
    """

    __slots__ = (
        "_all_feasible",
        "_columns",
        "_cycle",
        "_inputs",
        "_plan",
        "_recent_changes",
        "_requests",
        "_score",
        "_scored_at",
        "_state_scores",
        "_states",
        "candidates",
        "capacity",
        "feasible",
        "is_by_state",
        "is_per_task",
        "margin",
        "passes",
        "revision",
        "row_scorer",
        "shape",
        "value",
        "values",
    )

    def __init__(self, shape: Shape, sources: TableSources, learned: KnownScoresByState = NOTHING) -> None:
        columns, states, self._inputs, self._recent_changes = sources
        self.shape = shape
        self.capacity = columns.capacity
        self.value: NDArray[np.float64] = np.full(self.capacity, NOWHERE)
        self._score: NDArray[np.float64] | None = None
        """Summed score by row, also where no task fits; None until it is read, which is rare when `is_by_state`.

        Entries of infeasible rows are not valid.
        """
        self.feasible: NDArray[np.bool_] = np.zeros(self.capacity, np.bool_)
        self.passes = self.feasible
        """The same array where no filter depends on usage."""
        self._all_feasible = False
        """Whether `feasible` is true for all rows."""
        self.revision = -1
        self.is_per_task = False
        self._columns = columns
        self._states = states
        self._plan: Plan = learned.plan
        self.values = ScoresByState(shape, columns, states, learned)
        self.row_scorer: RowScorer | None = None
        """Computes one row; None unless scalar scorers alone give its new score after its usage changed."""
        self.candidates: CandidateList | None = None
        self.margin = 0.0
        """Rows become candidates when their score is at most this much below the best score."""
        self._scored_at = -1
        """The columns' clock when `score` was last updated; used where it is not updated along with `value`."""
        self.is_by_state = False
        self._state_scores: tuple[int, dict[int, float]] = (-1, {})
        """Version of the node states, and `score_on` by state."""
        self._requests = tuple((columns.resource(name), amount) for name, amount in shape.requests.items())
        self._cycle = -1

    @property
    def learned_scores(self) -> KnownScoresByState:
        """The scores by state, from which a later table for the same shape can start."""
        return KnownScoresByState(self._plan, self.values.version, self.values.table)

    @property
    def live_filters(self) -> Sequence[FilterPart]:
        """The filters that must be called for every task."""
        return self._plan.live_filters

    @property
    def live_scorers(self) -> Sequence[ScorerPart]:
        """The scorers that must be called for every task."""
        return self._plan.live_scorers

    @property
    def has_static_filters(self) -> bool:
        """Whether filters depend on nothing but the node's own object."""
        return not self._plan.usage and not self._plan.live_filters and not self._plan.is_for_one_cycle

    @property
    def depends_on_time(self) -> bool:
        """Whether some filter's result changes with time."""
        return self._plan.depends_on_time

    @property
    def is_by_row(self) -> bool:
        """Whether scalar scorers alone give a row's new score after its usage changed.

        Then a plan for several tasks need not write amounts to the columns before each score.
        """
        return self.row_scorer is not None

    def is_stable_in(self, cycle: int) -> bool:
        """Whether filter results stay valid for the rest of that cycle, whatever is placed and evicted in it."""
        return self.has_static_filters and self._cycle == cycle

    @property
    def score(self) -> NDArray[np.float64]:
        """The sum of the scorers by row, where it was computed."""
        if self._score is None:
            self._score = np.zeros(self.capacity)
        return self._score

    def score_on(self, row: int) -> float:
        """Return the score of one row now; requires `is_by_row`."""
        assert self.row_scorer is not None
        if not self.is_by_state:
            return self.row_scorer.score(row, self._columns.amounts(row))
        state, version = self._states.of(row), self._states.version
        if self._state_scores[0] != version:
            self._state_scores = version, {}
        if (known := self._state_scores[1].get(state)) is None:
            known = self._state_scores[1][state] = self.row_scorer.score(row, self._states.amounts[state])
        return known

    def fits_on(self, row: int, *, idle: bool) -> bool:
        """Whether a task fits the room of a row that will be idle; with `idle`, also the room that is idle now."""
        item = self._columns.block.item
        for at, amount in self._requests:
            if item(_FUTURE, at, row) < amount or (idle and item(_IDLE, at, row) < amount):
                return False
        return True

    def is_reserved_on(self, row: int) -> bool:
        """Whether static filters pass on a row with all reservations covered and too little idle room for a task."""
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


SINGLY = 5
"""Number of changed rows up to which scoring one by one is faster than one call for all."""
OFTEN = 2
"""Average changes per changed row above which rows are read from the columns, not from the recent changes."""
SPARSE = 1.5
"""When less than one row in so many fits, scorers are called for the fitting rows only."""
NAN = float("nan")
_ALL = np.ones(ENTRIES, np.bool_)


class ScoreTable(KnownScores):
    """The results for one shape, updated when they are requested."""

    __slots__ = ()

    def prepare(self, rules: Rules, cycle: int, akin: ScoreTable | None = None) -> float:
        """Update the table for the current columns; return the share of rows that were computed.

        `akin` is the table of a similar shape, from which a new table is copied where that is valid.
        """
        columns = self._columns
        if self._cycle != cycle:
            self._cycle = cycle
            self._update_plan(rules)
            if akin is not None and self.revision < 0:
                self._copy_from(akin)
        if self.is_by_state:
            self._states.trim()
            self.is_by_state = self._states.is_worthwhile  # the scores are the same either way
            self.values.sync()
        return self._refresh() if self.revision != columns.clock else 0.0

    def update_row(self, row: int) -> None:
        """Compute one row again; it must be the only one that changed since the last update."""
        if self.row_scorer is None:
            return  # the next `prepare` computes it
        if self.is_by_state:
            self.values.sync()
            passes = self.feasible.item(row)
            self.value[row] = self.values.of(self._states.of(row), row, self.row_scorer) if passes else NOWHERE
        else:
            self.value[row] = self.rescore(row, self._columns.amounts(row), idle=True)
        self.candidates = None
        self.revision = self._columns.clock

    def scores(self) -> NDArray[np.float64]:
        """Bring `score` up to date and return it."""
        if self.row_scorer is not None:
            columns, size = self._columns, len(self._columns)
            since, self._scored_at = self._scored_at, columns.clock
            rows = columns.changed_since(since) if since >= 0 else np.arange(size)
            if len(rows):
                self._filter_and_score(rows, NodeRows(columns, rows))
        return self.score

    def rescore(self, row: int, values: Sequence[int], *, idle: bool) -> float:
        """Compute one row again after its usage changed; return its score, NOWHERE if a filter fails or no task fits.

        `values` are the row's amounts. A task must fit the room that will be idle; with `idle`, also the room that is
        idle now. The caller sets `revision` once the columns have the amounts.
        """
        if self.row_scorer is None:
            rows = np.array([row], np.intp)
            nodes = NodeRows(self._columns, rows)
            self._filter_and_score(rows, nodes)
            return self.score.item(row) if self.passes[row] and fit_mask(self.shape, nodes, idle=idle)[0] else NOWHERE
        if not self.passes.item(row) or not self.row_scorer.fits(values, idle=idle):
            return NOWHERE
        return self.row_scorer.score(row, values)

    def _update_plan(self, rules: Rules) -> None:
        """Make the plan for this cycle, and clear the results that are invalid under the new plan."""
        before = self._plan
        plan = self._plan = plan_for(self.shape, rules, self._inputs, before)
        self.candidates = None
        self.is_per_task = bool(plan.live_filters or plan.live_scorers)
        if plan is not before and not plan.is_valid_after(before):
            self.revision = self._scored_at = self.values.version = -1
            self._state_scores = -1, {}
            self.row_scorer = None
            if plan.usage and self.passes is self.feasible:
                self.passes = self.feasible.copy()
            elif not plan.usage:
                self.passes = self.feasible
        if self.row_scorer is None and plan.is_by_row:
            self.row_scorer = RowScorer(self.shape, self._columns, plan.scorers)
            if plan.is_by_amounts and (self.shape.requests.get(PODS) != 1 or self.row_scorer.reads(PODS)):
                self._states.count_slots()
        self.is_by_state = self._states.is_worthwhile and plan.is_by_amounts

    def _copy_from(self, other: ScoreTable) -> None:
        """Start from the table of a similar shape, if the same plugins computed it."""
        plan, its = self._plan, other._plan
        if (
            not plan.has_same_parts(its)
            or its.input_versions != plan.input_versions
            or its.is_for_one_cycle
            or plan.is_for_one_cycle
        ):
            return
        if other.revision < 0 or other.is_by_state is not self.is_by_state or other.capacity != self.capacity:
            return
        if not (self._passes_constant() and other._passes_constant()):
            return
        self.value[:] = other.value
        self.feasible[:] = other.feasible
        self.passes[:] = other.passes
        self._all_feasible = other._all_feasible
        self._score = None if other._score is None else other._score.copy()
        self.revision, self._scored_at = other.revision, other._scored_at
        self.values.version, self.values.table = other.values.version, other.values.table

    def _passes_constant(self) -> bool:
        """Whether all filters whose result is the same for every node pass."""
        if not self._plan.constant:
            return True
        first = NodeRows(self._columns, np.zeros(1, np.intp))
        return all(part.feasible(self.shape, first, self._columns, (0,)).ok.item(0) for part in self._plan.constant)

    def _refresh(self) -> float:
        """Filter and score the rows that changed; return their share of all rows."""
        columns = self._columns
        size = len(columns)
        since, self.revision = self.revision, columns.clock
        rows = columns.changed_since(since) if since >= 0 else None
        if rows is None or 2 * len(rows) > size:
            if columns.spec_clock > since:
                self._filter_static(slice(0, size), columns, range(size))
            if not (self.is_by_state and self._look_up_states(np.arange(size))):
                self._score_rows(slice(0, size), columns)
            return 1.0
        if not len(rows):
            return 0.0
        if columns.spec_clock > since and len(respecified := np.flatnonzero(columns.spec_changed_at[:size] > since)):
            self._filter_static(respecified, NodeRows(columns, respecified), respecified)
        if not (self.is_by_state and self._look_up_states(rows)):
            self._rescore_rows(rows, since)
        return len(rows) / size

    def _rescore_rows(self, rows: NDArray[np.intp], since: int) -> None:
        """Score rows that changed after a clock value, by the method that is fastest for so many."""
        columns, number = self._columns, len(rows)
        if self.row_scorer is None:
            self._score_rows(rows, NodeRows(columns, rows))
        elif number <= SINGLY:
            self.candidates = None
            for row in rows.tolist():
                self.value[row] = self.rescore(row, columns.amounts(row), idle=True)
        elif columns.clock - since > OFTEN * number or not self._score_recent(since):
            self._score_fitting(rows)

    def _look_up_states(self, rows: NDArray[np.intp]) -> bool:
        """Look up the scores of rows by state; False where too many states are new."""
        assert self.row_scorer is not None
        value = self.values.of_rows(
            rows, None if self._all_feasible else self.feasible, self.row_scorer, self._plan.scorers
        )
        if value is None:
            return False
        self.value[rows] = value
        if self.candidates is not None and not self.candidates.update(rows, value):
            self.candidates = None
        return True

    def _score_rows(self, rows: NDArray[np.intp] | slice, nodes: NodeColumns | NodeRows) -> None:
        """Filter and score rows."""
        self.candidates = None
        fits = fit_mask(self.shape, nodes, idle=True)
        if self.row_scorer is None:
            self._filter_and_score(rows, nodes)
            value, passing = self.score[rows], self.passes[rows]
        else:
            passing = self.feasible[rows]
            value = self._sum_scores(rows, nodes, passing)
        if self.row_scorer is None or not self._all_feasible:
            fits &= passing
        self.value[rows] = np.where(fits, value, NOWHERE)

    def _score_recent(self, since: int) -> bool:
        """Score all rows that changed since a clock value from the recent changes; False if these do not reach back."""
        found = self._recent_changes.fitting(since, self._requests, None if self._all_feasible else self.feasible)
        if found is None:
            return False
        self.candidates = None
        changed, rows, nodes = found
        value = self.value
        value.argmax()  # loads the array into the CPU cache at once; scattered writes would do so in hundreds of steps
        value[changed] = NOWHERE
        if len(rows):
            value[rows] = self._sum_scores(rows, nodes, _ALL[: len(rows)])
        return True

    def _score_fitting(self, rows: NDArray[np.intp]) -> None:
        """Score rows when filters do not depend on usage; scorers are then needed only where a task fits."""
        self.candidates = None
        if not self._all_feasible:
            self.value[rows] = NOWHERE
            rows = rows[self.feasible[rows]]
        nodes = NodeRows(self._columns, rows)
        fits = fit_mask(self.shape, nodes, idle=True)
        if SPARSE * np.count_nonzero(fits) >= len(rows):
            self.value[rows] = np.where(fits, self._sum_scores(rows, nodes, fits), NOWHERE)
            return
        self.value[rows] = NOWHERE
        rows, fits = rows[fits], fits[fits]
        if len(rows):
            self.value[rows] = self._sum_scores(rows, NodeRows(self._columns, rows), fits)

    def _filter_static(self, rows: NDArray[np.intp] | slice, nodes: Nodes, numbers: Numbers) -> None:
        """Call the filters that depend on nothing or only on the node's own object."""
        ok = np.ones(len(nodes), np.bool_)
        for part in (*self._plan.constant, *self._plan.static):
            ok &= part.feasible(self.shape, nodes, self._columns, numbers).ok
        self.feasible[rows] = ok
        self._all_feasible = bool(self.feasible[: len(self._columns)].all())

    def _filter_and_score(self, rows: NDArray[np.intp] | slice, nodes: Nodes) -> None:
        """Call the filters that depend on usage, and all scorers."""
        ok = self.feasible[rows]
        if self._plan.usage:
            ok = ok.copy()
            numbers: Numbers = range(rows.stop) if isinstance(rows, slice) else rows
            for part in self._plan.usage:
                ok &= part.feasible(self.shape, nodes, self._columns, numbers).ok
            self.passes[rows] = ok
        self.score[rows] = self._sum_scores(rows, nodes, ok)

    def _sum_scores(
        self, rows: NDArray[np.intp] | slice, nodes: Nodes, passing: NDArray[np.bool_]
    ) -> NDArray[np.float64]:
        """Return the sum of the scorers."""
        numbers: Numbers = range(rows.stop) if isinstance(rows, slice) else rows
        total: NDArray[np.float64] | None = None
        for scorer in self._plan.scorers:
            scores = scorer.score(self.shape, nodes, passing, self._columns, numbers)
            total = scores if total is None else total + scores
        return np.zeros(len(nodes)) if total is None else total
