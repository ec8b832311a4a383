"""HorizontalPodAutoscalers: defaults and rules (Kubernetes: pkg/apis/autoscaling/{v2/defaults.go,validation})."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from volcanoio.localcluster.apiserver.admission.resource_amounts import amount
from volcanoio.localcluster.apiserver.core import Core
from volcanoio.localcluster.apiserver.registry.kinds.rules import (
    child,
    fill,
    listed,
    reference_errors,
    segment_rule,
    spec_of,
)
from volcanoio.localcluster.apiserver.registry.kinds.strategy import Strategy, idle
from volcanoio.model.base import Manifest
from volcanoio.model.validation.field_errors import FieldError, forbidden, invalid, required, unsupported

_TARGETS: Final = ("Utilization", "Value", "AverageValue")
_SELECTIONS: Final = ("Disabled", "Max", "Min")
_POLICIES: Final = ("Percent", "Pods")
_LONGEST_WINDOW: Final = 3600
_LONGEST_PERIOD: Final = 1800
_NO_NAME: Final = "must specify a resource name"


def _create(scaler: Manifest, core: Core) -> None:
    del core
    scaler["status"] = {"currentMetrics": None, "desiredReplicas": 0}


def _default(scaler: Manifest, core: Core) -> None:
    """Set defaults: one replica at least, 80 % of the requested cpu, complete scaling rules."""
    del core
    spec = fill(spec_of(scaler), minReplicas=1)
    if not spec.get("metrics"):
        target = {"type": "Utilization", "averageUtilization": 80}
        spec["metrics"] = [{"type": "Resource", "resource": {"name": "cpu", "target": target}}]
    behavior = spec.get("behavior")
    if isinstance(behavior, dict):
        percent = {"type": "Percent", "value": 100, "periodSeconds": 15}
        four = {"type": "Pods", "value": 4, "periodSeconds": 15}
        fill(
            child(behavior, "scaleUp"), stabilizationWindowSeconds=0, selectPolicy="Max", policies=[four, dict(percent)]
        )
        fill(child(behavior, "scaleDown"), selectPolicy="Max", policies=[percent])


def _validate(scaler: Manifest) -> list[FieldError]:
    spec = scaler["spec"]
    least, most = spec.get("minReplicas"), spec.get("maxReplicas") or 0
    found: list[FieldError] = []
    if least is not None and least < 1:
        found.append(invalid("spec.minReplicas", least, "must be greater than or equal to 1"))
    if most == 0:
        found.append(required("spec.maxReplicas", "must be set and greater than 0"))
    elif most < 0:
        found.append(invalid("spec.maxReplicas", most, "must be greater than or equal to 1"))
    if least is not None and most < least:
        found.append(invalid("spec.maxReplicas", most, "must be greater than or equal to `minReplicas`"))
    found += reference_errors(spec.get("scaleTargetRef") or {}, "spec.scaleTargetRef")
    metrics = listed(spec.get("metrics"))
    for at, metric in enumerate(metrics):
        found += _metric_errors(metric, f"spec.metrics[{at}]")
    if least == 0 and not any(metric.get("type") in {"Object", "External"} for metric in metrics):
        rule = "must specify at least one Object or External metric to support scaling to zero replicas"
        found.append(forbidden("spec.metrics", rule))
    for name in ("scaleUp", "scaleDown"):
        rules = (spec.get("behavior") or {}).get(name)
        if isinstance(rules, dict):
            found += _scaling_errors(rules, f"spec.behavior.{name}")
    return found


def _resource_errors(source: Manifest, path: str) -> list[FieldError]:
    target = source.get("target") or {}
    found = [] if source.get("name") else [required(f"{path}.name", _NO_NAME)]
    found += _target_errors(target, f"{path}.target")
    utilization, value = target.get("averageUtilization"), target.get("averageValue")
    if utilization is None and value is None:
        rule = "must set either a target raw value or a target utilization"
        found.append(required(f"{path}.target.averageUtilization", rule))
    if utilization is not None and value is not None:
        rule = "may not set both a target raw value and a target utilization"
        found.append(forbidden(f"{path}.target.averageValue", rule))
    return found


def _container_errors(source: Manifest, path: str) -> list[FieldError]:
    found = _resource_errors(source, path)
    return found if source.get("container") else [required(f"{path}.container", "must specify a container"), *found]


def _pods_errors(source: Manifest, path: str) -> list[FieldError]:
    target = source.get("target") or {}
    found = _identifier_errors(source, path) + _target_errors(target, f"{path}.target")
    if target.get("averageValue") is None:
        found.append(required(f"{path}.target.averageValue", "must specify a positive target averageValue"))
    return found


def _object_errors(source: Manifest, path: str) -> list[FieldError]:
    found = reference_errors(source.get("describedObject") or {}, f"{path}.describedObject")
    return found + _valued_errors(source, path, "must set either a target value or averageValue")


def _external_errors(source: Manifest, path: str) -> list[FieldError]:
    target = source.get("target") or {}
    found = _valued_errors(source, path, "must set either a target value for metric or a per-pod target")
    if target.get("value") is not None and target.get("averageValue") is not None:
        rule = "may not set both a target value for metric and a per-pod target"
        found.append(forbidden(f"{path}.target.value", rule))
    return found


def _valued_errors(source: Manifest, path: str, rule: str) -> list[FieldError]:
    target = source.get("target") or {}
    found = _identifier_errors(source, path) + _target_errors(target, f"{path}.target")
    if target.get("value") is None and target.get("averageValue") is None:
        found.append(required(f"{path}.target.averageValue", rule))
    return found


def _identifier_errors(source: Manifest, path: str) -> list[FieldError]:
    name = (source.get("metric") or {}).get("name")
    if not name:
        return [required(f"{path}.metric.name", "must specify a metric name")]
    return [invalid(f"{path}.metric.name", name, rule) for rule in segment_rule(name)]


def _target_errors(target: Manifest, path: str) -> list[FieldError]:
    kind: Any = target.get("type") or ""
    found = [] if kind else [required(f"{path}.type", "must specify a metric target type")]
    if kind not in _TARGETS:
        found.append(invalid(f"{path}.type", kind, "must be either Utilization, Value, or AverageValue"))
    found += [
        invalid(f"{path}.{name}", target[name], "must be positive")
        for name in ("value", "averageValue")
        if target.get(name) is not None and amount(target[name]).value <= 0
    ]
    utilization = target.get("averageUtilization")
    if utilization is not None and utilization < 1:
        found.append(invalid(f"{path}.averageUtilization", utilization, "must be greater than 0"))
    return found


_SOURCES: Final[dict[str, tuple[str, Callable[[Manifest, str], list[FieldError]]]]] = {
    "Object": ("object", _object_errors),
    "External": ("external", _external_errors),
    "Pods": ("pods", _pods_errors),
    "Resource": ("resource", _resource_errors),
    "ContainerResource": ("containerResource", _container_errors),
}
"""Field and validation of a metric, by type."""


def _metric_errors(metric: Manifest, path: str) -> list[FieldError]:
    kind = metric.get("type") or ""
    unknown = unsupported(f"{path}.type", kind, sorted(_SOURCES))
    found = [] if kind else [required(f"{path}.type", "must specify a metric source type")]
    if kind not in _SOURCES:
        found.append(unknown)
    present = [(name, rules) for name, rules in _SOURCES.values() if metric.get(name) is not None]
    for name, rules in present[:1]:
        found += rules(metric[name], f"{path}.{name}")
    expected = _SOURCES[kind][0] if kind in _SOURCES else ""
    if not expected:
        found.append(unknown)
    elif metric.get(expected) is None:
        found.append(required(f"{path}.{expected}", "must populate information for the given metric source"))
    if len(present) != 1:
        rule = "must populate the given metric source only"
        found += [forbidden(f"{path}.{name}", rule) for name, _ in present if name != expected]
    return found


def _scaling_errors(rules: Manifest, path: str) -> list[FieldError]:
    window, select, policies = rules.get("stabilizationWindowSeconds"), rules.get("selectPolicy"), rules.get("policies")
    found: list[FieldError] = []
    if window is not None and window < 0:
        found.append(invalid(f"{path}.stabilizationWindowSeconds", window, "must be greater than or equal to zero"))
    if window is not None and window > _LONGEST_WINDOW:
        rule = f"must be less than or equal to {_LONGEST_WINDOW}"
        found.append(invalid(f"{path}.stabilizationWindowSeconds", window, rule))
    if select is not None and select not in _SELECTIONS:
        found.append(unsupported(f"{path}.selectPolicy", select, _SELECTIONS))
    if not policies:
        found.append(required(f"{path}.policies", "must specify at least one Policy"))
    for at, policy in enumerate(listed(policies)):
        found += _policy_errors(policy, f"{path}.policies[{at}]")
    return found


def _policy_errors(policy: Manifest, path: str) -> list[FieldError]:
    kind, period = policy.get("type") or "", policy.get("periodSeconds") or 0
    found = [] if kind in _POLICIES else [unsupported(f"{path}.type", kind, _POLICIES)]
    found += [
        invalid(f"{path}.{name}", policy.get(name) or 0, "must be greater than zero")
        for name in ("value", "periodSeconds")
        if (policy.get(name) or 0) <= 0
    ]
    if period > _LONGEST_PERIOD:
        found.append(invalid(f"{path}.periodSeconds", period, f"must be less than or equal to {_LONGEST_PERIOD}"))
    return found


SCALERS: Final = Strategy(create=_create, default=_default, validate=_validate, warning=idle("HorizontalPodAutoscaler"))
