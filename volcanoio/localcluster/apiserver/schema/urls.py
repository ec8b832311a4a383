"""URLs as Go's `net/url.ParseRequestURI` reads them."""

from __future__ import annotations

import re
from typing import Final, NamedTuple

_SCHEME: Final = re.compile(r"([a-zA-Z][a-zA-Z0-9+.\-]*):")
HOST: Final = re.compile(r"(?:[^@/]*@)?(\[[^\]]*\]|[^:\[\]]*)(?::(\d*))?")
"""A host in group 1, its port in group 2."""
_BAD_ESCAPE: Final = re.compile(r"%(?![0-9A-Fa-f]{2}).{0,2}")
_BAD_HOST: Final = re.compile(r"[\s\"<>\\^`{|}]")


class Parts(NamedTuple):
    """What a URL consists of; `host` has the port."""

    scheme: str
    host: str
    path: str
    query: str


def parse_url(text: str) -> Parts:
    """An absolute URI or an absolute path; raises ValueError with Go's text."""

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
        found = HOST.fullmatch(host)
        if found is None:
            port = host.rpartition(":")[2]
            raise fail(f'invalid port ":{port}" after host')
        if (bad := _BAD_HOST.search(host)) is not None:
            raise fail(f'invalid character "{bad.group()}" in host name')
        host = host.rpartition("@")[2]
    if (escape := _BAD_ESCAPE.search(rest)) is not None:
        raise fail(f'invalid URL escape "{escape.group()}"')
    return Parts(scheme, host, rest, query)


def is_url(text: str) -> bool:
    """Whether Go's `url.ParseRequestURI` takes it."""
    try:
        parse_url(text)
    except ValueError:
        return False
    return True
