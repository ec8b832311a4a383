"""Endpoints, EndpointSlices, Ingresses, their classes and NetworkPolicies: defaults and rules.

Kubernetes: pkg/apis/{core,discovery,networking}.
"""

from __future__ import annotations

import functools
import ipaddress
from typing import Any, Final

from volcanoio.localcluster.apiserver.core import Core
from volcanoio.localcluster.apiserver.registry.kinds.rules import (
    NO_ADDRESS,
    NO_BLOCK,
    PROTOCOLS,
    child,
    choice_errors,
    host_rule,
    immutable,
    is_address,
    label_selector_errors,
    listed,
    network_of,
    port_errors,
    port_name_errors,
    reference_errors,
    spec_of,
)
from volcanoio.localcluster.apiserver.registry.kinds.strategy import Strategy, idle
from volcanoio.model.base import Manifest
from volcanoio.model.validation.dns_names import label_rule, qualified_rule, subdomain_rule
from volcanoio.model.validation.field_errors import FieldError, duplicate, forbidden, invalid, required, unsupported

_ADDRESS_TYPES: Final = ("FQDN", "IPv4", "IPv6")
_LOOPBACK: Final = "may not be in the loopback range (127.0.0.0/8, ::1/128)"
_LINK_LOCAL: Final = "may not be in the link-local range (169.254.0.0/16, fe80::/10)"


def _default_endpoints(endpoints: Manifest, core: Core) -> None:
    del core
    for subset in listed(endpoints.get("subsets")):
        for port in listed(subset.get("ports")):
            port["protocol"] = port.get("protocol") or "TCP"


def _validate_endpoints(endpoints: Manifest) -> list[FieldError]:
    found: list[FieldError] = []
    for at, subset in enumerate(listed(endpoints.get("subsets"))):
        path, ports = f"subsets[{at}]", listed(subset.get("ports"))
        if not subset.get("addresses") and not subset.get("notReadyAddresses"):
            found.append(required(path, "must specify `addresses` or `notReadyAddresses`"))
        for field in ("addresses", "notReadyAddresses"):
            for number, address in enumerate(listed(subset.get(field))):
                found += _address_errors(address, f"{path}.{field}[{number}]")
        for number, port in enumerate(ports):
            where = f"{path}.ports[{number}]"
            if len(ports) > 1 and not port.get("name"):
                found.append(required(f"{where}.name"))
            elif port.get("name") and (broken := label_rule(port["name"])):
                found.append(invalid(f"{where}.name", port["name"], broken))
            found += port_errors(port.get("port"), f"{where}.port")
            found += _protocol_errors(port, where)
    return found


def _address_errors(address: Manifest, path: str) -> list[FieldError]:
    ip, host, node = address.get("ip") or "", address.get("hostname"), address.get("nodeName")
    unreachable = reach_errors(ip, f"{path}.ip")
    found = [invalid(f"{path}.ip", ip, NO_ADDRESS)] if unreachable and not is_address(ip) else []
    if host and (broken := label_rule(host)):
        found.append(invalid(f"{path}.hostname", host, broken))
    if node is not None and (broken := subdomain_rule(node)):
        found.append(invalid(f"{path}.nodeName", node, broken))
    return found + unreachable


def reach_errors(text: str, path: str, *, loopback: bool = True) -> list[FieldError]:
    """Return errors of endpoint addresses that are not reachable.

    Webhooks of this server are at loopback addresses, which are allowed.
    """
    return [invalid(path, text, message) for message in _unreachable(text, loopback=loopback)]


@functools.lru_cache(maxsize=16_384)
def _unreachable(text: str, *, loopback: bool) -> tuple[str, ...]:
    """Return the reason why an address is not reachable.

    Cached, as large Services repeat the same thousand addresses.
    """
    if not is_address(text):
        return ("must be a valid IP address",)
    ip = ipaddress.ip_address(text)
    found = (f"may not be unspecified ({text})",) if ip.is_unspecified else ()
    if ip.is_loopback and not loopback:
        found = (*found, _LOOPBACK)
    return (*found, _LINK_LOCAL) if ip.is_link_local else found


def _protocol_errors(port: Manifest, path: str) -> list[FieldError]:
    found = choice_errors(port, path, "protocol", PROTOCOLS)
    application = port.get("appProtocol")
    if application is not None and (broken := qualified_rule(application)):
        found.append(invalid(f"{path}.appProtocol", application, broken))
    return found


def _default_slice(one: Manifest, core: Core) -> None:
    del core
    for port in listed(one.get("ports")):
        port.setdefault("name", "")
        port["protocol"] = port.get("protocol") or "TCP"


