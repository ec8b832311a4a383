"""The tree of HyperNodes over the rows of the node columns, and its cache across cycles."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from volcanoio.engine.hypernodes.nodes_by_hyper_node import child_names
from volcanoio.engine.scheduling.cluster.inputs import Inputs
from volcanoio.engine.scheduling.cluster.node_columns import NodeColumns
from volcanoio.engine.scheduling.topology.members import NodeMatcher, PatternMatches
from volcanoio.framework.scheduling.hypernodes import CLUSTER
from volcanoio.model import kinds
from volcanoio.model.core import Node
from volcanoio.model.nodes import HyperNode

Rows = NDArray[np.intp]


class HyperNodeTree:
    """Immutable tree for the nodes of one moment; implements `hypernodes.HyperNodes`."""

    def __init__(
        self,
        rows_by_name: Mapping[str, int],
        tiers: Mapping[str, int],
        parents: Mapping[str, str],
        own: Mapping[str, Rows],
    ) -> None:
        """Build the tree from its forest; `own` are the rows of direct members, by HyperNode."""
        self.problem = ""
        root_tier = max(tiers.values(), default=0) + 1
        ordered = sorted(tiers, key=lambda name: (tiers[name], name))
        self.names: list[str] = [*ordered, CLUSTER]
        self.positions = {name: at for at, name in enumerate(self.names)}
        self.tiers = np.array([*[tiers[name] for name in ordered], root_tier], np.int64)
        self.tier_names: dict[str, int] = {}
        """The tier of each tier name that some HyperNode has."""
        self._rows_by_name = rows_by_name
        self._parents = {**{name: parents.get(name, CLUSTER) for name in ordered}, CLUSTER: ""}
        self._children: dict[str, list[str]] = {}
        for name in ordered:
            self._children.setdefault(self._parents[name], []).append(name)
        self._rows: dict[str, Rows] = {CLUSTER: np.arange(len(rows_by_name))}
        for name in self._bottom_up():
            inside = [self._rows[child] for child in self._children.get(name, ())]
            self._rows[name] = np.unique(np.concatenate([own[name], *inside]))
        self._all_rows = np.concatenate([self._rows[name] for name in self.names])
        self._ends = np.cumsum([len(self._rows[name]) for name in self.names])
        self._below: dict[str, tuple[str, ...]] = {}
        self._members: dict[int, list[str]] = {}
        """The HyperNodes that a row is a direct member of."""
        for name in ordered:
            for row in own[name].tolist():
                self._members.setdefault(row, []).append(name)
        self._around: dict[int, frozenset[int]] = {}
        """Positions of the HyperNodes around a row, for the rows that were asked about."""

    def tier(self, name: str) -> int:
        """Return the tier of a HyperNode."""
        return self.tiers.item(self.positions[name])

    def parent(self, name: str) -> str:
        """Return the HyperNode that contains it, "" for the root."""
        return self._parents[name]

    def below(self, name: str) -> Sequence[str]:
        """Return a HyperNode and all HyperNodes inside it, lower tiers first and by name within a tier."""
        if (found := self._below.get(name)) is None:
            inside, seen = [name], 0
            while seen < len(inside):
                inside += self._children.get(inside[seen], ())
                seen += 1
            found = self._below[name] = tuple(sorted(inside, key=self.positions.__getitem__))
        return found

    def is_within(self, name: str, other: str) -> bool:
        """Return whether a HyperNode is the other one or inside it."""
        while name and name != other:
            name = self._parents[name]
        return name == other

    def rows(self, name: str) -> Rows:
        """Return the rows of the nodes in a HyperNode, in ascending order."""
        return self._rows[name]

    def around(self, row: int) -> frozenset[int]:
        """Return the positions in `names` of the HyperNodes that contain the node of a row."""
        if (found := self._around.get(row)) is None:
            around = {len(self.names) - 1}
            for name in self._members.get(row, ()):
                while name:
                    around.add(self.positions[name])
                    name = self._parents[name]
            found = self._around[row] = frozenset(around)
        return found

    def lowest_common(self, first: str, second: str) -> str:
        """Return the lowest HyperNode that both are within; "" stands for no HyperNode and is within all others."""
        if not first or not second:
            return first or second
        around = set()
        while first:
            around.add(first)
            first = self._parents[first]
        while second not in around:
            second = self._parents[second]
        return second

    def enclosing(self, nodes: Iterable[str]) -> str:
        """Return the HyperNode of the lowest tier that contains all these nodes; "" if there are none.

        Nodes that the session does not have are in the root only.
        """
        row_of, around = self._rows_by_name.get, self._around.get
        distinct: set[frozenset[int]] = set()
        for node in set(nodes):  # many are in the same HyperNodes
            if (row := row_of(node)) is None:
                return CLUSTER
            distinct.add(around(row) or self.around(row))
        return self.names[min(frozenset.intersection(*distinct))] if distinct else ""

    def sums(self, values: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return for each HyperNode the sum over its nodes of one value per node (by row)."""
        until = np.concatenate([[0], np.cumsum(values[self._all_rows])])
        ends = until[self._ends]
        totals: NDArray[np.int64] = np.diff(ends, prepend=0)
        return totals

    def _bottom_up(self) -> list[str]:
        """Return all names but the root, each after those inside it."""
        ordered, seen = [CLUSTER], 0
        while seen < len(ordered):
            ordered += self._children.get(ordered[seen], ())
            seen += 1
        return ordered[:0:-1]


