"""Label selectors, node affinity, taints and tolerations: Kubernetes' matching rules, for one object at a time.

A requirement that Kubernetes cannot parse (an unknown operator, In without values, a value that no label can have)
matches nothing, so that the selector that contains it selects nothing, as in Kubernetes' components. The kubelet, the
DaemonSet and taint eviction controllers and the scheduler's plugins all use these functions; plugins that answer for
all nodes at once are compared with them by tests. Sources: k8s.io/apimachinery, pkg/labels (NewRequirement,
Requirement.Matches) and pkg/apis/meta/v1 (LabelSelectorAsSelector); k8s.io/component-helpers/scheduling/corev1
(nodeaffinity, helpers.go); k8s.io/api/core/v1 (ToleratesTaint).
"""

import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from functools import lru_cache
from typing import TypeAlias

from volcanoio.model.core import NodeSelectorTerm, PodSpec, PreferredSchedulingTerm, Requirement, Taint, Toleration

Matcher: TypeAlias = Callable[[str | None], bool]
"""Tests a label's value; None stands for a missing label."""

SUBDOMAIN = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*").fullmatch
QUALIFIED = re.compile(r"([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]").fullmatch
LABEL_VALUE = re.compile(r"(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?").fullmatch
"""Forms of the prefix of a label's key, of its name, and of a label's value. Lengths are checked separately."""
_INTEGER = re.compile(r"[+-]?[0-9]+").fullmatch
_INT64 = range(-(1 << 63), 1 << 63)


def satisfied(requirement: Requirement, value: str | None) -> bool:
    """Return whether a label's value satisfies a requirement; None is a missing label."""
    return matcher(requirement)(value)


@lru_cache(maxsize=8192)
def matcher(requirement: Requirement) -> Matcher:
    """Return the test of a requirement. Gt and Lt, which are valid for nodes only, compare 64-bit integers."""
    if not is_valid_requirement(requirement):
        return lambda _: False
    values = frozenset(requirement.values)
    match requirement.operator:
        case "In":
            return values.__contains__
        case "NotIn":
            return lambda value: value not in values
        case "Exists":
            return lambda value: value is not None
        case "DoesNotExist":
            return lambda value: value is None
    limit = parse_integer(requirement.values[0])
    assert limit is not None
    if requirement.operator == "Gt":
        return lambda value: value is not None and (number := parse_integer(value)) is not None and number > limit
    return lambda value: value is not None and (number := parse_integer(value)) is not None and number < limit


def is_valid_requirement(requirement: Requirement) -> bool:
    """Return whether Kubernetes can parse a requirement of a node selector."""
    values = requirement.values
    match requirement.operator:
        case "In" | "NotIn":
            complete = bool(values)
        case "Exists" | "DoesNotExist":
            complete = not values
        case "Gt" | "Lt":
            complete = len(values) == 1 and parse_integer(values[0]) is not None
        case _:
            return False
    return complete and _is_key(requirement.key) and all(len(one) <= 63 and LABEL_VALUE(one) for one in values)


def _is_key(text: str) -> bool:
    """Return whether a label can have this key."""
    prefix, slash, name = text.rpartition("/")
    if slash and not (len(prefix) <= 253 and SUBDOMAIN(prefix)):
        return False
    return len(name) <= 63 and QUALIFIED(name) is not None


def parse_integer(text: str) -> int | None:
    """Parse an integer, None if the text is none (Go: strconv.ParseInt with base 10 and 64 bits)."""
    if not _INTEGER(text) or len(text) > 253:
        return None
    number = int(text)
    return number if number in _INT64 else None


NAME_FIELD = "metadata.name"
NO_SCHEDULE, NO_EXECUTE, SOFT_EFFECT = "NoSchedule", "NoExecute", "PreferNoSchedule"
HARD_EFFECTS = frozenset({NO_SCHEDULE, NO_EXECUTE})
UNSCHEDULABLE_TAINT = Taint(key="node.kubernetes.io/unschedulable", effect=NO_SCHEDULE)


def matches_required(spec: PodSpec, name: str, labels: Mapping[str, str]) -> bool:
    """Return whether a pod's node selector and required node affinity select a node with this name and labels."""
    if any(labels.get(key) != value for key, value in spec.node_selector.items()):
        return False
    affinity = spec.affinity.node_affinity if spec.affinity is not None else None
    required = affinity.required_during_scheduling_ignored_during_execution if affinity is not None else None
    return required is None or any(matches_term(term, name, labels) for term in required.node_selector_terms)


def matches_term(term: NodeSelectorTerm, name: str, labels: Mapping[str, str]) -> bool:
    """Return whether a node satisfies every requirement of a term; an empty term matches no node."""
    return (
        not is_empty(term)
        and all(satisfied(each, labels.get(each.key)) for each in term.match_expressions)
        and all(matches_field(each, name) for each in term.match_fields)
    )


def matches_field(requirement: Requirement, name: str) -> bool:
    """Return whether a node of this name satisfies a requirement of `matchFields`; other fields are empty."""
    value = name if requirement.key == NAME_FIELD else ""
    return is_valid_field(requirement) and (value in requirement.values) is (requirement.operator == "In")


def is_valid_field(requirement: Requirement) -> bool:
    """Return whether Kubernetes can parse a requirement of `matchFields`: In or NotIn with exactly one value."""
    return requirement.operator in ("In", "NotIn") and len(requirement.values) == 1


def is_empty(term: NodeSelectorTerm) -> bool:
    """Return whether a term has no requirement: if required it matches no node, if preferred it has no weight."""
    return not term.match_expressions and not term.match_fields


def effective(preferences: Iterable[PreferredSchedulingTerm]) -> Iterator[PreferredSchedulingTerm]:
    """Return the preferences that have a weight."""
    return (term for term in preferences if term.weight and not is_empty(term.preference))


def tolerates(toleration: Toleration, taint: Taint) -> bool:
    """Return whether one toleration covers a taint; Gt and Lt, whose feature gate is off by default, cover none."""
    if toleration.effect and toleration.effect != taint.effect:
        return False
    if toleration.key and toleration.key != taint.key:
        return False
    if toleration.operator == "Exists":
        return True
    return toleration.operator in ("", "Equal") and toleration.value == taint.value


def tolerated(taint: Taint, tolerations: Iterable[Toleration]) -> bool:
    """Return whether any toleration covers a taint."""
    return any(tolerates(toleration, taint) for toleration in tolerations)


def first_untolerated(
    taints: Iterable[Taint], tolerations: Collection[Toleration], effects: Collection[str] = HARD_EFFECTS
) -> Taint | None:
    """Return the first taint of these effects, by default those that exclude pods, that no toleration covers."""
    return next((taint for taint in taints if taint.effect in effects and not tolerated(taint, tolerations)), None)


def soft_untolerated(taints: Iterable[Taint], tolerations: Iterable[Toleration]) -> int:
    """Count the PreferNoSchedule taints that no toleration for that effect or for all effects covers."""
    relevant = [toleration for toleration in tolerations if toleration.effect in ("", SOFT_EFFECT)]
    return sum(1 for taint in taints if taint.effect == SOFT_EFFECT and not tolerated(taint, relevant))
