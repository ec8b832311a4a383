"""HyperNodes from node labels: nodes with the same value of a label are in one domain of its tier.

Tier 1 contains nodes, tier i+1 the HyperNodes of tier i. In a type without selector, the levels of a node end at the
first label that it does not have. A domain has one domain above it: where nodes disagree, or a node selected by a
profile has no value for a level, the whole type is left as it is, so that no partial topology is published.
"""

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from volcanoio.engine.hypernodes.nodes_by_hyper_node import HYPER_NODE, NODE, Labels, matches
from volcanoio.engine.hypernodes.reconciliation import Desired, exact_member
from volcanoio.model import names
from volcanoio.model.nodes import HyperNode, TopologyType

_NOT_IN_NAMES = re.compile(r"[^a-z0-9]+")
Domain = tuple[int, str]
"""A domain of a type: tier and value of the tier's label."""


@dataclass(frozen=True, slots=True)
class NodeProblem:
    """Why the labels of a node fit no topology."""

    node: str
    message: str


@dataclass(frozen=True, slots=True)
class Labelled:
    """HyperNodes that node labels describe; `kept` are types whose HyperNodes stay as they are, because of problems."""

    desired: tuple[Desired, ...] = ()
    kept: frozenset[str] = frozenset()
    problems: tuple[NodeProblem, ...] = ()


@dataclass
class _Domains:
    """The domains of one type with their members, each with the first node that was found in it."""

    members: dict[Domain, dict[str, None]] = field(default_factory=dict)
    parents: dict[Domain, tuple[str, str]] = field(default_factory=dict)
    problems: list[NodeProblem] = field(default_factory=list)


def discover(
    types: Sequence[TopologyType],
    nodes: Mapping[str, Labels],
    existing: Iterable[HyperNode],
    suffix: Callable[[], str],
) -> Labelled:
    """Return the HyperNodes of all types. Existing ones keep their names; `suffix` returns the end of a new name."""
    found: list[Desired] = []
    kept: set[str] = set()
    names_of = _existing_names(existing)
    profiles = {name: _profiles_of(types, labels) for name, labels in nodes.items()}
    problems = _selected_twice(profiles)
    contested = {profile for named in profiles.values() if len(named) > 1 for profile in named}
    for type_ in types:
        domains = _domains(type_, nodes, profiles)
        if type_.name in contested:
            kept.add(type_.name)
        elif domains.problems:
            kept.add(type_.name)
            problems += domains.problems
        else:
            found += _desired(type_, domains, names_of, suffix)
    return Labelled(tuple(found), frozenset(kept), tuple(problems))


def name_prefix(type_name: str, tier: int) -> str:
    """Return how the names of a type's HyperNodes of a tier begin."""
    cleaned = _NOT_IN_NAMES.sub("-", type_name.lower()).strip("-")
    return f"hypernode-{cleaned}-tier{tier}-"


def is_of_type(hyper_node: HyperNode, type_name: str) -> bool:
    """Return whether a HyperNode was discovered for a type."""
    prefix = name_prefix(type_name, hyper_node.spec.tier)
    name = hyper_node.metadata.name
    return name.startswith(prefix) and "-" not in name.removeprefix(prefix)


def _existing_names(existing: Iterable[HyperNode]) -> dict[tuple[str, str, str], str]:
    """Return the name for each prefix, label and value; the first by name where there are several."""
    found: dict[tuple[str, str, str], str] = {}
    for each in sorted(existing, key=lambda each: each.metadata.name):
        prefix = each.metadata.name.rpartition("-")[0] + "-"
        for label, value in each.metadata.labels.items():
            found.setdefault((prefix, label, value), each.metadata.name)
    return found


def _profiles_of(types: Iterable[TopologyType], labels: Labels) -> list[str]:
    """Return the names of the types whose selector selects a node."""
    selecting = ((each.name, each.selector) for each in types)
    return [name for name, selector in selecting if selector is not None and matches(selector.requirements, labels)]


def _selected_twice(profiles: Mapping[str, Sequence[str]]) -> list[NodeProblem]:
    """Return a problem for each node that several profiles select."""
    found: list[NodeProblem] = []
    for node, named in sorted(profiles.items()):
        if len(named) > 1:
            text = f"the nodeSelectors of {' and '.join(named)} select it; a node can be in one topology type only"
            found.append(NodeProblem(node, f"{text}: change its labels or a nodeSelector"))
    return found


def _domains(type_: TopologyType, nodes: Mapping[str, Labels], profiles: Mapping[str, Sequence[str]]) -> _Domains:
    """Sort nodes into domains. Types without selector take nodes that no profile selects."""
    domains = _Domains()
    for name in sorted(nodes):
        labels = nodes[name]
        if type_.selector is None:
            if profiles[name] or not labels.get(type_.levels[0].label):
                continue
        elif type_.name not in profiles[name]:
            continue
        elif missing := [level.label for level in type_.levels if not labels.get(level.label)]:
            text = f"topology type {type_.name} selects it, but it has no label {missing[0]}; add the label"
            domains.problems.append(NodeProblem(name, text))
            continue
        _add_node(type_, name, labels, domains)
    return domains


def _add_node(type_: TopologyType, node: str, labels: Labels, domains: _Domains) -> None:
    member = node
    for tier, level in enumerate(type_.levels, start=1):
        value = labels.get(level.label)
        below = (tier - 1, member)
        parent, first = domains.parents.setdefault(below, (value or "", node)) if tier > 1 else (value or "", node)
        if parent != (value or ""):
            under = type_.levels[tier - 2].label
            text = (
                f"topology type {type_.name}: {under}={member} has {level.label}={value or 'none'} here and "
                f"{parent or 'none'} on node {first}; give the nodes of one domain the same value"
            )
            domains.problems.append(NodeProblem(node, text))
            return
        if not value:
            return
        domains.members.setdefault((tier, value), {})[member] = None
        member = value


def _desired(
    type_: TopologyType,
    domains: _Domains,
    names_of: Mapping[tuple[str, str, str], str],
    suffix: Callable[[], str],
) -> list[Desired]:
    name_of: dict[Domain, str] = {}
    found: list[Desired] = []
    for tier, value in sorted(domains.members):
        level = type_.levels[tier - 1]
        prefix = name_prefix(type_.name, tier)
        name_of[tier, value] = name = names_of.get((prefix, level.label, value)) or prefix + suffix()
        members = sorted(domains.members[tier, value])
        labels = {level.label: value}
        if type_.selector is not None:
            labels[names.TOPOLOGY_PROFILE] = type_.name
        kind = NODE if tier == 1 else HYPER_NODE
        targets = members if tier == 1 else [name_of[tier - 1, each] for each in members]
        found.append(
            Desired(
                name=name,
                labels=labels,
                tier=tier,
                tier_name=level.tier_name,
                members=tuple(exact_member(kind, each) for each in sorted(targets)),
            )
        )
    return found
