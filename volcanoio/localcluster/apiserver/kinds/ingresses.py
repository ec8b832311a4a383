"""Ingresses and their classes: defaults and rules (Kubernetes: pkg/apis/networking/{v1/defaults.go,validation})."""

from __future__ import annotations

from typing import Any, Final

from volcanoio.engine.admission.dnsnames import label_rule, subdomain_rule
from volcanoio.engine.admission.fielderrors import FieldError, forbidden, invalid, required, unsupported
from volcanoio.localcluster.apiserver.core import Core
from volcanoio.localcluster.apiserver.kinds.idle import idle
from volcanoio.localcluster.apiserver.kinds.rules import (
    host_rule,
    immutable,
    is_address,
    listed,
    port_errors,
    port_name_errors,
    reference_errors,
    spec_of,
)
from volcanoio.localcluster.apiserver.kinds.strategy import Strategy
from volcanoio.model.base import Manifest

_PATH_TYPES: Final = ("Exact", "ImplementationSpecific", "Prefix")
_NOT_WITHIN: Final = ("//", "/./", "/../", "%2f", "%2F")
_NOT_LAST: Final = ("/..", "/.")
_SCOPES: Final = ("Cluster", "Namespace")
_NO_HOST: Final = "must be a DNS name, not an IP address"


def _create(ingress: Manifest, core: Core) -> None:
    del core
    ingress["status"] = {"loadBalancer": {}}


def _validate(ingress: Manifest) -> list[FieldError]:
    spec = ingress.get("spec") or {}
    rules, default, name = listed(spec.get("rules")), spec.get("defaultBackend"), spec.get("ingressClassName")
    found: list[FieldError] = []
    if not rules and default is None:
        found.append(invalid("spec", None, "either `defaultBackend` or `rules` must be specified"))
    if isinstance(default, dict):
        found += _backend_errors(default, "spec.defaultBackend")
    for at, rule in enumerate(rules):
        found += _rule_errors(rule, f"spec.rules[{at}]")
    for at, tls in enumerate(listed(spec.get("tls"))):
        found += _tls_errors(tls, f"spec.tls[{at}]")
    if name is not None and (broken := subdomain_rule(name)):
        found.append(invalid("spec.ingressClassName", name, broken))
    return found


def _rule_errors(rule: Manifest, path: str) -> list[FieldError]:
    host, http = rule.get("host"), rule.get("http")
    found: list[FieldError] = []
    if host:
        if is_address(host):
            found.append(invalid(f"{path}.host", host, _NO_HOST))
        if broken := host_rule(host):
            found.append(invalid(f"{path}.host", host, broken))
    if isinstance(http, dict):
        paths = listed(http.get("paths"))
        if not paths:
            found.append(required(f"{path}.http.paths"))
        for at, one in enumerate(paths):
            found += _path_errors(one, f"{path}.http.paths[{at}]")
    return found


def _path_errors(one: Manifest, path: str) -> list[FieldError]:
    kind, text = one.get("pathType"), one.get("path") or ""
    if kind is None:
        return [required(f"{path}.pathType", "pathType must be specified")]
    found: list[FieldError] = []
    if kind not in _PATH_TYPES:
        found.append(unsupported(f"{path}.pathType", kind, _PATH_TYPES))
    elif not text.startswith("/") and (text or kind != "ImplementationSpecific"):
        found.append(invalid(f"{path}.path", text, "must be an absolute path"))
    if kind in {"Exact", "Prefix"}:
        found += [invalid(f"{path}.path", text, f"must not contain '{no}'") for no in _NOT_WITHIN if no in text]
        found += [invalid(f"{path}.path", text, f"cannot end with '{no}'") for no in _NOT_LAST if text.endswith(no)]
    return found + _backend_errors(one.get("backend") or {}, f"{path}.backend")


def _backend_errors(backend: Manifest, path: str) -> list[FieldError]:
    resource, service = backend.get("resource"), backend.get("service")
    if resource is not None and service is not None:
        return [invalid(path, "", "cannot set both resource and service backends")]
    if resource is not None:
        return _reference_errors(resource, f"{path}.resource")
    if service is None:
        return [invalid(path, "", "resource or service backend is required")]
    name, port = service.get("name"), service.get("port") or {}
    found: list[FieldError] = []
    if not name:
        found.append(required(f"{path}.service.name"))
    elif broken := label_rule(name):
        found.append(invalid(f"{path}.service.name", name, broken))
    if port.get("name") and port.get("number"):
        found.append(invalid(path, "", "cannot set both port name & port number"))
    elif port.get("name"):
        found += port_name_errors(port["name"], f"{path}.service.port.name")
    elif port.get("number"):
        found += port_errors(port["number"], f"{path}.service.port.number")
    else:
        found.append(required(path, "port name or number is required"))
    return found


def _reference_errors(reference: Manifest, path: str) -> list[FieldError]:
    group = reference.get("apiGroup")
    broken = subdomain_rule(group) if group is not None else ""
    return [*([invalid(f"{path}.apiGroup", group, broken)] if broken else ()), *reference_errors(reference, path)]


def _tls_errors(tls: Manifest, path: str) -> list[FieldError]:
    secret = tls.get("secretName")
    found = [
        invalid(f"{path}.hosts[{at}]", host, broken)
        for at, host in enumerate(tls.get("hosts") or ())
        if (broken := host_rule(host))
    ]
    if secret and (broken := subdomain_rule(secret)):
        found.append(invalid(f"{path}.secretName", secret, broken))
    return found


def _default_class(one: Manifest, core: Core) -> None:
    del core
    parameters = spec_of(one).get("parameters")
    if isinstance(parameters, dict) and parameters.get("scope") is None:
        parameters["scope"] = "Cluster"


def _validate_class(one: Manifest) -> list[FieldError]:
    spec = one["spec"]
    found = _controller_errors(spec.get("controller") or "", "spec.controller")
    parameters: Any = spec.get("parameters")
    if not isinstance(parameters, dict):
        return found
    path, scope, namespace = "spec.parameters", parameters.get("scope"), parameters.get("namespace")
    found += _reference_errors(parameters, path)
    if scope not in _SCOPES:
        found.append(unsupported(f"{path}.scope", scope, _SCOPES))
    elif scope == "Namespace" and namespace is None:
        found.append(required(f"{path}.namespace", "`parameters.scope` is set to 'Namespace'"))
    elif scope == "Namespace" and (broken := label_rule(namespace)):
        found.append(invalid(f"{path}.namespace", namespace, broken))
    elif scope == "Cluster" and namespace is not None:
        found.append(forbidden(f"{path}.namespace", "`parameters.scope` is set to 'Cluster'"))
    return found


def _controller_errors(controller: str, path: str) -> list[FieldError]:
    """A controller is a domain and a path in it."""
    if not controller:
        return [required(path)]
    domain, slash, rest = controller.partition("/")
    if not slash or not domain or not rest:
        return [invalid(path, controller, 'must be a domain-prefixed path (such as "acme.io/foo")')]
    return [invalid(path, domain, broken)] if (broken := subdomain_rule(domain)) else []


INGRESSES: Final = Strategy(create=_create, validate=_validate, warning=idle("Ingress"))
INGRESS_CLASSES: Final = Strategy(
    default=_default_class, validate=_validate_class, validate_update=immutable("spec.controller")
)
