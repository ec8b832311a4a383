"""String formats (kube-openapi `pkg/validation/strfmt`); unknown ones are ignored.

Includes URLs as Go's `net/url.ParseRequestURI` parses them, and names as DNS labels of RFC 1035, which start with a
letter (apimachinery `IsDNS1035Label`).
"""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Callable
from datetime import date
from typing import Final, NamedTuple

from volcanoio.model.validation.patterns import compile_pattern

_SCHEME: Final = re.compile(r"([a-zA-Z][a-zA-Z0-9+.\-]*):")
HOST: Final = re.compile(r"(?:[^@/]*@)?(\[[^\]]*\]|[^:\[\]]*)(?::(\d*))?")
"""A host in group 1, its port in group 2."""
_BAD_ESCAPE: Final = re.compile(r"%(?![0-9A-Fa-f]{2}).{0,2}")
_BAD_HOST: Final = re.compile(r"[\s\"<>\\^`{|}]")


class Parts(NamedTuple):
    """Parts of a URL; `host` includes the port."""

    scheme: str
    host: str
    path: str
    query: str


def parse_url(text: str) -> Parts:
    """Parse an absolute URI or path; raises ValueError with Go's text."""

    def fail(why: str) -> ValueError:
        return ValueError(f'parse "{text}": {why}')

    if not text:
        raise fail("empty url")
    if any(ord(one) < 0x20 or ord(one) == 0x7F for one in text):
        raise fail("net/url: invalid control character in URL")
    rest, _, _fragment = text.partition("#")
    match = _SCHEME.match(rest)
    scheme = match[1].lower() if match is not None else ""
    if match is None and rest.startswith(":"):
        raise fail("missing protocol scheme")
    if match is not None:
        rest = rest[match.end() :]
    rest, _, query = rest.partition("?")
    if not rest.startswith("/"):
        raise fail("invalid URI for request")
    host = ""
    if scheme and rest.startswith("//"):
        host, slash, rest = rest[2:].partition("/")
        rest = slash + rest
        if why := _host_fault(host):
            raise fail(why)
        host = host.rpartition("@")[2]
    if (escape := _BAD_ESCAPE.search(rest)) is not None:
        raise fail(f'invalid URL escape "{escape.group()}"')
    return Parts(scheme, host, rest, query)


def _host_fault(host: str) -> str:
    """Return the reason why a host with its port is invalid; empty when it is valid."""
    if HOST.fullmatch(host) is None:
        return f'invalid port ":{host.rpartition(":")[2]}" after host'
    bad = _BAD_HOST.search(host)
    return f'invalid character "{bad.group()}" in host name' if bad is not None else ""


def is_url(text: str) -> bool:
    """Return whether Go's `url.ParseRequestURI` accepts the text."""
    try:
        parse_url(text)
    except ValueError:
        return False
    return True


_DNS1035_LABEL: Final = re.compile(r"[a-z](?:[-a-z0-9]*[a-z0-9])?")
_RULE: Final = (
    "a DNS-1035 label must consist of lower case alphanumeric characters or '-', start with an alphabetic character, "
    "and end with an alphanumeric character (e.g. 'my-name',  or 'abc-123', regex used for validation is "
    "'[a-z]([-a-z0-9]*[a-z0-9])?')"
)


def dns1035_rule(name: str) -> str:
    """Return the error of a name; empty when it is valid."""
    wrong = []
    if len(name) > 63:
        wrong.append("must be no more than 63 characters")
    if _DNS1035_LABEL.fullmatch(name) is None:
        wrong.append(_RULE)
    return ",".join(wrong)


Check = Callable[[str], bool]

