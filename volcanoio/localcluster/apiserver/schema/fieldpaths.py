"""Paths such as `.spec.ports['http']` to fields of a schema (`fieldPath` of rules, `selectableFields`)."""

from __future__ import annotations

import re
from typing import Any, Final

_PART: Final = re.compile(r"\.([^.\[\]]+)|\[('(?:\\.|[^'\\])*')\]")
_ESCAPES: Final = {"a": "\a", "b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t", "v": "\v", "'": "'", "\\": "\\"}


class FieldPathError(ValueError):
    """The path names no field; the text is that of apiextensions."""


def resolve(path: str, schema: Any, *, brackets: bool = True) -> tuple[str, dict[str, Any]]:
    """Return the path as errors show it, and the schema of the field; raises FieldPathError.

    An invalid schema has no fields: its errors are reported elsewhere.
    """
    shown, at = "", 0
    while at < len(path):
        match = _PART.match(path, at)
        if match is None:
            raise FieldPathError(_fault(path, at))
        if match[2] is not None and not brackets:
            raise FieldPathError("array notation is not allowed")
        name = match[1] if match[1] is not None else _unescaped(match[2][1:-1])
        fields, others = _inside(schema)
        if fields:
            if name not in fields:
                raise FieldPathError("does not refer to a valid field")
            schema = fields[name]
            shown = f"{shown}.{name}" if shown else name
        elif isinstance(others, dict):
            schema = others
            shown = f"{shown}[{name}]"
        else:
            raise FieldPathError("does not refer to a valid field")
        at = match.end()
    return shown, schema if isinstance(schema, dict) else {}


def _inside(schema: Any) -> tuple[dict[str, Any], Any]:
    """Return the properties of a schema, and its additionalProperties."""
    if not isinstance(schema, dict):
        return {}, None
    fields = schema.get("properties")
    return fields if isinstance(fields, dict) else {}, schema.get("additionalProperties")


def normalized(path: str, schema: dict[str, Any]) -> str:
    """Return the path as errors show it; raises FieldPathError."""
    return resolve(path, schema)[0]


def _fault(path: str, at: int) -> str:
    if path[at] == "[":
        token = re.match(r"[^.\[\]]*", path[at + 1 :])
        shown = token.group() if token is not None else ""
        return f"expected single quoted string but got {shown}" if shown else "unexpected end of JSON path"
    if path[at] == ".":
        return "does not refer to a valid field" if at + 1 < len(path) else "unexpected end of JSON path"
    token = re.match(r"[^.\[\]]+|.", path[at:])
    return f"expected [ or . but got: {token.group() if token is not None else ''}"


def _unescaped(text: str) -> str:
    def replace(match: re.Match[str]) -> str:
        letter = match.group()[1]
        if letter not in _ESCAPES:
            raise FieldPathError(f"invalid string literal: invalid escape char {match.group()}")
        return _ESCAPES[letter]

    return re.sub(r"\\.", replace, text)
