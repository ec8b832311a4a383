"""HyperNodes as plugins see them: a tree over the nodes by network distance.

Source: Volcano, `pkg/scheduler/api/hyper_node_info.go`. Above the HyperNodes without a parent there is the virtual
HyperNode `CLUSTER`, which contains every node; its tier is one above the highest.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

CLUSTER = "<cluster-top-hypernode>"
"""Name of the root, which contains all nodes of the session."""


class HyperNodes(Protocol):
    """The tree of HyperNodes and the nodes in each. Arrays are in the order of `names`."""

    @property
    def names(self) -> Sequence[str]:
        """All names, lower tiers first and by name within a tier; the last one is `CLUSTER`."""
        ...

    @property
    def positions(self) -> dict[str, int]:
        """The index of each name in `names`."""
        ...

    @property
    def tiers(self) -> NDArray[np.int64]:
        """The tier of each HyperNode: a higher tier means that its nodes are more distant from each other."""
        ...

    @property
    def problem(self) -> str:
        """Why the HyperNodes form no tree, "" if they do. Otherwise only `CLUSTER` is in `names`."""
        ...

    def tier(self, name: str) -> int:
        """Return the tier of a HyperNode."""
        ...

    def parent(self, name: str) -> str:
        """Return the HyperNode that contains it, "" for `CLUSTER`."""
        ...

    def below(self, name: str) -> Sequence[str]:
        """Return a HyperNode and all HyperNodes inside it, lower tiers first and by name within a tier."""
        ...

    def is_within(self, name: str, other: str) -> bool:
        """Return whether a HyperNode is the other one or inside it."""
        ...

    def rows(self, name: str) -> NDArray[np.intp]:
        """Return the rows of the nodes in a HyperNode, in ascending order; never write to the array."""
        ...

    def around(self, row: int) -> frozenset[int]:
        """Return the positions in `names` of the HyperNodes that contain the node of a row."""
        ...

    def lowest_common(self, first: str, second: str) -> str:
        """Return the lowest HyperNode that both are within; "" stands for no HyperNode and is within all others."""
        ...

    def enclosing(self, nodes: Iterable[str]) -> str:
        """Return the HyperNode of the lowest tier that contains all these nodes; "" if there are none."""
        ...

    def sums(self, values: NDArray[Any]) -> NDArray[Any]:
        """Return for each HyperNode the sum over its nodes of one value per node (by row)."""
        ...
