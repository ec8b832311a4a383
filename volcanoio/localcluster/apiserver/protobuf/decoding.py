r"""From a protobuf body to the object's JSON form, as Go's JSON encoder would have written it, nulls left out.

The envelope is `k8s\0` and an Unknown message (k8s.io/apimachinery `runtime/generated.proto`).
"""

from __future__ import annotations

import base64
import struct
from collections.abc import Callable
from typing import Any, Final, NamedTuple, TypeAlias

from volcanoio.localcluster.apiserver.protobuf.special import PLAIN, signed
from volcanoio.localcluster.apiserver.protobuf.table import INLINE, WHOLE, Field, Message, Rule, message, message_of
from volcanoio.localcluster.apiserver.protobuf.wire import LENGTH_DELIMITED, WireError, fields, varint
from volcanoio.model.base import Manifest

MAGIC: Final = b"k8s\0"
_MAX_DEPTH: Final = 200
"""Messages within messages; only schemas of definitions are recursive."""
_TYPE_META, _RAW, _ENCODING, _CONTENT_TYPE = 1, 2, 3, 4

_Convert: TypeAlias = Callable[[bytes | int], Any]


class UnknownKind(ValueError):  # noqa: N818 - named for what happened
    """The kind has no protobuf form here, as custom resources have none."""


def decode(body: bytes, expected: tuple[str, str] = ("", "")) -> Manifest:
    """The object in an enveloped body; raises WireError, UnknownKind, and MsgspecError for JSON within it.

    `expected` is the version and kind of an object that does not say its own.
    """
    if not body.startswith(MAGIC):
        raise WireError("provided data does not appear to be a protobuf message, expected prefix [107 56 115 0]")
    parts: dict[int, int | bytes] = {number: value for number, _, value in fields(body[len(MAGIC) :])}
    api_version, kind = _type_meta(_bytes(parts.get(_TYPE_META, b"")))
    api_version, kind = api_version or expected[0], kind or expected[1]
    raw = _bytes(parts.get(_RAW, b""))
    if parts.get(_ENCODING) or parts.get(_CONTENT_TYPE, b"") not in {b"", b"application/vnd.kubernetes.protobuf"}:
        raise UnknownKind(f"an object of {api_version} {kind} in another encoding")
    name = message_of(api_version, kind)
    if name is None:
        raise UnknownKind(f'no kind "{kind}" is registered for version "{api_version}" in protobuf')
    return {"kind": kind, "apiVersion": api_version, **decode_message(name, raw)}


def decode_message(name: str, data: bytes, depth: int = 0) -> Any:
    """One message: an object, or what stands for it in JSON (None for nothing); raises WireError."""
    if depth > _MAX_DEPTH:
        raise WireError(f"messages are nested more than {_MAX_DEPTH} deep")
    found: Manifest = {}
    known = message(name)
    for number, type_, value in fields(data):
        field = known.fields.get(number)
        if field is not None:
            _take(found, field, type_, value, depth)
    _complete(found, known)
    return found.get(WHOLE, []) if known.is_list else found


def _take(found: Manifest, field: Field, wire: int, value: int | bytes, depth: int) -> None:
    """Add one field to an object."""
    if field.is_map:
        key, item = _entry(field, _bytes(value), depth)
        found.setdefault(field.name, {})[key] = item
    elif field.is_list:
        items = found.setdefault(field.name, [])
        if wire == LENGTH_DELIMITED and field.type in _NUMBERS:
            items += _packed(field, _bytes(value))
        else:
            items.append(_value(field.type, value, depth))
    elif field.name == INLINE:
        found.update(decode_message(field.type, _bytes(value), depth + 1))
    else:
        item = _value(field.type, value, depth)
        if item is not None and (item or field.rule is not Rule.NONZERO):
            found[field.name] = item


