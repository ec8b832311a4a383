"""What is known of a shape by row, and the questions about single rows that it answers."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from volcanoio.engine.scheduling.adapters import FilterPart, ScorerPart
from volcanoio.engine.scheduling.columns import Columns
from volcanoio.engine.scheduling.inputs import Inputs
from volcanoio.engine.scheduling.loads import Quantity
from volcanoio.engine.scheduling.placement.best import Best
from volcanoio.engine.scheduling.placement.onerow import NOWHERE, OneRow
from volcanoio.engine.scheduling.placement.plan import Plan
from volcanoio.engine.scheduling.placement.states import States
from volcanoio.engine.scheduling.placement.statevalues import NOTHING, Learned, StateValues, fit_mask
from volcanoio.engine.scheduling.recent import Recent
from volcanoio.framework.scheduling.views import Shape

_IDLE, _FUTURE = int(Quantity.IDLE), int(Quantity.FUTURE)


class Answered:
    """The answers for one shape, right for the columns as they were at `revision`.

    `value` is the summed score where a task fits idle room and passes every filter, NOWHERE elsewhere; `score` is the
    sum everywhere; `mask` is the filters' part, `standing` that of filters no eviction can change: they look at nothing
    that is placed. `exact` says that some filter or scorer depends on more than the row itself: those parts are left
    out here and asked for every task. `by_state`: answers follow from amounts and are looked up by state, in `values`.
    `revision` is the columns' clock up to which the rows are right; `best` the best rows when they were looked for.
    """

    __slots__ = (
        "_by_state",
        "_columns",
        "_cycle",
        "_everywhere",
        "_inputs",
        "_plan",
        "_recent",
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
        "span",
        "standing",
        "value",
        "values",
    )

    def __init__(
        self, shape: Shape, columns: Columns, states: States, inputs: Inputs, recent: Recent, learned: Learned = NOTHING
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
        self._recent = recent
        self._plan: Plan = learned.plan
        self.values = StateValues(shape, columns, states, learned)
        self.one: OneRow | None = None
        """Who is asked about one row, where scalar scorers are all there is to ask when its usage changes."""
        self.best: Best | None = None
        self.span = 0.0
        """How much less good than the best rows are worth to be looked for along with them."""
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

    def settled_in(self, cycle: int) -> bool:
        """Whether the answers of filters hold for the rest of that cycle, whatever is placed and evicted in it."""
        return self.static_filters and self._cycle == cycle

    @property
    def score(self) -> NDArray[np.float64]:
        """The sum of the scorers by row, where it was asked for."""
        if self._score is None:
            self._score = np.zeros(self.capacity)
        return self._score

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