def _validate_slice(one: Manifest) -> list[FieldError]:
    kind = one.get("addressType")
    found = [] if kind else [required("addressType")]
    if kind and kind not in _ADDRESS_TYPES:
        found.append(unsupported("addressType", kind, _ADDRESS_TYPES))
    names: list[Any] = []
    for at, port in enumerate(listed(one.get("ports"))):
        path, name = f"ports[{at}]", port.get("name") or ""
        if name and (broken := label_rule(name)):
            found.append(invalid(f"{path}.name", name, broken))
        if name in names:
            found.append(duplicate(f"{path}.name", name))
        names.append(name)
        found += _protocol_errors(port, path)
    for at, endpoint in enumerate(listed(one.get("endpoints"))):
        found += _endpoint_errors(endpoint, str(kind), f"endpoints[{at}]")
    return found


def _endpoint_errors(endpoint: Manifest, kind: str, path: str) -> list[FieldError]:
    addresses, host, node = endpoint.get("addresses"), endpoint.get("hostname"), endpoint.get("nodeName")
    found = [] if addresses else [required(f"{path}.addresses", "must contain at least 1 address")]
    for at, address in enumerate(addresses or ()):
        found += _slice_address_errors(address, kind, f"{path}.addresses", at)
    if node is not None and (broken := subdomain_rule(node)):
        found.append(invalid(f"{path}.nodeName", node, broken))
    if host is not None and (broken := label_rule(host)):
        found.append(invalid(f"{path}.hostname", host, broken))
    return found


def _slice_address_errors(address: str, kind: str, path: str, at: int) -> list[FieldError]:
    where = f"{path}[{at}]"
    if kind == "FQDN":
        return _domain_errors(address, where)
    if kind not in {"IPv4", "IPv6"}:
        return []
    version = _version(address)
    if not version:
        return [invalid(where, address, NO_ADDRESS)]
    other = [] if kind == f"IPv{version}" else [invalid(path, address, f"must be an {kind} address")]
    return other + reach_errors(address, where)


@functools.lru_cache(maxsize=16_384)
def _version(text: str) -> int:
    """Return the IP version of an address; 0 for an invalid one."""
    return ipaddress.ip_address(text).version if is_address(text) else 0


def _domain_errors(name: str, path: str) -> list[FieldError]:
    """Return errors of a fully qualified domain name, which has at least two labels."""
    if not name:
        return [required(path)]
    bare = name.removesuffix(".")
    if broken := subdomain_rule(bare):
        return [invalid(path, bare, broken)]
    if "." not in bare:
        return [invalid(path, bare, "should be a domain with at least two segments separated by dots")]
    return []


def _warn(one: Manifest, old: Manifest | None) -> list[str]:
    del old
    return ["spec.addressType: FQDN endpoints are deprecated"] if one.get("addressType") == "FQDN" else []


ENDPOINTS: Final = Strategy(default=_default_endpoints, validate=_validate_endpoints)
SLICES: Final = Strategy(
    default=_default_slice, validate=_validate_slice, validate_update=immutable("addressType"), warn=_warn
)


_PATH_TYPES: Final = ("Exact", "ImplementationSpecific", "Prefix")
_NOT_WITHIN: Final = ("//", "/./", "/../", "%2f", "%2F")
_NOT_LAST: Final = ("/..", "/.")
_SCOPES: Final = ("Cluster", "Namespace")
_NO_HOST: Final = "must be a DNS name, not an IP address"


def _create(ingress: Manifest, core: Core) -> None:
    del core
    ingress["status"] = {"loadBalancer": {}}


def _validate_ingress(ingress: Manifest) -> list[FieldError]:
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


def _default_ingress_class(one: Manifest, core: Core) -> None:
    del core
    parameters = spec_of(one).get("parameters")
    if isinstance(parameters, dict) and parameters.get("scope") is None:
        parameters["scope"] = "Cluster"


def _validate_ingress_class(one: Manifest) -> list[FieldError]:
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
    elif scope == "Namespace" and (broken := label_rule(str(namespace))):
        found.append(invalid(f"{path}.namespace", namespace, broken))
    elif scope == "Cluster" and namespace is not None:
        found.append(forbidden(f"{path}.namespace", "`parameters.scope` is set to 'Cluster'"))
    return found


