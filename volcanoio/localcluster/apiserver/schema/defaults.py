"""Defaulting: fills absent fields of a structural schema (CRD docs, "Defaulting").

A null where none is allowed becomes the default, or goes where there is none (apiextensions `schema/defaulting`).
"""

from __future__ import annotations

from collections.abc import Callable
from copy import deepcopy
from typing import Any, TypeAlias

Default: TypeAlias = Callable[[Any], None]
"""Changes the value in place."""


def compile_default(schema: dict[str, Any]) -> Default | None:
    """The defaulter of a schema; None for scalars."""
    properties: dict[str, Any] = schema.get("properties") or {}
    others = schema.get("additionalProperties")
    items = schema.get("items")
    if isinstance(items, dict):
        return _default_items(items)
    if not properties and not isinstance(others, dict):
        return None
    return _default_fields(properties, others if isinstance(others, dict) else None)


def _default_fields(properties: dict[str, Any], others: dict[str, Any] | None) -> Default:
    own = {name: sub["default"] for name, sub in properties.items() if sub.get("default") is not None}
    nullable = {name for name, sub in properties.items() if sub.get("nullable")}
    inner = {name: sub for name, one in properties.items() if (sub := compile_default(one)) is not None}
    each = compile_default(others) if others is not None else None
    other_null = others is None or bool(others.get("nullable"))
    other_default = others.get("default") if others is not None else None

    def default(value: Any) -> None:
        if type(value) is not dict:
            return
        if None in value.values():
            for name in [name for name, one in value.items() if one is None]:
                keeps = name in nullable if name in properties else other_null
                if not keeps:
                    given = own.get(name) if name in properties else other_default
                    if given is None:
                        del value[name]
                    else:
                        value[name] = deepcopy(given)
        for name, given in own.items():
            if name not in value:
                value[name] = deepcopy(given) if isinstance(given, dict | list) else given
        for name, sub in inner.items():
            if name in value:
                sub(value[name])
        if each is not None:
            for name, one in value.items():
                if name not in properties:
                    each(one)

    return default


def _default_items(items: dict[str, Any]) -> Default:
    item = compile_default(items)
    given = None if items.get("nullable") else items.get("default")

    def default(value: Any) -> None:
        if type(value) is not list:
            return
        if given is not None and None in value:
            value[:] = [deepcopy(given) if one is None else one for one in value]
        if item is not None:
            for one in value:
                item(one)

    return default
