"""Equality of JSON values as in Go, and the correlation of new with old values.

`true`, `1` and `1.0` differ, and a whole float is written as an int. Objects correlate by field, lists by key where
`x-kubernetes-list-type` is map; other values have no old value (apiserver `cel/common/equality.go`, `maplist.go`).
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any, Final, TypeAlias

_MAYBE_WHOLE: Final = re.compile(rb"[\s:,\[]-?\d+(?:\.0+(?![0-9])|\.?\d*[eE])")
"""A number written as a whole float; may also match within strings, except for hexadecimal digits."""
_MOST: Final = 1e21
"""Smallest float that Go writes with an exponent."""


def identical(one: Any, other: Any) -> bool:
    """Return whether two values are the same, types included."""
    kind = type(one)
    if kind is not type(other):
        return False
    if kind is dict:
        return len(one) == len(other) and all(
            key in other and identical(value, other[key]) for key, value in one.items()
        )
    if kind is list:
        return len(one) == len(other) and all(identical(a, b) for a, b in zip(one, other, strict=True))
    return bool(one == other)


def write_whole_floats(obj: dict[str, Any], body: bytes) -> None:
    """Replace `1.0` by `1` in place, if the decoded body may contain such floats."""
    if _MAYBE_WHOLE.search(body) is not None:
        _walk(obj)


def _walk(value: Any) -> Any:
    if type(value) is float:
        return int(value) if value.is_integer() and abs(value) < _MOST else value
    if type(value) is dict:
        for key, one in value.items():
            if type(one) in {float, dict, list}:
                value[key] = _walk(one)
    elif type(value) is list:
        value[:] = [_walk(one) for one in value]
    return value


UNCORRELATED: Final = object()
"""Marker for a missing old value."""

Find: TypeAlias = Callable[[Any], Any]
"""Return the old item of a new one, or UNCORRELATED."""


def old_field(old: Any, name: str) -> Any:
    """Return the old value of a field."""
    if type(old) is dict and name in old:
        return old[name]
    return UNCORRELATED


def old_items(schema: dict[str, Any]) -> Callable[[Any], Find]:
    """Return, for a list's schema, a function from the old list to a lookup of old items."""
    keys: list[str] = schema.get("x-kubernetes-list-map-keys") or []
    if schema.get("x-kubernetes-list-type") != "map" or not keys:
        return lambda _: _nothing

    def index(old: Any) -> Find:
        if type(old) is not list:
            return _nothing
        known: dict[Any, Any] = {}
        for one in old:
            if type(one) is dict:
                known.setdefault(_identity(one, keys), one)
        return lambda new: known.get(_identity(new, keys), UNCORRELATED) if type(new) is dict else UNCORRELATED

    return index


def _nothing(_: Any) -> Any:
    return UNCORRELATED


def _identity(item: dict[str, Any], keys: list[str]) -> Any:
    return tuple(_hashable(item.get(key)) for key in keys)


def _hashable(value: Any) -> Any:
    return (type(value), value) if not isinstance(value, dict | list) else (type(value), repr(value))
