"""Strings (cel-spec, and cel-go's `strings` version 2)."""

from __future__ import annotations

import json
from typing import Any

from volcanoio.localcluster.apiserver.cel.errors import EvaluationError
from volcanoio.localcluster.apiserver.cel.functions.arguments import taking
from volcanoio.localcluster.apiserver.cel.functions.formatting import formatted
from volcanoio.localcluster.apiserver.cel.signatures import Declared

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

TABLE: dict[str, Declared] = {
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
