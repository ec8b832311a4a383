"""Label and field selectors: parsed once, matched per object.

Grammar of labels: apimachinery `pkg/labels`; `!=` and `notin` match objects without the key. The fields that can be
selected on are listed per resource: all have metadata.name, most the namespace. A `Selection` holds the namespace, name
and both selectors of a list or watch.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import lru_cache
from typing import Any, TypeAlias

from volcanoio.localcluster.apiserver.apimachinery.objects import Stored
from volcanoio.model.base import Manifest
from volcanoio.model.core import LabelSelector, Requirement
from volcanoio.model.selectors import is_valid_requirement, matcher, parse_integer, satisfied
from volcanoio.model.validation.dns_names import qualified_rule, value_rule
from volcanoio.model.validation.field_errors import shown

LabelMatch: TypeAlias = Callable[[Mapping[str, str]], bool]

_TOKEN = re.compile(r"[ \t\r\n]*(==|!=|[=!(),<>]|[^=!(),<> \t\r\n]+)")
_SYMBOLS = frozenset("=!(),<>")
_EXACT = {"=": "In", "==": "In", "!=": "NotIn", ">": "Gt", "<": "Lt"}
_SETS = {"in": "In", "notin": "NotIn"}


class SelectorError(ValueError):
    """A selector that cannot be parsed."""


class _Parser:
    """Parser of label selectors (apimachinery: labels.Parser)."""

    def __init__(self, text: str) -> None:
        self._tokens: list[str] = [*_TOKEN.findall(text), ""]
        """The tokens; the last one marks the end of the text."""
        self._at = 0

    def requirements(self) -> Iterator[Requirement]:
        """Parse all requirements; raises SelectorError."""
        if not self._next:
            return
        expected = "!, identifier, or 'end of string'"
        while True:
            if self._next != "!" and not _is_word(self._next):
                raise SelectorError(f"found '{self._next}', expected: {expected}")
            yield self._requirement()
            separator = self._take()
            if not separator:
                return
            if separator != ",":
                raise SelectorError(f"found '{separator}', expected: ',' or 'end of string'")
            expected = "identifier after ','"

    @property
    def _next(self) -> str:
        return self._tokens[self._at]

    def _take(self) -> str:
        self._at += 1
        return self._tokens[self._at - 1]

    def _word(self) -> str:
        token = self._take()
        if not _is_word(token):
            raise _unparsed(f"found '{token}', expected: identifier")
        return token

    def _requirement(self) -> Requirement:
        negated = self._next == "!"
        self._at += negated
        key = self._word()
        if rule := qualified_rule(key):
            raise _unparsed(f"<nil>: Invalid value: {shown(key)}: {rule}")
        if negated or self._next in ("", ","):
            return Requirement(key=key, operator="DoesNotExist" if negated else "Exists")
        operator = self._take()
        if operator in _SETS:
            values = self._values()
        elif operator in _EXACT:
            values = ("" if self._next in ("", ",") else self._word(),)
        else:
            raise _unparsed(f"found '{operator}', expected: in, notin, =, ==, !=, gt, lt")
        requirement = Requirement(key=key, operator=_SETS.get(operator) or _EXACT[operator], values=values)
        if not is_valid_requirement(requirement):
            raise _unparsed(_faults(requirement))
        return requirement

    def _values(self) -> tuple[str, ...]:
        """Parse the values between parentheses, separated by commas; a value may be missing."""
        if (token := self._take()) != "(":
            raise _unparsed(f"found '{token}' expected: '('")
        values = [""]
        while (token := self._take()) != ")":
            if token == ",":
                values.append("")
            elif values[-1] or not _is_word(token):
                raise _unparsed(f"found '{token}', expected: ',' or ')'")
            else:
                values[-1] = token
        return tuple(sorted(set(values)))


def _is_word(token: str) -> bool:
    """Return whether a token is a key or a value."""
    return bool(token) and token[0] not in _SYMBOLS


def _faults(requirement: Requirement) -> str:
    """Return errors of the values of a requirement."""
    found: list[str] = []
    if requirement.operator in ("Gt", "Lt") and parse_integer(only := requirement.values[0]) is None:
        rule = "for 'Gt', 'Lt' operators, the value must be an integer"
        found.append(f"values[0]: Invalid value: {shown(only)}: {rule}")
    for at, value in enumerate(requirement.values):
        if rule := value_rule(value):
            found.append(f"values[{at}][{requirement.key}]: Invalid value: {shown(value)}: {rule}")
    return found[0] if len(found) == 1 else f"[{', '.join(found)}]"


def _unparsed(text: str) -> SelectorError:
    return SelectorError(f"unable to parse requirement: {text}")


@lru_cache(maxsize=1024)
def label_selector(text: str) -> LabelMatch | None:
    """Compile a label selector to a predicate, None for an empty one; raises SelectorError."""
    matches = [(one.key, matcher(one)) for one in _Parser(text).requirements()]
    if not matches:
        return None
    if len(matches) == 1:
        ((key, match),) = matches
        return lambda labels: match(labels.get(key))
    return lambda labels: all(match(labels.get(key)) for key, match in matches)


@lru_cache(maxsize=1024)
def field_selector(text: str) -> tuple[tuple[str, bool, str], ...]:
    """Parse a field selector into terms (path, equal, value); raises SelectorError."""
    terms: list[tuple[str, bool, str]] = []
    for term in filter(None, map(str.strip, text.split(","))):
        found = re.match(r"^([^=!]+?)(==|!=|=)(.*)$", term)
        if found is None:
            msg = f"invalid selector: {text!r}; can't understand {term!r}: write path=value or path!=value"
            raise SelectorError(msg)
        terms.append((found[1].strip(), found[2] != "!=", found[3].strip()))
    return tuple(terms)


def matches_label_selector(selector: Mapping[str, object] | None, labels: Mapping[str, str]) -> bool:
    """Return whether a `metav1.LabelSelector` selects the labels; an empty one selects all."""
    if selector is None:
        return False
    wanted = selector.get("matchLabels")
    if isinstance(wanted, Mapping) and any(labels.get(key) != value for key, value in wanted.items()):
        return False
    expressions = selector.get("matchExpressions")
    if not expressions or not isinstance(expressions, list):
        return True
    given = LabelSelector(match_expressions=tuple(map(_requirement, expressions)))
    return all(satisfied(one, labels.get(one.key)) for one in given.requirements)


def _requirement(one: Mapping[str, Any]) -> Requirement:
    key, operator, values = one.get("key") or "", one.get("operator") or "", one.get("values") or ()
    return Requirement(key=key, operator=operator, values=tuple(values))


Fields: TypeAlias = Mapping[str, str]

METADATA = frozenset({"metadata.name", "metadata.namespace"})

_INVOLVED = ("kind", "namespace", "name", "uid", "apiVersion", "resourceVersion", "fieldPath")
SELECTABLE: dict[str, tuple[str, ...]] = {
    "pods": (
        "spec.nodeName",
        "spec.restartPolicy",
        "spec.schedulerName",
        "spec.serviceAccountName",
        "spec.hostNetwork",
        "status.phase",
        "status.podIP",
        "status.nominatedNodeName",
    ),
    "nodes": ("spec.unschedulable",),
    "namespaces": ("status.phase",),
    "secrets": ("type",),
    "services": ("spec.clusterIP", "spec.type"),
    "replicationcontrollers": ("status.replicas",),
    "resourceslices.resource.k8s.io": ("spec.driver", "spec.nodeName"),
    "certificatesigningrequests.certificates.k8s.io": ("spec.signerName",),
    "events": (
        *(f"involvedObject.{key}" for key in _INVOLVED),
        "reason",
        "reportingComponent",
        "source",
        "type",
    ),
    "jobs.batch": ("status.successful",),
}
WITHOUT_NAMESPACE = frozenset({"nodes", "namespaces", "certificatesigningrequests.certificates.k8s.io"})
"""Kinds without the field selector metadata.namespace; other cluster-scoped kinds have it with an empty value."""
_DEFAULTS = {
    "spec.hostNetwork": "false",
    "spec.unschedulable": "false",
    "status.replicas": "0",
    "status.successful": "0",
}
_READ_FROM = {"status.successful": "status.succeeded"}


def text(value: Any) -> str:
    """Return the text of a field's value for comparison with selectors."""
    if value is None:
        return ""
    if isinstance(value, bool):
        return "true" if value else "false"
    return value if isinstance(value, str) else str(value)


