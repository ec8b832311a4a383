"""Which pods a ResourceQuota is about, by its scopes (Kubernetes: pkg/quota/v1/evaluator/core/pods.go)."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from volcanoio.model import quantity
from volcanoio.model.core import PodAffinityTerm, PodSpec
from volcanoio.model.quotascopes import Scope
from volcanoio.model.scheduling import PodGroup


def counts_pod(scopes: tuple[Scope, ...], spec: PodSpec) -> bool:
    """Whether a quota with these scopes counts a pod."""
    return all(scope.name in _OF_POD and _OF_POD[scope.name](scope, spec) for scope in scopes)


def counts_group(scopes: tuple[Scope, ...], group: PodGroup) -> bool:
    """Whether it would count the pods of a group that has none yet, as far as that is known.

    They have the group's PriorityClass, requests where minResources names cpu or memory, no deadline and no affinity
    across namespaces.
    """
    return all(scope.name in _OF_GROUP and _OF_GROUP[scope.name](scope, group) for scope in scopes)


def _best_effort(spec: PodSpec) -> bool:
    """Whether no container requests or limits cpu or memory; what is said of the whole pod wins."""
    if spec.resources is not None:
        given = [spec.resources]
    else:
        given = [container.resources for container in (*spec.containers, *spec.init_containers)]
    return not any(_computes(each.requests) or _computes(each.limits) for each in given)


def _computes(resources: Any) -> bool:
    return any(quantity.milli(resources.get(name, 0)) > 0 for name in ("cpu", "memory"))


def _crosses(spec: PodSpec) -> bool:
    return any(term.namespaces or term.namespace_selector is not None for term in _terms(spec))


def _terms(spec: PodSpec) -> Iterator[PodAffinityTerm]:
    if spec.affinity is None:
        return
    for rules in (spec.affinity.pod_affinity, spec.affinity.pod_anti_affinity):
        if rules is not None:
            yield from rules.required_during_scheduling_ignored_during_execution
            for each in rules.preferred_during_scheduling_ignored_during_execution:
                yield each.pod_affinity_term


def _group_computes(group: PodGroup) -> bool:
    named = group.spec.min_resources or {}
    return any(quantity.milli(named.get(name, 0)) > 0 for name in ("cpu", "memory", "requests.cpu", "requests.memory"))


_OF_POD: dict[str, Callable[[Scope, PodSpec], bool]] = {
    "Terminating": lambda _, spec: spec.active_deadline_seconds is not None,
    "NotTerminating": lambda _, spec: spec.active_deadline_seconds is None,
    "BestEffort": lambda _, spec: _best_effort(spec),
    "NotBestEffort": lambda _, spec: not _best_effort(spec),
    "PriorityClass": lambda scope, spec: scope.meets(spec.priority_class_name),
    "CrossNamespacePodAffinity": lambda _, spec: _crosses(spec),
}
"""By scope; of others, such as VolumeAttributesClass, there are no pods."""

_OF_GROUP: dict[str, Callable[[Scope, PodGroup], bool]] = {
    "NotTerminating": lambda *_: True,
    "BestEffort": lambda _, group: not _group_computes(group),
    "NotBestEffort": lambda _, group: _group_computes(group),
    "PriorityClass": lambda scope, group: scope.meets(group.spec.priority_class_name),
}
