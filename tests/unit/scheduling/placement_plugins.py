"""Filters and scorers of every form for the placement tests."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray

from volcanoio.framework.scheduling.verdicts import Depends, Feasibility
from volcanoio.framework.scheduling.views import AmountColumns, NodeRow, Nodes, Shape

USAGE = Depends.NODE_SPEC | Depends.NODE_USAGE


class Emptier:
    """Prefers more idle cpu, by node amounts; vector and scalar form."""

    name = "emptier"

    def score_depends(self, shape: Shape) -> Depends:
        return Depends.NODE_AMOUNTS | Depends.NODE_USAGE

    def score(self, shape: Shape, nodes: Nodes, feasible: NDArray[np.bool_]) -> NDArray[np.float64]:
        return (nodes.idle("cpu") // 1000).astype(np.float64)

    def score_on(self, shape: Shape, node: NodeRow) -> float:
        return float(node.idle("cpu") // 1000)


class Later:
    """Scores by the last digit of the name and by idle cpu; vector and scalar form."""

    name = "later"

    def score_depends(self, shape: Shape) -> Depends:
        return USAGE

    def score(self, shape: Shape, nodes: Nodes, feasible: NDArray[np.bool_]) -> NDArray[np.float64]:
        return np.array([int(name[-1]) for name in nodes.names]) % 3 + (nodes.idle("cpu") % 2).astype(np.float64)

    def score_on(self, shape: Shape, node: NodeRow) -> float:
        return float(int(node.name[-1]) % 3 + node.idle("cpu") % 2)


class Roomier:
    """Prefers more idle memory, by node amounts alone: one cached score for all nodes with equal amounts."""

    name = "roomier"

    def score_depends(self, shape: Shape) -> Depends:
        return Depends.NODE_AMOUNTS | Depends.NODE_USAGE

    def score(self, shape: Shape, nodes: Nodes, feasible: NDArray[np.bool_]) -> NDArray[np.float64]:
        return (nodes.idle("memory") // 2**30).astype(np.float64)

    def score_from(self, shape: Shape, at: AmountColumns) -> Callable[[Sequence[int]], float]:
        where = at.idle("memory")
        return lambda amounts: 0.0 if where is None else float(amounts[where] // 2**30)


class CountingRoomier(Roomier):
    """Counts the scores that are computed."""

    def __init__(self) -> None:
        self.calls = 0

    def score_from(self, shape: Shape, at: AmountColumns) -> Callable[[Sequence[int]], float]:
        score = super().score_from(shape, at)

        def counted(amounts: Sequence[int]) -> float:
            self.calls += 1
            return score(amounts)

        return counted


class Lonely:
    """Prefers nodes with an odd number of pods, by node amounts: pod slots are a part of the node state."""

    name = "lonely"

    def score_depends(self, shape: Shape) -> Depends:
        return Depends.NODE_AMOUNTS | Depends.NODE_USAGE

    def score(self, shape: Shape, nodes: Nodes, feasible: NDArray[np.bool_]) -> NDArray[np.float64]:
        return (nodes.used("pods") % 2).astype(np.float64)

    def score_from(self, shape: Shape, at: AmountColumns) -> Callable[[Sequence[int]], float]:
        where = at.used("pods")
        return lambda amounts: 0.0 if where is None else float(amounts[where] % 2)


class Fuller:
    """Scores by used memory, not monotonically; vector form only."""

    name = "fuller"

    def score_depends(self, shape: Shape) -> Depends:
        return USAGE

    def score(self, shape: Shape, nodes: Nodes, feasible: NDArray[np.bool_]) -> NDArray[np.float64]:
        return (nodes.used("memory") * 7 % 5).astype(np.float64)


class Relative:
    """Scores relative to the most used feasible node, and so depends on the whole set."""

    name = "relative"

    def score_depends(self, shape: Shape) -> Depends:
        return USAGE | Depends.FEASIBLE_SET

    def score(self, shape: Shape, nodes: Nodes, feasible: NDArray[np.bool_]) -> NDArray[np.float64]:
        most = int(nodes.used("cpu")[feasible].max(initial=0)) or 1
        return (nodes.used("cpu") * 10 // most).astype(np.float64)


class Zones:
    """Allows nodes of the selected zone; scalar form, with its dependency declared."""

    name = "zones"

    def feasible_depends(self, shape: Shape) -> Depends:
        return Depends.NODE_SPEC

    def feasible_on(self, shape: Shape, node: NodeRow) -> str:
        zone = shape.node_selector.get("zone")
        return "" if zone is None or node.object.metadata.labels.get("zone") == zone else "another zone"


class Crowd:
    """Allows five pods a node; depends on usage, vector form."""

    name = "crowd"

    def feasible_depends(self, shape: Shape) -> Depends:
        return USAGE

    def feasible(self, shape: Shape, nodes: Nodes) -> Feasibility:
        ok = nodes.used("pods") < 5
        return Feasibility(ok, (("crowded", ~ok),))


class SelectorsOnly:
    """A filter and scorer for shapes with node selectors, which records its calls."""

    name = "selectors-only"
    applies_to = ("node_selector", "affinity")

    def __init__(self) -> None:
        self.calls: list[str] = []

    def feasible_depends(self, shape: Shape) -> Depends:
        self.calls.append("feasible_depends")
        return Depends.NODE_SPEC

    def feasible_on(self, shape: Shape, node: NodeRow) -> str:
        self.calls.append("feasible_on")
        return "" if node.name == "n0" else "not n0"

    def score_depends(self, shape: Shape) -> Depends:
        self.calls.append("score_depends")
        return Depends.NODE_SPEC

    def score_on(self, shape: Shape, node: NodeRow) -> float:
        self.calls.append("score_on")
        return 0.0


class Undeclared:
    """A filter that does not declare what it depends on, so that it is called for every task."""

    name = "undeclared"

    def feasible_on(self, shape: Shape, node: NodeRow) -> str:
        return "" if node.used("memory") % 3 != 2 else "odd"


PLUGINS: dict[str, type] = {
    plugin.name: plugin for plugin in (Emptier, Later, Roomier, Lonely, Fuller, Relative, Zones, Crowd, Undeclared)
}
