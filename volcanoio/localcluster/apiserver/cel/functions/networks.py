"""Addresses and networks (Kubernetes' `kubernetes.net.ip` and `kubernetes.net.cidr`)."""

from __future__ import annotations

import ipaddress
from typing import Any

from volcanoio.localcluster.apiserver.cel.errors import EvaluationError
from volcanoio.localcluster.apiserver.cel.functions.arguments import taking
from volcanoio.localcluster.apiserver.cel.signatures import Declared
from volcanoio.localcluster.apiserver.cel.values import Opaque

_Address = ipaddress.IPv4Address | ipaddress.IPv6Address


class Ip(Opaque):
    """An address."""

    __slots__ = ("address",)
    kind = "net.IP"

    def __init__(self, address: _Address) -> None:
        self.address = address

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Ip) and other.address == self.address

    def __hash__(self) -> int:
        return hash(self.address)

    def __str__(self) -> str:
        return str(self.address)


class Cidr(Opaque):
    """A network; the address may have bits outside of the mask."""

    __slots__ = ("address", "bits")
    kind = "net.CIDR"

    def __init__(self, address: _Address, bits: int) -> None:
        self.address, self.bits = address, bits

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Cidr) and (other.address, other.bits) == (self.address, self.bits)

    def __hash__(self) -> int:
        return hash((self.address, self.bits))

    def __str__(self) -> str:
        return f"{self.address}/{self.bits}"

    def masked(self) -> Cidr:
        """Without the bits outside of the mask."""
        return Cidr(ipaddress.ip_network(str(self), strict=False).network_address, self.bits)

    def contains(self, address: _Address) -> bool:
        """Whether the address is in the network."""
        return address.version == self.address.version and address in ipaddress.ip_network(str(self), strict=False)


def _parse_ip(text: str) -> _Address:
    """Raises ValueError with Kubernetes' text."""
    try:
        found = ipaddress.ip_address(text)
    except ValueError:
        shown = f'ParseAddr("{text}"): unable to parse IP'
        raise ValueError(f'IP Address "{text}" parse error during conversion from string: {shown}') from None
    if isinstance(found, ipaddress.IPv6Address):
        if found.scope_id is not None:
            raise ValueError(f'IP address "{text}" with zone value is not allowed')
        if found.ipv4_mapped is not None:
            raise ValueError(f'IPv4-mapped IPv6 address "{text}" is not allowed')
    return found


def _parse_cidr(text: str) -> Cidr:
    """Raises ValueError with Kubernetes' text."""
    address, slash, bits = text.partition("/")
    try:
        found = ipaddress.ip_address(address)
    except ValueError:
        slash = ""
    else:
        if isinstance(found, ipaddress.IPv6Address) and found.ipv4_mapped is not None:
            raise ValueError(f'IPv4-mapped IPv6 address "{text}" is not allowed')
        if slash and bits.isdigit() and str(int(bits)) == bits and int(bits) <= found.max_prefixlen:
            return Cidr(found, int(bits))
    why = "bad address or prefix length" if "/" in text else "no '/'"
    raise ValueError(f'network address parse error during conversion from string: netip.ParsePrefix("{text}"): {why}')


def _valid(parse: Any, text: str) -> bool:
    try:
        parse(text)
    except ValueError:
        return False
    return True


def _ip(text: str) -> Ip:
    try:
        return Ip(_parse_ip(text))
    except ValueError as error:
        raise EvaluationError(str(error)) from None


def _cidr(text: str) -> Cidr:
    try:
        return _parse_cidr(text)
    except ValueError as error:
        raise EvaluationError(f"network address parse error during conversion from string: {error}") from None


def _contains_ip(network: Cidr, other: Any) -> bool:
    return network.contains((_ip(other) if type(other) is str else other).address)


def _contains_cidr(network: Cidr, other: Any) -> bool:
    inner = _cidr(other) if type(other) is str else other
    return network.bits <= inner.bits and network.contains(inner.masked().address)


def _global_unicast(one: Ip) -> bool:
    address = one.address
    broadcast = isinstance(address, ipaddress.IPv4Address) and str(address) == "255.255.255.255"
    return not (
        address.is_unspecified or address.is_loopback or address.is_multicast or address.is_link_local or broadcast
    )


def _link_local_multicast(one: Ip) -> bool:
    address = one.address
    if isinstance(address, ipaddress.IPv4Address):
        return address in ipaddress.ip_network("224.0.0.0/24")
    return address.packed[0] == 0xFF and address.packed[1] & 0x0F == 0x02


def _to_ip(value: Any) -> Ip:
    if isinstance(value, Cidr):
        return Ip(value.address)
    return taking(str)(_ip)(value)  # type: ignore[no-any-return]  # what it wraps returns an Ip


_one, _net = taking(Ip), taking(Cidr)

TABLE: dict[str, Declared] = {
    "ip": Declared("(string) -> net.IP; net.CIDR.() -> net.IP", _to_ip),
    "isIP": Declared("(string) -> bool", taking(str)(lambda text: _valid(_parse_ip, text))),
    "ip.isCanonical": Declared("(string) -> bool", taking(str)(lambda text: str(_ip(text)) == text)),
    "family": Declared("net.IP.() -> int", _one(lambda one: one.address.version)),
    "isUnspecified": Declared("net.IP.() -> bool", _one(lambda one: one.address.is_unspecified)),
    "isLoopback": Declared("net.IP.() -> bool", _one(lambda one: one.address.is_loopback)),
    "isLinkLocalMulticast": Declared("net.IP.() -> bool", _one(_link_local_multicast)),
    "isLinkLocalUnicast": Declared("net.IP.() -> bool", _one(lambda one: one.address.is_link_local)),
    "isGlobalUnicast": Declared("net.IP.() -> bool", _one(_global_unicast)),
    "cidr": Declared("(string) -> net.CIDR", taking(str)(_cidr)),
    "isCIDR": Declared("(string) -> bool", taking(str)(lambda text: _valid(_parse_cidr, text))),
    "containsIP": Declared("net.CIDR.(string) -> bool; net.CIDR.(net.IP) -> bool", taking(Cidr, object)(_contains_ip)),
    "containsCIDR": Declared(
        "net.CIDR.(string) -> bool; net.CIDR.(net.CIDR) -> bool", taking(Cidr, object)(_contains_cidr)
    ),
    "prefixLength": Declared("net.CIDR.() -> int", _net(lambda one: one.bits)),
    "masked": Declared("net.CIDR.() -> net.CIDR", _net(Cidr.masked)),
    "string": Declared("(net.IP) -> string; (net.CIDR) -> string", taking(Opaque)(str)),
}