def reader(paths: tuple[str, ...]) -> Callable[[Manifest], dict[str, str]]:
    """Return a function that reads the values at paths of one or two fields.

    Missing ones are empty.
    """
    split = [(path, *_READ_FROM.get(path, path).rpartition(".")[::2], _DEFAULTS.get(path, "")) for path in paths]

    def read(obj: Manifest) -> dict[str, str]:
        found = {}
        parent, fields = "", obj
        for path, section, key, default in split:
            if section != parent:
                parent, fields = section, obj.get(section) or {} if section else obj
            value = fields.get(key) if isinstance(fields, dict) else None
            found[path] = value or default if isinstance(value, str) else text(value) or default
        return found

    return read


def read_again(paths: Iterable[str]) -> Callable[[Fields | None, Manifest], dict[str, str] | None]:
    """Return a function that updates the values of some paths.

    Its first argument is all values read before (None: none).
    """
    read = reader(tuple(paths))
    return lambda known, obj: None if known is None else {**known, **read(obj)}


def _read_event(obj: Manifest) -> dict[str, str]:
    found = _EVENT(obj)
    found["source"] = text((obj.get("source") or {}).get("component")) or found["reportingComponent"]
    return found


_EVENT = reader(SELECTABLE["events"])
READERS: dict[str, Callable[[Manifest], dict[str, str]]] = {
    name: _read_event if name == "events" else reader(paths) for name, paths in SELECTABLE.items()
}


