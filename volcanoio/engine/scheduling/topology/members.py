"""Members of HyperNodes: the names and rows of the nodes that their selectors match.

Source: Volcano, `pkg/scheduler/api/hyper_node_info.go` (getMembers). A regular expression is searched in the name
(Go's regexp, not anchored); an empty label selector matches nothing.
"""

from collections.abc import Iterable, Mapping, Sequence

import re2

from volcanoio.engine.hypernodes.nodes_by_hyper_node import NODE
from volcanoio.model.core import LabelSelector, Node, Requirement
from volcanoio.model.nodes import HyperNode
from volcanoio.model.selectors import satisfied

_BYTES_PER_PATTERN = 1 << 20
"""Memory for each pattern, as much as admission lets one have: a set that has too little finds nothing."""


class PatternMatches:
    """Which patterns are found in which names, kept across trees: a search costs about 60 µs a name."""

    def __init__(self) -> None:
        self._patterns: tuple[str, ...] = ()
        self._compiled: re2.Set
        self._by_name: dict[str, tuple[int, ...]] = {}
        """The indexes of the patterns found in each name."""

    def rows(self, wanted: Iterable[str], names: Sequence[str]) -> dict[str, list[int]]:
        """Return for each pattern the indexes of the names that it is found in; invalid patterns are left out."""
        if (patterns := tuple(sorted(set(wanted)))) != self._patterns:
            self._patterns, self._by_name = patterns, {}
        if not patterns:
            return {}
        found: dict[str, list[int]] = {}
        for at, name in enumerate(names):
            if (matches := self._by_name.get(name)) is None:
                matches = self._by_name[name] = self._search(name)
            for index in matches:
                found.setdefault(patterns[index], []).append(at)
        if len(self._by_name) > 2 * len(names):
            self._by_name = {name: self._by_name[name] for name in names}
        return found

    def _search(self, name: str) -> tuple[int, ...]:
        if not self._by_name:
            self._compile()
        return tuple([self._valid[at] for at in self._compiled.Match(name) or ()])

    def _compile(self) -> None:
        options = re2.Options()
        options.log_errors = False
        options.max_mem = len(self._patterns) * _BYTES_PER_PATTERN
        self._compiled = re2.Set.SearchSet(options)
        self._valid: list[int] = []
        """The index of each compiled pattern among all."""
        for at, pattern in enumerate(self._patterns):
            try:
                self._compiled.Add(pattern)
            except re2.error:  # admission refuses these; one that was stored before it ran matches nothing
                continue
            self._valid.append(at)
        self._compiled.Compile()


class NodeMatcher:
    """Finds the rows of nodes by name, pattern and labels; made for the nodes and HyperNodes of one moment."""

    def __init__(
        self,
        nodes: Sequence[Node],
        rows: Mapping[str, int],
        hyper_nodes: Iterable[HyperNode],
        patterns: PatternMatches,
    ) -> None:
        self._nodes = nodes
        self._rows = rows
        wanted = [
            member.selector.regex_match.pattern
            for hyper_node in hyper_nodes
            for member in hyper_node.spec.members
            if member.type == NODE and member.selector.regex_match is not None
        ]
        self._by_pattern = patterns.rows(wanted, [node.metadata.name for node in nodes]) if wanted else {}
        self._by_label: dict[tuple[str, str], list[int]] | None = None
        """Rows by label, computed for the first selector of labels."""

    def rows_of(self, hyper_node: HyperNode) -> set[int]:
        """Return the rows of the nodes that are direct members."""
        found: set[int] = set()
        for member in hyper_node.spec.members:
            if member.type != NODE:
                continue
            selector = member.selector
            if selector.exact_match is not None:
                if (row := self._rows.get(selector.exact_match.name)) is not None:
                    found.add(row)
            elif selector.regex_match is not None:
                found.update(self._by_pattern.get(selector.regex_match.pattern, ()))
            elif selector.label_match is not None:
                found.update(self._match_labels(selector.label_match))
        return found

    def _match_labels(self, selector: LabelSelector) -> list[int]:
        """Return the rows of nodes whose labels satisfy a selector: of those with a required label, or of all."""
        requirements = selector.requirements
        if not requirements:
            return []
        candidates: Iterable[int] = range(len(self._nodes))
        required = next((one for one in requirements if one.operator == "In"), None)
        if required is not None:
            index = self._label_index()
            candidates = [
                row for value in dict.fromkeys(required.values) for row in index.get((required.key, value), ())
            ]
        return [row for row in candidates if self._satisfies(row, requirements)]

    def _satisfies(self, row: int, requirements: Iterable[Requirement]) -> bool:
        labels = self._nodes[row].metadata.labels
        return all(satisfied(requirement, labels.get(requirement.key)) for requirement in requirements)

    def _label_index(self) -> dict[tuple[str, str], list[int]]:
        if self._by_label is None:
            self._by_label = {}
            for row, node in enumerate(self._nodes):
                for label in node.metadata.labels.items():
                    self._by_label.setdefault(label, []).append(row)
        return self._by_label
