"""Endpoints and EndpointSlices: defaults and rules (Kubernetes: pkg/apis/{core,discovery})."""

from __future__ import annotations

import functools
import ipaddress
from typing import Any, Final

from volcanoio.engine.admission.dnsnames import label_rule, qualified_rule, subdomain_rule
from volcanoio.engine.admission.fielderrors import FieldError, duplicate, invalid, required, unsupported
from volcanoio.localcluster.apiserver.core import Core
from volcanoio.localcluster.apiserver.kinds.rules import (
    NO_ADDRESS,
    PROTOCOLS,
    choice_errors,
    immutable,
    is_address,
    listed,
    port_errors,
)
from volcanoio.localcluster.apiserver.kinds.strategy import Strategy
from volcanoio.model.base import Manifest

_ADDRESS_TYPES: Final = ("FQDN", "IPv4", "IPv6")
_LOOPBACK: Final = "may not be in the loopback range (127.0.0.0/8, ::1/128)"
_LINK_LOCAL: Final = "may not be in the link-local range (169.254.0.0/16, fe80::/10)"


def _default(endpoints: Manifest, core: Core) -> None:
    del core
    for subset in listed(endpoints.get("subsets")):
        for port in listed(subset.get("ports")):
            port["protocol"] = port.get("protocol") or "TCP"


def _validate(endpoints: Manifest) -> list[FieldError]:
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
    """An endpoint is at an address that others can reach: for this server, and its webhooks, that is a loopback one."""
    return [invalid(path, text, message) for message in _unreachable(text, loopback=loopback)]


@functools.lru_cache(maxsize=16_384)
def _unreachable(text: str, *, loopback: bool) -> tuple[str, ...]:
    """Why others cannot reach an address; kept, as big Services name the same thousand addresses again and again."""
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
    """Of which version an address is; 0 for what is none."""
    return ipaddress.ip_address(text).version if is_address(text) else 0


def _domain_errors(name: str, path: str) -> list[FieldError]:
    """A fully qualified domain name: of two labels at least."""
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


ENDPOINTS: Final = Strategy(default=_default, validate=_validate)
SLICES: Final = Strategy(
    default=_default_slice, validate=_validate_slice, validate_update=immutable("addressType"), warn=_warn
)
