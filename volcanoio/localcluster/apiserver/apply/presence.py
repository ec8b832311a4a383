"""Objects as Go writes them: without fields that are zero or empty, and with the objects that are always there."""

from __future__ import annotations

from typing import Any

from volcanoio.localcluster.apiserver.apply.types import Type


def as_go_writes(type_: Type, value: Any) -> Any:
    """The value without what Go leaves out and with what it always writes; parts are shared with the operand."""
    if isinstance(value, dict) and type_.is_map:
        omitted = type_.omitted
        found = {
            name: as_go_writes(type_.field(name), inner)
            for name, inner in value.items()
            if inner or name not in omitted
        }
        for name, zero in type_.present.items():
            if name not in found and zero == {}:  # a zero number or text is for the kind's defaults to replace
                found[name] = as_go_writes(type_.field(name), zero)
        return found
    if isinstance(value, list) and type_.items is not None:
        items = type_.items
        return [as_go_writes(items, one) for one in value] if items.is_map else value
    return value
