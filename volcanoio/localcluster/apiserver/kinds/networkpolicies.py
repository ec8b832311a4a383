"""NetworkPolicies: defaults and rules (Kubernetes: pkg/apis/networking/{v1/defaults.go,validation})."""

from __future__ import annotations

from typing import Final

from volcanoio.engine.admission.fielderrors import FieldError, forbidden, invalid, required, unsupported
from volcanoio.localcluster.apiserver.core import Core
from volcanoio.localcluster.apiserver.kinds.idle import idle
from volcanoio.localcluster.apiserver.kinds.labelselectors import label_selector_errors
from volcanoio.localcluster.apiserver.kinds.rules import (
    NO_BLOCK,
    child,
    listed,
    network_of,
    port_errors,
    port_name_errors,
    spec_of,
)
from volcanoio.localcluster.apiserver.kinds.strategy import Strategy
from volcanoio.model.base import Manifest

_TYPES: Final = ("Ingress", "Egress")
_PROTOCOLS: Final = ("TCP", "UDP", "SCTP")
_DIRECTIONS: Final = (("ingress", "from"), ("egress", "to"))


def _default(policy: Manifest, core: Core) -> None:
    del core
    spec = spec_of(policy)
    child(spec, "podSelector")
    for direction, _ in _DIRECTIONS:
        for rule in listed(spec.get(direction)):
            for port in listed(rule.get("ports")):
                port["protocol"] = port.get("protocol") or "TCP"
    if not spec.get("policyTypes"):
        spec["policyTypes"] = ["Ingress", "Egress"] if spec.get("egress") else ["Ingress"]


def _validate(policy: Manifest) -> list[FieldError]:
    spec = policy["spec"]
    found = label_selector_errors(spec.get("podSelector"), "spec.podSelector")
    for direction, whom in _DIRECTIONS:
        for at, rule in enumerate(listed(spec.get(direction))):
            path = f"spec.{direction}[{at}]"
            for number, port in enumerate(listed(rule.get("ports"))):
                found += _port_errors(port, f"{path}.ports[{number}]")
            for number, peer in enumerate(listed(rule.get(whom))):
                found += _peer_errors(peer, f"{path}.{whom}[{number}]")
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


POLICIES: Final = Strategy(default=_default, validate=_validate, warning=idle("NetworkPolicy"))
