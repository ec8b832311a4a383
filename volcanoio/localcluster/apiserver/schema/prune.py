"""Pruning: removal of fields that a structural schema does not specify (CRD docs, "Field pruning")."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, TypeAlias

Prune: TypeAlias = Callable[[Any, str, list[str]], None]
"""Prune a value in place and collect the removed paths."""

_OBJECT_META: Final = ("apiVersion", "kind", "metadata")


def compile_prune(schema: dict[str, Any] | None, *, root: bool = False) -> Prune:
    """Compile the pruning of a schema.

    The root keeps apiVersion, kind and metadata; without a schema all fields are removed.
    """
    if schema is None:
        return _prune_all
    if schema.get("x-kubernetes-preserve-unknown-fields"):
        return _compile_skip(schema, root=root)
    keeps = schema.get("additionalProperties") is not None
    return _pruner(_inner(schema, root=root), _items(schema.get("items")), keeps=keeps)


def _compile_skip(schema: dict[str, Any], *, root: bool = False) -> Prune:
    """Compile the pruning where unknown fields are kept.

    Specified fields below are pruned nevertheless.
    """
    items = schema.get("items")
    item = _compile_skip(items) if isinstance(items, dict) else _keep
    return _pruner(_inner(schema, root=root), item, keeps=True)


def _inner(schema: dict[str, Any], *, root: bool) -> tuple[dict[str, Prune | None], dict[str, Any], Prune]:
    """Return pruners of fields, their schemas, and the pruner of all other fields.

    A pruner is None where it compiles on first use.
    """
    specified: dict[str, Any] = schema.get("properties") or {}
    fields: dict[str, Prune | None] = dict.fromkeys(specified)
    if root or schema.get("x-kubernetes-embedded-resource"):
        fields |= dict.fromkeys(_OBJECT_META, _keep)
    others = schema.get("additionalProperties")
    if others is None:
        return fields, specified, _keep
    return fields, specified, compile_prune(others if isinstance(others, dict) else None)


def _items(items: Any) -> Prune:
    return compile_prune(items if isinstance(items, dict) else None)


def _pruner(inner: tuple[dict[str, Prune | None], dict[str, Any], Prune], item: Prune, *, keeps: bool) -> Prune:
    fields, specified, each = inner
    if keeps and each is _keep and item is _keep and not specified:
        return _keep

    def prune_fields(value: dict[str, Any], path: str, removed: list[str]) -> None:
        for key in list(value):
            if key not in fields and not keeps:
                del value[key]
                removed.append(f"{path}.{key}" if path else key)
                continue
            one = value[key]
            if type(one) is not dict and type(one) is not list:
                continue
            known = fields.get(key, each)
            if known is None:
                known = fields[key] = compile_prune(specified[key])
            if known is not _keep:
                known(one, f"{path}.{key}" if path else key, removed)

    return _prune_composite(prune_fields, item)


def _prune_composite(prune_fields: Prune, item: Prune) -> Prune:
    def prune(value: Any, path: str, removed: list[str]) -> None:
        if type(value) is dict:
            prune_fields(value, path, removed)
        elif type(value) is list:
            for at, one in enumerate(value):
                if type(one) in {dict, list}:
                    item(one, f"{path}[{at}]", removed)

    return prune


def _keep(value: Any, path: str, removed: list[str]) -> None:
    """Remove nothing."""


def _prune_all(value: Any, path: str, removed: list[str]) -> None:
    """Remove every field; lists stay, and their items are pruned."""
    if type(value) is dict:
        removed += [f"{path}.{key}" if path else key for key in value]
        value.clear()
    elif type(value) is list:
        for at, one in enumerate(value):
            _prune_all(one, f"{path}[{at}]", removed)
