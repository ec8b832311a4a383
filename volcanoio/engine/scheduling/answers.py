"""What plugins answer about a shape, kept per node across cycles; only rows whose inputs changed are asked again."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from volcanoio.engine.scheduling.adapters import SHARED, FilterPart, ScorerPart
from volcanoio.engine.scheduling.columns import Columns, Quantity
from volcanoio.engine.scheduling.combine import Rules
from volcanoio.engine.scheduling.inputs import Inputs
from volcanoio.engine.scheduling.rows import Row, Rows
from volcanoio.engine.scheduling.states import States
from volcanoio.framework.scheduling.verdicts import Depends
from volcanoio.framework.scheduling.views import Nodes, Shape

NOWHERE = float("-inf")
FEW = 12
"""Up to how many rows asking one by one is quicker than asking in one call."""
FEW_STATES = 24
"""Up to how many rows looking up their states one by one is quicker than in one go."""
INTERNED = 512
"""How many rows are looked up one by one in one go."""
_IDLE, _FUTURE = int(Quantity.IDLE), int(Quantity.FUTURE)
_AMOUNTS = Depends.NODE_AMOUNTS | Depends.NODE_USAGE
_EACH_CYCLE = Depends.SOURCE | Depends.NOW


class Learned(NamedTuple):
    """What is worth keeping of answers that are dropped: values by state, of which plan and which version of states."""

    plan: tuple[list[FilterPart], list[FilterPart], list[ScorerPart]]
    version: int
    table: NDArray[np.float64]


NOTHING = Learned(([], [], []), -1, np.zeros(0))


class Answers:
    """The answers for one shape.

    `value` is the summed score where a task fits idle room and passes every filter, NOWHERE elsewhere; `score` is the
    sum everywhere; `mask` is the filters' part. `exact` says that some filter or scorer depends on more than the row
    itself: those parts are left out here and asked for every task. `static_filters`: filters ask
    about nothing but the node's own object. `revision` is the columns' clock up to which the
    rows are right.
    """

    __slots__ = (
        "_by_state",
        "_columns",
        "_constant",
        "_cycle",
        "_facts",
        "_fleeting",
        "_inputs",
        "_ones",
        "_plan",
        "_row",
        "_score",
        "_scored",
        "_states",
        "_static",
        "_table",
        "_version",
        "_wants",
        "by_moment",
        "by_state",
        "capacity",
        "exact",
        "live_filters",
        "live_scorers",
        "mask",
        "revision",
        "shape",
        "static_filters",
        "value",
    )

    def __init__(
        self, shape: Shape, columns: Columns, states: States, inputs: Inputs, learned: Learned = NOTHING
    ) -> None:
        self.shape = shape
        self.capacity = columns.capacity
        self.value: NDArray[np.float64] = np.full(self.capacity, NOWHERE)
        self._score: NDArray[np.float64] | None = None
        """As `score`, once that is asked for: where values are by state it seldom is."""
        self.mask: NDArray[np.bool_] = np.zeros(self.capacity, np.bool_)
        self._static: NDArray[np.bool_] = np.zeros(self.capacity, np.bool_)
        self.revision = -1
        self.exact = False
        self.static_filters = False
        self.by_moment = False
        """Whether some filter says other things at other times, which the plugin tells beforehand."""
        self.live_filters: tuple[FilterPart, ...] = ()
        self.live_scorers: tuple[ScorerPart, ...] = ()
        self._columns = columns
        self._states = states
        self._inputs = inputs
        self._constant: list[FilterPart] = []
        """Filters that say the same of all nodes."""
        self._fleeting = False
        """Whether some answer holds for one cycle only."""
        self._facts: list[tuple[int, ...]] = []
        """The versions of the inputs that the answers follow from."""
        self._table = learned.table
        """What `value` is by state, where filters pass; not a number where it was not asked yet."""
        self._version = learned.version
        self._scored = -1
        """The columns' clock up to which `score` is right, where it is not kept along with `value`."""
        self.by_state = False
        self._by_state: tuple[int, dict[int, float]] = (-1, {})
        """Which version of states, and what `score_row` is by state."""
        self._row = Row(columns)
        self._wants = tuple((columns.resource(name), amount) for name, amount in shape.requests.items())
        self._cycle = -1
        self._ones: list[Callable[[Shape, Row], float]] | None = None
        """The scalar scorers, where they are all there is to ask when a row's usage changes."""
        self._plan = learned.plan

    @property
    def learned(self) -> Learned:
        """What another `Answers` for the shape may begin with."""
        return Learned(self._plan, self._version, self._table)

    def prepare(self, rules: Rules, cycle: int, akin: Answers | None = None) -> bool:
        """Make the answers right for the columns as they are; whether all nodes had to be asked about.

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
        return self.revision != columns.clock and self._refresh()

    @property
    def by_row(self) -> bool:
        """Whether a change of usage asks scalar scorers alone, so that amounts need not be in the columns."""
        return self._ones is not None

    def touch(self, row: int) -> None:
        """Ask again about one row, where that is the only one that changed since the answers were right."""
        if self._ones is None:
            return  # the next `prepare` does
        self.mask[row] = passes = self._static.item(row)
        if self.by_state:
            self.value[row] = self.of_state(self._states.of(row), row) if passes else NOWHERE
        else:
            self.value[row] = self.rescore(row, self._columns.amounts(row), idle=True)
        self.revision = self._columns.clock

    def of_state(self, state: int, row: int) -> float:
        """The value of a row that passes the filters, when it is in that state; `row` is one of those."""
        if state >= len(self._table):
            self._extend()
        value = self._table.item(state)
        if value != value:
            self._row.become(row, self._states.amounts[state])
            total = 0.0
            for one in self._ones or ():
                total += one(self.shape, self._row)
            value = self._table[state] = total if self._row.fits(self._wants, idle=True) else NOWHERE
        return value

    @property
    def standing(self) -> NDArray[np.bool_]:
        """Where the filters pass that no eviction can change: those that look at nothing that is placed."""
        return self._static

    def settled_in(self, cycle: int) -> bool:
        """Whether the answers of filters hold for the rest of that cycle, whatever is placed and evicted in it."""
        return self.static_filters and self._cycle == cycle

    def scores(self) -> NDArray[np.float64]:
        """`score` as of now."""
        if self.by_state:
            columns, size = self._columns, len(self._columns)
            since, self._scored = self._scored, columns.clock
            rows = (columns.changed[:size] > since).nonzero()[0] if since >= 0 else np.arange(size)
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

        `values` are its amounts, `idle` as in `Row.fits`. The caller sets `revision` once the columns have the amounts.
        """
        at = self._row
        at.become(row, values)
        if self._ones is None:
            rows = np.array([row], np.intp)
            self._answer(rows, Rows(self._columns, rows))
            total = self.score.item(row)
        else:
            total = 0.0
            shape = self.shape
            for one in self._ones:
                total += one(shape, at)
            self.score[row] = total
        return total if at.fits(self._wants, idle=idle) and self.mask.item(row) else NOWHERE

    def score_row(self, row: int) -> float:
        """The score of one row as it is now; where `by_row`."""
        if not self.by_state:
            return self._ask(row, self._columns.amounts(row))
        state, version = self._states.of(row), self._states.version
        if self._by_state[0] != version:
            self._by_state = version, {}
        known = self._by_state[1].get(state)
        if known is None:
            known = self._by_state[1][state] = self._ask(row, self._states.amounts[state])
        return known

    def _ask(self, row: int, values: Sequence[int]) -> float:
        self._row.become(row, values)
        total = 0.0
        for one in self._ones or ():
            total += one(self.shape, self._row)
        return total

    def fits_row(self, row: int, *, idle: bool) -> bool:
        """Whether a task fits one row; `idle` as in `Row.fits`."""
        item = self._columns.block.item
        for at, amount in self._wants:
            if item(_FUTURE, at, row) < amount or (idle and item(_IDLE, at, row) < amount):
                return False
        return True

    def reserved_on(self, row: int) -> bool:
        """Whether filters that look at nothing that is placed pass on a row, all that is reserved there has its room,
        and a task would not fit what is free.
        """
        if not self._static.item(row):
            return False
        item, lacking = self._columns.block.item, False
        for at, amount in self._wants:  # asked for every task that waits for victims
            if item(_FUTURE, at, row) < 0:
                return False
            if item(_IDLE, at, row) < amount:
                lacking = True
        return lacking

    def fit_mask(self, nodes: Nodes, *, idle: bool) -> NDArray[np.bool_]:
        """`fits_row` of many nodes."""
        ok = np.ones(len(nodes), np.bool_)
        for name, amount in self.shape.requests.items():
            ok &= nodes.future_idle(name) >= amount
            if idle:
                ok &= nodes.idle(name) >= amount
        return ok

    def _replan(self, rules: Rules) -> None:
        """Sort the parts by what they depend on for this shape, as of now."""
        static: list[FilterPart] = []
        constant: list[FilterPart] = []
        usage: list[FilterPart] = []
        live_filters: list[FilterPart] = []
        each_cycle = by_moment = False
        facts: list[tuple[int, ...]] = []
        for part in rules.filters:
            depends = part.depends(self.shape)
            if not depends:
                constant.append(part)
                continue
            each_cycle |= self._changes_unseen(depends, part, facts)
            by_moment |= part.moment is not None and bool(depends & Depends.NOW)
            if depends & SHARED:
                live_filters.append(part)
            else:
                (usage if depends & Depends.NODE_USAGE else static).append(part)
        scorers: list[ScorerPart] = []
        live_scorers: list[ScorerPart] = []
        for scorer in rules.scorers:
            depends = scorer.depends(self.shape)
            if depends:  # what depends on nothing is the same for all nodes
                each_cycle |= self._changes_unseen(depends, scorer, facts)
                (live_scorers if depends & SHARED else scorers).append(scorer)
        plan = (static, usage, scorers)
        if plan != self._plan or constant != self._constant or each_cycle or facts != self._facts:
            self.revision = self._scored = self._version = -1
            self._by_state = -1, {}
        self._plan, self._constant, self._facts, self._fleeting = plan, constant, facts, each_cycle
        self.live_filters, self.live_scorers = tuple(live_filters), tuple(live_scorers)
        self.exact = bool(live_filters or live_scorers)
        self.by_moment = by_moment
        self.static_filters = not usage and not live_filters and not each_cycle
        ones = [part.one for part in scorers if part.one is not None]
        self._ones = None if usage or len(ones) != len(scorers) else ones
        by_state = self._ones is not None and self._states.useful
        by_state = by_state and not any(part.depends(self.shape) & ~_AMOUNTS for part in scorers)
        if by_state != self.by_state:
            self.by_state, self.revision = by_state, -1

    def _adopt(self, other: Answers) -> None:
        """Take over what is known for a shape that is the same but for pods, where the same parts answer."""
        if (other._plan, other._facts) != (self._plan, self._facts) or other._fleeting or other.revision < 0:
            return
        if self._fleeting or other.by_state is not self.by_state or other.capacity != self.capacity:
            return
        if not (self._passes_constant() and other._passes_constant()):
            return
        for mine, known in (
            (self.value, other.value),
            (self.mask, other.mask),
            (self._static, other._static),
        ):
            mine[:] = known
        self._score = None if other._score is None else other._score.copy()
        self.revision, self._scored = other.revision, other._scored
        self._version, self._table = other._version, other._table

    def _passes_constant(self) -> bool:
        """Whether the filters that say the same of all nodes let the shape pass."""
        if not self._constant:
            return True
        rows = np.zeros(1, np.intp)
        first = Rows(self._columns, rows)
        return all(part.feasible(self.shape, first, self._columns, (0,)).ok.item(0) for part in self._constant)

    def _changes_unseen(self, depends: Depends, part: FilterPart | ScorerPart, facts: list[tuple[int, ...]]) -> bool:
        """Whether an answer may be another in each cycle; where it follows from inputs, their versions tell."""
        if part.moment is not None and depends & Depends.NOW:
            facts.append((part.moment(),))
            depends &= ~Depends.NOW
        if depends & Depends.SOURCE and part.watches:
            facts.append(self._inputs.versions(part.watches))
            return bool(depends & Depends.NOW)
        return bool(depends & (Depends.SOURCE | Depends.NOW))

    def _refresh(self) -> bool:
        """Ask again about what changed; whether that was all."""
        columns = self._columns
        size = len(columns)
        since, self.revision = self.revision, columns.clock
        rows = (columns.changed[:size] > since).nonzero()[0] if since >= 0 else None
        if rows is not None and not len(rows):
            return False
        if rows is None or 2 * len(rows) > size:
            if columns.spec_clock > since:
                self._answer_static(slice(0, size), columns, range(size))
            if not (self.by_state and self._look_up(np.arange(size))):
                self._answer(slice(0, size), columns)
                fits = self.mask[:size] & self.fit_mask(columns, idle=True)
                self.value[:size] = np.where(fits, self.score[:size], NOWHERE)
            return True
        if columns.spec_clock > since:
            respecified = np.flatnonzero(columns.respecified[:size] > since)
            if len(respecified):
                self._answer_static(respecified, Rows(columns, respecified), respecified.tolist())
        if self.by_state and (self._follow(rows) if len(rows) <= FEW_STATES else self._look_up(rows)):
            return False
        if self._ones is not None and len(rows) <= FEW:
            for row in rows.tolist():
                self.mask[row] = self._static[row]
                self.value[row] = self.rescore(row, columns.amounts(row), idle=True)
            return False
        nodes = Rows(columns, rows)
        self._answer(rows, nodes)
        self.value[rows] = np.where(self.mask[rows] & self.fit_mask(nodes, idle=True), self.score[rows], NOWHERE)
        return False

    def _follow(self, rows: NDArray[np.intp]) -> bool:
        """`_look_up` of a few rows, one by one."""
        states, known = self._states, len(self._states.amounts)
        self._begin_table()
        static, mask, value = self._static, self.mask, self.value
        for row in rows.tolist():
            mask[row] = passes = static.item(row)
            value[row] = self.of_state(states.of(row), row) if passes else NOWHERE
        states.count(len(rows), len(states.amounts) - known)
        return True

    def _begin_table(self) -> None:
        """Forget what was known of states that have other ids now."""
        if self._version != self._states.version:
            self._version = self._states.version
            self._table = np.full(max(2 * len(self._states.amounts), 64), np.nan)

    def _look_up(self, rows: NDArray[np.intp]) -> bool:
        """Take the values of rows from the table; False when too many rows have states not looked up yet."""
        columns, states = self._columns, self._states
        self._begin_table()
        at = columns.state[rows]
        unknown = (at < 0).nonzero()[0]
        if len(unknown):
            for position in unknown[:INTERNED].tolist():
                at[position] = states.of(rows.item(position))
            if len(unknown) > INTERNED:
                return False
        if len(states.amounts) > len(self._table):
            self._extend()
        value = self._table[at]
        missing = np.isnan(value).nonzero()[0]
        learned = self._learn(at[missing], rows[missing]) if len(missing) else 0
        states.count(len(rows), learned)
        if learned:
            value[missing] = self._table[at[missing]]
        passes = self._static[rows]
        self.mask[rows] = passes
        self.value[rows] = np.where(passes, value, NOWHERE)
        return True

    def _learn(self, at: NDArray[np.int64], rows: NDArray[np.intp]) -> int:
        """Work out and keep the values of states that rows are in; how many states there are."""
        if len(at) > INTERNED:  # all rows of a new shape: told apart by a column, which is dear for a few
            example = np.full(len(self._table), -1, np.intp)
            example[at] = rows
            at = (example >= 0).nonzero()[0]
            rows = example[at]
        examples = dict(zip(at.tolist(), rows.tolist(), strict=True))
        if len(examples) <= FEW:
            for state, row in examples.items():
                self.of_state(state, row)
            return len(examples)
        known = np.fromiter(examples, np.intp, len(examples))
        rows = np.fromiter(examples.values(), np.intp, len(examples))
        nodes = Rows(self._columns, rows)
        total = np.zeros(len(rows), np.float64)
        everywhere = np.ones(len(rows), np.bool_)
        numbers = list(examples.values())
        for scorer in self._plan[2]:
            total += scorer.score(self.shape, nodes, everywhere, self._columns, numbers)
        self._table[known] = np.where(self.fit_mask(nodes, idle=True), total, NOWHERE)
        return len(known)

    def _extend(self) -> None:
        """Make room in the table for all states."""
        extra = 2 * len(self._states.amounts) - len(self._table)
        self._table = np.concatenate([self._table, np.full(extra, np.nan)])

    def _answer_static(self, rows: NDArray[np.intp] | slice, nodes: Nodes, numbers: Sequence[int]) -> None:
        """Ask the filters that depend on the node's own object at most."""
        ok = np.ones(len(nodes), np.bool_)
        for part in (*self._constant, *self._plan[0]):
            ok &= part.feasible(self.shape, nodes, self._columns, numbers).ok
        self._static[rows] = ok

    def _answer(self, rows: NDArray[np.intp] | slice, nodes: Nodes) -> None:
        """Ask what depends on usage: the other filters, and all scorers."""
        _, usage_filters, scorers = self._plan
        numbers: Sequence[int] = range(rows.stop) if isinstance(rows, slice) else rows.tolist()
        ok = self._static[rows].copy()
        for part in usage_filters:
            ok &= part.feasible(self.shape, nodes, self._columns, numbers).ok
        self.mask[rows] = ok
        total = np.zeros(len(nodes), np.float64)
        for scorer in scorers:
            total += scorer.score(self.shape, nodes, ok, self._columns, numbers)
        self.score[rows] = total
