"""Whether a webhook is asked about a write: rules, then the selectors of namespace and object.

Kubernetes: apiserver `pkg/admission/plugin/webhook/predicates` and `generic/webhook.go`. Configurations of admission
are never sent through webhooks, lest one that refuses everything could not be removed.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Final

from volcanoio.localcluster.apiserver import errors
from volcanoio.localcluster.apiserver.objects import Ref
from volcanoio.localcluster.apiserver.resources import Resource
from volcanoio.localcluster.apiserver.selectors import matches_label_selector
from volcanoio.localcluster.apiserver.webhooks.attributes import Attributes
from volcanoio.localcluster.apiserver.webhooks.configuration import Hook, Rule, Selector

if TYPE_CHECKING:
    from volcanoio.localcluster.apiserver.core import Core

EXEMPT: Final = frozenset(
    f"{sort}.admissionregistration.k8s.io"
    for sort in (
        *("mutatingwebhookconfigurations", "validatingwebhookconfigurations"),
        *("validatingadmissionpolicies", "validatingadmissionpolicybindings"),
        *("mutatingadmissionpolicies", "mutatingadmissionpolicybindings"),
    )
)
"""What no webhook is asked about."""

_EQUIVALENT: Final = {"events": "events.events.k8s.io", "events.events.k8s.io": "events"}
"""Resources of two groups that are the same objects."""


def matched(hook: Hook, write: Attributes, core: Core) -> Attributes | None:
    """The write as the webhook wants to see it, None when it is not to be asked; raises ApiError.

    An error of a selector matters only to a webhook whose rules match.
    """
    problem: errors.ApiError | None = None
    try:
        if not _selects_namespace(hook, write, core):
            return None
    except errors.ApiError as error:
        problem = error
    if not _selects_object(hook.object_selector, write):
        return None
    resource = _matching_resource(hook, write, core)
    if resource is None:
        return None
    if problem is not None:
        raise problem
    return write if resource is write.resource else write.of(resource)


def _matching_resource(hook: Hook, write: Attributes, core: Core) -> Resource | None:
    if any(matches_rule(rule, write, write.resource) for rule in hook.rules):
        return write.resource
    if hook.match_policy != "Equivalent":
        return None
    others = [one for one in _equivalents(write.resource, core) if one is not write.resource]
    return next((one for rule in hook.rules for one in others if matches_rule(rule, write, one)), None)


def _equivalents(resource: Resource, core: Core) -> Iterable[Resource]:
    """The other served versions of a resource."""
    names = {resource.name, _EQUIVALENT.get(resource.name, resource.name)}
    return [one for one in core.registry.resources() if one.name in names and one.api_version != resource.api_version]


def matches_rule(rule: Rule, write: Attributes, resource: Resource) -> bool:
    """Whether a rule names the operation and the resource."""
    return (
        _in_scope(rule.scope, write)
        and _named(rule.operations, write.operation)
        and _named(rule.api_groups, resource.group)
        and _named(rule.api_versions, resource.version)
        and any(_names_resource(one, resource.plural, write.subresource) for one in rule.resources)
    )


def _named(items: tuple[str, ...], value: str) -> bool:
    return value in items or "*" in items


def _names_resource(pattern: str, plural: str, subresource: str) -> bool:
    resource, _, sub = pattern.partition("/")
    return resource in {"*", plural} and sub in {"*", subresource}


def _in_scope(scope: str, write: Attributes) -> bool:
    """Namespaces themselves are of cluster scope, though they have a namespace here."""
    if scope == "*":
        return True
    cluster = write.resource.name == "namespaces" or not write.namespace
    return cluster == (scope == "Cluster")


def _selects_object(selector: Selector, write: Attributes) -> bool:
    """An object that the selector matched before, or matches now."""
    if not _restricts(selector):
        return True
    return any(
        one is not None and matches_label_selector(selector, (one.get("metadata") or {}).get("labels") or {})
        for one in (write.object, write.old)
    )


def _selects_namespace(hook: Hook, write: Attributes, core: Core) -> bool:
    """Objects of cluster scope are never exempted; a namespace that is written counts with its new labels."""
    if not _restricts(hook.namespace_selector) or not write.namespace:
        return True
    if write.resource.name == "namespaces" and not write.subresource and write.object is not None:
        labels = (write.object.get("metadata") or {}).get("labels") or {}
    else:
        stored = core.store.get(Ref("namespaces", "", write.namespace))
        if stored is None:
            raise errors.not_found(core.registry.builtin("namespaces"), write.namespace)
        labels = stored.labels
    return matches_label_selector(hook.namespace_selector, labels)


def _restricts(selector: Selector) -> bool:
    return bool(selector.get("matchLabels") or selector.get("matchExpressions"))
