"""Which paths an applied configuration claims."""

from __future__ import annotations

from collections import Counter
from typing import Any

from volcanoio.localcluster.apiserver.apply import elements
from volcanoio.localcluster.apiserver.apply.elements import SELF
from volcanoio.localcluster.apiserver.apply.fieldset import FieldSet
from volcanoio.localcluster.apiserver.apply.types import Type


def claimed(type_: Type, value: Any) -> FieldSet:
    """The leaves and items of an object, as a set."""
    return _below(type_, value) or {}


def _below(type_: Type, value: Any) -> FieldSet | None:
    """What a value claims: `{}` when it is claimed as one, None when it claims nothing."""
    shape = type_.shape(value)
    if shape == "map":
        if type_.atomic_map:
            return {}
        return _fields(type_, value) if isinstance(value, dict) else None
    if shape == "list":
        if type_.list_kind == "atomic":
            return {}
        return _items(type_, value) if isinstance(value, list) else None
    return {} if shape == "scalar" else None


def _fields(type_: Type, value: dict[str, Any]) -> FieldSet | None:
    found: FieldSet = {}
    for name, inner in value.items():
        below = _below(type_.field(name), inner)
        if inner is None or inner == {} or name not in type_.fields:
            below = _with_self(below)
        if below is not None:
            found[elements.field(name)] = below
    return found or None


def _items(type_: Type, values: list[Any]) -> FieldSet | None:
    """Items that several share a key of are claimed as one."""
    items = type_.items
    assert items is not None
    steps = type_.steps(values)
    counts = Counter(steps)
    found: FieldSet = {
        step: {} if counts[step] > 1 else _with_self(_below(items, value))
        for step, value in zip(steps, values, strict=True)
    }
    return found or None


def _with_self(below: FieldSet | None) -> FieldSet:
    return {SELF: {}, **below} if below else {}
