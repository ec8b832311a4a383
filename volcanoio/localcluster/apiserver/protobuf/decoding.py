"""Decodes protobuf bodies to the JSON that Go's encoder would have written, without nulls.

Bodies are converted before any other module reads a request. The envelope is the bytes of `k8s`, a zero and an Unknown
message (k8s.io/apimachinery `runtime/generated.proto`); the wire format is that of the Protocol Buffers documentation,
"Encoding". Some types have a JSON form of their own, such as Time, Quantity and IntOrString.
"""

from __future__ import annotations

import base64
import struct
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from functools import cache
from typing import Any, Final, NamedTuple, TypeAlias

import msgspec

from volcanoio.localcluster.apiserver.apimachinery.errors import ApiError, bad_request, unsupported_media_type
from volcanoio.localcluster.apiserver.apimachinery.objects import decode as decode_json
from volcanoio.localcluster.apiserver.apimachinery.objects import encode
from volcanoio.localcluster.apiserver.apimachinery.paths import parse
from volcanoio.localcluster.apiserver.apimachinery.request import ApiRequest
from volcanoio.localcluster.apiserver.apimachinery.resources import Resource
from volcanoio.localcluster.apiserver.apimachinery.served_resources import Registry
from volcanoio.localcluster.apiserver.protobuf.table import INLINE, WHOLE, Field, Message, Rule, message, message_of
from volcanoio.model.base import Manifest

VARINT: Final = 0
FIXED64: Final = 1
LENGTH_DELIMITED: Final = 2
FIXED32: Final = 5

WireField: TypeAlias = tuple[int, int, int | bytes]
"""A field's number, wire type and value: an unsigned number, or bytes with a length."""


class WireError(ValueError):
    """The bytes are not a valid message."""


def fields(data: bytes) -> Iterator[WireField]:
    """Yield all fields of a message in order; raises WireError."""
    at, end = 0, len(data)
    while at < end:
        key = data[at]
        at += 1
        if key >= _MORE:  # fast path: nearly all keys and sizes are one byte
            key, at = varint(data, at - 1)
        number, type_ = key >> 3, key & 7
        if number == 0:
            raise WireError(f"field number 0 at byte {at}")
        if type_ == LENGTH_DELIMITED:
            size = data[at] if at < end else _MORE
            at += 1
            if size >= _MORE:
                size, at = varint(data, at - 1)
            if size > end - at:
                raise WireError(f"field {number} has {size} bytes, {end - at} are left")
            yield number, type_, data[at : at + size]
            at += size
        elif type_ == VARINT:
            value, at = varint(data, at)
            yield number, type_, value
        elif type_ in _FIXED:
            size = _FIXED[type_]
            if size > end - at:
                raise WireError(f"field {number} is cut off")
            yield number, type_, int.from_bytes(data[at : at + size], "little")
            at += size
        else:
            raise WireError(f"field {number} has the unknown wire type {type_}")


def varint(data: bytes, at: int) -> tuple[int, int]:
    """Read the unsigned number at a position.

    Returns it and the position behind it. Raises WireError.
    """
    value = shift = 0
    while True:
        if at >= len(data):
            raise WireError("a number is cut off")
        byte = data[at]
        at += 1
        value |= (byte & ~_MORE) << shift
        if byte < _MORE:
            return value & _MASK, at
        shift += 7
        if shift > _LAST_SHIFT:
            raise WireError(f"a number of more than {_LAST_SHIFT // 7 + 1} bytes at byte {at}")


_MORE: Final = 0x80
_FIXED: Final = {FIXED64: 8, FIXED32: 4}
_MASK: Final = (1 << 64) - 1
_LAST_SHIFT: Final = 63


_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_SIGN: Final = 1 << 63


def signed(value: int) -> int:
    """Return a 64-bit number in two's complement."""
    return value - (_SIGN << 1) if value & _SIGN else value


def _moment(data: bytes) -> tuple[datetime, int] | None:
    """Return seconds and nanoseconds of `{1: seconds, 2: nanos}`.

    None for the zero time, which has no fields.
    """
    found = {number: value for number, _, value in fields(data)}
    if not found:
        return None
    seconds, nanos = found.get(1, 0), found.get(2, 0)
    if not isinstance(seconds, int) or not isinstance(nanos, int):
        raise WireError("a time is not made of numbers")
    try:
        return _EPOCH + timedelta(seconds=signed(seconds)), nanos
    except OverflowError:
        raise WireError(f"a time {signed(seconds)} seconds from 1970 is out of range") from None


def _time(data: bytes) -> str | None:
    moment = _moment(data)
    return None if moment is None else f"{moment[0]:%Y-%m-%dT%H:%M:%SZ}".rjust(20, "0")


def _micro_time(data: bytes) -> str | None:
    moment = _moment(data)
    return None if moment is None else f"{moment[0]:%Y-%m-%dT%H:%M:%S}.{moment[1] // 1000:06}Z".rjust(27, "0")


def _quantity(data: bytes) -> str:
    return next((_text(value) for number, _, value in fields(data) if number == 1), "") or "0"


def _int_or_string(data: bytes) -> int | str:
    found = {number: value for number, _, value in fields(data)}
    if found.get(1, 0) == 1:
        return _text(found.get(3, b""))
    number = found.get(2, 0)
    if not isinstance(number, int):
        raise WireError("an integer is sent as text")
    return signed(number)


