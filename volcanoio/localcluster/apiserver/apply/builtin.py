"""How the fields of built-in kinds are owned: the table of their types, and data/field_ownership.json beside it."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any, Final

import msgspec

from volcanoio.localcluster.apiserver.apply.types import UNTYPED, ListKind, Scalar, Type
from volcanoio.localcluster.apiserver.builtin_types import type_table

_SCALARS: Final[dict[str, Scalar]] = {
    "str": "string",
    "int": "numeric",
    "float": "numeric",
    "bool": "boolean",
    "quantity": "untyped",
}


class _Ownership(msgspec.Struct, frozen=True):
    """The generated table; see `generate_ownership`."""

    lists: dict[str, dict[str, str]]
    atomic: dict[str, list[str]]
    keys: dict[str, dict[str, Any]]
    present: dict[str, dict[str, Any]]


@cache
def _ownership() -> _Ownership:
    path = Path(__file__).parents[1] / "data" / "field_ownership.json"
    return msgspec.json.decode(path.read_bytes(), type=_Ownership)


@cache
def builtin_type(resource_name: str) -> Type:
    """The type of a built-in resource, by `plural.group`."""
    name = type_table().resources.get(resource_name)
    return UNTYPED if name is None else named_type(name)


@cache
def named_type(name: str) -> Type:
    """A type of the table, such as `V1PodSpec`."""
    table, own = type_table(), _ownership()
    lists, atomic = own.lists.get(name, {}), own.atomic.get(name, ())
    fields = {
        field: _field_type(kind, lists.get(field, ""), atomic=field in atomic)
        for field, kind in table.types[name].items()
    }
    return Type(is_map=True, fields=fields, present=own.present.get(name, {}))


def _field_type(kind: str, list_text: str, *, atomic: bool) -> Type:
    if kind.startswith("list["):
        item = kind[5:-1]
        stated, *keys = (list_text or "atomic").split()
        list_kind: ListKind = "map" if stated == "map" else "set" if stated == "set" else "atomic"
        defaults = _ownership().keys.get(item, {})
        return Type(
            list_kind=list_kind,
            items=_field_type(item, "", atomic=False),
            keys=tuple(sorted(keys)),
            key_defaults={key: defaults[key] for key in keys if key in defaults},
        )
    if kind.startswith("map["):
        return Type(is_map=True, others=_field_type(kind[4:-1], "", atomic=False), atomic_map=atomic)
    if kind in _SCALARS:
        return Type(scalar=_SCALARS[kind])
    if kind == "any":
        return UNTYPED
    found = named_type(kind)
    return Type(is_map=True, fields=found.fields, present=found.present, atomic_map=True) if atomic else found