class Selection:
    """A namespace (empty for all), labels and fields.

    `name` is the fast path of metadata.name=X.
    """

    __slots__ = ("_fields", "_labels", "_read", "all", "name", "namespace")

    def __init__(
        self,
        namespace: str = "",
        name: str = "",
        labels: LabelMatch | None = None,
        fields: tuple[tuple[str, bool, str], ...] = (),
        read: Callable[[Manifest], dict[str, str]] | None = None,
    ) -> None:
        self.namespace = namespace
        self.name = name
        self._labels = labels
        self._fields = fields
        self._read = read
        self.all = not (namespace or name or labels or fields)
        """Whether every object is selected."""

    @property
    def reads_fields(self) -> Callable[[Manifest], dict[str, str]] | None:
        """The reader of the selected fields; None when no field is selected."""
        return self._read if self._fields else None

    def selects(self, stored: Stored) -> bool:
        """Return whether the object is selected."""
        if self.all:
            return True
        if self.namespace and stored.namespace != self.namespace:
            return False
        if self.name and stored.name != self.name:
            return False
        if self._labels is not None and not self._labels(stored.labels):
            return False
        return not self._fields or self._selects_fields(stored)

    def _selects_fields(self, stored: Stored) -> bool:
        values: dict[str, str] | None = stored.fields
        if values is None:
            values = stored.fields = self._read(stored.decode()) if self._read is not None else {}
        for path, equal, value in self._fields:
            if path == "metadata.name":
                found = stored.name
            elif path == "metadata.namespace":
                found = stored.namespace
            else:
                found = values.get(path, "")
            if (found == value) is not equal:
                return False
        return True


EVERYTHING = Selection()
