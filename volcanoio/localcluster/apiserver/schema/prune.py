"""Pruning: removes what a structural schema does not specify (CRD docs, "Field pruning")."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

Prune: TypeAlias = Callable[[Any, str, list[str]], None]
"""Changes the value in place and notes the removed paths."""

_OBJECT_META = ("apiVersion", "kind", "metadata")


def compile_prune(schema: dict[str, Any], *, root: bool = False) -> Prune | None:
    """The pruner of a schema; None where nothing can be removed. The root keeps apiVersion, kind and metadata."""
    preserve = bool(schema.get("x-kubernetes-preserve-unknown-fields"))
    embedded = root or bool(schema.get("x-kubernetes-embedded-resource"))
    properties: dict[str, Any] = schema.get("properties") or {}
    known = {name: compile_prune(sub) for name, sub in properties.items()}
    if embedded:
        known |= dict.fromkeys(_OBJECT_META)
    others = schema.get("additionalProperties")
    each = compile_prune(others) if isinstance(others, dict) else None
    items = schema.get("items")
    item = compile_prune(items) if isinstance(items, dict) else None
    keep_others = preserve or (others is not None and others is not False)
    is_object = schema.get("type") == "object" or bool(properties)
    if not is_object or (keep_others and each is None and not any(known.values())):
        return _prune_items(item) if item is not None else None

    def prune(value: Any, path: str, removed: list[str]) -> None:
        if not isinstance(value, dict):
            return
        for key in list(value):
            if key in known:
                sub = known[key]
            elif keep_others:
                sub = each
            else:
                del value[key]
                removed.append(f"{path}.{key}" if path else key)
                continue
            if sub is not None:
                sub(value[key], f"{path}.{key}" if path else key, removed)

    return prune


def _prune_items(item: Prune) -> Prune:
    def prune(value: Any, path: str, removed: list[str]) -> None:
        if isinstance(value, list):
            for at, one in enumerate(value):
                item(one, f"{path}[{at}]", removed)

    return prune
