"""CEL's values in Python, their equality and order (cel-spec, "Values", "Equality").

int, float, str, bytes, bool, None, list and dict represent themselves; an int has 64 bits.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from decimal import Decimal
from typing import Any, Final, NamedTuple

from volcanoio.model.cel.errors import EvaluationError, NoSuchOverload

INT_MIN: Final = -(2**63)
INT_MAX: Final = 2**63 - 1
UINT_MAX: Final = 2**64 - 1


class UInt(int):
    """An unsigned 64-bit number, a type distinct from int in CEL."""

    __slots__ = ()


class Duration(int):
    """A span of time in nanoseconds."""

    __slots__ = ()


class Timestamp(int):
    """A time, in nanoseconds since 1970 UTC."""

    __slots__ = ()


class TypeValue(NamedTuple):
    """A type as a value."""

    name: str


class Optional(NamedTuple):
    """A value that may be missing."""

    present: bool
    value: Any = None

    def __bool__(self) -> bool:
        return self.present


NOTHING: Final = Optional(present=False)


class SetList(list[Any]):
    """A list whose order does not matter (`x-kubernetes-list-type: set`)."""


class MapList(list[Any]):
    """A list of objects identified by their keys (`x-kubernetes-list-type: map`)."""

    keys: tuple[str, ...] = ()


class DefaultMap(dict[Any, Any]):
    """A map that returns `default` for a missing key; a test for a key, and a loop, find only those that it has."""

    default: Any = None


class Opaque:
    """Base of values that only functions can read; `kind` is the name of their type."""

    __slots__ = ()
    kind: str = ""


_TYPE_NAMES: Final[dict[type, str]] = {
    bool: "bool",
    int: "int",
    UInt: "uint",
    float: "double",
    str: "string",
    bytes: "bytes",
    type(None): "null_type",
    list: "list",
    SetList: "list",
    MapList: "list",
    dict: "map",
    DefaultMap: "map",
    Duration: "google.protobuf.Duration",
    Timestamp: "google.protobuf.Timestamp",
    TypeValue: "type",
    Optional: "optional_type",
}
_NUMBERS: Final = frozenset({int, UInt, float})
_ORDERED: Final = frozenset({bool, str, bytes, Duration, Timestamp})


def type_name(value: Any) -> str:
    """Return the name of the value's type, as `type(value)` shows it."""
    if isinstance(value, Opaque):
        return value.kind
    return _TYPE_NAMES.get(type(value), "dyn")


def equal(one: Any, other: Any) -> bool:
    """Return whether two values are equal: numbers by value, all others only within a type."""
    kind, other_kind = type(one), type(other)
    if kind in _NUMBERS and other_kind in _NUMBERS:
        return bool(one == other)
    if isinstance(one, list) and isinstance(other, list):
        return _equal_lists(one, other)
    if isinstance(one, dict) and isinstance(other, dict):
        return len(one) == len(other) and all(key in other and equal(value, other[key]) for key, value in one.items())
    if kind is not other_kind:
        return False
    if kind is Optional:
        return one.present == other.present and (not one.present or equal(one.value, other.value))
    return bool(one == other)


def _equal_lists(one: list[Any], other: list[Any]) -> bool:
    if len(one) != len(other):
        return False
    if isinstance(one, MapList):
        known = {_key(item, one.keys): item for item in one}
        return all((found := known.get(_key(item, one.keys))) is not None and equal(found, item) for item in other)
    if isinstance(one, SetList):
        return all(contains(one, item) for item in other)
    return all(equal(a, b) for a, b in zip(one, other, strict=True))


def contains(items: list[Any], value: Any) -> bool:
    """Return whether an equal value is among the items."""
    if type(value) is str:  # fast path: most values are strings
        return value in items
    return any(equal(one, value) for one in items)


def added(one: list[Any], other: list[Any]) -> list[Any]:
    """Return `one + other`: appended, or merged when the first is a set or map by its schema."""
    if isinstance(one, SetList):
        return SetList([*one, *(item for item in other if not contains(one, item))])
    if isinstance(one, MapList):
        found = MapList(one)
        found.keys = one.keys
        places = {_key(item, one.keys): at for at, item in enumerate(one)}
        for item in other:
            key = _key(item, one.keys)
            if key in places:
                found[places[key]] = item
            else:
                found.append(item)
        return found
    return [*one, *other]


def _key(item: Any, keys: tuple[str, ...]) -> tuple[Any, ...]:
    return tuple((type(item.get(key)), item.get(key)) for key in keys) if isinstance(item, dict) else (repr(item),)


def ordered(compare: Callable[[Any, Any], Any]) -> Callable[[Any, Any], bool]:
    """Compare two values for `<` and the like."""

    def check(one: Any, other: Any) -> bool:
        kind, other_kind = type(one), type(other)
        if kind is other_kind:
            if kind in _NUMBERS or kind in _ORDERED:
                return bool(compare(one, other))
        elif kind in _NUMBERS and other_kind in _NUMBERS:
            return bool(compare(one, other))
        raise NoSuchOverload

    return check


def fitting(value: int, kind: type = int) -> int:
    """Check that the type can hold an arithmetic result; raises EvaluationError."""
    if kind is UInt:
        if not 0 <= value <= UINT_MAX:
            raise EvaluationError("unsigned integer overflow")
        return UInt(value)
    if not INT_MIN <= value <= INT_MAX:
        names = {Duration: "duration overflow", Timestamp: "timestamp overflow"}
        raise EvaluationError(names.get(kind, "integer overflow"))
    return value if kind is int else kind(value)


def double_text(value: float, most: int = 21) -> str:
    """Return a double as Go's `%v` prints it.

    That is the shortest form, with an exponent below -4 and from `most` on.
    """
    if math.isnan(value):
        return "NaN"
    if math.isinf(value):
        return "+Inf" if value > 0 else "-Inf"
    sign, digits, exponent = Decimal(repr(value)).normalize().as_tuple()
    if not isinstance(exponent, int) or digits == (0,):
        return "-0" if sign else "0"
    power = len(digits) + exponent - 1
    text = "".join(map(str, digits))
    if -4 <= power < most:
        shown = f"{Decimal(repr(value)):f}"
        return shown.rstrip("0").rstrip(".") if "." in shown else shown
    point = f"{text[0]}.{text[1:]}" if len(text) > 1 else text
    return f"{'-' if sign else ''}{point}e{'-' if power < 0 else '+'}{abs(power):02d}"
