"""Kubernetes' CEL libraries: addresses and networks, URLs, quantities, semantic versions, named formats.

Kubernetes: `kubernetes.net.ip` and `kubernetes.net.cidr`, `kubernetes.urls` (over Go's `net/url`),
`kubernetes.quantity`, `kubernetes.Semver` (semver.org 2.0.0) and `kubernetes.format`.
"""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Callable
from fractions import Fraction
from typing import Any, Final
from urllib.parse import parse_qsl, quote, unquote

from volcanoio.model.cel.errors import EvaluationError
from volcanoio.model.cel.functions.arguments import taking
from volcanoio.model.cel.signatures import Declared
from volcanoio.model.cel.values import INT_MAX, INT_MIN, NOTHING, Opaque, Optional
from volcanoio.model.quantity import QuantityError, parse
from volcanoio.model.validation.dns_names import label_rule, qualified_rule, subdomain_rule, value_rule
from volcanoio.model.validation.formats import FORMATS, HOST, Parts, dns1035_rule, is_url, parse_url

_Address = ipaddress.IPv4Address | ipaddress.IPv6Address


class Ip(Opaque):
    """An IP address."""

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
        """Return the network address."""
        return Cidr(ipaddress.ip_network(str(self), strict=False).network_address, self.bits)

    def contains(self, address: _Address) -> bool:
        """Return whether the address is in the network."""
        return address.version == self.address.version and address in ipaddress.ip_network(str(self), strict=False)


def _parse_ip(text: str) -> _Address:
    """Parse an address; raises ValueError with Kubernetes' text."""
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
    """Parse a network; raises ValueError with Kubernetes' text."""
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
    return taking(str)(_ip)(value)  # type: ignore[no-any-return]  # the wrapped function returns an Ip


_of_ip, _of_cidr = taking(Ip), taking(Cidr)

NETWORKS: dict[str, Declared] = {
    "ip": Declared("(string) -> net.IP; net.CIDR.() -> net.IP", _to_ip),
    "isIP": Declared("(string) -> bool", taking(str)(lambda text: _valid(_parse_ip, text))),
    "ip.isCanonical": Declared("(string) -> bool", taking(str)(lambda text: str(_ip(text)) == text)),
    "family": Declared("net.IP.() -> int", _of_ip(lambda one: one.address.version)),
    "isUnspecified": Declared("net.IP.() -> bool", _of_ip(lambda one: one.address.is_unspecified)),
    "isLoopback": Declared("net.IP.() -> bool", _of_ip(lambda one: one.address.is_loopback)),
    "isLinkLocalMulticast": Declared("net.IP.() -> bool", _of_ip(_link_local_multicast)),
    "isLinkLocalUnicast": Declared("net.IP.() -> bool", _of_ip(lambda one: one.address.is_link_local)),
    "isGlobalUnicast": Declared("net.IP.() -> bool", _of_ip(_global_unicast)),
    "cidr": Declared("(string) -> net.CIDR", taking(str)(_cidr)),
    "isCIDR": Declared("(string) -> bool", taking(str)(lambda text: _valid(_parse_cidr, text))),
    "containsIP": Declared("net.CIDR.(string) -> bool; net.CIDR.(net.IP) -> bool", taking(Cidr, object)(_contains_ip)),
    "containsCIDR": Declared(
        "net.CIDR.(string) -> bool; net.CIDR.(net.CIDR) -> bool", taking(Cidr, object)(_contains_cidr)
    ),
    "prefixLength": Declared("net.CIDR.() -> int", _of_cidr(lambda one: one.bits)),
    "masked": Declared("net.CIDR.() -> net.CIDR", _of_cidr(Cidr.masked)),
    "string": Declared("(net.IP) -> string; (net.CIDR) -> string", taking(Opaque)(str)),
}


class Url(Opaque):
    """A parsed URL."""

    __slots__ = ("parts", "text")
    kind = "kubernetes.URL"

    def __init__(self, text: str, parts: Parts) -> None:
        self.text, self.parts = text, parts

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Url) and other.text == self.text

    def __hash__(self) -> int:
        return hash(self.text)

    def __str__(self) -> str:
        return self.text


def _url(text: str) -> Url:
    try:
        return Url(text, parse_url(text))
    except ValueError as error:
        raise EvaluationError(f"URL parse error during conversion from string: {error}") from None


def _hostname(one: Url) -> str:
    match = HOST.fullmatch(one.parts.host)
    return match[1].strip("[]") if match is not None else ""


def _port(one: Url) -> str:
    match = HOST.fullmatch(one.parts.host)
    return (match[2] or "") if match is not None else ""


def _query(one: Url) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for name, value in parse_qsl(one.parts.query, keep_blank_values=True):
        found.setdefault(name, []).append(value)
    return found


_of_url = taking(Url)

