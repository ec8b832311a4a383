"""One row asked about: what tasks of a shape score there, and whether they fit, from the row's amounts."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

from volcanoio.engine.scheduling.adapters import ScorerPart
from volcanoio.engine.scheduling.columns import Columns
from volcanoio.engine.scheduling.loads import Quantity
from volcanoio.engine.scheduling.rows import Index, Row
from volcanoio.framework.scheduling.views import Shape

NOWHERE = float("-inf")
"""The value of a row where a task may not go."""
_IDLE, _FUTURE = int(Quantity.IDLE), int(Quantity.FUTURE)


class OneRow:
    """Asks scalar scorers; amounts are `columns.Amounts`."""

    __slots__ = (
        "_asks",
        "_at",
        "_columns",
        "_fits",
        "_fits_idle",
        "_layout",
        "_pointed",
        "_read",
        "_scorers",
        "_shape",
    )

    def __init__(self, shape: Shape, columns: Columns, scorers: Sequence[ScorerPart]) -> None:
        """The scorers all have a scalar form."""
        self._shape = shape
        self._columns = columns
        self._scorers = scorers
        self._at = Row(columns)
        self._layout = -1
        self._pointed = False
        self._asks: list[Callable[[Sequence[int]], float]] = []
        self._fits: tuple[tuple[int, int], ...] = ()
        """Where amounts stand that must be so large, room that will be idle."""
        self._fits_idle: tuple[tuple[int, int], ...] = ()
        """And those that must be so large now."""
        self._read: set[str] = set()
        """The resources of which scorers asked where amounts stand."""

    def reads(self, resource: str) -> bool:
        """Whether scores may follow from amounts of that resource."""
        if self._layout != self._columns.layout:
            self._find()
        return self._pointed or resource in self._read

    def score(self, row: int, values: Sequence[int]) -> float:
        """The sum of the scorers for a row with these amounts."""
        if self._layout != self._columns.layout:
            self._find()
        if self._pointed:
            self._at.become(row, values)
        total = 0.0
        for ask in self._asks:
            total += ask(values)
        return total

    def value(self, row: int, values: Sequence[int]) -> float:
        """The score where a task fits what is idle, else NOWHERE."""
        if self._layout != self._columns.layout:
            self._find()
        for at, amount in self._fits_idle:
            if values[at] < amount:
                return NOWHERE
        if self._pointed:
            self._at.become(row, values)
        total = 0.0
        for ask in self._asks:
            total += ask(values)
        return total

    def fits(self, values: Sequence[int], *, idle: bool) -> bool:
        """Whether a task fits the room that will be idle, and with `idle` what is idle now, too."""
        if self._layout != self._columns.layout:
            self._find()
        for at, amount in self._fits_idle if idle else self._fits:  # noqa: SIM110 - asked after every placement
            if values[at] < amount:
                return False
        return True

    def _find(self) -> None:
        """Find out where amounts stand."""
        columns, shape = self._columns, self._shape
        wants = [(columns.resource(name), amount) for name, amount in shape.requests.items()]
        width = len(columns.resources)
        self._fits = tuple((_FUTURE * width + at, amount) for at, amount in wants)
        self._fits_idle = (*((_IDLE * width + at, amount) for at, amount in wants), *self._fits)
        index, self._pointed = _NotingIndex(columns, self._read), False
        self._asks = []
        for scorer in self._scorers:
            if scorer.from_amounts is not None:
                self._asks.append(scorer.from_amounts(shape, index))
            elif scorer.one is not None:
                self._pointed = True
                self._asks.append(partial(_ask, scorer.one, shape, self._at))
        self._layout = columns.layout


class _NotingIndex(Index):
    """Notes which resources it is asked for."""

    __slots__ = ("_asked",)

    def __init__(self, columns: Columns, asked: set[str]) -> None:
        super().__init__(columns)
        self._asked = asked

    def _at(self, quantity: int, resource: str) -> int | None:
        self._asked.add(resource)
        return super()._at(quantity, resource)


def _ask(one: Callable[[Shape, Row], float], shape: Shape, at: Row, _values: Sequence[int]) -> float:
    return one(shape, at)