def _controller_errors(controller: str, path: str) -> list[FieldError]:
    """Return errors of a controller name: a domain and a path."""
    if not controller:
        return [required(path)]
    domain, slash, rest = controller.partition("/")
    if not slash or not domain or not rest:
        return [invalid(path, controller, 'must be a domain-prefixed path (such as "acme.io/foo")')]
    return [invalid(path, domain, broken)] if (broken := subdomain_rule(domain)) else []


INGRESSES: Final = Strategy(create=_create, validate=_validate_ingress, warning=idle("Ingress"))
INGRESS_CLASSES: Final = Strategy(
    default=_default_ingress_class, validate=_validate_ingress_class, validate_update=immutable("spec.controller")
)


_TYPES: Final = ("Ingress", "Egress")
_PROTOCOLS: Final = ("TCP", "UDP", "SCTP")
_DIRECTIONS: Final = (("ingress", "from"), ("egress", "to"))


def _default_network_policy(policy: Manifest, core: Core) -> None:
    del core
    spec = spec_of(policy)
    child(spec, "podSelector")
    for direction, _ in _DIRECTIONS:
        for rule in listed(spec.get(direction)):
            for port in listed(rule.get("ports")):
                port["protocol"] = port.get("protocol") or "TCP"
    if not spec.get("policyTypes"):
        spec["policyTypes"] = ["Ingress", "Egress"] if spec.get("egress") else ["Ingress"]


def _validate_network_policy(policy: Manifest) -> list[FieldError]:
    spec = policy["spec"]
    found = label_selector_errors(spec.get("podSelector"), "spec.podSelector")
    for direction, peers_field in _DIRECTIONS:
        for at, rule in enumerate(listed(spec.get(direction))):
            path = f"spec.{direction}[{at}]"
            for number, port in enumerate(listed(rule.get("ports"))):
                found += _port_errors(port, f"{path}.ports[{number}]")
            for number, peer in enumerate(listed(rule.get(peers_field))):
                found += _peer_errors(peer, f"{path}.{peers_field}[{number}]")
    types = spec.get("policyTypes") or ()
    if len(types) > len(_TYPES):
        return [*found, invalid("spec.policyTypes", types, "may not specify more than two policyTypes")]
    return found + [
        unsupported(f"spec.policyTypes[{at}]", one, _TYPES) for at, one in enumerate(types) if one not in _TYPES
    ]


def _port_errors(port: Manifest, path: str) -> list[FieldError]:
    number, last = port.get("port"), port.get("endPort")
    found: list[FieldError] = []
    if port.get("protocol") not in _PROTOCOLS:
        found.append(unsupported(f"{path}.protocol", port.get("protocol"), _PROTOCOLS))
    if isinstance(number, int):
        found += port_errors(number, f"{path}.port")
        if last is not None:
            if last < number:
                found.append(invalid(f"{path}.endPort", number, "must be greater than or equal to `port`"))
            found += port_errors(last, f"{path}.endPort")
        return found
    if last is not None:
        why = "is non-numeric" if number is not None else "is not specified"
        found.append(invalid(f"{path}.endPort", last, f"may not be specified when `port` {why}"))
    return found + (port_name_errors(number, f"{path}.port") if number is not None else [])


def _peer_errors(peer: Manifest, path: str) -> list[FieldError]:
    found: list[FieldError] = []
    for name in ("podSelector", "namespaceSelector"):
        found += label_selector_errors(peer.get(name), f"{path}.{name}")
    block = peer.get("ipBlock")
    given = [name for name in ("podSelector", "namespaceSelector", "ipBlock") if peer.get(name) is not None]
    if isinstance(block, dict):
        found += _block_errors(block, f"{path}.ipBlock")
    if not given:
        found.append(required(path, "must specify a peer"))
    elif len(given) > 1 and block is not None:
        found.append(forbidden(path, "may not specify both ipBlock and another peer"))
    return found


def _block_errors(block: Manifest, path: str) -> list[FieldError]:
    text = block.get("cidr")
    if not text:
        return [required(f"{path}.cidr")]
    whole = network_of(text)
    if whole is None:
        return [invalid(f"{path}.cidr", text, NO_BLOCK)]
    found: list[FieldError] = []
    for at, one in enumerate(block.get("except") or ()):
        part = network_of(one)
        if part is None:
            found.append(invalid(f"{path}.except[{at}]", one, NO_BLOCK))
        elif part.version != whole.version or part.network_address not in whole or part.prefixlen <= whole.prefixlen:
            found.append(invalid(f"{path}.except[{at}]", one, "must be a strict subset of `cidr`"))
    return found


POLICIES: Final = Strategy(
    default=_default_network_policy, validate=_validate_network_policy, warning=idle("NetworkPolicy")
)
