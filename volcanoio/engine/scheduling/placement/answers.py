"""What plugins answer about a shape, kept per node across cycles; only rows whose inputs changed are asked again."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from volcanoio.engine.scheduling.adapters import FilterPart, Numbers, ScorerPart
from volcanoio.engine.scheduling.columns import Columns, Quantity
from volcanoio.engine.scheduling.combine import Rules
from volcanoio.engine.scheduling.inputs import Inputs
from volcanoio.engine.scheduling.placement.onerow import NOWHERE, OneRow
from volcanoio.engine.scheduling.placement.plan import Plan, plan_for
from volcanoio.engine.scheduling.placement.states import States
from volcanoio.engine.scheduling.placement.statevalues import NOTHING, Learned, StateValues, fit_mask
from volcanoio.engine.scheduling.placement.ties import Best
from volcanoio.engine.scheduling.rows import Rows
from volcanoio.framework.scheduling.views import Nodes, Shape

FEW = 12
"""Up to how many rows asking one by one is quicker than asking in one call."""
_IDLE, _FUTURE = int(Quantity.IDLE), int(Quantity.FUTURE)


class Answers:
    """The answers for one shape.

    `value` is the summed score where a task fits idle room and passes every filter, NOWHERE elsewhere; `score` is the
    sum everywhere; `mask` is the filters' part, `standing` that of filters no eviction can change: they look at nothing
    that is placed. `exact` says that some filter or scorer depends on more than the row itself: those parts are left
    out here and asked for every task. `by_state`: answers follow from amounts and are looked up by state, in `values`.
    `revision` is the columns' clock up to which the rows are right; `best` the rows that were equally good at last.
    """

    __slots__ = (
        "_by_state",
        "_columns",
        "_cycle",
        "_everywhere",
        "_inputs",
        "_plan",
        "_score",
        "_scored",
        "_states",
        "_wants",
        "best",
        "by_state",
        "capacity",
        "exact",
        "mask",
        "one",
        "revision",
        "shape",
        "standing",
        "value",
        "values",
    )

    def __init__(
        self, shape: Shape, columns: Columns, states: States, inputs: Inputs, learned: Learned = NOTHING
    ) -> None:
        self.shape = shape
        self.capacity = columns.capacity
        self.value: NDArray[np.float64] = np.full(self.capacity, NOWHERE)
        self._score: NDArray[np.float64] | None = None
        """As `score`, once that is asked for: where values are by state it seldom is."""
        self.standing: NDArray[np.bool_] = np.zeros(self.capacity, np.bool_)
        self.mask = self.standing
        """The same array where no filter looks at usage."""
        self._everywhere = False
        """Whether `standing` is true of all rows."""
        self.revision = -1
        self.exact = False
        self._columns = columns
        self._states = states
        self._inputs = inputs
        self._plan: Plan = learned.plan
        self.values = StateValues(shape, columns, states, learned)
        self.one: OneRow | None = None
        """Who is asked about one row, where scalar scorers are all there is to ask when its usage changes."""
        self.best: Best | None = None
        self._scored = -1
        """The columns' clock up to which `score` is right, where it is not kept along with `value`."""
        self.by_state = False
        self._by_state: tuple[int, dict[int, float]] = (-1, {})
        """Which version of states, and what `score_row` is by state."""
        self._wants = tuple((columns.resource(name), amount) for name, amount in shape.requests.items())
        self._cycle = -1

    @property
    def learned(self) -> Learned:
        """What another `Answers` for the shape may begin with."""
        return Learned(self._plan, self.values.version, self.values.table)

    @property
    def live_filters(self) -> Sequence[FilterPart]:
        """The filters to be asked for every task."""
        return self._plan.live_filters

    @property
    def live_scorers(self) -> Sequence[ScorerPart]:
        """The scorers to be asked for every task."""
        return self._plan.live_scorers

    @property
    def static_filters(self) -> bool:
        """Whether filters ask about nothing but the node's own object."""
        return not self._plan.usage and not self._plan.live_filters and not self._plan.fleeting

    @property
    def by_moment(self) -> bool:
        """Whether some filter says other things at other times."""
        return self._plan.by_moment

    @property
    def by_row(self) -> bool:
        """Whether a change of usage asks scalar scorers alone, so that amounts need not be in the columns."""
        return self.one is not None

    def prepare(self, rules: Rules, cycle: int, akin: Answers | None = None) -> float:
        """Make the answers right for the columns as they are; about what part of all nodes had to be asked.

        `akin` are the answers for a shape that is the same but for what concerns other pods.
        """
        columns = self._columns
        if self._cycle != cycle:
            self._cycle = cycle
            self._replan(rules)
            if akin is not None and self.revision < 0:
                self._adopt(akin)
        if self.by_state:
            self._states.settle()
            if not self._states.useful:
                self.by_state, self.revision = False, -1
        return self._refresh() if self.revision != columns.clock else 0.0

    def touch(self, row: int) -> None:
        """Ask again about one row, where that is the only one that changed since the answers were right."""
        if self.one is None:
            return  # the next `prepare` does
        if self.by_state:
            passes = self.standing.item(row)
            self.value[row] = self.values.of(self._states.of(row), row, self.one) if passes else NOWHERE
        else:
            self.value[row] = self.rescore(row, self._columns.amounts(row), idle=True)
        self.best = None
        self.revision = self._columns.clock

    def settled_in(self, cycle: int) -> bool:
        """Whether the answers of filters hold for the rest of that cycle, whatever is placed and evicted in it."""
        return self.static_filters and self._cycle == cycle

    def scores(self) -> NDArray[np.float64]:
        """`score` as of now."""
        if self.by_state:
            columns, size = self._columns, len(self._columns)
            since, self._scored = self._scored, columns.clock
            rows = columns.changed_since(since) if since >= 0 else np.arange(size)
            if len(rows):
                self._answer(rows, Rows(columns, rows))
        return self.score

    @property
    def score(self) -> NDArray[np.float64]:
        """The sum of the scorers by row, where it was asked for."""
        if self._score is None:
            self._score = np.zeros(self.capacity)
        return self._score

    def rescore(self, row: int, values: Sequence[int], *, idle: bool) -> float:
        """Ask again about one row whose usage changed; its score, NOWHERE where a task does not pass or fit.

        `values` are its amounts, `idle` as in `OneRow.fits`. The caller sets `revision` once the columns have the
        amounts.
        """
        if self.one is None:
            rows = np.array([row], np.intp)
            nodes = Rows(self._columns, rows)
            self._answer(rows, nodes)
            return self.score.item(row) if self.mask[row] and fit_mask(self.shape, nodes, idle=idle)[0] else NOWHERE
        total = self.one.score(row, values)
        self.score[row] = total
        return total if self.one.fits(values, idle=idle) and self.mask.item(row) else NOWHERE

    def score_row(self, row: int) -> float:
        """The score of one row as it is now; where `by_row`."""
        assert self.one is not None
        if not self.by_state:
            return self.one.score(row, self._columns.amounts(row))
        state, version = self._states.of(row), self._states.version
        if self._by_state[0] != version:
            self._by_state = version, {}
        known = self._by_state[1].get(state)
        if known is None:
            known = self._by_state[1][state] = self.one.score(row, self._states.amounts[state])
        return known

    def fits_row(self, row: int, *, idle: bool) -> bool:
        """Whether a task fits one row; `idle` as in `OneRow.fits`."""
        item = self._columns.block.item
        for at, amount in self._wants:
            if item(_FUTURE, at, row) < amount or (idle and item(_IDLE, at, row) < amount):
                return False
        return True

    def reserved_on(self, row: int) -> bool:
        """Whether filters that look at nothing that is placed pass on a row, all that is reserved there has its room,
        and a task would not fit what is free.
        """
        if not self.standing.item(row):
            return False
        item, lacking = self._columns.block.item, False
        for at, amount in self._wants:  # asked for every task that waits for victims
            if item(_FUTURE, at, row) < 0:
                return False
            if item(_IDLE, at, row) < amount:
                lacking = True
        return lacking

    def fit_mask(self, *, idle: bool) -> NDArray[np.bool_]:
        """`fits_row` of all nodes."""
        return fit_mask(self.shape, self._columns, idle=idle)

    def _replan(self, rules: Rules) -> None:
        """Sort the parts by what they depend on for this shape, as of now."""
        before, plan = self._plan, plan_for(self.shape, rules, self._inputs)
        self._plan = plan
        self.best = None
        self.exact = bool(plan.live_filters or plan.live_scorers)
        if not plan.lasts(before):
            self.revision = self._scored = self.values.version = -1
            self._by_state = -1, {}
            self.one = None
            if plan.usage and self.mask is self.standing:
                self.mask = self.standing.copy()
            elif not plan.usage:
                self.mask = self.standing
        if self.one is None and plan.by_row:
            self.one = OneRow(self.shape, self._columns, plan.scorers)
        by_state = self._states.useful and plan.by_amounts(self.shape)
        if by_state != self.by_state:
            self.by_state, self.revision = by_state, -1

    def _adopt(self, other: Answers) -> None:
        """Take over what is known for a shape that is the same but for pods, where the same parts answer."""
        plan, its = self._plan, other._plan
        if not plan.values_alike(its) or its.facts != plan.facts or its.fleeting or plan.fleeting:
            return
        if other.revision < 0 or other.by_state is not self.by_state or other.capacity != self.capacity:
            return
        if not (self._passes_constant() and other._passes_constant()):
            return
        self.value[:] = other.value
        self.standing[:] = other.standing
        self.mask[:] = other.mask
        self._everywhere = other._everywhere
        self._score = None if other._score is None else other._score.copy()
        self.revision, self._scored = other.revision, other._scored
        self.values.version, self.values.table = other.values.version, other.values.table

    def _passes_constant(self) -> bool:
        """Whether the filters that say the same of all nodes let the shape pass."""
        if not self._plan.constant:
            return True
        first = Rows(self._columns, np.zeros(1, np.intp))
        return all(part.feasible(self.shape, first, self._columns, (0,)).ok.item(0) for part in self._plan.constant)

    def _refresh(self) -> float:
        """Ask again about what changed; what part of all that was."""
        columns = self._columns
        size = len(columns)
        since, self.revision = self.revision, columns.clock
        rows = columns.changed_since(since) if since >= 0 else None
        if rows is not None and not len(rows):
            return 0.0
        if rows is None or 2 * len(rows) > size:
            if columns.spec_clock > since:
                self._answer_static(slice(0, size), columns, range(size))
            if not (self.by_state and self._look_up(np.arange(size))):
                self._answer(slice(0, size), columns)
                fits = self.mask[:size] & self.fit_mask(idle=True)
                self.value[:size] = np.where(fits, self.score[:size], NOWHERE)
                self.best = None
            return 1.0
        if columns.spec_clock > since:
            respecified = np.flatnonzero(columns.respecified[:size] > since)
            if len(respecified):
                self._answer_static(respecified, Rows(columns, respecified), respecified)
        if not (self.by_state and self._look_up(rows)):
            self._ask(rows)
        return len(rows) / size

    def _look_up(self, rows: NDArray[np.intp]) -> bool:
        """Take the values of rows from what is known by state; False where too many are in new ones."""
        assert self.one is not None
        value = self.values.at(rows, None if self._everywhere else self.standing, self.one, self._plan.scorers)
        if value is None:
            return False
        self.value[rows] = value
        if self.best is not None and np.maximum.reduce(value) >= self.best.top:
            self.best = None
        return True

    def _ask(self, rows: NDArray[np.intp]) -> None:
        """Ask plugins about rows."""
        columns = self._columns
        self.best = None
        if self.one is not None and len(rows) <= FEW:
            for row in rows.tolist():
                self.value[row] = self.rescore(row, columns.amounts(row), idle=True)
            return
        nodes = Rows(columns, rows)
        self._answer(rows, nodes)
        fits = self.mask[rows] & fit_mask(self.shape, nodes, idle=True)
        self.value[rows] = np.where(fits, self.score[rows], NOWHERE)

    def _answer_static(self, rows: NDArray[np.intp] | slice, nodes: Nodes, numbers: Numbers) -> None:
        """Ask the filters that depend on the node's own object at most."""
        ok = np.ones(len(nodes), np.bool_)
        for part in (*self._plan.constant, *self._plan.static):
            ok &= part.feasible(self.shape, nodes, self._columns, numbers).ok
        self.standing[rows] = ok
        self._everywhere = bool(self.standing[: len(self._columns)].all())

    def _answer(self, rows: NDArray[np.intp] | slice, nodes: Nodes) -> None:
        """Ask what depends on usage: the other filters, and all scorers."""
        numbers: Numbers = range(rows.stop) if isinstance(rows, slice) else rows
        ok = self.standing[rows]
        if self._plan.usage:
            ok = ok.copy()
            for part in self._plan.usage:
                ok &= part.feasible(self.shape, nodes, self._columns, numbers).ok
            self.mask[rows] = ok
        total = np.zeros(len(nodes), np.float64)
        for scorer in self._plan.scorers:
            total += scorer.score(self.shape, nodes, ok, self._columns, numbers)
        self.score[rows] = total
