"""Checks for unknown and wrongly typed fields of built-in kinds.

Bodies are checked in C by decoding them into Structs made from data/builtin_types.json. Only a body that fails is
walked in Python, to report every field, with the field that was probably meant, and to drop unknown ones.
"""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches
from functools import cache
from pathlib import Path
from types import GenericAlias
from typing import Any

import msgspec

from volcanoio.model.base import Manifest

_MEANT = {"priorityClass": "priorityClassName", "queueName": "queue"}
"""Frequent mistakes in field names where similarity does not suffice."""


def unknown_field(path: str, siblings: Iterable[str]) -> str:
    """Return `unknown field "spec.x"`, with the known field that was probably meant."""
    name = path.rpartition(".")[2]
    known = list(siblings)
    meant = _MEANT.get(name)
    if meant not in known:
        prefixed = [one for one in known if one.startswith(name)] if len(name) > 2 else []
        meant = next(iter(prefixed or get_close_matches(name, known, n=1, cutoff=0.75)), None)
    text = f'unknown field "{path}"'
    return f'{text}; did you mean "{meant}"?' if meant else text


def schema_siblings(schema: Manifest, path: str) -> list[str]:
    """Return the fields of a structural schema beside the one at `path`."""
    node = schema
    for part in path.split(".")[:-1]:
        name = part.partition("[")[0]
        properties = node.get("properties") or {}
        node = properties.get(name) or node.get("additionalProperties") or {}
        for _ in range(part.count("[") if isinstance(node, dict) else 0):
            node = node.get("items") or {}
        if not isinstance(node, dict):
            return []
    return list(node.get("properties") or ())


_PYTHON: dict[str, Any] = {
    "str": str,
    "int": int,
    "float": float,
    "bool": bool,
    "quantity": str | int | float,
    "intorstring": int | str,
    "any": Any,
}
_NAMES = {"int": "an integer", "float": "a number", "str": "a string", "bool": "a boolean"}
_NAMES |= {"quantity": "a quantity", "intorstring": "an integer or a string"}


class TypeTable(msgspec.Struct, frozen=True):
    """The generated table; see `generate_types`."""

    resources: dict[str, str]
    types: dict[str, dict[str, str]]
    required: dict[str, list[str]] = {}


@cache
def type_table() -> TypeTable:
    """Return the table, read once."""
    path = Path(__file__).parents[1] / "data" / "builtin_types.json"
    return msgspec.json.decode(path.read_bytes(), type=TypeTable)


@cache
def _struct(name: str) -> type[msgspec.Struct]:
    fields = list(type_table().types[name].items())
    members = [(f"f{at}", _annotation(type_) | None, None) for at, (_, type_) in enumerate(fields)]
    rename = {f"f{at}": field for at, (field, _) in enumerate(fields)}
    return msgspec.defstruct(name, members, rename=rename, forbid_unknown_fields=True, gc=False)


def _annotation(type_: str) -> Any:
    if type_.startswith("list["):
        return GenericAlias(list, (_annotation(type_[5:-1]),))
    if type_.startswith("map["):
        return GenericAlias(dict, (str, _annotation(type_[4:-1]) | None))
    return _PYTHON[type_] if type_ in _PYTHON else _struct(type_)


@cache
def _decoder(name: str) -> msgspec.json.Decoder[Any]:
    return msgspec.json.Decoder(_struct(name))


def check(resource_name: str, body: bytes, obj: Manifest) -> tuple[list[str], list[str]]:
    """Check a body and drop unknown fields and nulls from `obj`.

    Returns (unknown fields, wrong types) as texts.

    A null means that the field is not set, as in Go.
    """
    name = type_table().resources.get(resource_name)
    if name is None:
        return [], []
    try:
        _decoder(name).decode(body)
        if b"null" in body:
            _unset(obj, name)
    except msgspec.ValidationError:
        unknown: list[str] = []
        wrong: list[str] = []
        _walk(obj, name, "", unknown, wrong)
        return unknown, wrong
    return [], []


def fits(resource_name: str, body: bytes) -> bool:
    """Return whether a body of a built-in kind has no unknown or wrongly typed fields.

    Also for a part of a body.
    """
    try:
        _decoder(type_table().resources[resource_name]).decode(body)
    except msgspec.ValidationError:
        return False
    return True


def drop_nulls(resource_name: str, key: str, value: Manifest) -> None:
    """Drop the nulls of one top-level part of an object without type errors."""
    _unset(value, type_table().types[type_table().resources[resource_name]][key])


