"""What plugins answer about a shape, kept per node across cycles; only rows whose inputs changed are asked again."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from volcanoio.engine.scheduling.adapters import Numbers
from volcanoio.engine.scheduling.columns import Columns
from volcanoio.engine.scheduling.combine import Rules
from volcanoio.engine.scheduling.placement.answered import Answered
from volcanoio.engine.scheduling.placement.onerow import NOWHERE, OneRow
from volcanoio.engine.scheduling.placement.plan import plan_for
from volcanoio.engine.scheduling.placement.statevalues import fit_mask
from volcanoio.engine.scheduling.recent import ENTRIES
from volcanoio.engine.scheduling.rows import Rows
from volcanoio.framework.scheduling.views import Nodes
from volcanoio.model.resources import PODS

SINGLY = 5
"""Up to how many changed rows asking one by one is quicker than asking in one call."""
OFTEN = 2
"""Where rows changed more often than so many times each, they are asked about as they are in the columns."""
SPARSE = 1.5
"""Where a task fits no more than one of so many rows, scorers are not asked about the others."""
NAN = float("nan")
_ALL = np.ones(ENTRIES, np.bool_)


class Answers(Answered):
    """The answers for one shape, made right when they are asked for."""

    __slots__ = ()

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
            self.by_state = self._states.useful  # either way the values are the same
            self.values.begin()
        return self._refresh() if self.revision != columns.clock else 0.0

    def touch(self, row: int) -> None:
        """Ask again about one row, where that is the only one that changed since the answers were right."""
        if self.one is None:
            return  # the next `prepare` does
        if self.by_state:
            self.values.begin()
            passes = self.standing.item(row)
            self.value[row] = self.values.of(self._states.of(row), row, self.one) if passes else NOWHERE
        else:
            self.value[row] = self.rescore(row, self._columns.amounts(row), idle=True)
        self.best = None
        self.revision = self._columns.clock

    def scores(self) -> NDArray[np.float64]:
        """`score` as of now."""
        if self.one is not None:
            columns, size = self._columns, len(self._columns)
            since, self._scored = self._scored, columns.clock
            rows = columns.changed_since(since) if since >= 0 else np.arange(size)
            if len(rows):
                self._answer(rows, Rows(columns, rows))
        return self.score

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
        if not self.mask.item(row) or not self.one.fits(values, idle=idle):
            return NOWHERE
        return self.one.score(row, values)

    def _replan(self, rules: Rules) -> None:
        """Sort the parts by what they depend on for this shape, as of now."""
        before = self._plan
        plan = self._plan = plan_for(self.shape, rules, self._inputs, before)
        self.best = None
        self.exact = bool(plan.live_filters or plan.live_scorers)
        if plan is not before and not plan.lasts(before):
            self.revision = self._scored = self.values.version = -1
            self._by_state = -1, {}
            self.one = None
            if plan.usage and self.mask is self.standing:
                self.mask = self.standing.copy()
            elif not plan.usage:
                self.mask = self.standing
        if self.one is None and plan.by_row:
            self.one = OneRow(self.shape, self._columns, plan.scorers)
            if plan.by_amounts and (self.shape.requests.get(PODS) != 1 or self.one.reads(PODS)):
                self._states.count_slots()
        self.by_state = self._states.useful and plan.by_amounts

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
        if rows is None or 2 * len(rows) > size:
            if columns.spec_clock > since:
                self._answer_static(slice(0, size), columns, range(size))
            if not (self.by_state and self._look_up(np.arange(size))):
                self._ask(slice(0, size), columns)
            return 1.0
        number = len(rows)
        if not number:
            return 0.0
        if columns.spec_clock > since:
            respecified = np.flatnonzero(columns.respecified[:size] > since)
            if len(respecified):
                self._answer_static(respecified, Rows(columns, respecified), respecified)
        if not (self.by_state and self._look_up(rows)):
            if self.one is not None and number <= SINGLY:
                self.best = None
                for row in rows.tolist():
                    self.value[row] = self.rescore(row, columns.amounts(row), idle=True)
            elif self.one is not None:
                if columns.clock - since > OFTEN * number or not self._ask_about_recent(since):
                    self._ask_where_it_fits(rows)
            else:
                self._ask(rows, Rows(columns, rows))
        return number / size

    def _look_up(self, rows: NDArray[np.intp]) -> bool:
        """Take the values of rows from what is known by state; False where too many are in new ones."""
        assert self.one is not None
        value = self.values.at(rows, None if self._everywhere else self.standing, self.one, self._plan.scorers)
        if value is None:
            return False
        self.value[rows] = value
        if self.best is not None and not self.best.follow(rows, value):
            self.best = None
        return True

    def _ask(self, rows: NDArray[np.intp] | slice, nodes: Columns | Rows) -> None:
        """Ask plugins about rows."""
        self.best = None
        fits = fit_mask(self.shape, nodes, idle=True)
        if self.one is None:
            self._answer(rows, nodes)
            value, passing = self.score[rows], self.mask[rows]
        else:
            passing = self.standing[rows]
            value = self._scored_by(rows, nodes, passing)
        if self.one is None or not self._everywhere:
            fits &= passing
        self.value[rows] = np.where(fits, value, NOWHERE)

    def _ask_about_recent(self, since: int) -> bool:
        """`_ask_where_it_fits` of all rows that changed since then; False where too many did."""
        found = self._recent.that_fit(since, self._wants, None if self._everywhere else self.standing)
        if found is None:
            return False
        self.best = None
        changed, rows, nodes = found
        value = self.value
        value.argmax()  # brings all of it near in one go, which writing here and there would do in hundreds
        value[changed] = NOWHERE
        if len(rows):
            value[rows] = self._scored_by(rows, nodes, _ALL[: len(rows)])
        return True

    def _ask_where_it_fits(self, rows: NDArray[np.intp]) -> None:
        """`_ask` where filters do not look at usage: scorers are asked about no row where a task may not go."""
        self.best = None
        if not self._everywhere:
            self.value[rows] = NOWHERE
            rows = rows[self.standing[rows]]
        nodes = Rows(self._columns, rows)
        fits = fit_mask(self.shape, nodes, idle=True)
        if SPARSE * np.count_nonzero(fits) >= len(rows):
            self.value[rows] = np.where(fits, self._scored_by(rows, nodes, fits), NOWHERE)
            return
        self.value[rows] = NOWHERE
        rows, fits = rows[fits], fits[fits]
        if len(rows):
            self.value[rows] = self._scored_by(rows, Rows(self._columns, rows), fits)

    def _answer_static(self, rows: NDArray[np.intp] | slice, nodes: Nodes, numbers: Numbers) -> None:
        """Ask the filters that depend on the node's own object at most."""
        ok = np.ones(len(nodes), np.bool_)
        for part in (*self._plan.constant, *self._plan.static):
            ok &= part.feasible(self.shape, nodes, self._columns, numbers).ok
        self.standing[rows] = ok
        self._everywhere = bool(self.standing[: len(self._columns)].all())

    def _answer(self, rows: NDArray[np.intp] | slice, nodes: Nodes) -> None:
        """Ask what depends on usage: the other filters, and all scorers."""
        ok = self.standing[rows]
        if self._plan.usage:
            ok = ok.copy()
            numbers: Numbers = range(rows.stop) if isinstance(rows, slice) else rows
            for part in self._plan.usage:
                ok &= part.feasible(self.shape, nodes, self._columns, numbers).ok
            self.mask[rows] = ok
        self.score[rows] = self._scored_by(rows, nodes, ok)

    def _scored_by(
        self, rows: NDArray[np.intp] | slice, nodes: Nodes, passing: NDArray[np.bool_]
    ) -> NDArray[np.float64]:
        """The sum of the scorers."""
        numbers: Numbers = range(rows.stop) if isinstance(rows, slice) else rows
        total: NDArray[np.float64] | None = None
        for scorer in self._plan.scorers:
            scores = scorer.score(self.shape, nodes, passing, self._columns, numbers)
            total = scores if total is None else total + scores
        return np.zeros(len(nodes)) if total is None else total
