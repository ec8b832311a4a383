"""Points about nodes: where a pod may go, and where it should."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from volcanoio.framework.scheduling.verdicts import Depends, Feasibility
from volcanoio.framework.scheduling.views import AmountsAt, Job, NodeRow, Nodes, Shape, Task


@runtime_checkable
class Filter(Protocol):
    """Says which nodes a shape may go to. Fit of resources is the session's own and needs no plugin."""

    def feasible_depends(self, shape: Shape) -> Depends:
        """What the answer depends on."""
        ...

    def feasible(self, shape: Shape, nodes: Nodes) -> Feasibility:
        """The answer for all nodes at once."""
        ...


@runtime_checkable
class Follows(Protocol):
    """A `Filter` whose answers depend on PODS may have this beside `feasible`: it is asked for every placement."""

    def allowed(self, shape: Shape, nodes: Nodes) -> NDArray[np.bool_]:
        """The `ok` of `feasible` for all nodes of the session.

        It may be an array that the plugin keeps and changes in place: whoever gets it neither writes to it nor keeps
        it.
        """
        ...


@runtime_checkable
class FilterOne(Protocol):
    """The scalar form of Filter, for one node: "" or the reason why not. Enough on its own; adapted to Filter."""

    def feasible_on(self, shape: Shape, node: NodeRow) -> str:
        """The answer for one node."""
        ...


@runtime_checkable
class Filters(Protocol):
    """Several filters of one plugin, asked in this order: each is kept and asked again by its own dependencies.

    A plugin has these instead of being a filter itself.
    """

    @property
    def filters(self) -> Sequence[Filter | FilterOne]:
        """The same ones as long as the plugin lives."""
        ...


@runtime_checkable
class Scorer(Protocol):
    """Scores nodes for a shape; scores of all plugins are added."""

    def score_depends(self, shape: Shape) -> Depends:
        """What the answer depends on."""
        ...

    def score(self, shape: Shape, nodes: Nodes, feasible: NDArray[np.bool_]) -> NDArray[np.float64]:
        """One score a node, the plugin's weight applied; entries of infeasible nodes do not matter."""
        ...


@runtime_checkable
class ScorerOne(Protocol):
    """The scalar form of Scorer. Alone it is adapted; beside `score` it must agree with it, and rescores one row."""

    def score_on(self, shape: Shape, node: NodeRow) -> float:
        """The score of one node."""
        ...


@runtime_checkable
class ScorerOfAmounts(Protocol):
    """The quickest form of a scorer whose answer follows from amounts alone (`Depends.NODE_AMOUNTS`), beside `score`.

    It stands in for `score_on`: a node whose amounts changed is scored by calling what was made for its shape.
    """

    def score_from(self, shape: Shape, at: AmountsAt) -> Callable[[Sequence[int]], float]:
        """What gives the score of a node from all its amounts; asked for again where they stand elsewhere."""
        ...


@runtime_checkable
class Scorers(Protocol):
    """Several scorers of one plugin, whose scores are added: each is kept and asked again by its own dependencies.

    A plugin has these instead of being a scorer itself.
    """

    @property
    def scorers(self) -> Sequence[Scorer | ScorerOne]:
        """The same ones as long as the plugin lives."""
        ...


@runtime_checkable
class TaskScorer(Protocol):
    """Scores nodes for one task, where that depends on which task of which job it is and on what was placed before.

    Such tasks take the slow path: every node is asked about for every one of them.
    """

    def scores_task(self, task: Task) -> bool:
        """Whether the plugin has a say about this task, and all of its job that have its shape and role."""
        ...

    def score_task(self, task: Task, nodes: Nodes) -> NDArray[np.float64]:
        """One score a node, the plugin's weight applied."""
        ...


@runtime_checkable
class Traits(Protocol):
    """Says what the plugin's filter and scorer read of a task beside its shape, such as an annotation or its queue.

    Tasks of one shape with equal traits share their answers; `Shape.traits` has the trait under the plugin's name. Keep
    the number of different traits small: never put the name of a job or pod into one.
    A plugin whose tasks have none for now may say so with the attribute `has_traits = False`: then none is asked about.
    """

    def trait(self, task: Task, job: Job) -> str:
        """A text that follows from the pod, its PodGroup and its queue; "" for most tasks."""
        ...
