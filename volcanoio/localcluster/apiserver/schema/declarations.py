"""CEL's view of a structural schema: the types of expressions, and the conversion of values.

Rules: Kubernetes docs "Validation rules", and apiserver `pkg/cel/common/schemas.go`.
"""

from __future__ import annotations

import base64
import re
from collections.abc import Callable
from dataclasses import replace
from typing import Any, Final, TypeAlias

from volcanoio.localcluster.apiserver.schema.subschemas import compile_subschemas
from volcanoio.model.cel.functions.times import parse_duration, parse_timestamp
from volcanoio.model.cel.types import (
    BOOL,
    BYTES,
    DOUBLE,
    DURATION,
    DYN,
    INT,
    STRING,
    TIMESTAMP,
    Field,
    Type,
    list_of,
    map_of,
    object_of,
)
from volcanoio.model.cel.values import Duration, MapList, SetList, Timestamp

Convert: TypeAlias = Callable[[Any], Any]
"""Convert a JSON value to a CEL value; may return it unchanged."""

_RESERVED: Final = frozenset(
    {
        "true", "false", "null", "in", "as", "break", "const", "continue", "else", "for", "function", "if", "import",
        "let", "loop", "package", "namespace", "return", "var", "void", "while",
    }
)  # fmt: skip
_ESCAPES: Final = {"__": "__underscores__", ".": "__dot__", "-": "__dash__", "/": "__slash__"}
_ESCAPED: Final = re.compile(r"__|[.\-/]")
_NAMEABLE: Final = re.compile(r"[A-Za-z_.\-/][A-Za-z0-9_.\-/]*")
_SCALARS: Final = {
    "boolean": replace(BOOL, most=0, least=4),
    "number": replace(DOUBLE, most=0),
    "integer": replace(INT, most=0),
}
_KEY: Final = replace(STRING, most=0)
"""Size of map keys, which the real server does not count."""
_REQUEST: Final = 3 * 1024 * 1024
"""Bytes of the largest request, for cost estimates."""
_OBJECT_META: Final = {"type": "object", "properties": {"name": {"type": "string"}, "generateName": {"type": "string"}}}
_TYPE_META: Final[dict[str, Any]] = {
    "kind": {"type": "string"},
    "apiVersion": {"type": "string"},
    "metadata": _OBJECT_META,
}


def escaped(name: str) -> str | None:
    """Return a field's name as an identifier; None for one that expressions cannot name."""
    if name in _RESERVED:
        return f"__{name}__"
    if _NAMEABLE.fullmatch(name) is None:
        return None
    return _ESCAPED.sub(lambda match: _ESCAPES[match.group()], name)


def with_type_meta(schema: dict[str, Any]) -> dict[str, Any]:
    """Return the schema of a resource with the metadata that expressions see.

    These are fields of apiVersion, kind and metadata.
    """
    return {**schema, "properties": {**(schema.get("properties") or {}), **_TYPE_META}}


