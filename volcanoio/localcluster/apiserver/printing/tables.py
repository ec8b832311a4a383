"""Objects as a `meta.k8s.io/v1` Table: built-ins by their printers, custom resources by their columns.

Columns of custom resources use a part of JSONPath: `.a.b`, where a dot in a name is escaped, `['a']`, `[0]`, `[-1]`,
`[*]` and `[?(@.a=="b")]` with ==, !=, <, <=, >, >=.
"""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Iterable, Iterator
from datetime import datetime
from typing import Any, Final, TypeAlias

import msgspec

from volcanoio.localcluster.apiserver.apimachinery.clock import TimeOfDay
from volcanoio.localcluster.apiserver.apimachinery.resources import PrinterColumn, Resource
from volcanoio.localcluster.apiserver.printing.columns import GENERIC, PRINTERS, Column, Printer, name_of
from volcanoio.localcluster.apiserver.printing.workload_columns import POLICY_PRINTERS as STORED
from volcanoio.localcluster.apiserver.printing.workload_columns import WORKLOAD_PRINTERS as WORKLOADS
from volcanoio.localcluster.apiserver.schema.rules import is_number
from volcanoio.model.base import Manifest
from volcanoio.model.printing.ages import since

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
    """The path is outside the supported part of JSONPath; the text names path and position."""


class JsonPath:
    """A compiled path."""

    def __init__(self, path: str) -> None:
        self._steps = tuple(_compile(path.strip().removeprefix("{").removesuffix("}").removeprefix("$")))

    def find(self, value: Any) -> list[Any]:
        """Return all values at the path, in order; none where a part is missing."""
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


_META = "meta.k8s.io/v1"
BUILT_IN: Final = {**PRINTERS, **STORED, **WORKLOADS}
"""The printers of built-in kinds by `plural.group`."""


class Tables:
    """Printer of objects as Tables. Printers of custom resources compile once per definition."""

    def __init__(self, clock: TimeOfDay) -> None:
        self._clock = clock
        self._custom: dict[tuple[PrinterColumn, ...], Printer] = {}

    def __call__(
        self,
        resource: Resource,
        objects: list[Manifest],
        *,
        include_object: str = "Metadata",
        with_columns: bool = True,
    ) -> Manifest:
        """Return the Table of `objects`.

        `include_object` is None, Metadata or Object. The caller adds list metadata.
        """
        printer = self._printer(resource)
        now = self._clock.now()
        return {
            "kind": "Table",
            "apiVersion": _META,
            "metadata": {},
            "columnDefinitions": [_definition(column) for column in printer.columns] if with_columns else [],
            "rows": [{"cells": printer.row(obj, now), "object": _included(obj, include_object)} for obj in objects],
        }

    def _printer(self, resource: Resource) -> Printer:
        if resource.custom is None:
            return BUILT_IN.get(resource.name, GENERIC)
        columns = resource.custom.printer_columns
        if not columns:
            return _DEFAULT_CUSTOM
        if columns not in self._custom:
            self._custom[columns] = custom_printer(columns)
        return self._custom[columns]


def custom_printer(columns: tuple[PrinterColumn, ...]) -> Printer:
    """Return the printer of a definition.

    It prints the name and its own columns, up to the first with an invalid path.
    """
    definitions = [Column("Name", format="name")]
    cells: list[Callable[[Manifest, datetime], Any]] = []
    for one in columns:
        try:
            cells.append(_cell(one))
        except JsonPathError:
            break
        text = one.description or f"Custom resource definition column (in JSONPath format): {one.json_path}"
        definitions.append(Column(one.name, one.type, one.priority, one.format, text))
    return Printer(tuple(definitions), lambda obj, now: [name_of(obj), *(cell(obj, now) for cell in cells)])


def _cell(column: PrinterColumn) -> Callable[[Manifest, datetime], Any]:
    """Return a function that reads a column's first value; raises JsonPathError."""
    path = JsonPath(column.json_path)
    convert: Callable[[Any, datetime], Any] = _CONVERSIONS.get(column.type, _nothing)

    def cell(obj: Manifest, now: datetime) -> Any:
        found = path.find(obj)
        return convert(found[0], now) if found and found[0] is not None else None

    return cell


def _nothing(value: Any, now: datetime) -> None:
    """Return the empty cell of a column with an unknown type."""


def _integer(value: Any, _: datetime) -> int | None:
    return int(value) if is_number(value) else None


def _number(value: Any, _: datetime) -> float | None:
    return value if is_number(value) else None


def _boolean(value: Any, _: datetime) -> bool | None:
    return value if type(value) is bool else None


def _text(value: Any, _: datetime) -> str:
    return value if isinstance(value, str) else msgspec.json.encode(value, order="deterministic").decode()


def _date(value: Any, now: datetime) -> str | None:
    return since(value, now) if isinstance(value, str) else None


_CONVERSIONS: Final[dict[str, Callable[[Any, datetime], Any]]] = {
    "integer": _integer,
    "number": _number,
    "boolean": _boolean,
    "string": _text,
    "date": _date,
}
"""Conversions of JSON values to cells, by column type (apiextensions `tableconvertor`)."""

_DEFAULT_CUSTOM: Final = Printer((GENERIC.columns[0], Column("Age", "date")), GENERIC.row)


def _definition(column: Column) -> dict[str, Any]:
    return {
        "name": column.name,
        "type": column.type,
        "format": column.format,
        "description": column.description,
        "priority": column.priority,
    }


def _included(obj: Manifest, include: str) -> Manifest | None:
    if include == "None":
        return None
    if include == "Object":
        return obj
    return {"kind": "PartialObjectMetadata", "apiVersion": _META, "metadata": obj["metadata"]}
