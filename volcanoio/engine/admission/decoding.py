"""Manifests as typed objects, with errors that name the field."""

from __future__ import annotations

from typing import Any, TypeVar

import msgspec

from volcanoio.engine.admission.findings import Findings
from volcanoio.model.base import ApiObject, Manifest

ObjectType = TypeVar("ObjectType", bound=ApiObject)
_KEEPS_NULLS = frozenset({"plugins", "template", "volumeClaim"})


def typed(manifest: Manifest | None, to: type[ObjectType], findings: Findings) -> ObjectType | None:
    """The object, None (and a problem) when a field has the wrong type. A null is an absent field, as in Kubernetes."""
    try:
        return msgspec.convert(_without_nulls(manifest or {}), to)
    except msgspec.ValidationError as error:
        rule, _, place = str(error).partition(" - at `$")
        field = place.rstrip("`").lstrip(".") or to.__name__
        findings.refuse(field, rule, f"see kubectl explain {to.__name__.lower()}")
        return None


def known(manifest: Manifest | None, to: type[ObjectType]) -> ObjectType | None:
    """A stored object, None when it cannot be read: it may be older than the rules."""
    return typed(manifest, to, Findings())


def _without_nulls(value: Any) -> Any:
    if isinstance(value, dict):
        return {
            key: item if key in _KEEPS_NULLS else _without_nulls(item)
            for key, item in value.items()
            if item is not None
        }
    if isinstance(value, list):
        return [_without_nulls(item) for item in value]
    return value
