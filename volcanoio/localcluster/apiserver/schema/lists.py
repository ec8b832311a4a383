"""Lists as sets and maps: their items are unique (apiextensions `schema/listtype`)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

import msgspec

from volcanoio.engine.admission.fielderrors import FieldError, duplicate, invalid

Unique: TypeAlias = Callable[[Any, str, list[FieldError]], None]
"""Notes items that occur again."""


def compile_unique(schema: dict[str, Any]) -> Unique | None:
    """The check of all lists within a schema; None where no list is a set or map."""
    fields = {
        name: inner
        for name, sub in (schema.get("properties") or {}).items()
        if (inner := compile_unique(sub)) is not None
    }
    others = schema.get("additionalProperties")
    each = compile_unique(others) if isinstance(others, dict) else None
    items = schema.get("items")
    item = compile_unique(items) if isinstance(items, dict) else None
    kind = schema.get("x-kubernetes-list-type")
    own = _repeats(schema) if kind in {"set", "map"} else None
    if not fields and each is None and item is None and own is None:
        return None

    def check(value: Any, path: str, errors: list[FieldError]) -> None:
        if type(value) is dict:
            if each is not None:
                for key, one in value.items():
                    each(one, f"{path}[{key}]" if path else key, errors)
            for name, sub in fields.items():
                if name in value:
                    sub(value[name], f"{path}.{name}" if path else name, errors)
        elif type(value) is list:
            if own is not None:
                own(value, path, errors)
            if item is not None:
                for at, one in enumerate(value):
                    item(one, f"{path}[{at}]", errors)

    return check


def _repeats(schema: dict[str, Any]) -> Unique:
    keys: list[str] | None = None
    if schema["x-kubernetes-list-type"] == "map":
        keys = sorted(schema.get("x-kubernetes-list-map-keys") or ())

    def check(value: list[Any], path: str, errors: list[FieldError]) -> None:
        if keys is not None:
            for at, one in enumerate(value):
                if one is not None and type(one) is not dict:
                    errors.append(invalid(f"{path}[{at}]", one, "must be an object for an array of list-type map"))
                    return
        seen: dict[bytes, int] = {}
        for at, one in enumerate(value):
            known = one if keys is None else {key: one[key] for key in keys if key in one} if one is not None else {}
            encoded = msgspec.json.encode(known, order="deterministic")
            seen[encoded] = times = seen.get(encoded, 0) + 1
            if times == 2:
                errors.append(duplicate(f"{path}[{at}]", known))

    return check
