"""cpu and memory of some nodes as scorers compute with them, worked out once for all scorers that are asked."""

from __future__ import annotations

from abc import ABC, abstractmethod

import numpy as np
from numpy.typing import NDArray

from volcanoio.engine.scheduling.loads import BY_NAME, Quantity
from volcanoio.framework.scheduling.views import AmountName, pair

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]
_ALLOCATABLE, _USED = int(Quantity.ALLOCATABLE), int(Quantity.USED)


class Basics(ABC):
    """The part of `views.Nodes` that has arrays of two rows, cpu and memory, kept while the amounts are the same."""

    __slots__ = ("_filled", "_floats", "have_room")

    def __init__(self, known: dict[int, Floats] | None = None, *, have_room: bool = False) -> None:
        """`known` are those that somebody has already, by quantity; `have_room` as in `views.Nodes`."""
        self.have_room = have_room
        self._floats: dict[int, Floats] = {} if known is None else known
        self._filled: dict[tuple[int, int], Floats] = {}

    @abstractmethod
    def whole_basics(self, quantity: int) -> Ints:
        """cpu and memory as the integers they are."""

    def basics(self, what: AmountName) -> Floats:
        """As `views.Nodes`."""
        return self._of(BY_NAME[what])

    def filled(self, cpu: int, memory: int) -> Floats:
        """As `views.Nodes`; kept for those who ask about the same amounts next."""
        known = self._filled.get((cpu, memory))
        if known is None:
            used, offered = self._of(_USED), self._of(_ALLOCATABLE)
            if cpu or memory:
                known = used + pair(cpu, memory)
                known /= offered
            else:
                known = used / offered
            known.flags.writeable = False
            self._filled[cpu, memory] = known
        return known

    def forget(self) -> None:
        """The amounts are others."""
        self._floats.clear()
        self._filled.clear()

    def _of(self, quantity: int) -> Floats:
        known = self._floats.get(quantity)
        if known is None:
            known = self._floats[quantity] = self.whole_basics(quantity).astype(np.float64)
        return known
