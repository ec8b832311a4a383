"""Labels, names and taints of all nodes as columns of codes, so that a selector is evaluated for all nodes at once.

A column is built on first use and then kept; in later cycles only the rows whose Node object changed are read again.
Results equal those of `volcanoio.model.selectors`, node by node.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from typing import Any, Generic, TypeVar

import numpy as np
from numpy.typing import NDArray

from volcanoio.framework.scheduling.sessionview import SessionView
from volcanoio.framework.scheduling.views import Nodes
from volcanoio.model.core import Node, NodeSelectorTerm, Requirement, Taint
from volcanoio.model.selectors import NAME_FIELD, is_empty, is_valid_field, is_valid_requirement, matcher, matches_field

Mask = NDArray[np.bool_]
Value = TypeVar("Value", bound=Hashable)


class Column(Generic[Value]):
    """One property of every node: `values` are the distinct ones seen so far, `codes` index them by row."""

    def __init__(self, read: Callable[[Node], Value]) -> None:
        self._read = read
        self._code_of: dict[Value, int] = {}
        self.values: list[Value] = []
        self.codes: NDArray[np.intp] = np.zeros(0, np.intp)
        self._present: list[Value] | None = None

    def load(self, objects: Sequence[Node]) -> None:
        """Read all rows."""
        self._present = None
        found = [self._read(node) for node in objects]
        for value in dict.fromkeys(found):
            if value not in self._code_of:
                self._code_of[value] = len(self.values)
                self.values.append(value)
        self.codes = np.fromiter(map(self._code_of.__getitem__, found), np.intp, len(found))

    def refresh(self, rows: Sequence[int], objects: Sequence[Node]) -> None:
        """Read some rows again."""
        self._present = None
        for row in rows:
            self.codes[row] = self._code(objects[row])

    def present(self) -> list[Value]:
        """Return the distinct values that nodes have now."""
        if self._present is None:
            counts = np.bincount(self.codes, minlength=len(self.values)).tolist()
            self._present = [value for value, count in zip(self.values, counts, strict=True) if count]
        return self._present

    def code(self, value: Value) -> int:
        """Return the code of a value, -1 if no node ever had it."""
        return self._code_of.get(value, -1)

    def _code(self, node: Node) -> int:
        value = self._read(node)
        if (code := self._code_of.get(value)) is None:
            code = self._code_of[value] = len(self.values)
            self.values.append(value)
        return code


class Topology:
    """The domains of a topology key. `codes` has the domain of each node, `missing` if it has no such label."""

    def __init__(self, column: Column[str | None]) -> None:
        self.missing = len(column.values)
        """The last code; there may be others that no node has."""
        unset = column.code(None)
        self.codes: NDArray[np.intp] = np.where(column.codes == unset, self.missing, column.codes)
        self.unlabelled: Mask = self.codes == self.missing
        """Nodes without the label."""
        self._sizes = np.bincount(self.codes, minlength=self.missing + 1)[: self.missing]
        self._domains = int(np.count_nonzero(self._sizes))
        self._nodes = int(self._sizes.sum())
        self._smallest = int(self._sizes[self._sizes > 0].min(initial=self._nodes))
        self._order: NDArray[np.intp] | None = None
        self._ends: list[int] = []

    def domains_among(self, nodes: Mask, count: int) -> int:
        """Return the number of domains of some labelled nodes; `count` is the number of these nodes."""
        if self._nodes - count < self._smallest:
            return self._domains  # too few nodes are excluded to exclude a whole domain
        return int(np.count_nonzero(np.bincount(self.codes[nodes])))

    def rows_of(self, domain: int) -> NDArray[np.intp]:
        """Return the nodes of a domain."""
        if self._order is None:
            self._order = np.argsort(self.codes, kind="stable")
            self._ends = np.searchsorted(self.codes[self._order], np.arange(self.missing + 2)).tolist()
        return self._order[self._ends[domain] : self._ends[domain + 1]]


class NodeIndex:
    """The session that the filters and scorers of a plugin share, with columns over its nodes.

    Call `open` in each session. A view of some rows gets an index of its own.
    """

    def __init__(self) -> None:
        self.session: SessionView
        self.sessions = 0
        """The number of sessions so far."""
        self._view: Nodes | None = None
        self._compared = False
        self._objects: list[Node] = []
        self._labels: dict[str, Column[str | None]] = {}
        self._names: Column[str] | None = None
        self._taints: Column[tuple[Taint, ...]] | None = None
        self._cordons: Column[bool] | None = None
        self._images: Column[bool] | None = None
        self._topologies: dict[str, Topology] = {}
        self._rows: dict[str, int] | None = None
        self.version = 0
        """Changes when any node changed, its images excepted."""

    def open(self, session: SessionView) -> None:
        """Start a session; changes of its nodes are computed on first use."""
        self.session = session
        self.sessions += 1
        self._view = session.nodes
        self._compared = False

    def prepare(self, labels: Iterable[str]) -> Iterator[None]:
        """Read properties that will be needed, one after the other, unless they were read already."""
        missing = [key for key in labels if key not in self._labels]
        if not (missing or self._taints is None):
            return
        self.update()
        if self._taints is None:
            self._taints = self._loaded(_taints)
            yield
        for key in missing:
            self.label(key)
            yield

    def over(self, nodes: Nodes) -> NodeIndex:
        """Return the up-to-date index of these nodes."""
        if self._view is nodes:
            return self.update()
        other = NodeIndex()
        other._compare(list(nodes.objects))
        return other

    def update(self) -> NodeIndex:
        """Return itself, up to date with the nodes of the session."""
        if not self._compared:
            self._compare(list(self.session.nodes.objects))
        return self

    @property
    def size(self) -> int:
        """The number of nodes."""
        return len(self._objects)

    @property
    def taints(self) -> Column[tuple[Taint, ...]]:
        """The taints of each node."""
        if self._taints is None:
            self._taints = self._loaded(_taints)
        return self._taints

    @property
    def cordons(self) -> Column[bool]:
        """Whether each node is unschedulable."""
        if self._cordons is None:
            self._cordons = self._loaded(lambda node: node.spec.unschedulable)
        return self._cordons

    @property
    def has_images(self) -> bool:
        """Whether any node reports images."""
        if self._images is None:
            self._images = self._loaded(lambda node: bool(node.status.images))
        return True in self._images.present()

    def label(self, key: str) -> Column[str | None]:
        """Return the value of a label of each node, None if it has none."""
        if (column := self._labels.get(key)) is None:
            column = self._labels[key] = self._loaded(lambda node: node.metadata.labels.get(key))
        return column

    def topology(self, key: str) -> Topology:
        """Return the domains of a topology key."""
        if (known := self._topologies.get(key)) is None:
            known = self._topologies[key] = Topology(self.label(key))
        return known

    def row_of(self, name: str) -> int | None:
        """Return the row of a node, None if there is no such node."""
        if self._rows is None:
            self._rows = {node.metadata.name: row for row, node in enumerate(self._objects)}
        return self._rows.get(name)

    def selected(self, selector: dict[str, str]) -> Mask:
        """Return the nodes with all of these labels."""
        mask = np.ones(len(self._objects), np.bool_)
        for key, value in selector.items():
            column = self.label(key)
            mask &= column.codes == column.code(value)
        return mask

    def matches_any(self, terms: Sequence[NodeSelectorTerm]) -> Mask:
        """Return the nodes that match one of the terms."""
        mask = np.zeros(len(self._objects), np.bool_)
        for term in terms:
            if not is_empty(term):
                mask |= self.matches(term)
        return mask

    def matches(self, term: NodeSelectorTerm) -> Mask:
        """Return the nodes that satisfy every requirement of a term."""
        mask = np.ones(len(self._objects), np.bool_)
        for requirement in term.match_expressions:
            mask &= _satisfied(self.label(requirement.key), requirement)
        for requirement in term.match_fields:
            mask &= self._matches_field(requirement)
        return mask

    def _matches_field(self, requirement: Requirement) -> Mask:
        """Return the nodes that satisfy a field requirement: only the name is a known field."""
        if requirement.key != NAME_FIELD or not is_valid_field(requirement):
            return np.full(len(self._objects), matches_field(requirement, ""), np.bool_)
        if self._names is None:
            self._names = self._loaded(lambda node: node.metadata.name)
        return _among(self._names, requirement)

    def _compare(self, objects: list[Node]) -> None:
        """Read the rows that changed since the last cycle."""
        others: list[Column[Any] | None] = [self._names, self._taints, self._cordons, self._images]
        columns: list[Column[Any]] = [*self._labels.values(), *filter(None, others)]
        if len(objects) != len(self._objects):
            for column in columns:
                column.load(objects)
        elif objects != self._objects:
            changed = [row for row, old in enumerate(self._objects) if objects[row] is not old]
            for column in columns:
                column.refresh(changed, objects)
        if not _same_nodes(objects, self._objects):
            self.version += 1
            self._rows = None
            self._topologies.clear()
        self._compared, self._objects = True, objects

    def _loaded(self, read: Callable[[Node], Value]) -> Column[Value]:
        column = Column(read)
        column.load(self._objects)
        return column


def _taints(node: Node) -> tuple[Taint, ...]:
    return node.spec.taints


def _same_nodes(nodes: Sequence[Node], before: Sequence[Node]) -> bool:
    """Return whether nodes are the same but for their images, which come and go all the time."""
    if nodes == before:
        return True
    pairs = zip(nodes, before, strict=False)
    return len(nodes) == len(before) and all(_read(node) == _read(old) for node, old in pairs if node is not old)


def _read(node: Node) -> tuple[object, ...]:
    return node.metadata.name, node.metadata.labels, node.spec, node.status.allocatable


def _satisfied(column: Column[str | None], requirement: Requirement) -> Mask:
    """Return the rows whose value satisfies a requirement, evaluated once per distinct value."""
    if requirement.operator in ("In", "NotIn") and is_valid_requirement(requirement):
        return _among(column, requirement)
    table = np.fromiter(map(matcher(requirement), column.values), np.bool_, len(column.values))
    answer: Mask = table[column.codes]
    return answer


def _among(column: Column[str | None] | Column[str], requirement: Requirement) -> Mask:
    """Return the rows whose value is in the set of an In, or not in that of a NotIn."""
    mask = np.zeros(len(column.codes), np.bool_)
    for value in requirement.values:
        mask |= column.codes == column.code(value)
    return mask if requirement.operator == "In" else ~mask
