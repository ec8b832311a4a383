"""Pruning: removes what a structural schema does not specify (CRD docs, "Field pruning")."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, TypeAlias

Prune: TypeAlias = Callable[[Any, str, list[str]], None]
"""Changes the value in place and notes the removed paths."""

_OBJECT_META: Final = ("apiVersion", "kind", "metadata")


def compile_prune(schema: dict[str, Any] | None, *, root: bool = False) -> Prune:
    """The pruner of a schema. The root keeps apiVersion, kind and metadata; without a schema all fields go."""
    if schema is None:
        return _prune_all
    if schema.get("x-kubernetes-preserve-unknown-fields"):
        return _compile_skip(schema, root=root)
    keeps = schema.get("additionalProperties") is not None
    return _pruner(_inner(schema, root=root), _items(schema.get("items")), keeps=keeps)


def _compile_skip(schema: dict[str, Any], *, root: bool = False) -> Prune:
    """The pruner where unknown fields are kept: what is specified below is pruned all the same."""
    items = schema.get("items")
    item = _compile_skip(items) if isinstance(items, dict) else _keep
    return _pruner(_inner(schema, root=root), item, keeps=True)


def _inner(schema: dict[str, Any], *, root: bool) -> tuple[dict[str, Prune | None], dict[str, Any], Prune]:
    """What is known of fields: pruners (None where one compiles at first need), schemas, and that of all others."""
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

    def prune(value: Any, path: str, removed: list[str]) -> None:
        if type(value) is dict:
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
        elif type(value) is list:
            for at, one in enumerate(value):
                if type(one) in {dict, list}:
                    item(one, f"{path}[{at}]", removed)

    return prune


def _keep(value: Any, path: str, removed: list[str]) -> None:
    """Nothing goes."""


def _prune_all(value: Any, path: str, removed: list[str]) -> None:
    """Every field goes; lists stay, and what is in them is pruned."""
    if type(value) is dict:
        removed += [f"{path}.{key}" if path else key for key in value]
        value.clear()
    elif type(value) is list:
        for at, one in enumerate(value):
            _prune_all(one, f"{path}[{at}]", removed)