def _complete(found: Manifest, known: Message) -> None:
    """Write the zero values that Go writes for fields that were not sent."""
    for field in known.always:
        if field.name == INLINE:
            for name, value in _zero(field.type).items():
                found.setdefault(name, value)
        elif field.name not in found:
            zero = _zero(field.type)
            if zero is not None:
                found[field.name] = zero


def _value(type_: str, value: int | bytes, depth: int) -> Any:
    scalar = _SCALARS.get(type_)
    if scalar is not None:
        return scalar(value)
    data = _bytes(value)
    if type_ in PLAIN:
        return PLAIN[type_](data)
    return _schema_or_other(type_, data, depth) if type_ in _SCHEMA_OR else decode_message(type_, data, depth + 1)


def _schema_or_other(type_: str, data: bytes, depth: int) -> Any:
    """A schema, or what else may stand in its place: several, names, or a yes or no."""
    others: list[Any] = []
    schema = None
    for number, _, value in fields(data):
        if number == _SCHEMA_OR[type_].schema:
            schema = decode_message(_SCHEMA, _bytes(value), depth + 1)
        elif number == _SCHEMA_OR[type_].other:
            others.append(_value(_SCHEMA_OR[type_].type, value, depth + 1))
    if type_ == "SchemaOrBool":
        return schema if schema is not None else any(others)
    return others or schema


def _zero(type_: str) -> Any:
    """The zero value of a type, fresh."""
    if type_ in _ZEROS:
        return _ZEROS[type_]
    return PLAIN[type_](b"") if type_ in PLAIN else decode_message(type_, b"")


def _entry(field: Field, data: bytes, depth: int) -> tuple[str, Any]:
    """An entry of a map: `{1: key, 2: value}`."""
    parts = {number: value for number, _, value in fields(data)}
    value = parts.get(2)
    return _string(parts.get(1, b"")), _zero(field.type) if value is None else _value(field.type, value, depth)


def _packed(field: Field, data: bytes) -> list[Any]:
    """A list of numbers in one piece."""
    found, at = [], 0
    while at < len(data):
        value, at = varint(data, at)
        found.append(_SCALARS[field.type](value))
    return found


def _type_meta(data: bytes) -> tuple[str, str]:
    parts = {number: _string(value) for number, _, value in fields(data)}
    return parts.get(1, ""), parts.get(2, "")


def _bytes(value: int | bytes) -> bytes:
    if not isinstance(value, bytes):
        raise WireError("a number stands where a text or a message was expected")
    return value


def _integer(value: int | bytes) -> int:
    if not isinstance(value, int):
        raise WireError("a text stands where a number was expected")
    return signed(value)


def _string(value: int | bytes) -> str:
    return _bytes(value).decode(errors="replace")


def _base64(value: int | bytes) -> str:
    return base64.b64encode(_bytes(value)).decode()


def _float(value: int | bytes) -> float | int:
    number: float = struct.unpack("<d", (_integer(value) & _ALL_BITS).to_bytes(8, "little"))[0]
    return int(number) if number.is_integer() and abs(number) < _EXACT else number


class _Or(NamedTuple):
    """The fields of a union of a schema and something else, and the other's type."""

    schema: int
    other: int
    type: str


_SCHEMA: Final = "apiextensions.v1.JSONSchemaProps"
_SCHEMA_OR: Final = {
    "SchemaOrArray": _Or(1, 2, _SCHEMA),
    "SchemaOrBool": _Or(2, 1, "bool"),
    "SchemaOrStrings": _Or(1, 2, "string"),
}
_ALL_BITS: Final = (1 << 64) - 1
_EXACT: Final = 1e21  # from here on Go writes an exponent
_SCALARS: Final[dict[str, _Convert]] = {
    "string": _string,
    "bytes": _base64,
    "bool": lambda value: _integer(value) != 0,
    "int": _integer,
    "float64": _float,
}
_NUMBERS: Final = frozenset({"bool", "int"})
_ZEROS: Final[dict[str, Any]] = {"string": "", "bytes": "", "bool": False, "int": 0, "float64": 0}