_NO_ROWS: Rows = np.zeros(0, np.intp)


def build_tree(hyper_nodes: Mapping[str, HyperNode], columns: NodeColumns, patterns: PatternMatches) -> HyperNodeTree:
    """Return the tree of these HyperNodes; where they form none, one with only the root and its `problem`."""
    parents: dict[str, str] = {}
    problem = ""
    for name in sorted(hyper_nodes):
        for child in child_names(hyper_nodes[name].spec.members):
            if child not in hyper_nodes:
                continue  # it may be created later
            if (other := parents.setdefault(child, name)) != name:
                problem = (
                    problem or f'HyperNode "{child}" is a member of "{other}" and of "{name}": only one is possible'
                )
    problem = problem or _cycle(parents)
    if problem:
        tree = HyperNodeTree(columns.rows, {}, {}, {})
        tree.problem = problem
        return tree
    matcher = NodeMatcher(columns.objects, columns.rows, hyper_nodes.values(), patterns)
    own = {}
    for name, hyper_node in hyper_nodes.items():
        rows = matcher.rows_of(hyper_node)
        own[name] = np.fromiter(rows, np.intp, len(rows)) if rows else _NO_ROWS
    tree = HyperNodeTree(columns.rows, {name: one.spec.tier for name, one in hyper_nodes.items()}, parents, own)
    tree.tier_names = {one.spec.tier_name: one.spec.tier for one in hyper_nodes.values() if one.spec.tier_name}
    return tree


def _cycle(parents: Mapping[str, str]) -> str:
    """Return a text about a HyperNode that contains itself, "" if there is none."""
    known: set[str] = set()
    for start in sorted(parents):
        path: list[str] = []
        name = start
        while name in parents and name not in known:
            if name in path:
                return f'HyperNode "{name}" contains itself: {" in ".join([*path[path.index(name) :], name])}'
            path.append(name)
            name = parents[name]
        known.update(path)
    return ""


class HyperNodeCache:
    """The tree for the current nodes and HyperNodes, built again after a HyperNode, a node's name or labels changed."""

    def __init__(self, columns: NodeColumns, inputs: Inputs) -> None:
        self._columns = columns
        self._inputs = inputs
        self._patterns = PatternMatches()
        self._tree: HyperNodeTree
        self._inputs_version = -1
        self._spec_clock = -1
        """`NodeColumns.spec_clock` up to which the tree is known to be current."""
        self._nodes: list[Node] = []
        """The nodes by row for which the tree was built."""

    def tree(self) -> HyperNodeTree:
        """Return the tree; without HyperNodes, or a plugin that watches them, it has only the root."""
        version, columns = self._inputs.version(kinds.HYPER_NODE.resource), self._columns
        if version != self._inputs_version or not self._has_same_nodes():
            objects = self._inputs.objects(kinds.HYPER_NODE.resource)
            hyper_nodes = {name: one for name, one in objects.items() if isinstance(one, HyperNode)}
            self._tree = build_tree(hyper_nodes, columns, self._patterns)
            self._inputs_version, self._nodes = version, list(columns.objects)
        self._spec_clock = columns.spec_clock
        return self._tree

    def _has_same_nodes(self) -> bool:
        """Return whether no row has another node, or other labels, than when the tree was built."""
        columns, nodes = self._columns, self._nodes
        if self._spec_clock == columns.spec_clock:
            return True
        if len(nodes) != len(columns):
            return False
        changed = np.flatnonzero(columns.spec_changed_at[: len(columns)] > self._spec_clock)
        return all(_same_member(nodes[row], columns.objects[row]) for row in changed.tolist())


def _same_member(old: Node, new: Node) -> bool:
    """Return whether all HyperNodes that contain a node contain the other one."""
    return old.metadata.name == new.metadata.name and old.metadata.labels == new.metadata.labels
