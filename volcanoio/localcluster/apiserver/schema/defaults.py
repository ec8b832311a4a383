"""Defaulting: fills absent fields of a structural schema (CRD docs, "Defaulting")."""

from __future__ import annotations

from collections.abc import Callable
from copy import deepcopy
from typing import Any, TypeAlias

Default: TypeAlias = Callable[[Any], None]
"""Changes the value in place."""


def compile_default(schema: dict[str, Any]) -> Default | None:
    """The defaulter of a schema; None where it has no defaults. A null that is not allowed counts as absent."""
    properties: dict[str, Any] = schema.get("properties") or {}
    own = {
        name: (sub["default"], not sub.get("nullable", False)) for name, sub in properties.items() if "default" in sub
    }
    inner = {name: sub for name, one in properties.items() if (sub := compile_default(one)) is not None}
    others = schema.get("additionalProperties")
    each = compile_default(others) if isinstance(others, dict) else None
    items = schema.get("items")
    item = compile_default(items) if isinstance(items, dict) else None
    if item is not None:
        return _default_items(item)
    if not own and not inner and each is None:
        return None

    def default(value: Any) -> None:
        if not isinstance(value, dict):
            return
        for name, (given, fills_null) in own.items():
            if name not in value or (fills_null and value[name] is None):
                value[name] = deepcopy(given) if isinstance(given, dict | list) else given
        for name, sub in inner.items():
            if name in value:
                sub(value[name])
        if each is not None:
            for name, one in value.items():
                if name not in properties:
                    each(one)

    return default


def _default_items(item: Default) -> Default:
    def default(value: Any) -> None:
        if isinstance(value, list):
            for one in value:
                item(one)

    return default
