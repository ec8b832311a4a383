"""Functions with their overloads, declared in text: `list(T).map(string, T) -> T`, `size(string) -> int`.

A single capital letter is a type parameter; a name that is no simple type is opaque.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any, Final, NamedTuple, TypeAlias

from volcanoio.model.cel.errors import NoSuchOverload
from volcanoio.model.cel.types import DYN, SIMPLE, Type, list_of, map_of, opaque, type_of

Implementation: TypeAlias = Callable[..., Any]

_WORD: Final = re.compile(r"[\w./]+|->|[(),]")


class Overload(NamedTuple):
    """One overload of a function; for `member` ones the first parameter is the receiver."""

    params: tuple[Type, ...]
    result: Type
    member: bool


class Function(NamedTuple):
    """A function: its overloads and one implementation, which raises NoSuchOverload for other types."""

    name: str
    overloads: tuple[Overload, ...]
    call: Implementation


class Declared(NamedTuple):
    """Row of a library's table.

    Overloads in text, separated by newlines or `;`, and the implementation.
    """

    overloads: str
    call: Implementation


def functions(*tables: Mapping[str, Declared]) -> dict[str, Function]:
    """Merge tables by name; a name of several tables has all their overloads, in order."""
    found: dict[str, Function] = {}
    for table in tables:
        for name, row in table.items():
            overloads = tuple(_overload(text, name) for text in re.split(r"[;\n]", row.overloads) if text.strip())
            if name in found:
                first = found[name]
                found[name] = Function(name, first.overloads + overloads, _either(first.call, row.call))
            else:
                found[name] = Function(name, overloads, row.call)
    return found


def _either(first: Implementation, second: Implementation) -> Implementation:
    """Call the second implementation where the first has no overload for the values."""

    def call(*values: Any) -> Any:
        try:
            return first(*values)
        except NoSuchOverload:
            return second(*values)

    return call


def _overload(text: str, name: str) -> Overload:
    """Parse `target.(params) -> result` or `(params) -> result`; the name is the table's."""
    left, _, result = text.partition("->")
    target, _, rest = left.strip().rpartition(".(") if ".(" in left else ("", "", left.strip().removeprefix("("))
    params = _types(_WORD.findall(rest.removesuffix(")")))
    found = _types(_WORD.findall(result))
    if len(found) != 1:
        raise ValueError(f"{name}: {text!r} has no single result")
    if target:
        params = [*_types(_WORD.findall(target)), *params]
    return Overload(tuple(params), found[0], bool(target))


def _types(words: list[str]) -> list[Type]:
    found: list[Type] = []
    words = list(words)
    while words:
        if words[0] == ",":
            words.pop(0)
        found.append(_type(words))
    return found


def _type(words: list[str]) -> Type:
    name = words.pop(0)
    params: list[Type] = []
    if words and words[0] == "(":
        words.pop(0)
        while words[0] != ")":
            if words[0] == ",":
                words.pop(0)
            params.append(_type(words))
        words.pop(0)
    match name, params:
        case "list", [item]:
            return list_of(item)
        case "map", [key, value]:
            return map_of(key, value)
        case "type", [inner]:
            return type_of(inner)
        case "optional", [inner]:
            return opaque("optional_type", inner)
        case _ if name in SIMPLE:
            return SIMPLE[name]
        case _ if len(name) == 1 and name.isupper():
            return Type("param", name)
    return opaque(name, *params) if name else DYN
