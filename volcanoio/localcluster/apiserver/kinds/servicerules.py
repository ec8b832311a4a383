"""Rules of Services (Kubernetes: pkg/apis/core/validation, pkg/api/service/warnings.go)."""

from __future__ import annotations

from typing import Any, Final

from volcanoio.engine.admission.dnsnames import label_errors, label_rule, subdomain_rule
from volcanoio.engine.admission.fielderrors import (
    FieldError,
    duplicate,
    forbidden,
    invalid,
    required,
    shown,
    unsupported,
)
from volcanoio.localcluster.apiserver.kinds.endpoints import reach_errors
from volcanoio.localcluster.apiserver.kinds.rules import (
    NO_ADDRESS,
    PROTOCOLS,
    choice_errors,
    is_address,
    listed,
    port_errors,
    port_name_errors,
)
from volcanoio.model.base import Manifest

TYPES: Final = ("ClusterIP", "ExternalName", "LoadBalancer", "NodePort")
_REACHED: Final = frozenset({"NodePort", "LoadBalancer"})
_AFFINITIES: Final = ("ClientIP", "None")
FAMILY_POLICIES: Final = ("PreferDualStack", "RequireDualStack", "SingleStack")
_TRAFFIC: Final = ("Cluster", "Local")
_INNER: Final = ("clusterIPs", "ipFamilies", "ipFamilyPolicy")
_LONGEST_STICKINESS: Final = 86400
"""Seconds for which a client may be sent to the same pod."""


def is_external(spec: Manifest) -> bool:
    """Whether a Service is reached from outside the cluster."""
    return spec.get("type") in _REACHED or (spec.get("type") == "ClusterIP" and bool(spec.get("externalIPs")))


def service_errors(service: Manifest) -> list[FieldError]:
    """The broken rules of a Service."""
    spec = service["spec"]
    kind, ports = spec.get("type"), listed(spec.get("ports"))
    headless = kind != "ExternalName" and spec.get("clusterIP") == "None"
    found: list[FieldError] = []
    if not ports and not headless and kind != "ExternalName":
        found.append(required("spec.ports"))
    if headless and kind in _REACHED:
        found.append(invalid("spec.clusterIPs[0]", "None", f"may not be set to 'None' for {kind} services"))
    if kind == "ExternalName":
        found += _external_name_errors(spec)
    found += _ports_errors(ports)
    found += label_errors(spec.get("selector"), "spec.selector")
    found += _affinity_errors(spec)
    for at, address in enumerate(spec.get("externalIPs") or ()):
        path = f"spec.externalIPs[{at}]"
        found += (
            reach_errors(address, path, loopback=False) if is_address(address) else [invalid(path, address, NO_ADDRESS)]
        )
    if kind not in TYPES:
        found.append(unsupported("spec.type", kind, TYPES))
    found += _unique_errors(ports, closed=kind == "ClusterIP")
    return found + _traffic_errors(spec)


def _external_name_errors(spec: Manifest) -> list[FieldError]:
    rule = "may not be set for ExternalName services"
    found = [forbidden(f"spec.{name}", rule) for name in _INNER if spec.get(name)]
    name = (spec.get("externalName") or "").removesuffix(".")
    if not name:
        found.append(required("spec.externalName"))
    elif broken := subdomain_rule(name):
        found.append(invalid("spec.externalName", name, broken))
    return found


def _ports_errors(ports: list[Manifest]) -> list[FieldError]:
    found: list[FieldError] = []
    names: set[str] = set()
    for at, port in enumerate(ports):
        path, name, target = f"spec.ports[{at}]", port.get("name"), port.get("targetPort")
        if not name and len(ports) > 1:
            found.append(required(f"{path}.name"))
        elif name:
            if rule := label_rule(name):
                found.append(invalid(f"{path}.name", name, rule))
            if name in names:
                found.append(duplicate(f"{path}.name", name))
            names.add(name)
        found += port_errors(port.get("port"), f"{path}.port")
        found += choice_errors(port, path, "protocol", PROTOCOLS)
        check: Any = port_name_errors if isinstance(target, str) else port_errors
        found += check(target, f"{path}.targetPort")
    return found


def _affinity_errors(spec: Manifest) -> list[FieldError]:
    affinity, config = spec.get("sessionAffinity"), spec.get("sessionAffinityConfig")
    found = choice_errors(spec, "spec", "sessionAffinity", _AFFINITIES)
    if affinity == "ClientIP":
        seconds = ((config or {}).get("clientIP") or {}).get("timeoutSeconds", 0)
        if not 0 < seconds <= _LONGEST_STICKINESS:
            path = "spec.sessionAffinityConfig.clientIP.timeoutSeconds"
            found.append(invalid(path, seconds, f"must be greater than 0 and less than {_LONGEST_STICKINESS}"))
    return found


def _unique_errors(ports: list[Manifest], *, closed: bool) -> list[FieldError]:
    """No two ports are the same; a Service within the cluster has none on nodes."""
    found: list[FieldError] = []
    if closed:
        rule = "may not be used when `type` is 'ClusterIP'"
        found = [forbidden(f"spec.ports[{at}].nodePort", rule) for at, port in enumerate(ports) if port.get("nodePort")]
    for field in ("nodePort", "port"):
        known: set[tuple[Any, Any]] = set()
        for at, port in enumerate(ports):
            key, path = (port.get("protocol"), port.get(field)), f"spec.ports[{at}]"
            if key in known and field == "nodePort" and key[1]:
                found.append(duplicate(f"{path}.nodePort", key[1]))
            elif key in known and field == "port":
                same = shown({"Protocol": key[0], "Port": key[1]})
                found.append(FieldError(path, "FieldValueDuplicate", f"Duplicate value: {same}"))
            known.add(key)
    return found


def _traffic_errors(spec: Manifest) -> list[FieldError]:
    external = spec.get("externalTrafficPolicy")
    found: list[FieldError] = []
    if is_external(spec):
        found += choice_errors(spec, "spec", "externalTrafficPolicy", _TRAFFIC)
    elif external:
        rule = "may only be set for externally-accessible services"
        found.append(invalid("spec.externalTrafficPolicy", external, rule))
    if spec.get("allocateLoadBalancerNodePorts") is not None and spec.get("type") != "LoadBalancer":
        rule = "may only be used when `type` is 'LoadBalancer'"
        found.append(forbidden("spec.allocateLoadBalancerNodePorts", rule))
    return found + choice_errors(spec, "spec", "internalTrafficPolicy", _TRAFFIC)


def service_warnings(service: Manifest, old: Manifest | None) -> list[str]:
    """What is stored and has no effect."""
    del old
    spec = service["spec"]
    kind, headless = spec.get("type"), spec.get("clusterIP") == "None"
    outside = bool(spec.get("externalIPs"))
    told = (
        (headless and outside, "spec.externalIPs is ignored for headless services"),
        (headless and spec.get("sessionAffinity") != "None", "spec.SessionAffinity is ignored for headless services"),
        (
            outside and not headless and kind != "ExternalName",
            "spec.externalIPs is deprecated and may no longer be implemented in some clusters",
        ),
        (outside and kind == "ExternalName", 'spec.externalIPs is ignored when spec.type is "ExternalName"'),
        (
            kind != "ExternalName" and spec.get("externalName"),
            'spec.externalName is ignored when spec.type is not "ExternalName"',
        ),
    )
    return [text for holds, text in told if holds]
