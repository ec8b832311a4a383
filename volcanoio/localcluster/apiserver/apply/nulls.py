"""Nulls that an apply leaves in a custom resource: Kubernetes drops those of other writes, and refuses these."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from volcanoio.engine.admission.fielderrors import FieldError, wrong_type
from volcanoio.model.base import Manifest


def null_errors(schema: Manifest, obj: Manifest, subresource: str) -> list[FieldError]:
    """The nulls among what is written that the schema neither allows nor replaces by a default."""
    fields: Manifest = schema.get("properties") or {}
    found: list[FieldError] = []
    for name, value in obj.items():
        if name in fields and (name == "status") == (subresource == "status"):
            for path, type_ in _nulls(fields[name], value, name):
                shown = path[len(name) + 1 :] if subresource else path  # a status is judged by its own schema
                found.append(wrong_type(path, "null", f'{shown} in body must be of type {type_}: "null"'))
    return found


def _nulls(schema: Any, value: Any, path: str) -> Iterator[tuple[str, str]]:
    """The paths of such nulls, and the type that is wanted there."""
    if not isinstance(schema, dict):
        return
    if value is None:
        type_ = schema.get("type")
        if type_ and not schema.get("nullable") and "default" not in schema:
            yield path, type_
    elif isinstance(value, dict):
        fields, others = schema.get("properties") or {}, schema.get("additionalProperties")
        for name, inner in value.items():
            yield from _nulls(fields.get(name, others), inner, f"{path}.{name}")
    elif isinstance(value, list):
        for at, inner in enumerate(value):
            yield from _nulls(schema.get("items"), inner, f"{path}[{at}]")