def _raw(data: bytes) -> Any:
    raw = next((value for number, _, value in fields(data) if number == 1), b"")
    if not isinstance(raw, bytes):
        raise WireError("JSON is sent as a number")
    return decode_json(raw) if raw else None


def _text(value: int | bytes) -> str:
    if not isinstance(value, bytes):
        raise WireError("a text is sent as a number")
    return value.decode(errors="replace")


PLAIN: Final[dict[str, Callable[[bytes], Any]]] = {
    "Time": _time,
    "MicroTime": _micro_time,
    "Quantity": _quantity,
    "IntOrString": _int_or_string,
    "Raw": _raw,
}
"""Readers of the types that hold no messages; None means not set."""


MAGIC: Final = b"k8s\0"
_MAX_DEPTH: Final = 200
"""Maximal nesting of messages; only schemas of definitions are recursive."""
_TYPE_META, _RAW, _ENCODING, _CONTENT_TYPE = 1, 2, 3, 4

_Convert: TypeAlias = Callable[[bytes | int], Any]
_Read: TypeAlias = Callable[[bytes | int, int], Any]
"""Read a value at a nesting depth."""
_Step: TypeAlias = Callable[[Manifest, int, int | bytes, int], None]
"""Add a field of a wire type, at a nesting depth, to an object."""


class UnknownKind(ValueError):  # noqa: N818 - named for what happened
    """The kind has no protobuf form, such as a custom resource."""


def decode(body: bytes, expected: tuple[str, str] = ("", "")) -> Manifest:
    """Decode an enveloped object.

    Raises WireError, UnknownKind, and MsgspecError for JSON within it.

    `expected` is the version and kind of an object without its own.
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
    """Decode one message to its JSON value; raises WireError."""
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
    """Return the functions that add each field of a message to an object, by field number."""
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
        """Add an entry `{1: key, 2: value}` to the map."""
        del wire
        parts = {number: part for number, _, part in fields(_bytes(value))}
        item = parts.get(2)
        key = _string(parts.get(1, b""))
        found.setdefault(name, {})[key] = _zero(type_) if item is None else read(item, depth)

    return step


def _reader(type_: str) -> _Read:
    """Return the function that reads a value of a type."""
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
    """Add the zero values that Go writes for fields that were not sent."""
    for field in known.always:
        if field.name == INLINE:
            for name, value in _zero(field.type).items():
                found.setdefault(name, value)
        elif field.name not in found:
            zero = _zero(field.type)
            if zero is not None:
                found[field.name] = zero


def _schema_or_other(type_: str, data: bytes, depth: int) -> Any:
    """Decode a union of a schema and several schemas, names, or a boolean."""
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
    """Return a new zero value of a type."""
    if type_ in _ZEROS:
        return _ZEROS[type_]
    return PLAIN[type_](b"") if type_ in PLAIN else decode_message(type_, b"")


def _packed(data: bytes) -> Iterator[int]:
    """Decode a packed list of numbers."""
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
    """Field numbers of a union of a schema and another type, and that type."""

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
_EXACT: Final = 1e21  # Go writes larger numbers with an exponent
_SCALARS: Final[dict[str, _Convert]] = {
    "string": _string,
    "bytes": _base64,
    "bool": lambda value: _integer(value) != 0,
    "int": _integer,
    "float64": _float,
}
_NUMBERS: Final = frozenset({"bool", "int"})
_ZEROS: Final[dict[str, Any]] = {"string": "", "bytes": "", "bool": False, "int": 0, "float64": 0}


MEDIA_TYPE: Final = "application/vnd.kubernetes.protobuf"
_SHOWN_BYTES: Final = 64
"""Number of bytes of an unreadable body in the message."""


def is_protobuf(request: ApiRequest) -> bool:
    """Return whether the body is an object in protobuf; a patch never is."""
    return request.headers.get("content-type", "").startswith(MEDIA_TYPE) and request.method not in {"GET", "PATCH"}


def as_json(request: ApiRequest, registry: Registry) -> ApiRequest:
    """Convert the request's object to JSON.

    Raises ApiError 400, and 415 for kinds without a protobuf form.
    """
    if not request.body and request.method == "DELETE":
        return request
    resource = _resource(request, registry)
    kind = resource.kind if resource else "JSON"
    try:
        obj = decode(request.body, (resource.api_version, kind) if resource else ("", ""))
    except UnknownKind as unknown:
        if resource:
            raise bad_request(f"the body cannot be handled as a {kind}: {unknown}") from None
        text = f"{unknown} - accepted media types include: application/json, application/yaml"
        raise unsupported_media_type(f"the body of the request was in an unknown format: {text}") from None
    except (WireError, msgspec.MsgspecError, RecursionError) as error:
        why = str(error) if request.body else "empty data"
        quoted = request.body[:_SHOWN_BYTES].hex() or "<empty>"
        text = f"the object provided is unrecognized (must be of type {kind}): {why} ({quoted})"
        raise bad_request(text) from None
    headers = {**request.headers, "content-type": "application/json"}
    return ApiRequest(request.method, request.path, request.query, headers, encode(obj), request.user)


def _resource(request: ApiRequest, registry: Registry) -> Resource | None:
    """Return the built-in resource whose objects the path accepts.

    The result is None for others, and for subresources.
    """
    try:
        target = parse(request.path, registry)
    except ApiError:
        return None
    return None if target.resource.custom or target.subresource not in {"", "status"} else target.resource
