"""Filters and scorers of plugins in one form: for all nodes, for some rows, or for one node."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from volcanoio.engine.scheduling.cluster.node_columns import NodeColumns
from volcanoio.engine.scheduling.cluster.rows import SingleRow
from volcanoio.framework.scheduling import points
from volcanoio.framework.scheduling.verdicts import Depends, Feasibility
from volcanoio.framework.scheduling.views import AmountColumns, Nodes, Shape

Numbers: TypeAlias = Sequence[int] | NDArray[np.intp]
"""Row numbers. To iterate over them one by one, use `as_sequence`."""
SHARED = Depends.FEASIBLE_SET | Depends.PODS
"""A result with one of these dependencies may change for any row when one pod is placed."""


@dataclass(frozen=True, slots=True)
class FilterPart:
    """A plugin's filter: `feasible(shape, nodes, columns, rows)` is for the given rows of the columns.

    `allowed` is its mask over all rows; callers must not write to it. `watches` are the resources that results read
    which depend on SOURCE; `moment` returns a number that changes when results that depend on NOW change. Shapes in
    which all fields `applies_to` are empty depend on `otherwise`; None: the part applies to every shape.
    """

    depends: Callable[[Shape], Depends]
    feasible: Callable[[Shape, Nodes, NodeColumns, Numbers], Feasibility]
    allowed: Callable[[Shape, NodeColumns], NDArray[np.bool_]]
    watches: tuple[str, ...] = ()
    moment: Callable[[], int] | None = None
    applies_to: frozenset[str] | None = None
    otherwise: Depends = Depends.SKIP
    allowed_now: Callable[[Shape, NodeColumns], NDArray[np.bool_]] | None = None
    """Those of the allowed rows where a task may be bound at once; None if that is the same."""
    precedes_room: bool = False
    """Whether a node that fails counts under this reason even where resources are insufficient."""


@dataclass(frozen=True, slots=True)
class ScorerPart:
    """A plugin's scorer; `one` is None if only the vector form exists, the rest as in FilterPart.

    `from_amounts` returns, if the plugin has it, a function from a node's amounts to its score.
    """

    depends: Callable[[Shape], Depends]
    score: Callable[[Shape, Nodes, NDArray[np.bool_], NodeColumns, Numbers], NDArray[np.float64]]
    one: Callable[[Shape, SingleRow], float] | None
    watches: tuple[str, ...] = ()
    moment: Callable[[], int] | None = None
    from_amounts: Callable[[Shape, AmountColumns], Callable[[Sequence[int]], float]] | None = None
    applies_to: frozenset[str] | None = None
    otherwise: Depends = Depends.NOTHING


def as_sequence(rows: Numbers) -> Sequence[int]:
    """Return the numbers as Python integers."""
    numbers: Sequence[int] = rows.tolist() if isinstance(rows, np.ndarray) else rows
    return numbers


def _everything(_shape: Shape) -> Depends:
    return Depends.EVERYTHING


def _moment(plugin: Any) -> Callable[[], int] | None:
    return (lambda: int(plugin.moment)) if hasattr(plugin, "moment") else None


def _applies_to(plugin: Any) -> frozenset[str] | None:
    """Return the fields of shapes that a filter or scorer declares to be about; raises ValueError if one is unknown."""
    if (declared := getattr(plugin, points.APPLIES_TO, None)) is None:
        return None
    if unknown := set(declared).difference(Shape.__struct_fields__):
        raise ValueError(f"{type(plugin).__name__}.{points.APPLIES_TO} names no field of Shape: {sorted(unknown)}")
    return frozenset(declared)


def _reads_of(plugin: Any) -> tuple[str, ...]:
    """Return the inputs of a plugin beside nodes and pods: watched resources, then facts of sources."""
    return (*sorted(getattr(plugin, "watches", ())), *sorted(getattr(plugin, "reads", ())))


def filter_parts(plugins: Iterable[Any]) -> tuple[FilterPart, ...]:
    """Return the filters of plugins that have `feasible` or `feasible_on`."""
    return tuple(map(_filter_part, plugins))


def scorer_parts(plugins: Iterable[Any]) -> tuple[ScorerPart, ...]:
    """Return the scorers of plugins that have `score` or `score_on`."""
    return tuple(map(_scorer_part, plugins))


def _filter_part(plugin: Any) -> FilterPart:
    depends = getattr(plugin, "feasible_depends", _everything)
    watches = _reads_of(plugin)
    vector = getattr(plugin, "feasible", None)
    if callable(vector):
        allowed = getattr(plugin, "allowed", None)
        return FilterPart(
            depends,
            lambda shape, nodes, _columns, _rows: vector(shape, nodes),
            allowed if callable(allowed) else lambda shape, columns: vector(shape, columns).ok,
            watches,
            _moment(plugin),
            _applies_to(plugin),
            allowed_now=getattr(plugin, "allowed_now", None),
        )
    scalar = plugin.feasible_on

    def feasible(shape: Shape, nodes: Nodes, columns: NodeColumns, rows: Numbers) -> Feasibility:
        at = SingleRow(columns)
        texts = []
        for row in as_sequence(rows):
            at.load(row)
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
        _applies_to(plugin),
    )


def _scorer_part(plugin: Any) -> ScorerPart:
    depends = getattr(plugin, "score_depends", _everything)
    vector, scalar = getattr(plugin, "score", None), getattr(plugin, "score_on", None)
    from_amounts = getattr(plugin, "score_from", None)
    if callable(from_amounts):
        scalar = _scalar_from_amounts(from_amounts)
    if callable(vector):
        return ScorerPart(
            depends,
            lambda shape, nodes, feasible, _columns, _rows: vector(shape, nodes, feasible),
            scalar if callable(scalar) else None,
            _reads_of(plugin),
            _moment(plugin),
            from_amounts,
            _applies_to(plugin),
        )

    def score(
        shape: Shape, nodes: Nodes, feasible: NDArray[np.bool_], columns: NodeColumns, rows: Numbers
    ) -> NDArray[np.float64]:
        at = SingleRow(columns)
        scores = np.zeros(len(nodes), np.float64)
        for position, row in enumerate(as_sequence(rows)):
            if feasible[position]:
                at.load(row)
                scores[position] = plugin.score_on(shape, at)
        return scores

    return ScorerPart(
        depends, score, plugin.score_on, _reads_of(plugin), _moment(plugin), applies_to=_applies_to(plugin)
    )


def _scalar_from_amounts(
    from_amounts: Callable[[Shape, AmountColumns], Callable[[Sequence[int]], float]],
) -> Callable[[Shape, SingleRow], float]:
    """Return the scalar form of a scorer that computes from amounts."""
    cached: tuple[Shape, int, Callable[[Sequence[int]], float]] | None = None

    def score_on(shape: Shape, node: SingleRow) -> float:
        nonlocal cached
        if cached is None or cached[0] is not shape or cached[1] != node.layout:
            cached = shape, node.layout, from_amounts(shape, node.index)
        return cached[2](node.amounts)

    return score_on
