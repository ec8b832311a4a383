"""Types of kinds for apply: a table for built-in kinds, the structural schema for custom ones.

The table is data/field_ownership.json, written by `generate_ownership`.
"""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any, Final

import msgspec

from volcanoio.localcluster.apiserver.apply.types import DEDUCED, UNTYPED, ListKind, Scalar, Type
from volcanoio.localcluster.apiserver.schema.builtin_types import type_table

_SCALARS: Final[dict[str, Scalar]] = {
    "str": "string",
    "int": "numeric",
    "float": "numeric",
    "bool": "boolean",
    "quantity": "untyped",
    "intorstring": "untyped",
}


class _Ownership(msgspec.Struct, frozen=True):
    """The generated table; see `generate_ownership`."""

    lists: dict[str, dict[str, str]]
    atomic: dict[str, list[str]]
    keys: dict[str, dict[str, Any]]
    present: dict[str, dict[str, Any]]
    omitted: dict[str, list[str]]


@cache
def _ownership() -> _Ownership:
    path = Path(__file__).parents[1] / "data" / "field_ownership.json"
    return msgspec.json.decode(path.read_bytes(), type=_Ownership)


@cache
def builtin_type(resource_name: str, *, written: bool = False) -> Type:
    """Return the type of a built-in resource, by `plural.group`; see `named_type`."""
    name = type_table().resources.get(resource_name)
    return UNTYPED if name is None else named_type(name, written=written)


@cache
def named_type(name: str, *, written: bool = False) -> Type:
    """Return a type of the table, such as `V1PodSpec`.

    `written` is the type of objects as clients write them, in which an empty value counts; without it, of objects
    as Go
    stores them.
    """
    table, own = type_table(), _ownership()
    lists, atomic = own.lists.get(name, {}), own.atomic.get(name, ())
    fields = {
        field: _field_type(kind, lists.get(field, ""), atomic=field in atomic, written=written)
        for field, kind in table.types[name].items()
    }
    if written:
        return Type(is_map=True, fields=fields)
    omitted = frozenset(own.omitted.get(name, ()))
    return Type(is_map=True, fields=fields, present=own.present.get(name, {}), omitted=omitted)


def _field_type(kind: str, list_text: str, *, atomic: bool, written: bool) -> Type:
    if kind.startswith("list["):
        item = kind[5:-1]
        stated, *keys = (list_text or "atomic").split()
        list_kind: ListKind = "map" if stated == "map" else "set" if stated == "set" else "atomic"
        defaults = _ownership().keys.get(item, {})
        return Type(
            list_kind=list_kind,
            items=_field_type(item, "", atomic=False, written=written),
            keys=tuple(sorted(keys)),
            key_defaults={key: defaults[key] for key in keys if key in defaults},
        )
    if kind.startswith("map["):
        inner = _field_type(kind[4:-1], "", atomic=False, written=written)
        return Type(is_map=True, others=inner, atomic_map=atomic)
    if kind in _SCALARS:
        return Type(scalar=_SCALARS[kind])
    if kind == "any":
        return UNTYPED
    found = named_type(kind, written=written)
    return msgspec.structs.replace(found, atomic_map=True) if atomic else found


_SCHEMA_SCALARS: Final[dict[str, Scalar]] = {"integer": "numeric", "number": "numeric", "boolean": "boolean"}
_PLAIN_TEXTS: Final = frozenset({"", "byte"})
"""String formats that are compared as strings; values of other formats may be rewritten."""


def custom_type(schema: dict[str, Any], *, written: bool = False) -> Type:
    """Return the type of a custom resource from its openAPIV3Schema.

    `written` as for `named_type`.
    """
    root = _type(schema, preserve=False)
    root.fields = {**root.fields, **_object_fields()}
    root.fields["metadata"] = named_type("V1ObjectMeta", written=written)
    root.is_map = True
    return root


def _object_fields() -> dict[str, Type]:
    text = Type(scalar="string")
    return {"apiVersion": text, "kind": text, "metadata": named_type("V1ObjectMeta", written=True)}


def _type(schema: dict[str, Any], *, preserve: bool) -> Type:
    """Return the type of a schema node; `preserve` is whether unknown fields are kept here."""
    preserve = preserve or bool(schema.get("x-kubernetes-preserve-unknown-fields"))
    kind = schema.get("type", "")
    if kind == "string":
        return Type(scalar="string" if schema.get("format", "") in _PLAIN_TEXTS else "untyped")
    if kind in _SCHEMA_SCALARS:
        return Type(scalar=_SCHEMA_SCALARS[kind])
    found = Type()
    if kind != "array":
        found.is_map = True
        _read_map(found, schema, preserve=preserve)
    if kind != "object":
        _read_list(found, schema, preserve=preserve)
    if kind not in {"object", "array"}:
        found.scalar = "untyped"
    return found


def _read_map(found: Type, schema: dict[str, Any], *, preserve: bool) -> None:
    properties = schema.get("properties") or {}
    found.fields = {name: _type(inner, preserve=preserve) for name, inner in properties.items()}
    if schema.get("x-kubernetes-embedded-resource"):
        found.fields = {**found.fields, **_object_fields()}
    others = schema.get("additionalProperties")
    if isinstance(others, dict):
        found.others = _type(others, preserve=preserve)
    elif others is True or (others is None and (preserve or not found.fields)):
        found.others = DEDUCED
    found.atomic_map = schema.get("x-kubernetes-map-type") == "atomic"


def _read_list(found: Type, schema: dict[str, Any], *, preserve: bool) -> None:
    items = schema.get("items")
    stated = schema.get("x-kubernetes-list-type")
    list_kind: ListKind = "map" if stated == "map" else "set" if stated == "set" else "atomic"
    found.list_kind = list_kind
    found.items = _type(items, preserve=preserve) if isinstance(items, dict) else UNTYPED
    if list_kind == "map":
        found.keys = tuple(sorted(schema.get("x-kubernetes-list-map-keys") or ()))
        declared = (items or {}).get("properties") or {}
        found.key_defaults = {key: declared[key]["default"] for key in found.keys if "default" in declared.get(key, {})}
