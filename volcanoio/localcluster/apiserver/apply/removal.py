"""Taking the fields of a set out of an object, and adding to a set the fields that hold its members."""

from __future__ import annotations

from typing import Any

from volcanoio.localcluster.apiserver.apply import elements
from volcanoio.localcluster.apiserver.apply.elements import SELF
from volcanoio.localcluster.apiserver.apply.fieldset import FieldSet, is_member
from volcanoio.localcluster.apiserver.apply.types import Type


def remove(type_: Type, value: Any, gone: FieldSet) -> Any:
    """The value without these fields and items; null where nothing is left of it, or where it is owned as one."""
    if isinstance(value, dict) and type_.is_map:
        return None if type_.atomic_map else _remove_fields(type_, value, gone)
    if isinstance(value, list) and type_.list_kind:
        return None if type_.list_kind == "atomic" else _remove_items(type_, value, gone)
    return value


def _remove_fields(type_: Type, value: dict[str, Any], gone: FieldSet) -> dict[str, Any] | None:
    left = {}
    for name, inner in value.items():
        below = gone.get(elements.field(name))
        if below is None:
            left[name] = inner
        elif not is_member(below):
            left[name] = remove(type_.field(name), inner, below)
    return left or None


def _remove_items(type_: Type, values: list[Any], gone: FieldSet) -> list[Any] | None:
    items = type_.items
    assert items is not None
    left = []
    for step, value in zip(type_.steps(values), values, strict=True):
        below = gone.get(step)
        if below is None:
            left.append(value)
        elif not is_member(below):
            left.append(remove(items, value, below))
    return left or None


def with_holders(type_: Type, fields: FieldSet) -> FieldSet:
    """The set with every declared field that has members below it; items of lists and keys of maps are not added."""
    found: FieldSet = {}
    for step, below in fields.items():
        if step == SELF or not below:
            found[step] = below
            continue
        name = step[2:]
        if step[:2] == "f:" and type_.is_map:
            inner = with_holders(type_.field(name), below)
            if name in type_.fields and SELF not in inner:
                inner = {SELF: {}, **inner}
        elif step[:2] == "k:" and type_.items is not None:
            inner = with_holders(type_.items, below)
        else:
            inner = below
        found[step] = inner
    return found
