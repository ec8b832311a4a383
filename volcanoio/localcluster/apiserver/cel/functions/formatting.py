"""`"%d of %s".format([1, "x"])` (cel-go `ext/formatting.go`)."""

from __future__ import annotations

import re
from typing import Any, Final

from volcanoio.localcluster.apiserver.cel.errors import EvaluationError
from volcanoio.localcluster.apiserver.cel.functions.times import duration_text, timestamp_text
from volcanoio.localcluster.apiserver.cel.values import Duration, Timestamp, TypeValue, UInt, double_text, type_name

_CLAUSE: Final = re.compile(r"%(?:%|(?:\.(\d+))?([a-zA-Z]))")
_INTS: Final = (int, UInt)


def formatted(template: str, values: list[Any]) -> str:
    """The template with each clause replaced; raises EvaluationError."""
    used = 0

    def replace(match: re.Match[str]) -> str:
        nonlocal used
        if match.group() == "%%":
            return "%"
        if used >= len(values):
            raise EvaluationError(f"index {used} out of range")
        value = values[used]
        used += 1
        return _clause(match[2], None if match[1] is None else int(match[1]), value)

    return _CLAUSE.sub(replace, template)


def _clause(verb: str, precision: int | None, value: Any) -> str:
    kind = type(value)
    digits = 6 if precision is None else precision
    match verb:
        case "s":
            return shown(value)
        case "d" if kind in _INTS:
            return str(int(value))
        case "f" if kind in {float, *_INTS}:
            return f"{float(value):.{digits}f}"
        case "e" if kind in {float, *_INTS}:
            return f"{float(value):.{digits}e}"
        case "b" if kind in _INTS:
            return f"{int(value):b}"
        case "b" if kind is bool:
            return str(int(value))
        case "o" if kind in _INTS:
            return f"{int(value):o}"
        case "x" | "X" if kind in {str, bytes}:
            found = (value.encode() if kind is str else value).hex()
            return found.upper() if verb == "X" else str(found)
        case "x" | "X" if kind in _INTS:
            return f"{int(value):{verb}}"
        case "d" | "f" | "e" | "b" | "o" | "x" | "X":
            raise EvaluationError(f"error during formatting: {_refusals[verb]}, was given {type_name(value)}")
    raise EvaluationError(f'could not parse formatting clause: unrecognized formatting clause "{verb}"')


_refusals: Final = {
    "d": "decimal clause can only be used on integers",
    "f": "fixed-point clause can only be used on doubles",
    "e": "scientific clause can only be used on doubles",
    "b": "only integers and bools can be formatted as binary",
    "o": "octal clause can only be used on integers",
    "x": "only integers, byte buffers, and strings can be formatted as hex",
    "X": "only integers, byte buffers, and strings can be formatted as hex",
}


def shown(value: Any) -> str:
    """A value as `%s` prints it."""
    kind = type(value)
    if kind is str:
        return str(value)
    if kind is bool:
        return "true" if value else "false"
    if value is None:
        return "null"
    if kind in _INTS:
        return str(int(value))
    if kind is float:
        return double_text(value)
    if kind is Duration:
        return duration_text(value)
    if kind is Timestamp:
        return timestamp_text(value)
    if kind is TypeValue:
        return str(value.name)
    if kind is bytes:
        return str(value, "utf-8", "replace")
    if isinstance(value, list):
        return f"[{', '.join(shown(one) for one in value)}]"
    if kind is dict:
        return "{" + ", ".join(sorted(f"{shown(key)}: {shown(one)}" for key, one in value.items())) + "}"
    raise EvaluationError(
        "error during formatting: string clause can only be used on strings, bools, bytes, ints, doubles, maps, lists, "
        f"types, durations, and timestamps, was given {type_name(value)}"
    )