_GO_DURATION = re.compile(r"[+-]?(?:0|(?:(?:\d+\.?\d*|\.\d+)(?:ns|us|µs|μs|ms|s|m|h))+)")
_WORD_DURATION = re.compile(r"(\d+)\s*([A-Za-zµ]+)")
_WORDS = (
    "ns",
    "nano",
    "us",
    "µs",
    "micro",
    "ms",
    "milli",
    "s",
    "sec",
    "m",
    "min",
    "h",
    "hr",
    "hour",
    "d",
    "day",
    "w",
    "wk",
)
_TIME = re.compile(r"(\d{2}):(\d{2}):(\d{2})(?:.\d+)?(?:z|[+-]\d{2}:\d{2})")
_DAY = re.compile(r"\d{4}-\d{2}-\d{2}")
_EMAIL = re.compile(r"(?:[^<>@]*<)?[^\s<>@]+@[^\s<>@]+>?")
_MAC = re.compile(
    r"[0-9a-fA-F]{2}([:-])(?:[0-9a-fA-F]{2}\1){4}(?:(?:[0-9a-fA-F]{2}\1){2}|(?:[0-9a-fA-F]{2}\1){14})?[0-9a-fA-F]{2}"
)
_MAC_DOTS = re.compile(r"[0-9a-fA-F]{4}(?:\.[0-9a-fA-F]{4}){2}(?:\.[0-9a-fA-F]{4}|(?:\.[0-9a-fA-F]{4}){7})?")
_CARD = re.compile(
    r"(?:4\d{12}(?:\d{3})?|5[1-5]\d{14}|6(?:011|5\d\d)\d{12}|3[47]\d{13}|3(?:0[0-5]|[68]\d)\d{11}|(?:2131|1800|35\d{3})\d{11})"
)
_RGB = re.compile(
    r"rgb\(\s*(0|[1-9]\d?|1\d\d?|2[0-4]\d|25[0-5])\s*,\s*(0|[1-9]\d?|1\d\d?|2[0-4]\d|25[0-5])\s*,"
    r"\s*(0|[1-9]\d?|1\d\d?|2[0-4]\d|25[0-5])\s*\)"
)
_LABEL = re.compile(r"[a-z0-9](?:[-a-z0-9]*[a-z0-9])?")
_HOSTNAME = (
    r"^([a-zA-Z0-9\p{S}\p{L}]((-?[a-zA-Z0-9\p{S}\p{L}]{0,62})?)"
    r"|([a-zA-Z0-9\p{S}\p{L}](([a-zA-Z0-9-\p{S}\p{L}]{0,61}[a-zA-Z0-9\p{S}\p{L}])?)(\.)){1,}([a-zA-Z\p{L}]){2,63})$"
)


def _whole(pattern: str, flags: int = re.IGNORECASE) -> Check:
    match = re.compile(pattern, flags).fullmatch
    return lambda text: match(text) is not None


def _is_date(text: str) -> bool:
    if _DAY.fullmatch(text) is None:
        return False
    try:
        date.fromisoformat(text)
    except ValueError:
        return False
    return True


def _is_moment(text: str) -> bool:
    day, mark, rest = text.lower().partition("t")
    match = _TIME.fullmatch(rest)
    if not mark or match is None or not _is_date(day):
        return False
    return int(match[1]) <= 23 and int(match[2]) <= 59 and int(match[3]) <= 59


def _is_duration(text: str) -> bool:
    if _GO_DURATION.fullmatch(text):
        return True
    units = [unit for _, unit in _WORD_DURATION.findall(text)]
    return any(unit.startswith(_WORDS) for unit in units)


def _is_address(version: int) -> Check:
    def check(text: str) -> bool:
        if (":" in text) != (version == 6):
            return False
        try:
            found = ipaddress.ip_address(".".join(str(int(one)) for one in text.split(".")) if version == 4 else text)
        except ValueError:
            return False
        return "%" not in text and found.version == version

    return check


def _is_network(text: str) -> bool:
    address, _, bits = text.partition("/")
    try:
        if ":" not in address:
            address = ".".join(str(int(one)) for one in address.split("."))
        found = ipaddress.ip_address(address)
    except ValueError:
        return False
    return bits.isdigit() and int(bits) <= found.max_prefixlen and "%" not in address


def _is_hostname(text: str) -> bool:
    if compile_pattern(_HOSTNAME).search(text) is None or len(text.encode()) > 255:
        return False
    return all(len(one.encode()) <= 63 for one in text.split("."))


