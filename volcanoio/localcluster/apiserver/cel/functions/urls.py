"""URLs (Kubernetes' `kubernetes.urls`, over Go's `net/url`)."""

from __future__ import annotations

import re
from typing import Final
from urllib.parse import parse_qsl, quote, unquote

from volcanoio.localcluster.apiserver.cel.errors import EvaluationError
from volcanoio.localcluster.apiserver.cel.functions.arguments import taking
from volcanoio.localcluster.apiserver.cel.signatures import Declared
from volcanoio.localcluster.apiserver.cel.values import Opaque

_SCHEME: Final = re.compile(r"([a-zA-Z][a-zA-Z0-9+.\-]*):")
_HOST: Final = re.compile(r"(?:[^@/]*@)?(\[[^\]]*\]|[^:\[\]]*)(?::(\d*))?")
_BAD_ESCAPE: Final = re.compile(r"%(?![0-9A-Fa-f]{2}).{0,2}")
_BAD_HOST: Final = re.compile(r"[\s\"<>\\^`{|}]")


class Url(Opaque):
    """A parsed URL."""

    __slots__ = ("host", "path", "query", "scheme", "text")
    kind = "kubernetes.URL"

    def __init__(self, text: str, scheme: str, host: str, path: str, query: str) -> None:
        self.text, self.scheme, self.host, self.path, self.query = text, scheme, host, path, query

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Url) and other.text == self.text

    def __hash__(self) -> int:
        return hash(self.text)

    def __str__(self) -> str:
        return self.text


def parse_url(text: str) -> Url:
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
        if not scheme or not rest:
            raise fail("invalid URI for request")
        raise fail("invalid URI for request")
    host = ""
    if scheme and rest.startswith("//"):
        host, slash, rest = rest[2:].partition("/")
        rest = slash + rest
        found = _HOST.fullmatch(host)
        if found is None:
            port = host.rpartition(":")[2]
            raise fail(f'invalid port ":{port}" after host')
        if (bad := _BAD_HOST.search(host)) is not None:
            raise fail(f'invalid character "{bad.group()}" in host name')
        host = host.rpartition("@")[2]
    if (escape := _BAD_ESCAPE.search(rest)) is not None:
        raise fail(f'invalid URL escape "{escape.group()}"')
    return Url(text, scheme, host, rest, query)


def _url(text: str) -> Url:
    try:
        return parse_url(text)
    except ValueError as error:
        raise EvaluationError(f"URL parse error during conversion from string: {error}") from None


def is_url(text: str) -> bool:
    """Whether Go's `url.ParseRequestURI` takes it."""
    try:
        parse_url(text)
    except ValueError:
        return False
    return True


def _hostname(one: Url) -> str:
    match = _HOST.fullmatch(one.host)
    return match[1].strip("[]") if match is not None else ""


def _port(one: Url) -> str:
    match = _HOST.fullmatch(one.host)
    return (match[2] or "") if match is not None else ""


def _query(one: Url) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for name, value in parse_qsl(one.query, keep_blank_values=True):
        found.setdefault(name, []).append(value)
    return found


_one = taking(Url)

TABLE: dict[str, Declared] = {
    "url": Declared("(string) -> kubernetes.URL", taking(str)(_url)),
    "isURL": Declared("(string) -> bool", taking(str)(is_url)),
    "getScheme": Declared("kubernetes.URL.() -> string", _one(lambda one: one.scheme)),
    "getHost": Declared("kubernetes.URL.() -> string", _one(lambda one: one.host)),
    "getHostname": Declared("kubernetes.URL.() -> string", _one(_hostname)),
    "getPort": Declared("kubernetes.URL.() -> string", _one(_port)),
    "getEscapedPath": Declared(
        "kubernetes.URL.() -> string", _one(lambda one: quote(unquote(one.path), safe="/$&+,:;=@!'()*[]~"))
    ),
    "getQuery": Declared("kubernetes.URL.() -> map(string, list(string))", _one(_query)),
}