URLS: dict[str, Declared] = {
    "url": Declared("(string) -> kubernetes.URL", taking(str)(_url)),
    "isURL": Declared("(string) -> bool", taking(str)(is_url)),
    "getScheme": Declared("kubernetes.URL.() -> string", _of_url(lambda one: one.parts.scheme)),
    "getHost": Declared("kubernetes.URL.() -> string", _of_url(lambda one: one.parts.host)),
    "getHostname": Declared("kubernetes.URL.() -> string", _of_url(_hostname)),
    "getPort": Declared("kubernetes.URL.() -> string", _of_url(_port)),
    "getEscapedPath": Declared(
        "kubernetes.URL.() -> string", _of_url(lambda one: quote(unquote(one.parts.path), safe="/$&+,:;=@!'()*[]~"))
    ),
    "getQuery": Declared("kubernetes.URL.() -> map(string, list(string))", _of_url(_query)),
}


_KIND = "kubernetes.Quantity"
_RULE = "quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'"


class Quantity(Opaque):
    """An exact quantity."""

    __slots__ = ("amount",)
    kind = _KIND

    def __init__(self, amount: Fraction) -> None:
        self.amount = amount

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Quantity) and other.amount == self.amount

    def __hash__(self) -> int:
        return hash(self.amount)


def _quantity(text: str) -> Quantity:
    try:
        return Quantity(parse(text))
    except QuantityError:
        raise EvaluationError(_RULE) from None


def _is_quantity(text: str) -> bool:
    try:
        parse(text)
    except QuantityError:
        return False
    return True


def _sign(one: Quantity) -> int:
    return (one.amount > 0) - (one.amount < 0)


def _is_integer(one: Quantity) -> bool:
    return one.amount.denominator == 1 and INT_MIN <= one.amount <= INT_MAX


def _as_integer(one: Quantity) -> int:
    if not _is_integer(one):
        raise EvaluationError("cannot convert value to integer")
    return int(one.amount)


def _other(value: Any) -> Fraction:
    if type(value) is int:
        return Fraction(value)
    if isinstance(value, Quantity):
        return value.amount
    raise EvaluationError("no such overload")


_QUANTITIES = "kubernetes.Quantity.(kubernetes.Quantity)"
_QUANTITY_SUM = f"{_QUANTITIES} -> kubernetes.Quantity; kubernetes.Quantity.(int) -> kubernetes.Quantity"
_of_quantity, _of_quantities = taking(Quantity), taking(Quantity, Quantity)

QUANTITIES: dict[str, Declared] = {
    "quantity": Declared("(string) -> kubernetes.Quantity", taking(str)(_quantity)),
    "isQuantity": Declared("(string) -> bool", taking(str)(_is_quantity)),
    "sign": Declared("(kubernetes.Quantity) -> int", _of_quantity(_sign)),
    "isGreaterThan": Declared(f"{_QUANTITIES} -> bool", _of_quantities(lambda one, other: one.amount > other.amount)),
    "isLessThan": Declared(f"{_QUANTITIES} -> bool", _of_quantities(lambda one, other: one.amount < other.amount)),
    "compareTo": Declared(
        f"{_QUANTITIES} -> int",
        _of_quantities(lambda one, other: (one.amount > other.amount) - (one.amount < other.amount)),
    ),
    "asApproximateFloat": Declared("kubernetes.Quantity.() -> double", _of_quantity(lambda one: float(one.amount))),
    "asInteger": Declared("kubernetes.Quantity.() -> int", _of_quantity(_as_integer)),
    "isInteger": Declared("kubernetes.Quantity.() -> bool", _of_quantity(_is_integer)),
    "add": Declared(_QUANTITY_SUM, taking(Quantity, object)(lambda one, other: Quantity(one.amount + _other(other)))),
    "sub": Declared(_QUANTITY_SUM, taking(Quantity, object)(lambda one, other: Quantity(one.amount - _other(other)))),
}


_NUMBER: Final = r"(0|[1-9]\d*)"
_PART: Final = r"(?:0|[1-9]\d*|\d*[A-Za-z-][0-9A-Za-z-]*)"
_VERSION: Final = re.compile(
    rf"{_NUMBER}\.{_NUMBER}\.{_NUMBER}(?:-({_PART}(?:\.{_PART})*))?(?:\+[0-9A-Za-z-]+(?:\.[0-9A-Za-z-]+)*)?", re.ASCII
)


class Semver(Opaque):
    """A semantic version; build metadata is ignored."""

    __slots__ = ("numbers", "pre")
    kind = "kubernetes.Semver"

    def __init__(self, numbers: tuple[int, ...], pre: tuple[tuple[int, int, str], ...]) -> None:
        self.numbers, self.pre = numbers, pre

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Semver) and self.order == other.order

    def __hash__(self) -> int:
        return hash(self.order)

    @property
    def order(self) -> tuple[Any, ...]:
        """Return the sort key of a version: a release follows its pre-releases."""
        return (self.numbers, not self.pre, self.pre)


