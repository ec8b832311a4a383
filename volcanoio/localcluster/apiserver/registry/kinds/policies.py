"""ResourceQuotas, LimitRanges and PodDisruptionBudgets: rules, and defaults of limit ranges.

Kubernetes: pkg/apis/core/validation, pkg/apis/core/v1/defaults.go, pkg/apis/policy/validation.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from volcanoio.framework.podusage import QuotaScope, scopes_of
from volcanoio.localcluster.apiserver.admission.resource_amounts import Amounts, amount, amounts
from volcanoio.localcluster.apiserver.core import Core
from volcanoio.localcluster.apiserver.registry.kinds.rules import (
    count_or_percent_errors,
    label_selector_errors,
    percentage_errors,
)
from volcanoio.localcluster.apiserver.registry.kinds.strategy import Strategy
from volcanoio.model.base import Manifest
from volcanoio.model.quantity import QuantityError
from volcanoio.model.validation.dns_names import qualified_rule
from volcanoio.model.validation.field_errors import FieldError, duplicate, forbidden, invalid, required, unsupported

_COMPUTE: Final = ("cpu", "memory", "ephemeral-storage")
_WHOLE: Final = frozenset(
    {
        *("pods", "resourcequotas", "services", "replicationcontrollers", "secrets", "configmaps"),
        *("persistentvolumeclaims", "services.nodeports", "services.loadbalancers"),
    }
)
_COMPUTED: Final = frozenset({*_COMPUTE, *(f"{one}.{name}" for one in ("requests", "limits") for name in _COMPUTE)})
_QUOTA_NAMES: Final = _WHOLE | _COMPUTED | {"requests.storage"}
_STANDARD: Final = _QUOTA_NAMES | {"storage"}
_CONTAINER_NAMES: Final = frozenset(_COMPUTE)
_TYPES: Final = ("Pod", "Container", "PersistentVolumeClaim")
_POD_SCOPES: Final = ("Terminating", "NotTerminating", "NotBestEffort", "PriorityClass", "CrossNamespacePodAffinity")
_SCOPES: Final = (*_POD_SCOPES, "BestEffort", "VolumeAttributesClass")
_PAIRS: Final = ({"BestEffort", "NotBestEffort"}, {"Terminating", "NotTerminating"})
_EXISTS_ONLY: Final = (
    "must be 'Exists' when scope is any of ResourceQuotaScopeTerminating, ResourceQuotaScopeNotTerminating, "
    "ResourceQuotaScopeBestEffort, ResourceQuotaScopeNotBestEffort or ResourceQuotaScopeCrossNamespacePodAffinity"
)


def _resource_rules(name: str) -> Iterator[str]:
    """Yield errors of a resource name."""
    if rule := qualified_rule(name):
        yield rule
    elif "/" not in name and name not in _STANDARD and not name.removeprefix("requests.").startswith("hugepages-"):
        yield "must be a standard resource type or fully qualified"


def _validate_quota(quota: Manifest) -> list[FieldError]:
    spec = quota.get("spec") or {}
    found: list[FieldError] = []
    for name, text in sorted((spec.get("hard") or {}).items()):
        path = f"spec.hard[{name}]"
        found += [invalid(path, name, rule) for rule in _resource_rules(name)]
        if "/" not in name and name not in _QUOTA_NAMES and not name.removeprefix("requests.").startswith("hugepages-"):
            found.append(invalid(path, name, "must be a standard resource for quota"))
        found += _amount_errors(name, text, path)
    names = list(spec.get("hard") or ())
    scopes = spec.get("scopes") or []
    found += [invalid("spec.scopes", scopes, rule) for rule in _scope_rules([QuotaScope(one) for one in scopes], names)]
    selector = spec.get("scopeSelector")
    return found + (_selector_errors(selector, scopes_of((), selector), names) if selector else [])


def _amount_errors(name: str, text: Any, path: str) -> list[FieldError]:
    try:
        found = amount(text)
    except QuantityError as error:
        return [invalid(path, text, str(error))]
    if found.value < 0:
        return [invalid(path, str(found), "must be greater than or equal to 0")]
    if name in _WHOLE and found.value.denominator != 1:
        return [invalid(path, str(found), "must be an integer")]
    return []


def _scope_rules(scopes: list[QuotaScope], names: list[str]) -> Iterator[str]:
    for scope in scopes:
        if scope.name not in _SCOPES:
            yield "unsupported scope"
        for name in sorted(names):
            if name in _QUOTA_NAMES and not _applies(scope.name, name):
                yield "unsupported scope applied to resource"
    stated = {scope.name for scope in scopes}
    if any(pair <= stated for pair in _PAIRS):
        yield "conflicting scopes"


def _applies(scope: str, name: str) -> bool:
    """Return whether a quota of that scope may limit the resource."""
    if scope == "BestEffort":
        return name == "pods"
    if scope == "VolumeAttributesClass":
        return name in {"persistentvolumeclaims", "requests.storage"}
    return scope not in _POD_SCOPES or name == "pods" or name in _COMPUTED


def _selector_errors(selector: Manifest, scopes: tuple[QuotaScope, ...], names: list[str]) -> list[FieldError]:
    path = "spec.scopeSelector.matchExpressions"
    found: list[FieldError] = []
    for scope in scopes:
        if scope.name not in _SCOPES:
            found.append(invalid(f"{path}.scopeName", scope.name, "unsupported scope"))
        found += [
            invalid(path, selector, "unsupported scope applied to resource")
            for name in sorted(names)
            if name in _QUOTA_NAMES and not _applies(scope.name, name)
        ]
        if scope.name not in {"PriorityClass", "VolumeAttributesClass"} and scope.operator != "Exists":
            found.append(invalid(f"{path}.operator", scope.operator, _EXISTS_ONLY))
        found += _operator_errors(scope, path)
    if any(pair <= {scope.name for scope in scopes} for pair in _PAIRS):
        found.append(invalid(path, [scope.name for scope in scopes], "conflicting scopes"))
    return found


def _operator_errors(scope: QuotaScope, path: str) -> list[FieldError]:
    if scope.operator in {"In", "NotIn"}:
        rule = "must be at least one value when `operator` is 'In' or 'NotIn' for scope selector"
        return [] if scope.values else [required(f"{path}.values", rule)]
    if scope.operator in {"Exists", "DoesNotExist"}:
        rule = "must be no value when `operator` is 'Exist' or 'DoesNotExist' for scope selector"
        return [invalid(f"{path}.values", list(scope.values), rule)] if scope.values else []
    return [invalid(f"{path}.operator", scope.operator, "not a valid selector operator")]


def _validate_quota_update(new: Manifest, old: Manifest) -> list[FieldError]:
    after, before = ((one.get("spec") or {}).get("scopes") or [] for one in (new, old))
    return [] if set(after) == set(before) else [invalid("spec.scopes", after, "field is immutable")]


def _create_quota(quota: Manifest, core: Core) -> None:
    del core
    quota["status"] = {}


def _default_limits(limit_range: Manifest, core: Core) -> None:
    """Set container defaults: limit from the maximum, request from that limit or the minimum."""
    del core
    for limit in (limit_range.get("spec") or {}).get("limits") or ():
        if limit.get("type") != "Container":
            continue
        default = {**(limit.get("max") or {}), **(limit.get("default") or {})}
        request = {**(limit.get("min") or {}), **default, **(limit.get("defaultRequest") or {})}
        limit |= {key: value for key, value in (("default", default), ("defaultRequest", request)) if value}


_LISTS: Final = ("max", "min", "default", "defaultRequest", "maxLimitRequestRatio")


def _validate_limits(limit_range: Manifest) -> list[FieldError]:
    found: list[FieldError] = []
    types: set[str] = set()
    for at, limit in enumerate((limit_range.get("spec") or {}).get("limits") or ()):
        path, type_ = f"spec.limits[{at}]", limit.get("type") or ""
        if rule := qualified_rule(type_):
            found.append(invalid(f"{path}.type", type_, rule))
        elif "/" not in type_ and type_ not in _TYPES:
            found.append(invalid(f"{path}.type", type_, "must be a standard limit type or fully qualified"))
        if type_ in types:
            found.append(duplicate(f"{path}.type", type_))
        types.add(type_)
        found += _limit_errors(limit, type_, path)
    return found


def _limit_errors(limit: Manifest, type_: str, path: str) -> list[FieldError]:
    found: list[FieldError] = []
    for field in _LISTS:
        if type_ == "Pod" and field in {"default", "defaultRequest"}:
            if limit.get(field):
                found.append(forbidden(f"{path}.{field}", "may not be specified when `type` is 'Pod'"))
            continue
        for name in sorted(limit.get(field) or ()):
            where = f"{path}.{field}[{name}]"
            found += [invalid(where, name, rule) for rule in _resource_rules(name)]
            container = type_ in {"Pod", "Container"} and "/" not in name and not name.startswith("hugepages-")
            if container and name not in _CONTAINER_NAMES:
                found.append(invalid(where, name, "must be a standard resource for containers"))
    if type_ == "PersistentVolumeClaim" and not any("storage" in (limit.get(one) or {}) for one in ("min", "max")):
        rule = "either minimum or maximum storage value is required, but neither was provided"
        found.append(required(f"{path}.limits", rule))
    try:
        bounds = {field: amounts(limit.get(field)) for field in _LISTS}
    except QuantityError as error:
        return [*found, invalid(path, type_, str(error))]
    for name in sorted({name for listed in bounds.values() for name in listed}):
        found += _order_errors(bounds, name, path)
    return found


_ORDER: Final = (
    ("min", "max", "min", "min value {} is greater than max value {}"),
    ("min", "defaultRequest", "defaultRequest", "min value {} is greater than default request value {}"),
    ("defaultRequest", "max", "defaultRequest", "default request value {} is greater than max value {}"),
    ("defaultRequest", "default", "defaultRequest", "default request value {} is greater than default limit value {}"),
    ("min", "default", "default", "min value {} is greater than default value {}"),
    ("default", "max", "default", "default value {} is greater than max value {}"),
)
"""Pairs of bounds of which one may not exceed the other, the reported field and the message."""
_SHOWS_HIGHER: Final = {("default", "max")}
_SHOWS_REQUEST: Final = {("min", "defaultRequest")}


def _order_errors(bounds: dict[str, Amounts], name: str, path: str) -> list[FieldError]:
    found: list[FieldError] = []
    for low, high, field, rule in _ORDER:
        lower, higher = bounds[low].get(name), bounds[high].get(name)
        if lower is not None and higher is not None and lower.value > higher.value:
            value = higher if (low, high) in _SHOWS_HIGHER | _SHOWS_REQUEST else lower
            found.append(invalid(f"{path}.{field}[{name}]", str(value), rule.format(lower, higher)))
    ratio = bounds["maxLimitRequestRatio"].get(name)
    where = f"{path}.maxLimitRequestRatio[{name}]"
    if ratio is not None and ratio.value < 1:
        found.append(invalid(where, str(ratio), f"ratio {ratio} is less than 1"))
    least, most = bounds["min"].get(name), bounds["max"].get(name)
    if ratio is not None and least is not None and most is not None and least.value:
        widest = most.value / least.value
        if ratio.value > widest:
            rule = f"ratio {ratio} is greater than max/min = {float(widest):f}"
            found.append(invalid(where, str(ratio), rule))
    return found


QUOTAS: Final = Strategy(create=_create_quota, validate=_validate_quota, validate_update=_validate_quota_update)
LIMIT_RANGES: Final = Strategy(default=_default_limits, validate=_validate_limits)


NAME: Final = "poddisruptionbudgets.policy"
_POLICIES: Final = ("AlwaysAllow", "IfHealthyBudget")
_COUNTS: Final = ("disruptionsAllowed", "currentHealthy", "desiredHealthy", "expectedPods")


def _create(budget: Manifest, core: Core) -> None:
    del core
    budget["status"] = dict.fromkeys(_COUNTS, 0)


def _validate(budget: Manifest) -> list[FieldError]:
    spec = budget.get("spec") or {}
    found: list[FieldError] = []
    least, most = spec.get("minAvailable"), spec.get("maxUnavailable")
    if least is not None and most is not None:
        found.append(invalid("spec", spec, "minAvailable and maxUnavailable cannot be both set"))
    for field, count in (("minAvailable", least), ("maxUnavailable", most)):
        if count is not None:
            found += count_or_percent_errors(count, f"spec.{field}") + percentage_errors(count, f"spec.{field}")
    policy = spec.get("unhealthyPodEvictionPolicy")
    if policy and policy not in _POLICIES:
        found.append(unsupported("spec.unhealthyPodEvictionPolicy", policy, _POLICIES))
    return found + label_selector_errors(spec.get("selector"), "spec.selector")


BUDGETS = Strategy(create=_create, validate=_validate)
