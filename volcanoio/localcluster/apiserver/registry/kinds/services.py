"""Services: defaults, validation, and allocation of addresses and node ports.

Kubernetes: pkg/registry/core/service, pkg/apis/core/validation, pkg/api/service/warnings.go. Addresses are from
10.96.0.0/12, node ports from 30000-32767; nothing in this cluster listens on them.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Container, Iterable, Mapping
from random import Random
from typing import Any, Final
from weakref import WeakKeyDictionary

from volcanoio.localcluster.apiserver.apimachinery.errors import invalid_object as refused
from volcanoio.localcluster.apiserver.apimachinery.errors import unclassified
from volcanoio.localcluster.apiserver.apimachinery.objects import Event, Ref
from volcanoio.localcluster.apiserver.apimachinery.request import REQUEST
from volcanoio.localcluster.apiserver.core import Core
from volcanoio.localcluster.apiserver.registry.kinds.networking import reach_errors
from volcanoio.localcluster.apiserver.registry.kinds.rules import (
    NO_ADDRESS,
    PROTOCOLS,
    choice_errors,
    fill,
    is_address,
    listed,
    port_errors,
    port_name_errors,
    spec_of,
)
from volcanoio.localcluster.apiserver.registry.kinds.strategy import Strategy
from volcanoio.localcluster.apiserver.registry.options import dry_run
from volcanoio.model.base import Manifest
from volcanoio.model.validation.dns_names import label_errors, label_rule, subdomain_rule
from volcanoio.model.validation.field_errors import (
    FieldError,
    duplicate,
    forbidden,
    invalid,
    required,
    shown,
    unsupported,
)

TYPES: Final = ("ClusterIP", "ExternalName", "LoadBalancer", "NodePort")
_REACHED: Final = frozenset({"NodePort", "LoadBalancer"})
_AFFINITIES: Final = ("ClientIP", "None")
FAMILY_POLICIES: Final = ("PreferDualStack", "RequireDualStack", "SingleStack")
_TRAFFIC: Final = ("Cluster", "Local")
_INNER: Final = ("clusterIPs", "ipFamilies", "ipFamilyPolicy")
_LONGEST_STICKINESS: Final = 86400
"""Maximal seconds of session affinity."""


def is_external(spec: Manifest) -> bool:
    """Return whether a Service is reached from outside the cluster."""
    return spec.get("type") in _REACHED or (spec.get("type") == "ClusterIP" and bool(spec.get("externalIPs")))


def service_errors(service: Manifest) -> list[FieldError]:
    """Return validation errors of a Service."""
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
    """Return errors of duplicate ports, and of node ports of a ClusterIP Service."""
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
    """Return warnings of fields that are stored without effect."""
    del old
    spec = service["spec"]
    kind, headless = spec.get("type"), spec.get("clusterIP") == "None"
    outside = bool(spec.get("externalIPs"))
    warnings = (
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
    return [text for holds, text in warnings if holds]


NETWORK: Final = ipaddress.IPv4Network("10.96.0.0/12")
NODE_PORTS: Final = range(30000, 32768)
_WITH_NODE_PORTS: Final = frozenset({"NodePort", "LoadBalancer"})
_RESERVED: Final = frozenset({"10.96.0.1", "10.96.0.10"})
"""Addresses of the API server and DNS in other clusters."""
_SPAN: Final = f"{NODE_PORTS.start}-{NODE_PORTS.stop - 1}"
_NO_PORT: Final = "failed to allocate a nodePort: range is full"


class Allocations:
    """Allocated addresses and node ports of one server; follows its store."""

    def __init__(self, core: Core) -> None:
        self._by_service: dict[str, tuple[str, tuple[int, ...]]] = {}
        self.addresses: set[str] = set()
        self.ports: set[int] = set()
        self._random = Random()
        for stored in core.store.collection("services").objects.values():
            self._take(stored.uid, stored.decode())
        core.store.on("services", self._observe)

    def _observe(self, ref: Ref, event: Event) -> None:
        del ref
        uid = event.new.uid
        address, ports = self._by_service.pop(uid, ("", ()))
        self.addresses.discard(address)
        self.ports.difference_update(ports)
        if event.type != "DELETED":
            self._take(uid, event.new.decode())

    def _take(self, uid: str, service: Manifest) -> None:
        spec = service.get("spec") or {}
        address = spec.get("clusterIP") or ""
        ports = tuple(port["nodePort"] for port in spec.get("ports") or () if port.get("nodePort"))
        self._by_service[uid] = address, ports
        if address and address != "None":
            self.addresses.add(address)
        self.ports.update(ports)

    def address(self) -> str:
        """Return a free address."""
        while True:
            text = str(NETWORK[self._random.randrange(256, 65536)])
            if text not in self.addresses:
                return text

    def port(self, taken: Iterable[int]) -> int | None:
        """Return a free port that is not in `taken`; None when there is none."""
        free = [number for number in NODE_PORTS if number not in self.ports and number not in taken]
        return self._random.choice(free) if free else None


_of: WeakKeyDictionary[Core, Allocations] = WeakKeyDictionary()


def _allocations(core: Core) -> Allocations:
    known = _of.get(core)
    if known is None:
        known = _of[core] = Allocations(core)
    return known


def _default(service: Manifest, core: Core) -> None:
    spec = spec_of(service)
    fill(spec, type="ClusterIP", sessionAffinity="None")
    if spec["sessionAffinity"] == "None":
        spec.pop("sessionAffinityConfig", None)
    elif spec["sessionAffinity"] == "ClientIP":
        stuck = (spec.get("sessionAffinityConfig") or {}).get("clientIP") or {}
        if stuck.get("timeoutSeconds") is None:
            spec["sessionAffinityConfig"] = {"clientIP": {"timeoutSeconds": 10800}}
    for port in listed(spec.get("ports")):
        port["protocol"] = port.get("protocol") or "TCP"
        port["targetPort"] = port.get("targetPort") or port.get("port")
    _keep_allocated(service, core)
    if spec["type"] == "ExternalName":
        return
    if spec["type"] in TYPES:
        fill(spec, internalTrafficPolicy="Cluster")
    if is_external(spec):
        fill(spec, externalTrafficPolicy="Cluster")
    if spec["type"] == "LoadBalancer":
        fill(spec, allocateLoadBalancerNodePorts=True)


def _keep_allocated(service: Manifest, core: Core) -> None:
    """Keep address and node ports of the stored Service where an update names none."""
    meta, spec = service.get("metadata") or {}, service["spec"]
    stored = core.store.get(Ref("services", str(meta.get("namespace", "")), str(meta.get("name", ""))))
    if stored is None or stored.uid != meta.get("uid"):
        return
    before = stored.decode()["spec"]
    if is_external(before) and not is_external(spec):
        _drop_unchanged(spec, before, ("externalTrafficPolicy", "allocateLoadBalancerNodePorts"))
    if spec["type"] == "ExternalName":
        _drop_unchanged(spec, before, ("clusterIP", "clusterIPs"))
        return
    if before.get("type") != "ExternalName" and not spec.get("clusterIP"):
        for name in ("clusterIP", "clusterIPs", "ipFamilies", "ipFamilyPolicy"):
            if before.get(name) is not None:
                spec[name] = before[name]
    node_ports = {(port.get("protocol"), port.get("port")): port.get("nodePort") for port in before.get("ports") or ()}
    _keep_node_ports(spec, node_ports)
    _allocate(service, core, allocated=node_ports.values())


def _drop_unchanged(spec: Manifest, before: Manifest, names: Iterable[str]) -> None:
    for name in names:
        if spec.get(name) == before.get(name):
            spec.pop(name, None)


def _keep_node_ports(spec: Manifest, node_ports: Mapping[tuple[Any, Any], int | None]) -> None:
    """Keep the node ports, by protocol and port.

    Drop them where the type of the Service has none any more.
    """
    for port in listed(spec.get("ports")):
        number = node_ports.get((port.get("protocol"), port.get("port")))
        if spec["type"] not in _WITH_NODE_PORTS:
            if number is not None and port.get("nodePort") == number:
                del port["nodePort"]
        elif number is not None and not port.get("nodePort"):
            port["nodePort"] = number


def _create(service: Manifest, core: Core) -> None:
    service["status"] = {"loadBalancer": {}}
    _allocate(service, core, allocated=None)


def _allocate(service: Manifest, core: Core, *, allocated: Iterable[int | None] | None) -> None:
    """Allocate an address and node ports, or check the requested ones.

    Raises ApiError 422 and 500.

    `allocated` are the node ports of the stored Service, None for a new one.
    """
    spec = service["spec"]
    if spec.get("type") == "ExternalName" or spec.get("type") not in TYPES:
        return
    found = choice_errors(spec, "spec", "ipFamilyPolicy", FAMILY_POLICIES) or _give_address(service, core)
    if spec["type"] in _WITH_NODE_PORTS:
        found += _give_ports(spec, core) if allocated is None else _change_ports(spec, core, frozenset(allocated))
    if found:
        resource = core.registry.named("services")
        assert resource is not None
        raise refused(resource, str(service["metadata"].get("name", "")), found)


def _give_address(service: Manifest, core: Core) -> list[FieldError]:
    spec = service["spec"]
    addresses = spec.get("clusterIPs")
    address = spec.get("clusterIP") or (addresses[0] if isinstance(addresses, list) and addresses else None)
    if spec.get("ipFamilies"):  # allocated before
        return []
    known = _allocations(core)
    path, text = "spec.clusterIPs", f"failed to allocate IP {address}: "
    if not address:
        address = known.address()
        if not service["metadata"].get("name") and not _is_trial():  # the address is an object that names its Service
            why = "spec.parentRef.name: Required value"
            text = f'failed to allocate IP: IPAddress.networking.k8s.io "{address}" is invalid: {why}'
            return [invalid(path, [""], text)]
    elif address != "None":
        try:
            if ipaddress.IPv4Address(address) not in NETWORK:
                return [invalid(path, [address], text + "the provided network does not match the current range")]
        except ValueError:
            rule = "must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)"
            return [invalid("spec.clusterIPs[0]", address, rule)]
        if address in known.addresses or address in _RESERVED:
            return [invalid(path, [address], text + "provided IP is already allocated")]
    spec |= {"clusterIP": address, "clusterIPs": [address], "ipFamilies": ["IPv4"]}
    fill(spec, ipFamilyPolicy="SingleStack")
    return []


def _is_trial() -> bool:
    request = REQUEST.get()
    return request is not None and dry_run(request)


def _give_ports(spec: Manifest, core: Core) -> list[FieldError]:
    """Allocate node ports of a new Service: TCP and UDP ports of the same number share one."""
    known, ports = _allocations(core), listed(spec.get("ports"))
    taken: set[int] = set()
    of_number: dict[Any, int] = {}
    for at, port in enumerate(ports):
        path, number = f"spec.ports[{at}].nodePort", port.get("port")
        shared = of_number.get(number)
        if shared is not None and (port.get("nodePort") or shared) == shared:
            port["nodePort"] = shared
            continue
        asked = port.get("nodePort") if shared is not None else _asked_of(number, ports)
        if asked:
            if rule := _port_rule(asked, known.ports, taken):
                return [invalid(path, asked, rule)]
        else:
            asked = known.port(taken)
            if asked is None:
                return [invalid(path, 0, _NO_PORT)]
        port["nodePort"] = asked
        of_number.setdefault(number, asked)
        taken.add(asked)
    return []


def _asked_of(number: Any, ports: list[Manifest]) -> int | None:
    return next((port["nodePort"] for port in ports if port.get("port") == number and port.get("nodePort")), None)


def _change_ports(spec: Manifest, core: Core, mine: frozenset[int | None]) -> list[FieldError]:
    """Allocate node ports of an updated Service; raises ApiError 500 for a duplicate one."""
    known, taken = _allocations(core), set[int]()
    seen: set[tuple[str, int]] = set()
    found: list[FieldError] = []
    for at, port in enumerate(listed(spec.get("ports"))):
        number, path = port.get("nodePort"), f"spec.ports[{at}].nodePort"
        if not number:
            number = known.port(taken)
            if number is None:
                found.append(invalid(path, 0, _NO_PORT))
                continue
            port["nodePort"] = number
        elif number not in mine and (rule := _port_rule(number, known.ports, ())):
            found.append(invalid(path, number, rule))
            continue
        if (key := (port["protocol"], number)) in seen:
            raise unclassified(f"duplicate nodePort: {{{key[0]} {number}}}")
        seen.add(key)
        taken.add(number)
    return found


def _port_rule(number: int, known: Container[int], taken: Container[int]) -> str:
    """Return the reason why a Service cannot have a node port; empty when it can."""
    if number not in NODE_PORTS:
        return f"provided port is not in the valid range. The range of valid ports is {_SPAN}"
    return "provided port is already allocated" if number in known or number in taken else ""


def _validate_update(new: Manifest, old: Manifest) -> list[FieldError]:
    after, before = new["spec"], old["spec"]
    if "ExternalName" in (after.get("type"), before.get("type")):
        return []
    if before.get("clusterIP") and after.get("clusterIP") != before["clusterIP"]:
        return [invalid("spec.clusterIPs[0]", [after.get("clusterIP")], "may not change once set")]
    return []


SERVICES: Final = Strategy(
    create=_create,
    default=_default,
    validate=service_errors,
    validate_update=_validate_update,
    warn=service_warnings,
)
