"""Canonical form of objects: zero values that Go omits are dropped, structs it always writes are added.

The real server decodes a body into Go structs and encodes those: `labels: {}` is dropped, `status: {}` is added, `cpu:
0.1` becomes `100m`. data/protobuf.json has the rules of each field.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any, Final, NamedTuple

from volcanoio.localcluster.apiserver.apimachinery.errors import UndecodableError
from volcanoio.localcluster.apiserver.apimachinery.paths import Target
from volcanoio.localcluster.apiserver.apimachinery.resources import Resource
from volcanoio.localcluster.apiserver.protobuf.table import INLINE, Field, Rule, message, message_of
from volcanoio.model import quantity
from volcanoio.model.base import Manifest

QUANTITY_RULE: Final = "quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'"


class _Rules(NamedTuple):
    """Zero-value rules of one message's fields, by JSON name."""

    dropped: frozenset[str]
    """Fields omitted when they are zero or empty."""
    always: tuple[str, ...]
    """Structs that are always written, even empty."""
    inner: dict[str, Callable[[Any], Any]]
    """Functions that rewrite values with nested fields; dictionaries are changed in place."""


def canonicalise_write(target: Target, obj: Manifest) -> None:
    """Convert a written object to canonical form.

    Statuses of pods are skipped: nodes write them in that form.
    """
    if target.resource.custom is not None:
        canonicalise_metadata(obj["metadata"])
    elif target.subresource != "status" or target.resource.name != "pods":
        canonicalise(obj, target.resource)


def canonicalise(obj: Manifest, resource: Resource) -> None:
    """Convert an object of a built-in kind to canonical form, in place.

    Values of a wrong type are left for validation. Raises UndecodableError for an invalid quantity.
    """
    if resource.name == "pods" and not has_zero(obj):  # most are canonical; containers' resources are by their defaults
        return
    name = message_of(resource.api_version, resource.kind)
    if name is not None:
        try:
            _rewrite(obj, _rules(name))
        except quantity.QuantityError:
            raise UndecodableError(resource, QUANTITY_RULE) from None


def has_zero(value: Manifest) -> bool:
    """Return whether an object has zero or empty values. An empty emptyDir is kept."""
    for key, one in value.items():
        if not one:
            if key != "emptyDir":
                return True
        elif one.__class__ is dict:
            if has_zero(one):
                return True
        elif one.__class__ is list:
            for item in one:
                if item.__class__ is dict and has_zero(item):
                    return True
    return False


def canonicalise_metadata(metadata: Manifest) -> None:
    """Convert the metadata of a custom resource to canonical form."""
    for key in ("labels", "annotations", "finalizers", "ownerReferences"):
        if key in metadata and not metadata[key]:
            del metadata[key]


@cache
def _rules(name: str) -> _Rules:
    dropped: set[str] = set()
    always: list[str] = []
    inner: dict[str, Callable[[Any], Any]] = {}
    for field in message(name).fields.values():
        if field.name == INLINE:
            embedded = _rules(field.type)
            dropped |= embedded.dropped
            always += embedded.always
            inner |= embedded.inner
            continue
        listed = field.is_list or field.is_map
        if field.rule is Rule.NONZERO or (listed and field.rule is Rule.GIVEN):
            dropped.add(field.name)
        structure = field.type[:1].islower() and "." in field.type
        if field.rule is Rule.ALWAYS and structure and not listed:
            always.append(field.name)
        if structure or field.type == "Quantity":
            inner[field.name] = _rewriter(field)
    return _Rules(frozenset(dropped), tuple(always), inner)


def _rewriter(field: Field) -> Callable[[Any], Any]:
    one = _quantity if field.type == "Quantity" else _message(field.type)
    if field.is_list:
        return lambda value: [one(each) for each in value] if isinstance(value, list) else value
    if field.is_map:
        return lambda value: {key: one(each) for key, each in value.items()} if isinstance(value, dict) else value
    return one


def _message(name: str) -> Callable[[Any], Any]:
    def rewrite(value: Any) -> Any:
        if isinstance(value, dict):
            _rewrite(value, _rules(name))  # looked up when used: messages contain themselves
        return value

    return rewrite


def _rewrite(obj: Manifest, rules: _Rules) -> None:
    dropped, inner = rules.dropped, rules.inner
    for key, value in list(obj.items()):
        if not value and key in dropped:
            del obj[key]
        elif key in inner:
            obj[key] = inner[key](value)
    for key in rules.always:
        if key not in obj:
            obj[key] = {}


def _quantity(value: Any) -> Any:
    return quantity.canonical(value) if isinstance(value, str | int | float) else value
