"""Regular expressions (cel-spec `matches`, Kubernetes' `find` and `findAll`)."""

from __future__ import annotations

import re
from typing import Any

from volcanoio.localcluster.apiserver.cel.errors import EvaluationError
from volcanoio.localcluster.apiserver.cel.functions.arguments import taking
from volcanoio.localcluster.apiserver.cel.signatures import Declared
from volcanoio.localcluster.apiserver.schema.patterns import PatternError, compile_pattern


def _matches(text: str, pattern: str) -> bool:
    try:
        return compile_pattern(pattern).search(text) is not None
    except PatternError as error:
        raise EvaluationError(str(error)) from None


def _compiled(pattern: str) -> re.Pattern[str]:
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


TABLE: dict[str, Declared] = {
    "matches": Declared("(string, string) -> bool; string.(string) -> bool", taking(str, str)(_matches)),
    "find": Declared("string.(string) -> string", taking(str, str)(_find)),
    "findAll": Declared(
        "string.(string) -> list(string); string.(string, int) -> list(string)", taking(str, str, int)(_find_all)
    ),
}