def _is_isbn(size: int) -> Check:
    def check(text: str) -> bool:
        digits = re.sub(r"[\s-]", "", text)
        if size == 10:
            if not re.fullmatch(r"\d{9}[\dX]", digits):
                return False
            return sum((at + 1) * (10 if one == "X" else int(one)) for at, one in enumerate(digits)) % 11 == 0
        if not re.fullmatch(r"\d{13}", digits):
            return False
        return sum(int(one) * (3 if at % 2 else 1) for at, one in enumerate(digits)) % 10 == 0

    return check


def _is_card(text: str) -> bool:
    digits = re.sub(r"\D", "", text)
    if _CARD.fullmatch(digits) is None:
        return False
    total = 0
    for at, one in enumerate(reversed(digits)):
        number = int(one) * (2 if at % 2 else 1)
        total += number - 9 if number > 9 else number
    return total % 10 == 0


def _is_name(most: int, *, dots: bool) -> Check:
    def check(text: str) -> bool:
        parts = text.split(".") if dots else [text]
        return len(text) <= most and all(_LABEL.fullmatch(one) for one in parts)

    return check


_HEX = "[0-9a-f]"
FORMATS: Final[dict[str, Check]] = {
    "bsonobjectid": _whole(rf"{_HEX}{{24}}"),
    "uri": is_url,
    "email": lambda text: _EMAIL.fullmatch(text) is not None,
    "hostname": _is_hostname,
    "ipv4": _is_address(4),
    "ipv6": _is_address(6),
    "cidr": _is_network,
    "mac": lambda text: _MAC.fullmatch(text) is not None or _MAC_DOTS.fullmatch(text) is not None,
    "uuid": _whole(rf"{_HEX}{{8}}-?{_HEX}{{4}}-?{_HEX}{{4}}-?{_HEX}{{4}}-?{_HEX}{{12}}"),
    "uuid3": _whole(rf"{_HEX}{{8}}-?{_HEX}{{4}}-?3{_HEX}{{3}}-?{_HEX}{{4}}-?{_HEX}{{12}}"),
    "uuid4": _whole(rf"{_HEX}{{8}}-?{_HEX}{{4}}-?4{_HEX}{{3}}-?[89ab]{_HEX}{{3}}-?{_HEX}{{12}}"),
    "uuid5": _whole(rf"{_HEX}{{8}}-?{_HEX}{{4}}-?5{_HEX}{{3}}-?[89ab]{_HEX}{{3}}-?{_HEX}{{12}}"),
    "isbn": lambda text: _is_isbn(10)(text) or _is_isbn(13)(text),
    "isbn10": _is_isbn(10),
    "isbn13": _is_isbn(13),
    "creditcard": _is_card,
    "ssn": _whole(r"\d{3}[- ]?\d{2}[- ]?\d{4}"),
    "hexcolor": _whole(rf"#?({_HEX}{{3}}|{_HEX}{{6}})"),
    "rgbcolor": lambda text: _RGB.fullmatch(text) is not None,
    "byte": _whole(r"(?:[a-z0-9+/]{4})*(?:[a-z0-9+/]{2}==|[a-z0-9+/]{3}=|[a-z0-9+/]{4})"),
    "password": lambda _: True,
    "date": _is_date,
    "duration": _is_duration,
    "datetime": _is_moment,
    "k8sshortname": _is_name(63, dots=False),
    "k8slongname": _is_name(253, dots=True),
}
"""By name without dashes: `date-time` is `datetime`."""

NUMBER_FORMATS: Final[dict[str, tuple[str, ...]]] = {"integer": ("int32", "int64"), "number": ("float", "double")}
"""The formats of numbers, by type."""

RANGES: Final[dict[str, tuple[float, float]]] = {
    "int32": (-(2**31), 2**31 - 1),
    "float": (-3.4028234663852886e38, 3.4028234663852886e38),
}
"""Numbers that fit a format."""


def known_format(schema: dict[str, object]) -> bool:
    """Return whether the format is defined for the type of a schema (string, or none)."""
    name, kind = str(schema.get("format") or ""), str(schema.get("type") or "")
    if kind in {"", "string"}:
        return name.replace("-", "") in FORMATS
    return name in NUMBER_FORMATS.get(kind, ())
