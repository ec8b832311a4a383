"""The generated table of built-in schemas, expanded to OpenAPI v3 on demand.

Types in the table: s string, i integer, n number, b boolean, t time, o anything; `[x` a list of x, `{x` a map of x,
`#name` a reference.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import msgspec

PATH = Path(__file__).parent / "builtin.json"
OBJECT_META = "io.k8s.v1.ObjectMeta"
_MODEL = re.compile(r"([A-Z][a-z]+)?(V\d+(?:alpha\d+|beta\d+)?)(\w+)")
_SCALARS: dict[str, dict[str, Any]] = {
    "s": {"type": "string"},
    "i": {"type": "integer"},
    "n": {"type": "number"},
    "b": {"type": "boolean"},
    "t": {"type": "string", "format": "date-time"},
    "o": {"x-kubernetes-preserve-unknown-fields": True},
}


class CompactSchema(msgspec.Struct, frozen=True):
    """One schema of the table: type by field, and the required fields."""

    fields: dict[str, str]
    required: list[str] = []


class SchemaTable(msgspec.Struct, frozen=True):
    """The whole table. `kinds` leads from `apiVersion/kind` to the name of a schema."""

    generated_from: str
    kinds: dict[str, str]
    schemas: dict[str, CompactSchema]

    def closure(self, names: list[str]) -> dict[str, Any]:
        """OpenAPI schemas by name: those named and all that they refer to."""
        found: dict[str, Any] = {}
        waiting = list(names)
        while waiting:
            name = waiting.pop()
            if name not in found:
                compact = self.schemas[name]
                found[name] = _expand(compact)
                waiting += _references(compact)
        return dict(sorted(found.items()))


@cache
def builtin_schemas() -> SchemaTable:
    """The table, read once."""
    return msgspec.json.decode(PATH.read_bytes(), type=SchemaTable)


def schema_name(model: str) -> str:
    """The schema's name for a model's: `V1Pod` is `io.k8s.v1.Pod`, `EventsV1Event` is `io.k8s.events.v1.Event`."""
    match = _MODEL.fullmatch(model)
    if match is None:
        return f"io.k8s.{model}"
    group, version, kind = match.groups()
    return ".".join(part for part in ("io.k8s", (group or "").lower(), version.lower(), kind) if part)


def reference(name: str) -> dict[str, str]:
    """A reference to a schema of the same document."""
    return {"$ref": f"#/components/schemas/{name}"}


def _references(compact: CompactSchema) -> Iterator[str]:
    return (kind.partition("#")[2] for kind in compact.fields.values() if "#" in kind)


def _expand(compact: CompactSchema) -> dict[str, Any]:
    schema: dict[str, Any] = {
        "type": "object",
        "properties": {name: _type(kind) for name, kind in compact.fields.items()},
    }
    if compact.required:
        schema["required"] = compact.required
    return schema


def _type(kind: str) -> dict[str, Any]:
    match kind[0]:
        case "[":
            return {"type": "array", "items": _type(kind[1:])}
        case "{":
            return {"type": "object", "additionalProperties": _type(kind[1:])}
        case "#":
            return dict(reference(kind[1:]))
    return dict(_SCALARS[kind])
