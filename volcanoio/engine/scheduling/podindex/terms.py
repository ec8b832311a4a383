"""Terms of pod affinity, topology spread and host ports, resolved for a pod.

Source: Kubernetes pkg/scheduler/framework (newAffinityTerm), plugins/podtopologyspread
(filterTopologySpreadConstraints), pkg/registry/core/pod (applyMatchLabelKeysAndMismatchLabelKeys).
"""

from collections.abc import Callable, Iterable, Iterator, Mapping

from volcanoio.framework.scheduling.podterms import (
    HostPort,
    PodSelector,
    PodTerm,
    PodTerms,
    Selectors,
    SpreadConstraint,
    TermRole,
)
from volcanoio.framework.scheduling.views import Shape
from volcanoio.model.core import LabelSelector, Pod, PodAffinity, PodAffinityTerm, Requirement, TopologySpreadConstraint
from volcanoio.model.selectors import satisfied

HARD = "DoNotSchedule"
HONOR = "Honor"

Labels = Mapping[str, str]
LabelsOf = Callable[[str], Labels]
"""Function that returns the labels of a namespace by its name."""


def has_terms(pod: Pod, shape: Shape) -> bool:
    """Return whether a pod has terms about other pods, so that these must be counted."""
    affinity = pod.spec.affinity
    if shape.host_ports or pod.spec.topology_spread_constraints:
        return True
    return affinity is not None and (affinity.pod_affinity is not None or affinity.pod_anti_affinity is not None)


def selects(selector: PodSelector, namespace: str, labels: Labels, labels_of: LabelsOf) -> bool:
    """Return whether a selector matches a pod of that namespace with these labels."""
    if selector.labels is None:
        return False
    if namespace not in selector.namespaces:
        if selector.namespace_labels is None:
            return False
        of_namespace = labels_of(namespace) if selector.namespace_labels else {}
        if not all(satisfied(item, of_namespace.get(item.key)) for item in selector.namespace_labels):
            return False
    return all(satisfied(item, labels.get(item.key)) for item in selector.labels)


def all_select(selectors: Selectors, namespace: str, labels: Labels, labels_of: LabelsOf) -> bool:
    """Return whether all selectors match a pod."""
    return all(selects(selector, namespace, labels, labels_of) for selector in selectors)


def label_keys(pod: Pod) -> Iterator[str]:
    """Yield the label keys, of any pod, that a pod's terms read."""
    for _, term, _ in _affinity_terms(pod):
        yield from _term_keys(term.label_selector, (*term.match_label_keys, *term.mismatch_label_keys))
    for constraint in pod.spec.topology_spread_constraints:
        yield from _term_keys(constraint.label_selector, constraint.match_label_keys)


def selector_keys(selectors: Selectors) -> Iterator[str]:
    """Yield the label keys that selectors read."""
    for selector in selectors:
        for requirement in selector.labels or ():
            yield requirement.key


def resolve(pod: Pod, shape: Shape, namespace: str, labels: Labels, labels_of: LabelsOf) -> PodTerms:
    """Return the terms of a pod with the given labels, which must contain at least `label_keys`."""
    terms = PodTerms(
        affinity=tuple(
            PodTerm(role, _resolve_term(term, namespace, labels), term.topology_key, weight)
            for role, term, weight in _affinity_terms(pod)
        ),
        spread=tuple(
            _resolve_constraint(constraint, namespace, labels, labels_of)
            for constraint in pod.spec.topology_spread_constraints
        ),
        ports=tuple(HostPort((protocol, number), ip) for ip, protocol, number in shape.host_ports),
    )
    required = terms.required_affinity_selectors
    first = bool(required) and all_select(required, namespace, labels, labels_of)
    return PodTerms(terms.affinity, terms.spread, terms.ports, first)


def _affinity_terms(pod: Pod) -> Iterator[tuple[TermRole, PodAffinityTerm, int]]:
    """Yield a pod's terms with roles and weights, without terms of weight 0."""
    if (affinity := pod.spec.affinity) is None:
        return
    sides: tuple[tuple[PodAffinity | None, TermRole, TermRole], ...] = (
        (affinity.pod_affinity, TermRole.REQUIRED_AFFINITY, TermRole.PREFERRED_AFFINITY),
        (affinity.pod_anti_affinity, TermRole.REQUIRED_ANTI_AFFINITY, TermRole.PREFERRED_ANTI_AFFINITY),
    )
    for side, required, preferred in sides:
        if side is not None:
            for term in side.required_during_scheduling_ignored_during_execution:
                yield required, term, 0
            for weighted in side.preferred_during_scheduling_ignored_during_execution:
                if weighted.weight:
                    yield preferred, weighted.pod_affinity_term, weighted.weight


def _resolve_term(term: PodAffinityTerm, namespace: str, labels: Labels) -> PodSelector:
    own = () if term.namespaces or term.namespace_selector is not None else (namespace,)
    if (requirements := _requirements(term.label_selector)) is not None:
        requirements = _normalized(
            (
                *requirements,
                *_own_label_requirements(term.match_label_keys, "In", labels),
                *_own_label_requirements(term.mismatch_label_keys, "NotIn", labels),
            )
        )
    return PodSelector(tuple(sorted({*term.namespaces, *own})), _requirements(term.namespace_selector), requirements)


def _resolve_constraint(
    constraint: TopologySpreadConstraint, namespace: str, labels: Labels, labels_of: LabelsOf
) -> SpreadConstraint:
    if (requirements := _requirements(constraint.label_selector)) is not None:
        requirements = _normalized((*requirements, *_own_label_requirements(constraint.match_label_keys, "In", labels)))
    selector = PodSelector((namespace,), None, requirements)
    return SpreadConstraint(
        selector=selector if requirements else None,
        matches_self=selects(selector, namespace, labels, labels_of),
        topology_key=constraint.topology_key,
        max_skew=constraint.max_skew,
        min_domains=1 if constraint.min_domains is None else constraint.min_domains,
        hard=constraint.when_unsatisfiable == HARD,
        honors_affinity=constraint.node_affinity_policy == HONOR,
        honors_taints=constraint.node_taints_policy == HONOR,
    )


def _own_label_requirements(keys: Iterable[str], operator: str, labels: Labels) -> Iterator[Requirement]:
    """Yield requirements on the pod's own values; keys that the pod does not have are skipped."""
    for key in keys:
        if (value := labels.get(key)) is not None:
            yield Requirement(key=key, operator=operator, values=(value,))


def _requirements(selector: LabelSelector | None) -> tuple[Requirement, ...] | None:
    return None if selector is None else _normalized(selector.requirements)


def _normalized(requirements: Iterable[Requirement]) -> tuple[Requirement, ...]:
    """Return requirements sorted without duplicates, so that equivalent selectors are mostly equal."""
    return tuple(sorted(set(requirements), key=lambda item: (item.key, item.operator, item.values)))


def _term_keys(selector: LabelSelector | None, own: Iterable[str]) -> Iterator[str]:
    if selector is not None:
        yield from (requirement.key for requirement in selector.requirements)
        yield from own
