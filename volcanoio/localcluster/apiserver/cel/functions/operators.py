"""Operators, size, type and membership (cel-spec, "Standard definitions")."""

from __future__ import annotations

import math
import operator
from collections.abc import Callable
from typing import Any

from volcanoio.localcluster.apiserver.cel.errors import EvaluationError, NoSuchOverload
from volcanoio.localcluster.apiserver.cel.signatures import Declared
from volcanoio.localcluster.apiserver.cel.values import (
    Duration,
    Optional,
    Timestamp,
    TypeValue,
    UInt,
    added,
    contains,
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
    if type(container) is dict:
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
    """`container[key]`; an optional container gives an optional."""
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
    if type(container) is dict:
        if _has_key(container, key):
            return container[key]
        raise EvaluationError(f"no such key: {key}")
    raise NoSuchOverload


def optional_index(container: Any, key: Any) -> Any:
    """`container[?key]`."""
    if type(container) is Optional:
        if not container.present:
            return container
        container = container.value
    if isinstance(container, list):
        found = type(key) in {int, UInt} and 0 <= key < len(container)
    elif type(container) is dict:
        found = _has_key(container, key)
    else:
        raise NoSuchOverload
    return Optional(present=True, value=container[key]) if found else Optional(present=False)


def _size(value: Any) -> int:
    if type(value) in {str, bytes, dict} or isinstance(value, list):
        return len(value)
    raise NoSuchOverload


_COMPARABLE = (
    "bool, bool", "int, int", "int, double", "int, uint", "uint, uint", "uint, double", "uint, int", "double, double",
    "double, int", "double, uint", "string, string", "bytes, bytes", "timestamp, timestamp", "duration, duration",
)  # fmt: skip


def _comparison(compare: Callable[[Any, Any], Any]) -> Declared:
    return Declared(";".join(f"({pair}) -> bool" for pair in _COMPARABLE), ordered(compare))


TABLE: dict[str, Declared] = {
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
