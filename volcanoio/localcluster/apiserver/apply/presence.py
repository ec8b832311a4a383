"""Objects without what Go leaves out of their JSON: fields that are zero or empty."""

from __future__ import annotations

from typing import Any

from volcanoio.localcluster.apiserver.apply.types import Type


def trimmed(type_: Type, value: Any) -> Any:
    """The value without what Go leaves out; parts are shared with the operand."""
    if isinstance(value, dict) and type_.is_map:
        omitted = type_.omitted
        return {
            name: trimmed(type_.field(name), inner) for name, inner in value.items() if inner or name not in omitted
        }
    if isinstance(value, list) and type_.items is not None:
        items = type_.items
        return [trimmed(items, one) for one in value] if items.is_map else value
    return value
