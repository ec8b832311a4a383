"""OpenAPI v3 schemas of the built-in kinds, from the generated table of their types."""

from __future__ import annotations

import re
from typing import Any

from volcanoio.localcluster.apiserver.builtin_types import type_table

OBJECT_META = "V1ObjectMeta"
_MODEL = re.compile(r"([A-Z][a-z]+)?(V\d+(?:alpha\d+|beta\d+)?)([A-Z]\w*)")
_SCALARS: dict[str, dict[str, Any]] = {
    "str": {"type": "string"},
    "int": {"type": "integer"},
    "float": {"type": "number"},
    "bool": {"type": "boolean"},
    "any": {"x-kubernetes-preserve-unknown-fields": True},
}
_NAMED: dict[str, tuple[str, dict[str, Any]]] = {
    "quantity": (
        "io.k8s.apimachinery.pkg.api.resource.Quantity",
        {"oneOf": [{"type": "string"}, {"type": "number"}]},
    ),
    "intorstring": (
        "io.k8s.apimachinery.pkg.util.intstr.IntOrString",
        {"oneOf": [{"type": "integer"}, {"type": "string"}], "format": "int-or-string"},
    ),
}
"""Scalars that have a schema of their own, as in Kubernetes' documents: kubectl explain shows its name."""


def closure(types: list[str]) -> dict[str, Any]:
    """Schemas by name: those of the types given and of all types that they refer to."""
    table = type_table()
    found: dict[str, Any] = {}
    waiting = list(types)
    while waiting:
        type_ = waiting.pop()
        name = schema_name(type_)
        if name not in found:
            fields = table.types[type_]
            found[name] = {"type": "object", "properties": {field: _schema(kind) for field, kind in fields.items()}}
            if table.required.get(type_):
                found[name]["required"] = table.required[type_]
            inner = {_innermost(kind) for kind in fields.values()}
            found |= dict(_NAMED[kind] for kind in inner & _NAMED.keys())
            waiting += inner - _SCALARS.keys() - _NAMED.keys()
    return dict(sorted(found.items()))


def schema_name(type_: str) -> str:
    """The schema's name for a type's: `V1Pod` is `io.k8s.v1.Pod`, `CoreV1Event` is `io.k8s.core.v1.Event`."""
    match = _MODEL.fullmatch(type_)
    if match is None:
        return f"io.k8s.{type_}"
    group, version, kind = match.groups()
    return ".".join(part for part in ("io.k8s", (group or "").lower(), version.lower(), kind) if part)


def reference(name: str) -> dict[str, str]:
    """A reference to a schema of the same document."""
    return {"$ref": f"#/components/schemas/{name}"}


def _innermost(kind: str) -> str:
    return kind.rpartition("[")[2].rstrip("]")


def _schema(kind: str) -> dict[str, Any]:
    if kind.startswith("list["):
        return {"type": "array", "items": _schema(kind[5:-1])}
    if kind.startswith("map["):
        return {"type": "object", "additionalProperties": _schema(kind[4:-1])}
    if kind in _NAMED:
        return reference(_NAMED[kind][0])
    return dict(_SCALARS[kind] if kind in _SCALARS else reference(schema_name(kind)))
