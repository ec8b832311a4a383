"""Filters and scorers in one form each, whichever form a plugin offers.

A plugin may offer the vector form, the scalar form or both; what it leaves out is made of the other.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from volcanoio.engine.scheduling.columns import Columns
from volcanoio.engine.scheduling.rows import Row
from volcanoio.engine.scheduling.watching import reads_of
from volcanoio.framework.scheduling.verdicts import Depends, Feasibility
from volcanoio.framework.scheduling.views import AmountsAt, Nodes, Shape

Numbers: TypeAlias = Sequence[int] | NDArray[np.intp]
"""The numbers of rows. Who goes through them one by one takes `listed` of them: few do."""
SHARED = Depends.FEASIBLE_SET | Depends.PODS
"""An answer that depends on these may change for any row when one pod is placed."""


@dataclass(frozen=True, slots=True)
class FilterPart:
    """A plugin's filter: `feasible(shape, nodes, columns, rows)` is for the given rows of the columns.

    `allowed` is its mask over all rows, not to be written to. `watches` are the resources that an answer which depends
    on SOURCE follows from; `moment`, where there is one, says when answers that depend on NOW are others.
    """

    depends: Callable[[Shape], Depends]
    feasible: Callable[[Shape, Nodes, Columns, Numbers], Feasibility]
    allowed: Callable[[Shape, Columns], NDArray[np.bool_]]
    watches: tuple[str, ...] = ()
    moment: Callable[[], int] | None = None


@dataclass(frozen=True, slots=True)
class ScorerPart:
    """A plugin's scorer; `one` is None where only the vector form exists, the rest as in FilterPart.

    `from_amounts` gives, where there is such a form, what scores a node for a shape from its amounts.
    """

    depends: Callable[[Shape], Depends]
    score: Callable[[Shape, Nodes, NDArray[np.bool_], Columns, Numbers], NDArray[np.float64]]
    one: Callable[[Shape, Row], float] | None
    watches: tuple[str, ...] = ()
    moment: Callable[[], int] | None = None
    from_amounts: Callable[[Shape, AmountsAt], Callable[[Sequence[int]], float]] | None = None


def listed(rows: Numbers) -> Sequence[int]:
    """The numbers as Python's own."""
    numbers: Sequence[int] = rows.tolist() if isinstance(rows, np.ndarray) else rows
    return numbers


def _everything(_shape: Shape) -> Depends:
    return Depends.EVERYTHING


def _moment(plugin: Any) -> Callable[[], int] | None:
    return (lambda: int(plugin.moment)) if hasattr(plugin, "moment") else None


def filter_part(plugin: Any) -> FilterPart:
    """The filter of a plugin that has `feasible` or `feasible_on`."""
    depends = getattr(plugin, "feasible_depends", _everything)
    watches = reads_of(plugin)
    vector = getattr(plugin, "feasible", None)
    if callable(vector):
        follows = getattr(plugin, "allowed", None)
        return FilterPart(
            depends,
            lambda shape, nodes, _columns, _rows: vector(shape, nodes),
            follows if callable(follows) else lambda shape, columns: vector(shape, columns).ok,
            watches,
            _moment(plugin),
        )
    scalar = plugin.feasible_on

    def feasible(shape: Shape, nodes: Nodes, columns: Columns, rows: Numbers) -> Feasibility:
        at = Row(columns)
        texts = []
        for row in listed(rows):
            at.point(row)
            texts.append(scalar(shape, at))
        reasons = tuple(
            (text, np.array([other == text for other in texts], np.bool_)) for text in dict.fromkeys(texts) if text
        )
        return Feasibility(np.array([not text for text in texts], np.bool_).reshape(len(nodes)), reasons)

    return FilterPart(
        depends,
        feasible,
        lambda shape, columns: feasible(shape, columns, columns, range(len(columns))).ok,
        watches,
        _moment(plugin),
    )


def scorer_part(plugin: Any) -> ScorerPart:
    """The scorer of a plugin that has `score` or `score_on`."""
    depends = getattr(plugin, "score_depends", _everything)
    vector, scalar = getattr(plugin, "score", None), getattr(plugin, "score_on", None)
    from_amounts = getattr(plugin, "score_from", None)
    if callable(from_amounts):
        scalar = _pointed(from_amounts)
    if callable(vector):
        return ScorerPart(
            depends,
            lambda shape, nodes, feasible, _columns, _rows: vector(shape, nodes, feasible),
            scalar if callable(scalar) else None,
            reads_of(plugin),
            _moment(plugin),
            from_amounts,
        )

    def score(
        shape: Shape, nodes: Nodes, feasible: NDArray[np.bool_], columns: Columns, rows: Numbers
    ) -> NDArray[np.float64]:
        at = Row(columns)
        scores = np.zeros(len(nodes), np.float64)
        for position, row in enumerate(listed(rows)):
            if feasible[position]:
                at.point(row)
                scores[position] = plugin.score_on(shape, at)
        return scores

    return ScorerPart(depends, score, plugin.score_on, reads_of(plugin), _moment(plugin))


def _pointed(
    from_amounts: Callable[[Shape, AmountsAt], Callable[[Sequence[int]], float]],
) -> Callable[[Shape, Row], float]:
    """The scalar form, made of that from amounts."""
    known: tuple[Shape, int, Callable[[Sequence[int]], float]] | None = None

    def score_on(shape: Shape, node: Row) -> float:
        nonlocal known
        if known is None or known[0] is not shape or known[1] != node.layout:
            known = shape, node.layout, from_amounts(shape, node.index)
        return known[2](node.amounts)

    return score_on
