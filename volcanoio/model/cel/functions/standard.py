"""Operators, conversions, size, type, membership and optional values (cel-spec, "Standard definitions").

Optional values: cel-go `cel.OptionalTypes`.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable
from typing import Any

from volcanoio.model.cel.errors import EvaluationError, NoSuchOverload
from volcanoio.model.cel.functions.arguments import taking, whole
from volcanoio.model.cel.functions.times import (
    duration_text,
    parse_duration,
    parse_timestamp,
    timestamp_text,
)
from volcanoio.model.cel.signatures import Declared
from volcanoio.model.cel.values import (
    NOTHING,
    DefaultMap,
    Duration,
    Opaque,
    Optional,
    Timestamp,
    TypeValue,
    UInt,
    added,
    contains,
    double_text,
    equal,
    fitting,
    ordered,
    type_name,
)

_INTS = frozenset({int, UInt})


def _add(one: Any, other: Any) -> Any:
    kind, other_kind = type(one), type(other)
    if kind is other_kind:
        if kind in _INTS:
            return fitting(int(one) + int(other), kind)
        if kind in {str, bytes, float}:
            return one + other
        if kind is Duration:
            return fitting(int(one) + int(other), Duration)
    if isinstance(one, list) and isinstance(other, list):
        return added(one, other)
    if {kind, other_kind} == {Duration, Timestamp}:
        return fitting(int(one) + int(other), Timestamp)
    raise NoSuchOverload


def _subtract(one: Any, other: Any) -> Any:
    kind, other_kind = type(one), type(other)
    if kind is other_kind:
        if kind in _INTS:
            return fitting(int(one) - int(other), kind)
        if kind is float:
            return one - other
        if kind in {Duration, Timestamp}:
            return fitting(int(one) - int(other), Duration)
    if (kind, other_kind) == (Timestamp, Duration):
        return fitting(int(one) - int(other), Timestamp)
    raise NoSuchOverload


def _multiply(one: Any, other: Any) -> Any:
    kind = type(one)
    if kind is type(other):
        if kind in _INTS:
            return fitting(int(one) * int(other), kind)
        if kind is float:
            return one * other
    raise NoSuchOverload


def _divide(one: Any, other: Any) -> Any:
    kind = type(one)
    if kind is type(other):
        if kind in _INTS:
            if other == 0:
                raise EvaluationError("division by zero")
            quotient = abs(int(one)) // abs(int(other))
            return fitting(quotient if (one < 0) == (other < 0) else -quotient, kind)
        if kind is float:
            if other == 0:
                return (
                    math.nan if one == 0 or math.isnan(one) else math.copysign(math.inf, one) * math.copysign(1, other)
                )
            return one / other
    raise NoSuchOverload


def _modulo(one: Any, other: Any) -> Any:
    kind = type(one)
    if kind is type(other) and kind in _INTS:
        if other == 0:
            raise EvaluationError("modulus by zero")
        rest = abs(int(one)) % abs(int(other))
        return fitting(rest if one >= 0 else -rest, kind)
    raise NoSuchOverload


def _negate(value: Any) -> Any:
    if type(value) is int:
        return fitting(-value)
    if type(value) is float:
        return -value
    raise NoSuchOverload


def _not(value: Any) -> bool:
    if value is True or value is False:
        return not value
    raise NoSuchOverload


def _in(value: Any, container: Any) -> bool:
    if isinstance(container, list):
        return contains(container, value)
    if isinstance(container, dict):
        return _has_key(container, value)
    raise NoSuchOverload


def _has_key(container: dict[Any, Any], key: Any) -> bool:
    if type(key) is float:
        return key.is_integer() and int(key) in container
    try:
        return key in container
    except TypeError:
        raise NoSuchOverload from None


def index(container: Any, key: Any) -> Any:
    """Evaluate `container[key]`; an optional container gives an optional."""
    if type(container) is Optional:
        if not container.present:
            return container
        return optional_index(container.value, key)
    if isinstance(container, list):
        if type(key) not in {int, UInt, float} or key != int(key):
            raise NoSuchOverload
        at = int(key)
        if not 0 <= at < len(container):
            raise EvaluationError(f"index out of bounds: {at}")
        return container[at]
    if isinstance(container, dict):
        if _has_key(container, key):
            return container[key]
        if type(container) is DefaultMap:
            return container.default
        raise EvaluationError(f"no such key: {key}")
    raise NoSuchOverload


def optional_index(container: Any, key: Any) -> Any:
    """Evaluate `container[?key]`."""
    if type(container) is Optional:
        if not container.present:
            return container
        container = container.value
    if isinstance(container, list):
        found = type(key) in {int, UInt} and 0 <= key < len(container)
    elif isinstance(container, dict):
        found = _has_key(container, key)
    else:
        raise NoSuchOverload
    return Optional(present=True, value=container[key]) if found else Optional(present=False)


def _size(value: Any) -> int:
    if type(value) in {str, bytes} or isinstance(value, list | dict):
        return len(value)
    raise NoSuchOverload


_COMPARABLE = (
    "bool, bool", "int, int", "int, double", "int, uint", "uint, uint", "uint, double", "uint, int", "double, double",
    "double, int", "double, uint", "string, string", "bytes, bytes", "timestamp, timestamp", "duration, duration",
)  # fmt: skip


def _comparison(compare: Callable[[Any, Any], Any]) -> Declared:
    return Declared(";".join(f"({pair}) -> bool" for pair in _COMPARABLE), ordered(compare))


OPERATORS: dict[str, Declared] = {
    "_==_": Declared("(A, A) -> bool", equal),
    "_!=_": Declared("(A, A) -> bool", lambda one, other: not equal(one, other)),
    "_<_": _comparison(operator.lt),
    "_<=_": _comparison(operator.le),
    "_>_": _comparison(operator.gt),
    "_>=_": _comparison(operator.ge),
    "_+_": Declared(
        "(bytes, bytes) -> bytes; (double, double) -> double; (duration, duration) -> duration;"
        "(duration, timestamp) -> timestamp; (timestamp, duration) -> timestamp; (int, int) -> int;"
        "(list(A), list(A)) -> list(A); (string, string) -> string; (uint, uint) -> uint",
        _add,
    ),
    "_-_": Declared(
        "(double, double) -> double; (duration, duration) -> duration; (int, int) -> int;"
        "(timestamp, duration) -> timestamp; (timestamp, timestamp) -> duration; (uint, uint) -> uint",
        _subtract,
    ),
    "_*_": Declared("(double, double) -> double; (int, int) -> int; (uint, uint) -> uint", _multiply),
    "_/_": Declared("(double, double) -> double; (int, int) -> int; (uint, uint) -> uint", _divide),
    "_%_": Declared("(int, int) -> int; (uint, uint) -> uint", _modulo),
    "-_": Declared("(double) -> double; (int) -> int", _negate),
    "!_": Declared("(bool) -> bool", _not),
    "@in": Declared("(A, list(A)) -> bool; (A, map(A, B)) -> bool", _in),
    "_[_]": Declared(
        "(list(A), int) -> A; (map(A, B), A) -> B;"
        "(optional(list(V)), int) -> optional(V); (optional(map(K, V)), K) -> optional(V)",
        index,
    ),
    "_[?_]": Declared(
        "(list(V), int) -> optional(V); (optional(list(V)), int) -> optional(V);"
        "(map(K, V), K) -> optional(V); (optional(map(K, V)), K) -> optional(V)",
        optional_index,
    ),
    "size": Declared(
        "(bytes) -> int; bytes.() -> int; (list(A)) -> int; list(A).() -> int;"
        "(map(A, B)) -> int; map(A, B).() -> int; (string) -> int; string.() -> int",
        _size,
    ),
    "type": Declared("(A) -> type(A)", lambda value: TypeValue(type_name(value))),
}


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
            return value  # type: ignore[no-any-return]  # the type was checked before
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
    """Evaluate `string(value)`; raises NoSuchOverload for types that it does not convert."""
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


CONVERSIONS: dict[str, Declared] = {
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


def _of(value: Any) -> Optional:
    return Optional(present=True, value=value)


def _of_non_zero(value: Any) -> Optional:
    zero = value is None or (type(value) is not Optional and not value)
    return NOTHING if zero else _of(value)


def _value(one: Optional) -> Any:
    if not one.present:
        raise EvaluationError("optional.none() dereference")
    return one.value


def _or_value(one: Any, other: Any) -> Any:
    if type(one) is not Optional:
        raise NoSuchOverload
    return one.value if one.present else other


def _unwrap(items: list[Any]) -> list[Any]:
    return [one.value for one in items if type(one) is Optional and one.present]


OPTIONALS: dict[str, Declared] = {
    "optional.of": Declared("(V) -> optional(V)", _of),
    "optional.ofNonZeroValue": Declared("(V) -> optional(V)", _of_non_zero),
    "optional.none": Declared("() -> optional(V)", lambda: NOTHING),
    "value": Declared("optional(V).() -> V", taking(Optional)(_value)),
    "hasValue": Declared("optional(V).() -> bool", taking(Optional)(lambda one: one.present)),
    "or": Declared(
        "optional(V).(optional(V)) -> optional(V)",
        taking(Optional, Optional)(lambda one, other: one if one.present else other),
    ),
    "orValue": Declared("optional(V).(V) -> V", _or_value),
    "optional.unwrap": Declared("(list(optional(V))) -> list(V)", taking(list)(_unwrap)),
    "unwrapOpt": Declared("list(optional(V)).() -> list(V)", taking(list)(_unwrap)),
}
