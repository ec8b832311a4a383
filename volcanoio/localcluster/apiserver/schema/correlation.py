"""Which old value a new one is compared with (apiserver `cel/common/equality.go`, `maplist.go`).

Objects correlate by field, lists by key where `x-kubernetes-list-type` is map; all else has no old value.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, TypeAlias

UNCORRELATED: Final = object()
"""There is no old value."""

Find: TypeAlias = Callable[[Any], Any]
"""The old item for a new one, or UNCORRELATED."""


def old_field(old: Any, name: str) -> Any:
    """The old value of a field."""
    if type(old) is dict and name in old:
        return old[name]
    return UNCORRELATED


def old_items(schema: dict[str, Any]) -> Callable[[Any], Find]:
    """For a list's schema: from the old list to a function that finds the old item for a new one."""
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
