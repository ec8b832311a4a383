"""Roles and bindings: their rules (Kubernetes: pkg/apis/rbac/{v1/defaults.go,validation})."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from volcanoio.localcluster.apiserver.core import Core
from volcanoio.localcluster.apiserver.registry.kinds.rules import child, label_selector_errors, listed, segment_rule
from volcanoio.localcluster.apiserver.registry.kinds.strategy import Strategy
from volcanoio.model.base import Manifest
from volcanoio.model.validation.dns_names import subdomain_rule
from volcanoio.model.validation.field_errors import FieldError, invalid, required, unsupported

_GROUP: Final = "rbac.authorization.k8s.io"
_SUBJECTS: Final = ("ServiceAccount", "User", "Group")
_ONE_SORT: Final = "rules cannot apply to both regular resources and non-resource URLs"
_NEEDED: Final = (
    ("apiGroups", "resource rules must supply at least one api group"),
    ("resources", "resource rules must supply at least one resource"),
)


def _rule_errors(rule: Manifest, path: str, *, namespaced: bool) -> list[FieldError]:
    found: list[FieldError] = []
    verbs = [] if rule.get("verbs") else [required(f"{path}.verbs", "verbs must contain at least one value")]
    urls = rule.get("nonResourceURLs")
    if urls:
        if namespaced:
            where = f"{path}.nonResourceURLs"
            found.append(invalid(where, urls, "namespaced rules cannot apply to non-resource URLs"))
        if any(rule.get(name) for name in ("apiGroups", "resources", "resourceNames")):
            found.append(invalid(f"{path}.nonResourceURLs", urls, _ONE_SORT))
        return verbs + found
    return verbs + [required(f"{path}.{name}", why) for name, why in _NEEDED if not rule.get(name)]


def _rules_errors(role: Manifest, *, namespaced: bool) -> list[FieldError]:
    found: list[FieldError] = []
    for at, rule in enumerate(listed(role.get("rules"))):
        found += _rule_errors(rule, f"rules[{at}]", namespaced=namespaced)
    return found


def _validate_role(role: Manifest) -> list[FieldError]:
    return _rules_errors(role, namespaced=True)


def _validate_cluster_role(role: Manifest) -> list[FieldError]:
    found = _rules_errors(role, namespaced=False)
    aggregation = role.get("aggregationRule")
    if isinstance(aggregation, dict):
        path, selectors = "aggregationRule.clusterRoleSelectors", listed(aggregation.get("clusterRoleSelectors"))
        if not selectors:
            found.append(required(path, "at least one clusterRoleSelector required if aggregationRule is non-nil"))
        for at, selector in enumerate(selectors):
            broken = label_selector_errors(selector, f"{path}[{at}]")
            found += broken
            if broken:
                found.append(invalid(f"{path}[{at}]", None, "invalid label selector."))
    return found


def _default_binding(binding: Manifest, core: Core) -> None:
    del core
    reference = child(binding, "roleRef")
    reference["apiGroup"] = reference.get("apiGroup") or _GROUP
    for subject in listed(binding.get("subjects")):
        if not subject.get("apiGroup") and subject.get("kind") in {"User", "Group"}:
            subject["apiGroup"] = _GROUP


def _validate_binding(kinds: tuple[str, ...], *, namespaced: bool) -> Callable[[Manifest], list[FieldError]]:
    def validate(binding: Manifest) -> list[FieldError]:
        reference, found = binding["roleRef"], []
        if reference.get("apiGroup") != _GROUP:
            found.append(unsupported("roleRef.apiGroup", reference.get("apiGroup"), (_GROUP,)))
        if reference.get("kind") not in kinds:
            found.append(unsupported("roleRef.kind", reference.get("kind") or "", kinds))
        name = reference.get("name")
        if not name:
            found.append(required("roleRef.name"))
        else:
            found += [invalid("roleRef.name", name, rule) for rule in segment_rule(name)]
        for at, subject in enumerate(listed(binding.get("subjects"))):
            found += _subject_errors(subject, f"subjects[{at}]", namespaced=namespaced)
        return found

    return validate


def _subject_errors(subject: Manifest, path: str, *, namespaced: bool) -> list[FieldError]:
    kind, name, group = subject.get("kind") or "", subject.get("name"), subject.get("apiGroup") or ""
    found = [] if name else [required(f"{path}.name")]
    if kind == "ServiceAccount":
        if name and (rule := subdomain_rule(name)):
            found.append(invalid(f"{path}.name", name, rule))
        if group:
            found.append(unsupported(f"{path}.apiGroup", group, ("",)))
        if not namespaced and not subject.get("namespace"):
            found.append(required(f"{path}.namespace"))
    elif kind not in _SUBJECTS:
        found.append(unsupported(f"{path}.kind", kind, _SUBJECTS))
    elif group != _GROUP:
        found.append(unsupported(f"{path}.apiGroup", group, (_GROUP,)))
    return found


def _validate_binding_update(new: Manifest, old: Manifest) -> list[FieldError]:
    if new["roleRef"] == old["roleRef"]:
        return []
    return [invalid("roleRef", new["roleRef"], "cannot change roleRef")]


RBAC: Final = {
    f"roles.{_GROUP}": Strategy(validate=_validate_role),
    f"clusterroles.{_GROUP}": Strategy(validate=_validate_cluster_role),
    f"rolebindings.{_GROUP}": Strategy(
        default=_default_binding,
        validate=_validate_binding(("Role", "ClusterRole"), namespaced=True),
        validate_update=_validate_binding_update,
    ),
    f"clusterrolebindings.{_GROUP}": Strategy(
        default=_default_binding,
        validate=_validate_binding(("ClusterRole",), namespaced=False),
        validate_update=_validate_binding_update,
    ),
}
"""Strategies by `plural.group`."""
