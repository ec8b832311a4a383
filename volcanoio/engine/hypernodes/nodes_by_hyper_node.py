"""`NodesByHyperNode`: the nodes of each HyperNode, kept current as nodes and HyperNodes change.

Members of type Node are selected by name, regular expression (RE2, as in Go, found anywhere in the name) or labels; an
empty label selector selects nothing. Members of type HyperNode are selected by name only, as in Volcano's scheduler.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import TypeAlias

import re2

from volcanoio.model.core import Requirement
from volcanoio.model.nodes import HyperNodeSpec, Member
from volcanoio.model.selectors import satisfied

NODE, HYPER_NODE = "Node", "HyperNode"
"""Types of members."""
Labels: TypeAlias = Mapping[str, str]
_OPTIONS = re2.Options()
_OPTIONS.log_errors = False
_OPTIONS.max_mem = 1 << 20


@lru_cache(maxsize=8192)
def _compiled(pattern: str) -> "re2._Regexp[str] | None":
    """Return a compiled pattern, None for one that Go could not compile either: it selects nothing."""
    try:
        return re2.compile(pattern, _OPTIONS)
    except re2.error:
        return None


@dataclass(frozen=True, slots=True)
class _Resolved:
    """The members of one HyperNode by type of selector."""

    names: frozenset[str]
    patterns: tuple[str, ...]
    selectors: tuple[tuple[Requirement, ...], ...]
    children: tuple[str, ...]

    @classmethod
    def of(cls, spec: HyperNodeSpec) -> "_Resolved":
        nodes = [member.selector for member in spec.members if member.type == NODE]
        return cls(
            names=frozenset(each.exact_match.name for each in nodes if each.exact_match is not None),
            patterns=tuple(each.regex_match.pattern for each in nodes if each.regex_match is not None),
            selectors=tuple(each.label_match.requirements for each in nodes if each.label_match is not None),
            children=child_names(spec.members),
        )

    def selects(self, name: str, labels: Labels) -> bool:
        """Return whether a node of that name and with these labels is a direct member."""
        return (
            name in self.names
            or any(_finds(pattern, name) for pattern in self.patterns)
            or any(matches(requirements, labels) for requirements in self.selectors)
        )


def child_names(members: Iterable[Member]) -> tuple[str, ...]:
    """Return the names of the HyperNodes among members, each once."""
    named = (
        member.selector.exact_match.name
        for member in members
        if member.type == HYPER_NODE and member.selector.exact_match is not None
    )
    return tuple(dict.fromkeys(named))


def _finds(pattern: str, name: str) -> bool:
    compiled = _compiled(pattern)
    return compiled is not None and compiled.search(name) is not None


def matches(requirements: tuple[Requirement, ...], labels: Labels) -> bool:
    """Return whether labels satisfy all requirements of a selector; none at all select nothing."""
    return bool(requirements) and all(satisfied(each, labels.get(each.key)) for each in requirements)


class NodesByHyperNode:
    """Nodes with their labels, and HyperNodes with their members.

    `set_node` and `set_hyper_node` return the names of the HyperNodes whose nodes may have changed: those concerned and
    all above them. Names of nodes or HyperNodes that do not exist are no members. The direct nodes of a HyperNode are
    resolved when they are first requested, and then kept current.
    """

    def __init__(self) -> None:
        self._nodes: dict[str, Labels] = {}
        self._members: dict[str, _Resolved] = {}
        self._direct: dict[str, set[str]] = {}
        self._parents: dict[str, set[str]] = {}

    def set_node(self, name: str, labels: Labels | None) -> set[str]:
        """Add a node, change its labels, or remove it (None)."""
        before = self._nodes.get(name)
        if before is not None and labels == before:
            return set()
        if labels is None:
            self._nodes.pop(name, None)
        else:
            self._nodes[name] = labels
        changed: set[str] = set()
        for hyper_node, members in self._members.items():
            had = before is not None and members.selects(name, before)
            has = labels is not None and members.selects(name, labels)
            if had == has:
                continue
            changed.add(hyper_node)
            if (direct := self._direct.get(hyper_node)) is not None:
                (direct.add if has else direct.discard)(name)
        return self._with_ancestors(changed)

    def set_hyper_node(self, name: str, spec: HyperNodeSpec | None) -> set[str]:
        """Add a HyperNode, change its members, or remove it (None)."""
        before = self._members.get(name)
        after = None if spec is None else _Resolved.of(spec)
        if before == after:
            return set()
        above = self._with_ancestors({name})
        for child in before.children if before is not None else ():
            if parents := self._parents.get(child):
                parents.discard(name)
        self._direct.pop(name, None)
        if after is None:
            del self._members[name]
        else:
            self._members[name] = after
            for child in after.children:
                self._parents.setdefault(child, set()).add(name)
        children = {*(before.children if before is not None else ()), *(after.children if after is not None else ())}
        return above | children  # a child's number of parents may have changed

    def nodes(self, name: str) -> set[str]:
        """Return the names of all nodes of a HyperNode: the union of its own and those of all HyperNodes below it."""
        found: set[str] = set()
        for each in self._below(name):
            found |= self._direct_nodes(each)
        return found

    def problem(self, name: str) -> str:
        """Return why a HyperNode cannot be part of a tree, "" if it can: two parents, or a cycle."""
        parents = sorted(each for each in self._parents.get(name, ()) if each in self._members)
        if len(parents) > 1:
            others = ", ".join(parents)
            return f"it is a member of {len(parents)} HyperNodes ({others}); name it in spec.members of one of them"
        members = self._members.get(name)
        if members is not None and any(name in self._below(child) for child in members.children):
            return "it is a member of a HyperNode below it; remove one of them from the other's spec.members"
        return ""

    def _below(self, name: str) -> list[str]:
        """Return a HyperNode and all below it, each once, also if they form a cycle."""
        found = dict.fromkeys([name] if name in self._members else ())
        waiting = list(found)
        while waiting:
            for child in self._members[waiting.pop()].children:
                if child in self._members and child not in found:
                    found[child] = None
                    waiting.append(child)
        return list(found)

    def _with_ancestors(self, names: set[str]) -> set[str]:
        found = set(names)
        waiting = list(names)
        while waiting:
            for parent in self._parents.get(waiting.pop(), ()):
                if parent not in found:
                    found.add(parent)
                    waiting.append(parent)
        return found

    def _direct_nodes(self, name: str) -> set[str]:
        if (direct := self._direct.get(name)) is None:
            direct = self._direct[name] = set(self._resolve(self._members[name]))
        return direct

    def _resolve(self, members: _Resolved) -> Iterator[str]:
        if not members.patterns and not members.selectors:  # as discovered: names alone
            return iter(members.names & self._nodes.keys())
        return (name for name, labels in self._nodes.items() if members.selects(name, labels))
