"""How the fields of custom resources are owned, read from their structural schema (API: JSONSchemaProps)."""

from __future__ import annotations

from typing import Any, Final

from volcanoio.localcluster.apiserver.apply.builtin import named_type
from volcanoio.localcluster.apiserver.apply.types import DEDUCED, UNTYPED, ListKind, Scalar, Type

_SCALARS: Final[dict[str, Scalar]] = {"integer": "numeric", "number": "numeric", "boolean": "boolean"}
_PLAIN_TEXTS: Final = frozenset({"", "byte"})
"""Formats of strings that are taken as strings; those of others may be written otherwise."""


def custom_type(schema: dict[str, Any], *, written: bool = False) -> Type:
    """The type of a custom resource from its openAPIV3Schema; `written` as for `builtin.named_type`."""
    root = _type(schema, preserve=False)
    root.fields = {**root.fields, **_object_fields()}
    root.fields["metadata"] = named_type("V1ObjectMeta", written=written)
    root.is_map = True
    return root


def _object_fields() -> dict[str, Type]:
    text = Type(scalar="string")
    return {"apiVersion": text, "kind": text, "metadata": named_type("V1ObjectMeta", written=True)}


def _type(schema: dict[str, Any], *, preserve: bool) -> Type:
    """A node of the schema; `preserve` says whether unknown fields are kept, by it or a node above it."""
    preserve = preserve or bool(schema.get("x-kubernetes-preserve-unknown-fields"))
    kind = schema.get("type", "")
    if kind == "string":
        return Type(scalar="string" if schema.get("format", "") in _PLAIN_TEXTS else "untyped")
    if kind in _SCALARS:
        return Type(scalar=_SCALARS[kind])
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
