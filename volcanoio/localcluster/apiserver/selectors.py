"""Label and field selectors: parsed once, matched per object.

Grammar of labels: apimachinery `pkg/labels`; `!=` and `notin` match objects without the key.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import TypeAlias

LabelMatch: TypeAlias = Callable[[Mapping[str, str]], bool]

_KEY = r"(?P<key>[A-Za-z0-9]([-A-Za-z0-9_./]*[A-Za-z0-9])?)"
_SET = re.compile(rf"^{_KEY}\s+(?P<op>in|notin)\s*\((?P<values>[^()]*)\)$")
_EQUAL = re.compile(rf"^{_KEY}\s*(?P<op>==|!=|=)\s*(?P<value>[-A-Za-z0-9_.]*)$")
_EXISTS = re.compile(rf"^(?P<not>!?)\s*{_KEY}$")


class SelectorError(ValueError):
    """A selector that cannot be parsed."""


def _terms(text: str) -> list[str]:
    """Split at commas outside parentheses."""
    terms = re.split(r",(?![^()]*\))", text)
    return [term.strip() for term in terms if term.strip()]


def _label_term(term: str) -> LabelMatch:
    if found := _SET.match(term):
        key, values = found["key"], frozenset(value.strip() for value in found["values"].split(","))
        if found["op"] == "in":
            return lambda labels: key in labels and labels[key] in values
        return lambda labels: labels.get(key) not in values
    if found := _EQUAL.match(term):
        key, value = found["key"], found["value"]
        if found["op"] == "!=":
            return lambda labels: labels.get(key) != value
        return lambda labels: labels.get(key) == value
    if found := _EXISTS.match(term):
        key = found["key"]
        if found["not"]:
            return lambda labels: key not in labels
        return lambda labels: key in labels
    forms = "key=value, key!=value, key in (a,b), key notin (a,b), key, !key"
    msg = f"unable to parse requirement: {term!r} is none of {forms}"
    raise SelectorError(msg)


@lru_cache(maxsize=1024)
def label_selector(text: str) -> LabelMatch | None:
    """The predicate of a label selector, None for an empty one; raises SelectorError."""
    matches = [_label_term(term) for term in _terms(text)]
    if len(matches) <= 1:
        return matches[0] if matches else None
    return lambda labels: all(match(labels) for match in matches)


@lru_cache(maxsize=1024)
def field_selector(text: str) -> tuple[tuple[str, bool, str], ...]:
    """The terms of a field selector as (path, equal, value); raises SelectorError."""
    terms: list[tuple[str, bool, str]] = []
    for term in _terms(text):
        found = re.match(r"^([^=!]+?)(==|!=|=)(.*)$", term)
        if found is None:
            msg = f"invalid selector: {text!r}; can't understand {term!r}: write path=value or path!=value"
            raise SelectorError(msg)
        terms.append((found[1].strip(), found[2] != "!=", found[3].strip()))
    return tuple(terms)


def matches_label_selector(selector: Mapping[str, object] | None, labels: Mapping[str, str]) -> bool:
    """Whether a `metav1.LabelSelector` (matchLabels, matchExpressions) selects the labels; an empty one selects all."""
    if selector is None:
        return False
    wanted = selector.get("matchLabels")
    if isinstance(wanted, Mapping) and any(labels.get(key) != value for key, value in wanted.items()):
        return False
    expressions = selector.get("matchExpressions")
    return not isinstance(expressions, list) or all(_expression(one, labels) for one in expressions)


def _expression(one: Mapping[str, object], labels: Mapping[str, str]) -> bool:
    key, values = str(one.get("key")), one.get("values")
    known = labels.get(key)
    members = values if isinstance(values, list) else []
    match one.get("operator"):
        case "In":
            return known is not None and known in members
        case "NotIn":
            return known not in members
        case "Exists":
            return key in labels
        case "DoesNotExist":
            return key not in labels
    return False
