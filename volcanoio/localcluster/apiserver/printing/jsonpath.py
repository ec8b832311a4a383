r"""The part of JSONPath that printer columns use.

`.a.b`, `.a\.b` (a dot in a name), `['a']`, `[0]`, `[-1]`, `[*]` and `[?(@.a=="b")]` with ==, !=, <, <=, >, >=.
"""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Iterable, Iterator
from typing import Any, TypeAlias

Step: TypeAlias = Callable[[Any], Iterable[Any]]

_TOKEN = re.compile(
    r"""\.(?P<name>(?:\\.|[^.\[\\])+)                                   # .name
      | \[\s*(?P<quote>['"])(?P<key>.*?)(?P=quote)\s*\]                 # ['name']
      | \[\s*(?P<index>-?\d+)\s*\]                                      # [0]
      | (?P<all>\[\s*\*\s*\]|\.\*)                                      # [*]
      | \[\?\(\s*@(?P<field>[^=!<>\s]+)\s*(?P<op>==|!=|<=|>=|<|>)\s*(?P<value>.+?)\s*\)\]  # [?(@.a=="b")]
    """,
    re.VERBOSE,
)
_OPERATORS: dict[str, Callable[[Any, Any], Any]] = {
    "==": operator.eq,
    "!=": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}


class JsonPathError(ValueError):
    """The path is outside the supported part of JSONPath; the text names path and place."""


class JsonPath:
    """A compiled path."""

    def __init__(self, path: str) -> None:
        self._steps = tuple(_compile(path.strip().removeprefix("{").removesuffix("}").removeprefix("$")))

    def find(self, value: Any) -> list[Any]:
        """All values at the path, in order; none where a part is missing."""
        found = [value]
        for step in self._steps:
            found = [inner for one in found for inner in step(one)]
        return found


def _compile(path: str) -> Iterator[Step]:
    position = 0
    while position < len(path):
        match = _TOKEN.match(path, position)
        if match is None:
            raise JsonPathError(f"JSONPath {path!r}: {path[position:]!r} is not understood")
        yield _step(match)
        position = match.end()


def _step(match: re.Match[str]) -> Step:
    if match["all"]:
        return _all
    if match["name"] is not None:
        return _member(re.sub(r"\\(.)", r"\1", match["name"]))
    if match["key"] is not None:
        return _member(match["key"])
    if match["index"] is not None:
        return _item(int(match["index"]))
    return _filter(JsonPath(match["field"]), _OPERATORS[match["op"]], _literal(match["value"]))


def _all(value: Any) -> Iterable[Any]:
    if isinstance(value, dict):
        return value.values()
    return value if isinstance(value, list) else ()


def _member(name: str) -> Step:
    def step(value: Any) -> Iterable[Any]:
        return (value[name],) if isinstance(value, dict) and name in value else ()

    return step


def _item(index: int) -> Step:
    def step(value: Any) -> Iterable[Any]:
        return (value[index],) if isinstance(value, list) and -len(value) <= index < len(value) else ()

    return step


def _filter(path: JsonPath, compare: Callable[[Any, Any], Any], literal: Any) -> Step:
    def matches(item: Any) -> bool:
        for one in path.find(item):
            try:
                if compare(one, literal):
                    return True
            except TypeError:  # values of different types have no order
                continue
        return False

    def step(value: Any) -> Iterable[Any]:
        return [item for item in value if matches(item)] if isinstance(value, list) else ()

    return step


def _literal(text: str) -> Any:
    if text[0] in "'\"" and text[-1] == text[0]:
        return text[1:-1]
    if text in {"true", "false"}:
        return text == "true"
    try:
        return float(text) if "." in text else int(text)
    except ValueError:
        raise JsonPathError(f"JSONPath: {text!r} is neither a quoted text, a number, true nor false") from None
