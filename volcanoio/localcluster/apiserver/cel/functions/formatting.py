"""`"%d of %s".format([1, "x"])` (cel-go `ext/formatting.go`)."""

from __future__ import annotations

import json
import re
from typing import Any, Final

from volcanoio.localcluster.apiserver.cel.errors import EvaluationError
from volcanoio.localcluster.apiserver.cel.functions.times import duration_text, timestamp_text
from volcanoio.localcluster.apiserver.cel.types import Type
from volcanoio.localcluster.apiserver.cel.values import Duration, Timestamp, TypeValue, UInt, double_text, type_name

CLAUSE: Final = re.compile(r"%(?:%|(?:\.(\d+))?([a-zA-Z]))")
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

    return CLAUSE.sub(replace, template)


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
            mantissa, _, power = f"{float(value):.{digits}e}".partition("e")
            return f"{mantissa}×10{power.lstrip('+').translate(_SUPERSCRIPT)}"
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


_TAKEN: Final = {
    "d": frozenset({"int", "uint"}),
    "f": frozenset({"double", "int", "uint"}),
    "e": frozenset({"double", "int", "uint"}),
    "b": frozenset({"int", "uint", "bool"}),
    "o": frozenset({"int", "uint"}),
    "x": frozenset({"int", "uint", "bytes", "string"}),
    "X": frozenset({"int", "uint", "bytes", "string"}),
}
_SHOWN: Final = frozenset(
    {"bool", "bytes", "double", "duration", "int", "null", "string", "timestamp", "type", "uint", "dyn", "error"}
)


def clause_fault(verb: str, given: Type) -> str:
    """What is wrong with a clause for a value of a type; empty when nothing is."""
    if verb == "s":
        stranger = _stranger(given)
        return f"error during formatting: {_STRINGS}, was given {stranger}" if stranger else ""
    if verb not in _TAKEN:
        return f'could not parse formatting clause: unrecognized formatting clause "{verb}"'
    if given.kind in {"dyn", "error"} or given.kind in _TAKEN[verb]:
        return ""
    return f"error during formatting: {_refusals[verb]}, was given {given.name}"


def _stranger(given: Type) -> str:
    """The name of the type that keeps a value from being shown."""
    if given.kind in {"list", "map"}:
        return next((found for one in given.params if (found := _stranger(one))), "")
    return "" if given.kind in _SHOWN else given.name


_STRINGS: Final = (
    "string clause can only be used on strings, bools, bytes, ints, doubles, maps, lists, types, durations, "
    "and timestamps"
)


_SUPERSCRIPT: Final = str.maketrans("0123456789-", "⁰¹²³⁴⁵⁶⁷⁸⁹⁻")


def _inner(value: Any) -> str:
    """A value within a list or map: texts are quoted."""
    return json.dumps(value, ensure_ascii=False) if type(value) is str else shown(value)


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
        return double_text(value, 6)
    if kind is Duration:
        return duration_text(value)
    if kind is Timestamp:
        return timestamp_text(value)
    if kind is TypeValue:
        return str(value.name)
    if kind is bytes:
        return str(value, "utf-8", "replace")
    if isinstance(value, list):
        return f"[{', '.join(_inner(one) for one in value)}]"
    if kind is dict:
        return "{" + ", ".join(sorted(f"{_inner(key)}:{_inner(one)}" for key, one in value.items())) + "}"
    raise EvaluationError(f"error during formatting: {_STRINGS}, was given {type_name(value)}")
