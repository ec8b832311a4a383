"""Services: defaults, rules, and the addresses and ports that the server gives (Kubernetes: pkg/registry/core/service).

Addresses are of 10.96.0.0/12, node ports of 30000-32767; nothing in this cluster answers under them.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Container, Iterable
from random import Random
from typing import Any, Final
from weakref import WeakKeyDictionary

from volcanoio.engine.admission.fielderrors import FieldError, invalid
from volcanoio.localcluster.apiserver.caller import REQUEST
from volcanoio.localcluster.apiserver.core import Core
from volcanoio.localcluster.apiserver.errors import invalid as refused
from volcanoio.localcluster.apiserver.errors import unclassified
from volcanoio.localcluster.apiserver.kinds.rules import choice_errors, fill, listed, spec_of
from volcanoio.localcluster.apiserver.kinds.servicerules import (
    FAMILY_POLICIES,
    TYPES,
    is_external,
    service_errors,
    service_warnings,
)
from volcanoio.localcluster.apiserver.kinds.strategy import Strategy
from volcanoio.localcluster.apiserver.objects import Event, Ref
from volcanoio.localcluster.apiserver.options import dry_run
from volcanoio.model.base import Manifest

NETWORK: Final = ipaddress.IPv4Network("10.96.0.0/12")
NODE_PORTS: Final = range(30000, 32768)
_WITH_NODE_PORTS: Final = frozenset({"NodePort", "LoadBalancer"})
_RESERVED: Final = frozenset({"10.96.0.1", "10.96.0.10"})
"""Where clusters have the API server and DNS."""
_SPAN: Final = f"{NODE_PORTS.start}-{NODE_PORTS.stop - 1}"
_NO_PORT: Final = "failed to allocate a nodePort: range is full"


class Allocations:
    """Which addresses and node ports the Services of one server have; follows its store."""

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
        """A free one."""
        while True:
            text = str(NETWORK[self._random.randrange(256, 65536)])
            if text not in self.addresses:
                return text

    def port(self, taken: Iterable[int]) -> int | None:
        """A free one that is none of those; None when there is none."""
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
    """An update that names no address or node port keeps those the Service has."""
    meta, spec = service.get("metadata") or {}, service["spec"]
    stored = core.store.get(Ref("services", str(meta.get("namespace", "")), str(meta.get("name", ""))))
    if stored is None or stored.uid != meta.get("uid"):
        return
    before = stored.decode()["spec"]
    if is_external(before) and not is_external(spec):
        for name in ("externalTrafficPolicy", "allocateLoadBalancerNodePorts"):
            if spec.get(name) == before.get(name):
                spec.pop(name, None)
    was_external, now_external = before.get("type") == "ExternalName", spec["type"] == "ExternalName"
    if now_external:
        for name in ("clusterIP", "clusterIPs"):
            if spec.get(name) == before.get(name):
                spec.pop(name, None)
        return
    if not was_external and not spec.get("clusterIP"):
        for name in ("clusterIP", "clusterIPs", "ipFamilies", "ipFamilyPolicy"):
            if before.get(name) is not None:
                spec[name] = before[name]
    known = {(port.get("protocol"), port.get("port")): port.get("nodePort") for port in before.get("ports") or ()}
    for port in listed(spec.get("ports")):
        number = known.get((port.get("protocol"), port.get("port")))
        if spec["type"] not in _WITH_NODE_PORTS:
            if number is not None and port.get("nodePort") == number:
                del port["nodePort"]
        elif number is not None and not port.get("nodePort"):
            port["nodePort"] = number
    _allocate(service, core, allocated=known.values())


def _create(service: Manifest, core: Core) -> None:
    service["status"] = {"loadBalancer": {}}
    _allocate(service, core, allocated=None)


def _allocate(service: Manifest, core: Core, *, allocated: Iterable[int | None] | None) -> None:
    """Give an address and node ports, or check those that are asked for; raises ApiError 422 and 500.

    `allocated` are the node ports that the Service has, None for a new one.
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
    if spec.get("ipFamilies"):  # it has been through here before
        return []
    known = _allocations(core)
    path, text = "spec.clusterIPs", f"failed to allocate IP {address}: "
    if not address:
        address = known.address()
        if not service["metadata"].get("name") and not _is_trial():  # it is kept as an object that names its Service
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
    """Node ports of a new Service: ports of one number (of TCP and UDP) share one."""
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
    """Node ports of a changed Service, which has some; raises ApiError 500 for one that is there twice."""
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
    """Why a Service cannot have a node port; "" when it can."""
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
