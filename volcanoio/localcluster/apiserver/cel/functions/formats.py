"""Named formats: `format.dns1123Label().validate(x)` (Kubernetes' `kubernetes.format`)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from volcanoio.engine.admission.dnsnames import label_rule, qualified_rule, subdomain_rule, value_rule
from volcanoio.localcluster.apiserver.cel.functions.arguments import taking
from volcanoio.localcluster.apiserver.cel.signatures import Declared
from volcanoio.localcluster.apiserver.cel.values import NOTHING, Opaque, Optional
from volcanoio.localcluster.apiserver.schema.formats import FORMATS
from volcanoio.localcluster.apiserver.schema.names import dns1035_rule
from volcanoio.localcluster.apiserver.schema.urls import parse_url


class Format(Opaque):
    """A format: `check` gives what is wrong with a text, or nothing."""

    __slots__ = ("check", "name")
    kind = "kubernetes.NamedFormat"

    def __init__(self, name: str, check: Callable[[str], str]) -> None:
        self.name, self.check = name, check

    def __str__(self) -> str:
        return self.name


def _prefix(rule: Callable[[str], str]) -> Callable[[str], str]:
    """A name that something will be appended to: a dash at the end is fine."""
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


TABLE: dict[str, Declared] = {
    "validate": Declared("kubernetes.NamedFormat.(string) -> optional(list(string))", taking(Format, str)(_validate)),
    "format.named": Declared("(string) -> optional(kubernetes.NamedFormat)", taking(str)(_named)),
    **{
        f"format.{name}": Declared("() -> kubernetes.NamedFormat", lambda one=one: one)
        for name, one in _FORMATS.items()
    },
}