def declare(schema: dict[str, Any], path: str = "self", *, root: bool = False) -> Type | None:
    """Return the type of a schema's values.

    The result is None for those that expressions cannot see. Objects are named by path.
    """
    if schema.get("x-kubernetes-int-or-string"):
        return replace(DYN, most=_text_size(schema), least=1)
    if root:
        schema = with_type_meta(schema)
    kind = schema.get("type")
    if kind == "array":
        inner = _declare_below(schema.get("items"), f"{path}.@idx")
        if inner is None:
            return None
        return replace(list_of(inner), most=schema.get("maxItems", (_REQUEST - 2) // (inner.least + 1)), least=2)
    if kind == "object":
        others = schema.get("additionalProperties")
        if isinstance(others, dict):
            inner = _declare_below(others, f"{path}.@elem")
            if inner is None:
                return None
            most = schema.get("maxProperties", (_REQUEST - 2) // (inner.least + 6))
            return replace(map_of(_KEY, inner), most=most, least=2)
        return _declare_object(schema, path)
    if kind == "string":
        return _declare_text(schema)
    return _SCALARS.get(kind or "")


def _declare_object(schema: dict[str, Any], path: str) -> Type:
    fields: dict[str, Field] = {}
    least, names = 2, schema.get("required") or ()
    for name, sub in (schema.get("properties") or {}).items():
        inner, known = _declare_below(sub, f"{path}.{name}"), escaped(name)
        if inner is None:
            continue
        if known is not None:
            fields[known] = Field(name, inner)
        if name in names and sub.get("default") is None:
            least += len(name) + inner.least + 4
    return replace(object_of(path, fields), most=0, least=least)


def _declare_text(schema: dict[str, Any]) -> Type:
    form = schema.get("format") or ""
    match form:
        case "byte":
            return replace(BYTES, most=schema.get("maxLength", _REQUEST - 2), least=2)
        case "duration":
            return replace(DURATION, most=32, least=3)
        case "date":
            return replace(TIMESTAMP, most=12, least=12)
        case "date-time":
            return replace(TIMESTAMP, most=32, least=21)
    return replace(STRING, most=_text_size(schema), least=2)


def _text_size(schema: dict[str, Any]) -> int:
    """Return the size of a text in bytes: a character may have four."""
    if schema.get("maxLength") is not None:
        return int(schema["maxLength"]) * 4
    texts = [one for one in schema.get("enum") or () if isinstance(one, str)]
    if texts and schema.get("type") == "string":
        return max(len(one.encode()) for one in texts)
    return _REQUEST - 2


def _declare_below(schema: Any, path: str) -> Type | None:
    if not isinstance(schema, dict):
        return None
    return declare(schema, path, root=bool(schema.get("x-kubernetes-embedded-resource")))


def _parsed(parse: Callable[[str], Any]) -> Convert:
    """Parse a text; an invalid one is returned as it is, because its format reports the error."""

    def convert(value: Any) -> Any:
        if type(value) is not str:
            return value
        try:
            return parse(value)
        except ValueError:
            return value

    return convert


_TEXTS: Final[dict[str, Convert]] = {
    "byte": _parsed(lambda text: base64.b64decode(text, validate=True)),
    "duration": _parsed(lambda text: Duration(parse_duration(text))),
    "date": _parsed(lambda text: Timestamp(parse_timestamp(f"{text}T00:00:00Z"))),
    "date-time": _parsed(lambda text: Timestamp(parse_timestamp(text.upper()))),
}


def compile_conversion(schema: dict[str, Any]) -> Convert | None:
    """Compile the conversion of a schema's values to CEL values; None where they are the same."""
    if schema.get("x-kubernetes-int-or-string"):
        return None
    kind = schema.get("type")
    if kind == "string":
        return _TEXTS.get(schema.get("format") or "")
    if kind == "number":
        return lambda value: float(value) if type(value) is int else value
    if kind == "array":
        return _convert_list(schema)
    if kind != "object":
        return None
    fields, each, _ = compile_subschemas(schema, compile_conversion)
    if each is not None:
        every = each
        return lambda value: {key: every(one) for key, one in value.items()} if type(value) is dict else value
    if not fields:
        return None

    def convert(value: Any) -> Any:
        if type(value) is not dict:
            return value
        return value | {name: sub(value[name]) for name, sub in fields.items() if name in value}

    return convert


def _convert_list(schema: dict[str, Any]) -> Convert | None:
    items, kind = schema.get("items"), schema.get("x-kubernetes-list-type")
    item = compile_conversion(items) if isinstance(items, dict) else None
    keys = tuple(schema.get("x-kubernetes-list-map-keys") or ())
    if item is None and kind not in {"set", "map"}:
        return None

    def convert(value: Any) -> Any:
        if type(value) is not list:
            return value
        values = value if item is None else [item(one) for one in value]
        if kind == "set":
            return SetList(values)
        if kind == "map":
            found = MapList(values)
            found.keys = keys
            return found
        return values

    return convert
