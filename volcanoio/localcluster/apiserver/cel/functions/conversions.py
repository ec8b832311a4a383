"""Conversions between types: `int("1")`, `string(2.5)`, `duration("1h")` (cel-spec, "Standard definitions")."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from volcanoio.localcluster.apiserver.cel.errors import EvaluationError, NoSuchOverload
from volcanoio.localcluster.apiserver.cel.functions.arguments import whole
from volcanoio.localcluster.apiserver.cel.functions.times import (
    duration_text,
    parse_duration,
    parse_timestamp,
    timestamp_text,
)
from volcanoio.localcluster.apiserver.cel.signatures import Declared
from volcanoio.localcluster.apiserver.cel.values import (
    Duration,
    Opaque,
    Timestamp,
    UInt,
    double_text,
    fitting,
    type_name,
)

_TRUE = frozenset({"1", "t", "T", "TRUE", "true", "True"})
_FALSE = frozenset({"0", "f", "F", "FALSE", "false", "False"})
_SECOND = 1_000_000_000


def _bool(value: Any) -> bool:
    if type(value) is bool:
        return value
    if type(value) is str:
        if value in _TRUE:
            return True
        if value in _FALSE:
            return False
        raise _fails("string", "bool")
    raise NoSuchOverload


def _int(value: Any) -> int:
    kind = type(value)
    if kind is int:
        return int(value)
    try:
        if kind is UInt:
            return fitting(int(value))
        if kind is float:
            return whole(value)  # raises EvaluationError outside of the range
        if kind is Duration:
            return int(value)
        if kind is Timestamp:
            return int(value // _SECOND)
        if kind is str:
            if not value.lstrip("+-").isascii() or "_" in value or value != value.strip():
                raise ValueError(value)
            return fitting(int(value, 10))
    except ValueError:
        raise _fails(type_name(value), "int") from None
    raise NoSuchOverload


def _uint(value: Any) -> UInt:
    kind = type(value)
    try:
        if kind is UInt:
            return value  # type: ignore[no-any-return]  # its type was just seen
        if kind is int:
            return UInt(fitting(value, UInt))
        if kind is float:
            if not 0 <= value < 2.0**64:
                raise EvaluationError("unsigned integer overflow")
            return UInt(int(value))
        if kind is str and value.isdigit() and value.isascii():
            return UInt(fitting(int(value), UInt))
        if kind is str:
            raise ValueError(value)
    except ValueError:
        raise _fails("string", "uint") from None
    raise NoSuchOverload


def _double(value: Any) -> float:
    kind = type(value)
    if kind in {float, int, UInt}:
        return float(value)
    if kind is str:
        try:
            if "_" in value or value != value.strip():
                raise ValueError(value)
            return float(value)
        except ValueError:
            raise _fails("string", "double") from None
    raise NoSuchOverload


def text(value: Any) -> str:
    """`string(value)`; raises NoSuchOverload for what has no text."""
    kind = type(value)
    if kind is str:
        return str(value)
    if kind is bool:
        return "true" if value else "false"
    if kind in {int, UInt}:
        return str(int(value))
    if kind is float:
        return double_text(value, 6)
    if kind is Duration:
        return duration_text(value)
    if kind is Timestamp:
        return timestamp_text(value)
    if kind is bytes:
        try:
            return str(value, "utf-8")
        except UnicodeDecodeError:
            raise EvaluationError("invalid UTF-8 in bytes, cannot convert to string") from None
    raise NoSuchOverload


def _bytes(value: Any) -> bytes:
    if type(value) is bytes:
        return value
    if type(value) is str:
        return value.encode()
    raise NoSuchOverload


def _duration(value: Any) -> Duration:
    if type(value) is Duration:
        return value
    if type(value) is int:
        return Duration(value)
    if type(value) is str:
        try:
            return Duration(fitting(parse_duration(value), Duration))
        except ValueError:
            raise _fails("string", "google.protobuf.Duration") from None
    raise NoSuchOverload


def _timestamp(value: Any) -> Timestamp:
    if type(value) is Timestamp:
        return value
    if type(value) is int:
        return Timestamp(value * _SECOND)
    if type(value) is str:
        try:
            return Timestamp(parse_timestamp(value))
        except ValueError:
            raise _fails("string", "google.protobuf.Timestamp") from None
    raise NoSuchOverload


def _fails(kind: str, wanted: str) -> EvaluationError:
    return EvaluationError(f"type conversion error from '{kind}' to '{wanted}'")


def _dyn(value: Any) -> Any:
    return value


def _row(name: str, sources: str, call: Callable[[Any], Any]) -> Declared:
    return Declared(";".join(f"({one}) -> {name}" for one in sources.split()), call)


def _opaque_text(value: Any) -> str:
    if isinstance(value, Opaque):
        return str(value)
    return text(value)


TABLE: dict[str, Declared] = {
    "bool": _row("bool", "bool string", _bool),
    "bytes": _row("bytes", "bytes string", _bytes),
    "double": _row("double", "double int string uint", _double),
    "duration": _row("duration", "duration int string", _duration),
    "dyn": Declared("(A) -> dyn", _dyn),
    "int": _row("int", "int double duration string timestamp uint", _int),
    "string": _row("string", "string bool bytes double duration int timestamp uint", _opaque_text),
    "timestamp": _row("timestamp", "timestamp int string", _timestamp),
    "uint": _row("uint", "uint double int string", _uint),
}
