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
    """The type of a built-in resource, by `plural.group`; see `named_type`."""
    name = type_table().resources.get(resource_name)
    return UNTYPED if name is None else named_type(name, written=written)


@cache
def named_type(name: str, *, written: bool = False) -> Type:
    """A type of the table, such as `V1PodSpec`.

    `written` is the type of what clients write, in which an empty value is one; without it, of what Go makes of that.
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
