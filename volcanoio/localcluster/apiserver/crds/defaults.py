"""Defaults in a schema are valid themselves and hold no unknown fields (apiextensions `schema/defaulting`)."""

from __future__ import annotations

from collections.abc import Iterator
from copy import deepcopy
from typing import Any

from volcanoio.engine.admission.fielderrors import FieldError, invalid
from volcanoio.localcluster.apiserver.schema.comparison import identical
from volcanoio.localcluster.apiserver.schema.correlation import UNCORRELATED
from volcanoio.localcluster.apiserver.schema.embedded import compile_embedded
from volcanoio.localcluster.apiserver.schema.expressions import Judging, compile_judge
from volcanoio.localcluster.apiserver.schema.prune import compile_prune
from volcanoio.localcluster.apiserver.schema.validate import compile_validate
from volcanoio.model.base import Manifest

_META = frozenset({"metadata", "apiVersion", "kind"})


def default_errors(schema: Manifest, path: str) -> list[FieldError]:
    """What is wrong with the defaults of a schema."""
    return list(_below(schema, path, embedded=True))


def _below(schema: Manifest, path: str, *, embedded: bool) -> Iterator[FieldError]:
    if schema.get("default") is not None:
        yield from _judge(schema["default"], schema, f"{path}.default")
    items = schema.get("items")
    if isinstance(items, dict):
        yield from _below(items, f"{path}.items", embedded=bool(items.get("x-kubernetes-embedded-resource")))
    for name, one in (schema.get("properties") or {}).items():
        if embedded and name in _META:
            continue  # those of a root are forbidden elsewhere, embedded ones judged with their object
        where = f"{path}.properties[{name}]"
        yield from _below(one, where, embedded=bool(one.get("x-kubernetes-embedded-resource")))


def _judge(value: Any, schema: Manifest, path: str) -> Iterator[FieldError]:
    pruned = deepcopy(value)
    compile_prune(schema)(pruned, "", [])
    if not identical(pruned, value):
        yield invalid(path, value, "must not have unknown fields")
    found: list[FieldError] = []
    embedded = compile_embedded(schema)
    if embedded is not None:
        embedded(value, path, found)
    if not found:
        validate = compile_validate(schema)
        wrong: list[FieldError] = []
        if validate is not None:
            validate(value, UNCORRELATED, "", wrong)
        found = [one._replace(field=_joined(path, one.field)) for one in wrong]
    if not found:
        found = _broken_rules(value, schema, path)
    yield from found


def _broken_rules(value: Any, schema: Manifest, path: str) -> list[FieldError]:
    """Rules hold for the default, whether it was there before or not."""
    judge = compile_judge(schema)
    if judge is None:
        return []
    for old in (value, UNCORRELATED):
        judging = Judging()
        judge(value, old, path, None, judging)
        if judging.errors:
            return judging.errors
    return []


def _joined(path: str, field: str) -> str:
    if field == "<nil>" or not field:
        return path
    return f"{path}.{field}"
