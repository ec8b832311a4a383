"""Why a task of a shape finds no node: each node counts under its first reason."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from volcanoio.engine.scheduling.columns import Columns
from volcanoio.engine.scheduling.combine import Rules
from volcanoio.engine.scheduling.explanation import FitErrors
from volcanoio.framework.scheduling.views import Shape
from volcanoio.model.resources import CPU, MEMORY, PODS

_FIRST = (CPU, MEMORY)


class Unfit:
    """The reasons by shape, kept for a cycle while no row changes."""

    def __init__(self, columns: Columns) -> None:
        self._columns = columns
        self._known: dict[tuple[int, bool], tuple[int, FitErrors]] = {}

    def open(self) -> None:
        """A cycle begins."""
        self._known.clear()

    def errors(self, shape: Shape, rules: Rules, *, idle_only: bool) -> FitErrors:
        """The reasons as the columns are now."""
        columns, key = self._columns, (shape.id, idle_only)
        known = self._known.get(key)
        if known is not None and known[0] == columns.clock:
            return known[1]
        size = len(columns)
        left = np.ones(size, np.bool_)
        counts: dict[str, int] = {}

        def count(reason: str, failing: NDArray[np.bool_]) -> None:
            hit = left & failing
            number = int(np.count_nonzero(hit))
            if number:
                counts[reason] = counts.get(reason, 0) + number
                left[hit] = False

        names = sorted(shape.requests, key=lambda name: (_FIRST.index(name) if name in _FIRST else 2, name))
        for name in names:
            count(_lacking(shape, name), columns.future_idle(name) < shape.requests[name])
        for part in rules.filters:
            feasibility = part.feasible(shape, columns, columns, range(size))
            for text, failing in feasibility.reasons:
                count(text, failing)
            count("node(s) were rejected by a plugin", ~feasibility.ok)
        if idle_only:
            for name in names:
                count(_lacking(shape, name), columns.idle(name) < shape.requests[name])
        errors = FitErrors(size, counts)
        self._known[key] = (columns.clock, errors)
        return errors


def _lacking(shape: Shape, name: str) -> str:
    """What a node lacks. Of a pod that requests nothing only the predicates plugin counts, as in Volcano's backfill."""
    return "node(s) pod number exceeded" if shape.best_effort and name == PODS else f"Insufficient {name}"
