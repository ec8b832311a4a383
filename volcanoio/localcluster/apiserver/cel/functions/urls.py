"""URLs (Kubernetes' `kubernetes.urls`, over Go's `net/url`)."""

from __future__ import annotations

from urllib.parse import parse_qsl, quote, unquote

from volcanoio.localcluster.apiserver.cel.errors import EvaluationError
from volcanoio.localcluster.apiserver.cel.functions.arguments import taking
from volcanoio.localcluster.apiserver.cel.signatures import Declared
from volcanoio.localcluster.apiserver.cel.values import Opaque
from volcanoio.localcluster.apiserver.schema.urls import HOST, Parts, is_url, parse_url


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


_one = taking(Url)

TABLE: dict[str, Declared] = {
    "url": Declared("(string) -> kubernetes.URL", taking(str)(_url)),
    "isURL": Declared("(string) -> bool", taking(str)(is_url)),
    "getScheme": Declared("kubernetes.URL.() -> string", _one(lambda one: one.parts.scheme)),
    "getHost": Declared("kubernetes.URL.() -> string", _one(lambda one: one.parts.host)),
    "getHostname": Declared("kubernetes.URL.() -> string", _one(_hostname)),
    "getPort": Declared("kubernetes.URL.() -> string", _one(_port)),
    "getEscapedPath": Declared(
        "kubernetes.URL.() -> string", _one(lambda one: quote(unquote(one.parts.path), safe="/$&+,:;=@!'()*[]~"))
    ),
    "getQuery": Declared("kubernetes.URL.() -> map(string, list(string))", _one(_query)),
}