def parse_semver(text: str) -> Semver:
    """Parse a semantic version; raises ValueError."""
    match = _VERSION.fullmatch(text)
    if match is None:
        raise ValueError("No Major.Minor.Patch elements found" if text.count(".") < 2 else f"Invalid version: {text}")
    pre = tuple((0, int(one), "") if one.isdigit() else (1, 0, one) for one in (match[4] or "").split(".") if one)
    return Semver(tuple(int(one) for one in match.groups()[:3]), pre)


def _normalized(text: str) -> str:
    """Return the version in canonical form: `v1.02` becomes `1.2.0`."""
    parts = text.removeprefix("v").split(".", 2)
    parts = [
        (rest if (rest := one.lstrip("0"))[:1].isdigit() else f"0{rest}") if len(one) > 1 else one for one in parts
    ]
    if len(parts) < 3 and not re.search(r"[+-]", parts[-1]):
        parts += ["0"] * (3 - len(parts))
    return ".".join(parts)


def _semver(text: str, normalize: bool = False) -> Semver:
    try:
        return parse_semver(_normalized(text) if normalize else text)
    except ValueError as error:
        raise EvaluationError(str(error)) from None


def is_semver(text: str, normalize: bool = False) -> bool:
    """Return whether a text is a semantic version, with `normalize` after it is put into canonical form."""
    try:
        parse_semver(_normalized(text) if normalize else text)
    except ValueError:
        return False
    return True


_SEMVERS = "kubernetes.Semver.(kubernetes.Semver)"
_of_semver, _of_semvers = taking(Semver), taking(Semver, Semver)

SEMVERS: dict[str, Declared] = {
    "semver": Declared(
        "(string) -> kubernetes.Semver; (string, bool) -> kubernetes.Semver", taking(str, bool)(_semver)
    ),
    "isSemver": Declared("(string) -> bool; (string, bool) -> bool", taking(str, bool)(is_semver)),
    "major": Declared("kubernetes.Semver.() -> int", _of_semver(lambda one: one.numbers[0])),
    "minor": Declared("kubernetes.Semver.() -> int", _of_semver(lambda one: one.numbers[1])),
    "patch": Declared("kubernetes.Semver.() -> int", _of_semver(lambda one: one.numbers[2])),
    "isGreaterThan": Declared(f"{_SEMVERS} -> bool", _of_semvers(lambda one, other: one.order > other.order)),
    "isLessThan": Declared(f"{_SEMVERS} -> bool", _of_semvers(lambda one, other: one.order < other.order)),
    "compareTo": Declared(
        f"{_SEMVERS} -> int", _of_semvers(lambda one, other: (one.order > other.order) - (one.order < other.order))
    ),
}


class Format(Opaque):
    """A named format; `check` returns the errors of a text."""

    __slots__ = ("check", "name")
    kind = "kubernetes.NamedFormat"

    def __init__(self, name: str, check: Callable[[str], str]) -> None:
        self.name, self.check = name, check

    def __str__(self) -> str:
        return self.name


def _prefix(rule: Callable[[str], str]) -> Callable[[str], str]:
    """Return a check for prefixes of names, which may end in a dash."""
    return lambda text: rule(f"{text[:-1]}a" if text.endswith("-") and len(text) > 1 else text)


def _uri(text: str) -> str:
    try:
        parse_url(text)
    except ValueError as error:
        return str(error)
    return ""


def _known(name: str, why: str) -> Callable[[str], str]:
    return lambda text: "" if FORMATS[name](text) else why


_CHECKS: Final[dict[str, Callable[[str], str]]] = {
    "dns1123Label": label_rule,
    "dns1123Subdomain": subdomain_rule,
    "dns1035Label": dns1035_rule,
    "qualifiedName": qualified_rule,
    "dns1123LabelPrefix": _prefix(label_rule),
    "dns1123SubdomainPrefix": _prefix(subdomain_rule),
    "dns1035LabelPrefix": _prefix(dns1035_rule),
    "labelValue": value_rule,
    "uri": _uri,
    "uuid": _known("uuid", "does not match the UUID format"),
    "byte": _known("byte", "invalid base64"),
    "date": _known("date", "invalid date"),
    "datetime": _known("datetime", "invalid datetime"),
}
_FORMATS: Final = {name: Format(name, check) for name, check in _CHECKS.items()}


def _validate(one: Format, text: str) -> Optional:
    wrong = one.check(text)
    return Optional(present=True, value=[wrong]) if wrong else NOTHING


def _named(name: str) -> Optional:
    return Optional(present=True, value=_FORMATS[name]) if name in _FORMATS else NOTHING


NAMED_FORMATS: dict[str, Declared] = {
    "validate": Declared("kubernetes.NamedFormat.(string) -> optional(list(string))", taking(Format, str)(_validate)),
    "format.named": Declared("(string) -> optional(kubernetes.NamedFormat)", taking(str)(_named)),
    **{
        f"format.{name}": Declared("() -> kubernetes.NamedFormat", lambda one=one: one)
        for name, one in _FORMATS.items()
    },
}
