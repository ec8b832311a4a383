"""String formats that a schema may ask for; unknown ones are ignored, as Kubernetes does."""

from __future__ import annotations

import base64
import ipaddress
import re
from collections.abc import Callable
from datetime import datetime
from urllib.parse import urlsplit

_DURATION = re.compile(r"^[+-]?(\d+(\.\d*)?|\.\d+)(ns|us|µs|ms|s|m|h)((\d+(\.\d*)?|\.\d+)(ns|us|µs|ms|s|m|h))*$|^0$")
_UUID = re.compile(r"^[0-9a-f]{8}-?([0-9a-f]{4}-?){3}[0-9a-f]{12}$", re.IGNORECASE)
_EMAIL = re.compile(r"^[^@\s]+@[^@\s]+$")
_DATE = re.compile(r"^\d{4}-\d{2}-\d{2}$")
_TIME = re.compile(r"^\d{4}-\d{2}-\d{2}[Tt]\d{2}:\d{2}:\d{2}(\.\d+)?([Zz]|[+-]\d{2}:\d{2})$")


def _parses(parse: Callable[[str], object]) -> Callable[[str], bool]:
    def check(text: str) -> bool:
        try:
            parse(text)
        except ValueError:
            return False
        return True

    return check


def _base64(text: str) -> bytes:
    return base64.b64decode(text, validate=True)


FORMATS: dict[str, Callable[[str], bool]] = {
    "date-time": lambda text: bool(_TIME.match(text)) and _parses(datetime.fromisoformat)(text),
    "datetime": lambda text: bool(_TIME.match(text)) and _parses(datetime.fromisoformat)(text),
    "date": lambda text: bool(_DATE.match(text)) and _parses(datetime.fromisoformat)(text),
    "duration": lambda text: bool(_DURATION.match(text)),
    "uuid": lambda text: bool(_UUID.match(text)),
    "email": lambda text: bool(_EMAIL.match(text)),
    "ipv4": _parses(ipaddress.IPv4Address),
    "ipv6": _parses(ipaddress.IPv6Address),
    "cidr": _parses(lambda text: ipaddress.ip_network(text, strict=False)),
    "byte": _parses(_base64),
    "uri": lambda text: bool(urlsplit(text).scheme),
}

RANGES: dict[str, tuple[int, int]] = {
    "int32": (-(2**31), 2**31 - 1),
    "int64": (-(2**63), 2**63 - 1),
}
"""Numbers that fit an integer format."""
