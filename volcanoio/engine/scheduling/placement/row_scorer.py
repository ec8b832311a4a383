"""Score and fit of one row for a shape, computed from the row's amounts."""

from collections.abc import Callable, Sequence
from functools import partial

from volcanoio.engine.scheduling.cluster.loads import Quantity
from volcanoio.engine.scheduling.cluster.node_columns import NodeColumns
from volcanoio.engine.scheduling.cluster.rows import RecordingIndex, SingleRow
from volcanoio.engine.scheduling.config.plugin_parts import ScorerPart
from volcanoio.framework.scheduling.views import Shape

NOWHERE = float("-inf")
"""The score of a row where a task may not go."""
_IDLE, _FUTURE = int(Quantity.IDLE), int(Quantity.FUTURE)


class RowScorer:
    """Calls scalar scorers; amounts are `node_columns.AmountsRow`."""

    __slots__ = (
        "_columns",
        "_fits",
        "_fits_idle",
        "_layout",
        "_reads_row",
        "_resources_read",
        "_row",
        "_scorers",
        "_scorers_by_amounts",
        "_shape",
    )

    def __init__(self, shape: Shape, columns: NodeColumns, scorers: Sequence[ScorerPart]) -> None:
        """The scorers all have a scalar form."""
        self._shape = shape
        self._columns = columns
        self._scorers = scorers
        self._row = SingleRow(columns)
        self._layout = -1
        self._reads_row = False
        self._scorers_by_amounts: list[Callable[[Sequence[int]], float]] = []
        self._fits: tuple[tuple[int, int], ...] = ()
        """Position in a row's amounts and least value, by requested resource, for room that will be idle."""
        self._fits_idle: tuple[tuple[int, int], ...] = ()
        """The same for room that is idle now, followed by that for room that will be idle."""
        self._resources_read: set[str] = set()
        """Resources whose positions the scorers have requested."""

    def reads(self, resource: str) -> bool:
        """Whether scores may depend on amounts of that resource."""
        if self._layout != self._columns.layout:
            self._resolve()
        return self._reads_row or resource in self._resources_read

    def score(self, row: int, values: Sequence[int]) -> float:
        """Return the sum of the scorers for a row with these amounts."""
        if self._layout != self._columns.layout:
            self._resolve()
        if self._reads_row:
            self._row.set(row, values)
        total = 0.0
        for score in self._scorers_by_amounts:
            total += score(values)
        return total

    def value(self, row: int, values: Sequence[int]) -> float:
        """Return the score where a task fits idle room, else NOWHERE."""
        if self._layout != self._columns.layout:
            self._resolve()
        for at, amount in self._fits_idle:
            if values[at] < amount:
                return NOWHERE
        if self._reads_row:
            self._row.set(row, values)
        total = 0.0
        for score in self._scorers_by_amounts:
            total += score(values)
        return total

    def fits(self, values: Sequence[int], *, idle: bool) -> bool:
        """Whether a task fits the room that will be idle; with `idle`, also the room that is idle now."""
        if self._layout != self._columns.layout:
            self._resolve()
        for at, amount in self._fits_idle if idle else self._fits:  # noqa: SIM110 - called after every placement
            if values[at] < amount:
                return False
        return True

    def _resolve(self) -> None:
        """Look up the positions of amounts in the current layout."""
        columns, shape = self._columns, self._shape
        wants = [(columns.resource(name), amount) for name, amount in shape.requests.items()]
        width = len(columns.resources)
        self._fits = tuple((_FUTURE * width + at, amount) for at, amount in wants)
        self._fits_idle = (*((_IDLE * width + at, amount) for at, amount in wants), *self._fits)
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
