r"""From a protobuf body to the object's JSON form, as Go's JSON encoder would have written it, nulls left out.

The envelope is `k8s\0` and an Unknown message (k8s.io/apimachinery `runtime/generated.proto`).
"""

from __future__ import annotations

import base64
import struct
from collections.abc import Callable, Iterator
from functools import cache
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
_Read: TypeAlias = Callable[[bytes | int, int], Any]
"""Reads a value within so many messages."""
_Step: TypeAlias = Callable[[Manifest, int, int | bytes, int], None]
"""Adds a field, of this wire type and within so many messages, to an object."""


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
    """One message: an object, or what stands for it in JSON; raises WireError."""
    if depth > _MAX_DEPTH:
        raise WireError(f"messages are nested more than {_MAX_DEPTH} deep")
    found: Manifest = {}
    steps = _steps(name)
    for number, wire, value in fields(data):
        step = steps.get(number)
        if step is not None:
            step(found, wire, value, depth + 1)
    known = message(name)
    _complete(found, known)
    return found.get(WHOLE, []) if known.is_list else found


@cache
def _steps(name: str) -> dict[int, _Step]:
    """What each field of a message adds to an object, by its number."""
    return {number: _step(field) for number, field in message(name).fields.items()}


def _step(field: Field) -> _Step:
    if field.is_map:
        return _map_step(field)
    if field.is_list:
        return _list_step(field)
    return _inline_step(field) if field.name == INLINE else _plain_step(field)


def _plain_step(field: Field) -> _Step:
    name, read, keeps_zero = field.name, _reader(field.type), field.rule is not Rule.NONZERO

    def step(found: Manifest, wire: int, value: int | bytes, depth: int) -> None:
        del wire
        item = read(value, depth)
        if item is not None and (item or keeps_zero):
            found[name] = item

    return step


def _inline_step(field: Field) -> _Step:
    type_ = field.type

    def step(found: Manifest, wire: int, value: int | bytes, depth: int) -> None:
        del wire
        found.update(decode_message(type_, _bytes(value), depth))

    return step


def _list_step(field: Field) -> _Step:
    name, read, may_be_packed = field.name, _reader(field.type), field.type in _NUMBERS

    def step(found: Manifest, wire: int, value: int | bytes, depth: int) -> None:
        items = found.setdefault(name, [])
        if may_be_packed and wire == LENGTH_DELIMITED:
            items += [read(number, depth) for number in _packed(_bytes(value))]
        else:
            items.append(read(value, depth))

    return step


def _map_step(field: Field) -> _Step:
    name, type_, read = field.name, field.type, _reader(field.type)

    def step(found: Manifest, wire: int, value: int | bytes, depth: int) -> None:
        """An entry is `{1: key, 2: value}`."""
        del wire
        parts = {number: part for number, _, part in fields(_bytes(value))}
        item = parts.get(2)
        key = _string(parts.get(1, b""))
        found.setdefault(name, {})[key] = _zero(type_) if item is None else read(item, depth)

    return step


def _reader(type_: str) -> _Read:
    """How a value of a type is read."""
    if type_ in _SCALARS:
        scalar = _SCALARS[type_]
        return lambda value, _: scalar(value)
    if type_ in PLAIN:
        special = PLAIN[type_]
        return lambda value, _: special(_bytes(value))
    if type_ in _SCHEMA_OR:
        return lambda value, depth: _schema_or_other(type_, _bytes(value), depth)
    return lambda value, depth: decode_message(type_, _bytes(value), depth)


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


def _schema_or_other(type_: str, data: bytes, depth: int) -> Any:
    """A schema, or what else may stand in its place: several, names, or a yes or no."""
    others: list[Any] = []
    schema = None
    for number, _, value in fields(data):
        if number == _SCHEMA_OR[type_].schema:
            schema = decode_message(_SCHEMA, _bytes(value), depth)
        elif number == _SCHEMA_OR[type_].other:
            others.append(_reader(_SCHEMA_OR[type_].type)(value, depth))
    if type_ == "SchemaOrBool":
        return schema if schema is not None else any(others)
    return others or schema


def _zero(type_: str) -> Any:
    """The zero value of a type, fresh."""
    if type_ in _ZEROS:
        return _ZEROS[type_]
    return PLAIN[type_](b"") if type_ in PLAIN else decode_message(type_, b"")


def _packed(data: bytes) -> Iterator[int]:
    """A list of numbers in one piece."""
    at = 0
    while at < len(data):
        value, at = varint(data, at)
        yield value


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
