"""Whether an object can be merged: its fields are declared, its values of the declared kinds, its items distinct."""

from __future__ import annotations

from typing import Any, Final

from volcanoio.localcluster.apiserver.apply import elements
from volcanoio.localcluster.apiserver.apply.types import Scalar, Type
from volcanoio.localcluster.apiserver.objects import encode

_EXPECTED: Final[dict[Scalar, str]] = {
    "numeric": "expected numeric (int or float), got {}",
    "string": "expected string, got {}",
    "boolean": "expected boolean, got {}",
    "untyped": "expected any scalar, got {}",
}


def problems(type_: Type, value: Any, path: str = "") -> list[str]:
    """What does not conform, as texts that begin with the path."""
    shape = type_.shape(value)
    if value is None:
        return []
    if shape == "map":
        if not isinstance(value, dict):
            return [_at(path, f"expected map, got {_go(value)}")]
        return _map_problems(type_, value, path)
    if shape == "list":
        if not isinstance(value, list):
            return [_at(path, f"expected list, got {_go(value)}")]
        return _list_problems(type_, value, path)
    if not _is(type_.scalar, value):
        return [_at(path, _EXPECTED[type_.scalar].format(_scalar_text(type_.scalar, value)))]
    return []


def summary(found: list[str]) -> str:
    """Several problems as one text."""
    return found[0] if len(found) == 1 else "\n".join(["errors:", *(f"  {one}" for one in found)])


def _map_problems(type_: Type, value: dict[str, Any], path: str) -> list[str]:
    found: list[str] = []
    for name, inner in value.items():
        kind = type_.fields.get(name) or type_.others
        if kind is None:
            found.append(_at(f"{path}.{name}", "field not declared in schema"))
        else:
            found += problems(kind, inner, f"{path}.{name}")
    return found


def _list_problems(type_: Type, values: list[Any], path: str) -> list[str]:
    items = type_.items
    if items is None:
        return []
    found: list[str] = []
    seen: set[str] = set()
    for at, value in enumerate(values):
        step = f"i:{at}"
        if type_.list_kind != "atomic":
            try:
                step = type_.step(value)
            except ValueError as error:
                return [*found, _at(path, f"element {at}: {error}")]
            if step in seen:
                found.append(_at(path, f"duplicate entries for key {elements.shown(step)}"))
            seen.add(step)
        found += problems(items, value, path + elements.shown(step))
    return found


def _is(scalar: Scalar, value: Any) -> bool:
    if scalar == "boolean":
        return isinstance(value, bool)
    if scalar == "numeric":
        return isinstance(value, int | float) and not isinstance(value, bool)
    return isinstance(value, str) if scalar == "string" else not isinstance(value, dict | list)


def _at(path: str, text: str) -> str:
    return f"{path}: {text}" if path else text


def _scalar_text(scalar: Scalar, value: Any) -> str:
    """What was found instead, as the message for this kind of value writes it: by its Go type, or as it is."""
    if scalar == "string":
        return f"&value.valueUnstructured{{Value:{_literal(value)}}}"
    if scalar == "boolean":
        return f"&{{{value if isinstance(value, str) else _go(value)}}}"
    if scalar != "numeric":
        return _go(value)
    if isinstance(value, dict | list):
        return "map[string]interface {}" if isinstance(value, dict) else "[]interface {}"
    return {bool: "bool", str: "string"}.get(type(value), "interface {}")


def _literal(value: Any) -> str:
    """A value as Go's %#v writes it."""
    if isinstance(value, dict):
        return "map[string]interface {}{" + ", ".join(f"{_go(key)}:{_literal(one)}" for key, one in value.items()) + "}"
    if isinstance(value, list):
        return "[]interface {}{" + ", ".join(map(_literal, value)) + "}"
    return _go(value)


def _go(value: Any) -> str:
    return encode(value).decode()
