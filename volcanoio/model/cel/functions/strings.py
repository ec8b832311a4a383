"""Strings, their formatting and regular expressions (cel-spec, cel-go's `strings` version 2).

`"%d of %s".format([1, "x"])` is cel-go's `ext/formatting.go`; `matches` is cel-spec's, `find` and `findAll` are
Kubernetes'.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from typing import Any, Final

from volcanoio.model.cel.errors import EvaluationError
from volcanoio.model.cel.functions.arguments import taking
from volcanoio.model.cel.functions.times import duration_text, timestamp_text
from volcanoio.model.cel.signatures import Declared
from volcanoio.model.cel.types import Type
from volcanoio.model.cel.values import Duration, Timestamp, TypeValue, UInt, double_text, type_name
from volcanoio.model.validation.patterns import Pattern, PatternError, compile_pattern

CLAUSE: Final = re.compile(r"%(?:%|(?:\.(\d+))?([a-zA-Z]))")
_INTS: Final = (int, UInt)


def formatted(template: str, values: list[Any]) -> str:
    """Return the template with each clause replaced; raises EvaluationError."""
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
    if verb == "s":
        return shown(value)
    formatter = _FORMATTERS.get(verb)
    if formatter is None:
        raise EvaluationError(f'could not parse formatting clause: unrecognized formatting clause "{verb}"')
    kinds, write = formatter
    if type(value) not in kinds:
        raise EvaluationError(f"error during formatting: {_refusals[verb]}, was given {type_name(value)}")
    return write(value, 6 if precision is None else precision)


def _scientific(value: Any, digits: int) -> str:
    mantissa, _, power = f"{float(value):.{digits}e}".partition("e")
    return f"{mantissa}×10{power.lstrip('+').translate(_SUPERSCRIPT)}"


def _hexadecimal(value: Any, _digits: int) -> str:
    if isinstance(value, str | bytes):
        return (value.encode() if isinstance(value, str) else value).hex()
    return f"{int(value):x}"


_FORMATTERS: Final[dict[str, tuple[frozenset[type], Callable[[Any, int], str]]]] = {
    "d": (frozenset(_INTS), lambda value, _: str(int(value))),
    "f": (frozenset({float, *_INTS}), lambda value, digits: f"{float(value):.{digits}f}"),
    "e": (frozenset({float, *_INTS}), _scientific),
    "b": (frozenset({bool, *_INTS}), lambda value, _: f"{int(value):b}"),
    "o": (frozenset(_INTS), lambda value, _: f"{int(value):o}"),
    "x": (frozenset({str, bytes, *_INTS}), _hexadecimal),
    "X": (frozenset({str, bytes, *_INTS}), lambda value, digits: _hexadecimal(value, digits).upper()),
}
"""The types that a verb takes, and how it writes a value with a number of digits."""

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
    """Return the error of a clause for a value of a type; empty when it is valid."""
    if verb == "s":
        unsupported = _unsupported_type(given)
        return f"error during formatting: {_STRINGS}, was given {unsupported}" if unsupported else ""
    if verb not in _TAKEN:
        return f'could not parse formatting clause: unrecognized formatting clause "{verb}"'
    if given.kind in {"dyn", "error"} or given.kind in _TAKEN[verb]:
        return ""
    return f"error during formatting: {_refusals[verb]}, was given {given.name}"


def _unsupported_type(given: Type) -> str:
    """Return the name of the type that `%s` does not support; empty when it supports all."""
    if given.kind in {"list", "map"}:
        return next((found for one in given.params if (found := _unsupported_type(one))), "")
    return "" if given.kind in _SHOWN else given.name


_STRINGS: Final = (
    "string clause can only be used on strings, bools, bytes, ints, doubles, maps, lists, types, durations, "
    "and timestamps"
)


_SUPERSCRIPT: Final = str.maketrans("0123456789-", "⁰¹²³⁴⁵⁶⁷⁸⁹⁻")


def _inner(value: Any) -> str:
    """Return a value within a list or map: texts are quoted."""
    return json.dumps(value, ensure_ascii=False) if type(value) is str else shown(value)


def shown(value: Any) -> str:
    """Return a value as `%s` prints it."""
    write = _WRITERS.get(type(value))
    if write is None:
        raise EvaluationError(f"error during formatting: {_STRINGS}, was given {type_name(value)}")
    return write(value)


_WRITERS: Final[dict[type, Callable[[Any], str]]] = {
    str: str,
    bool: lambda value: "true" if value else "false",
    type(None): lambda _: "null",
    int: str,
    UInt: lambda value: str(int(value)),
    float: lambda value: double_text(value, 6),
    Duration: duration_text,
    Timestamp: timestamp_text,
    TypeValue: lambda value: str(value.name),
    bytes: lambda value: str(value, "utf-8", "replace"),
    list: lambda value: f"[{', '.join(_inner(one) for one in value)}]",
    dict: lambda value: "{" + ", ".join(sorted(f"{_inner(key)}:{_inner(one)}" for key, one in value.items())) + "}",
}


def _matches(text: str, pattern: str) -> bool:
    try:
        return compile_pattern(pattern).search(text) is not None
    except PatternError as error:
        raise EvaluationError(str(error)) from None


def _compiled(pattern: str) -> Pattern:
    try:
        return compile_pattern(pattern)
    except PatternError as error:
        raise EvaluationError(f"Illegal regex: {error}") from None


def _find(text: str, pattern: str) -> str:
    found = _compiled(pattern).search(text)
    return found.group() if found is not None else ""


def _find_all(text: str, pattern: str, most: int = -1) -> list[Any]:
    found = [one.group() for one in _compiled(pattern).finditer(text)]
    return found if most < 0 else found[:most]


REGEXES: dict[str, Declared] = {
    "matches": Declared("(string, string) -> bool; string.(string) -> bool", taking(str, str)(_matches)),
    "find": Declared("string.(string) -> string", taking(str, str)(_find)),
    "findAll": Declared(
        "string.(string) -> list(string); string.(string, int) -> list(string)", taking(str, str, int)(_find_all)
    ),
}


_SPACE = (
    " \t\n\v\f\r\u0085\u00a0\u1680\u2000\u2001\u2002\u2003\u2004\u2005\u2006\u2007\u2008\u2009\u200a"
    "\u2028\u2029\u202f\u205f\u3000"
)
_LOWER = str.maketrans("ABCDEFGHIJKLMNOPQRSTUVWXYZ", "abcdefghijklmnopqrstuvwxyz")
_UPPER = str.maketrans("abcdefghijklmnopqrstuvwxyz", "ABCDEFGHIJKLMNOPQRSTUVWXYZ")


def _char_at(text: str, at: int) -> str:
    if not 0 <= at <= len(text):
        raise EvaluationError(f"index out of range: {at}")
    return text[at : at + 1]


def _index_of(text: str, part: str, start: int = 0) -> int:
    if not part:
        return start
    if start < 0:
        raise EvaluationError(f"index out of range: {start}")
    return text.find(part, start)


def _last_index_of(text: str, part: str, last: int | None = None) -> int:
    if last is None:
        return text.rfind(part) if part else len(text)
    if not part:
        return last
    if not 0 <= last <= len(text):
        raise EvaluationError(f"index out of range: {last}")
    return text.rfind(part, 0, last + len(part))


def _replace(text: str, old: str, new: str, count: int = -1) -> str:
    return text.replace(old, new, count)


def _split(text: str, by: str, count: int = -1) -> list[str]:
    if count == 0:
        return []
    if not by:
        found = list(text)
        return found if count < 0 or count >= len(found) else [*found[: count - 1], "".join(found[count - 1 :])]
    return text.split(by, count - 1 if count > 0 else -1)


def _substring(text: str, start: int, end: int | None = None) -> str:
    if end is None:
        if not 0 <= start <= len(text):
            raise EvaluationError(f"index out of range: {start}")
        return text[start:]
    if start > end:
        raise EvaluationError(f"invalid substring range. start: {start}, end: {end}")
    if not 0 <= start <= len(text):
        raise EvaluationError(f"index out of range: {start}")
    if not 0 <= end <= len(text):
        raise EvaluationError(f"index out of range: {end}")
    return text[start:end]


def _join(items: list[Any], by: str = "") -> str:
    if not all(type(one) is str for one in items):
        raise EvaluationError("no such overload")
    return by.join(items)


_two = taking(str, str)

STRINGS: dict[str, Declared] = {
    "contains": Declared("string.(string) -> bool", _two(lambda text, part: part in text)),
    "endsWith": Declared("string.(string) -> bool", _two(lambda text, part: text.endswith(part))),
    "startsWith": Declared("string.(string) -> bool", _two(lambda text, part: text.startswith(part))),
    "charAt": Declared("string.(int) -> string", taking(str, int)(_char_at)),
    "indexOf": Declared("string.(string) -> int; string.(string, int) -> int", taking(str, str, int)(_index_of)),
    "lastIndexOf": Declared(
        "string.(string) -> int; string.(string, int) -> int", taking(str, str, int)(_last_index_of)
    ),
    "lowerAscii": Declared("string.() -> string", taking(str)(lambda text: text.translate(_LOWER))),
    "upperAscii": Declared("string.() -> string", taking(str)(lambda text: text.translate(_UPPER))),
    "replace": Declared(
        "string.(string, string) -> string; string.(string, string, int) -> string",
        taking(str, str, str, int)(_replace),
    ),
    "split": Declared(
        "string.(string) -> list(string); string.(string, int) -> list(string)", taking(str, str, int)(_split)
    ),
    "substring": Declared("string.(int) -> string; string.(int, int) -> string", taking(str, int, int)(_substring)),
    "trim": Declared("string.() -> string", taking(str)(lambda text: text.strip(_SPACE))),
    "join": Declared("list(string).() -> string; list(string).(string) -> string", taking(list, str)(_join)),
    "strings.quote": Declared("(string) -> string", taking(str)(lambda text: json.dumps(text, ensure_ascii=False))),
    "format": Declared("string.(list(dyn)) -> string", taking(str, list)(formatted)),
}