def _walk(value: Any, type_: str, path: str, unknown: list[str], wrong: list[str]) -> None:
    """Drop unknown fields and nulls, and note what is unknown or of a wrong type."""
    if value is None or type_ == "any":
        return
    if type_.startswith("list["):
        _walk_items(value, type_[5:-1], path, unknown, wrong)
    elif type_ in _PYTHON:
        if not _is(value, type_):
            wrong.append(f"{path}: expected {_NAMES[type_]}, got {msgspec.json.encode(value).decode()}")
    elif not isinstance(value, dict):
        wrong.append(f"{path}: expected an object")
    elif type_.startswith("map["):
        inner_type = type_[4:-1]
        for key, one in value.items():
            if one is None and inner_type == "str":
                value[key] = ""  # Go keeps the key, and reads a null as the zero value
            _walk(one, inner_type, f"{path}.{key}", unknown, wrong)
    else:
        _walk_fields(value, type_, path, unknown, wrong)


def _walk_items(value: Any, type_: str, path: str, unknown: list[str], wrong: list[str]) -> None:
    if not isinstance(value, list):
        wrong.append(f"{path}: expected a list")
        return
    for at, one in enumerate(value):
        if one is None:
            wrong.append(f"{path}[{at}]: expected a value, got null")
        _walk(one, type_, f"{path}[{at}]", unknown, wrong)


def _walk_fields(value: Manifest, type_: str, path: str, unknown: list[str], wrong: list[str]) -> None:
    fields = type_table().types[type_]
    for key in list(value):
        inner = f"{path}.{key}" if path else key
        if value[key] is None:
            del value[key]
        elif key in fields:
            _walk(value[key], fields[key], inner, unknown, wrong)
        else:
            unknown.append(unknown_field(inner, fields))
            del value[key]


@cache
def _inside(name: str) -> dict[str, tuple[str, str]]:
    """Return the fields of a type that can hold nulls.

    Each with its container (`list`, `map` or nothing) and type.
    """
    found: dict[str, tuple[str, str]] = {}
    for field, type_ in type_table().types[name].items():
        shape, _, inner = type_.rpartition("[") if type_.endswith("]") else ("", "", type_)
        inner = inner.rstrip("]")
        if shape.startswith("map") or inner not in _PYTHON:
            found[field] = (shape, inner)
    return found


def _unset(value: Manifest, type_: str) -> None:
    """Drop the nulls of an object without type errors."""
    fields = _inside(type_)
    for key, one in list(value.items()):
        if one is None:
            del value[key]
        elif key in fields:
            shape, inner = fields[key]
            if not shape:
                _unset(one, inner)
            elif shape == "list":
                for each in one:
                    _unset(each, inner)
            elif inner not in _PYTHON or None in one.values():
                _walk(one, type_table().types[type_][key], key, [], [])


@cache
def _exact(type_: str) -> Any:
    """Return a Python type that accepts no unknown fields, wrong types or nulls."""
    if type_.startswith("list["):
        return GenericAlias(list, (_exact(type_[5:-1]),))
    if type_.startswith("map["):
        return GenericAlias(dict, (str, _exact(type_[4:-1])))
    if type_ in _PYTHON:
        return _PYTHON[type_]
    fields = list(type_table().types[type_].items())
    members = [(f"f{at}", _exact(inner) | msgspec.UnsetType, msgspec.UNSET) for at, (_, inner) in enumerate(fields)]
    rename = {f"f{at}": field for at, (field, _) in enumerate(fields)}
    return msgspec.defstruct(type_, members, rename=rename, forbid_unknown_fields=True, gc=False)


def is_exact(value: Any, type_: str) -> bool:
    """Return whether `check_part` certainly finds nothing.

    Checked in C. The type must not be recursive.
    """
    try:
        msgspec.convert(value, _exact(type_))
    except msgspec.ValidationError:
        return False
    return True


def check_part(value: Any, type_: str, path: str) -> tuple[list[str], list[str]]:
    """Check a value of a type within kinds, such as V1ObjectMeta.

    Unknown fields are returned as paths.
    """
    unknown: list[str] = []
    wrong: list[str] = []
    _walk(value, type_, path, unknown, wrong)
    return [one.split('"')[1] for one in unknown], wrong


def _is(value: Any, type_: str) -> bool:
    if type_ == "str" or isinstance(value, bool):
        return isinstance(value, str) if type_ == "str" else type_ == "bool"
    if type_ == "int":
        return isinstance(value, int) or (isinstance(value, float) and value.is_integer())
    return isinstance(value, _PYTHON[type_])
