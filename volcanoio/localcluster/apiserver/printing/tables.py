"""Objects as a `meta.k8s.io/v1` Table: built-ins by their printers, custom resources by their printer columns."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from typing import Any, Final

import msgspec

from volcanoio.localcluster.apiserver.clock import TimeOfDay
from volcanoio.localcluster.apiserver.crd import PrinterColumn
from volcanoio.localcluster.apiserver.printing.ages import since
from volcanoio.localcluster.apiserver.printing.columns import GENERIC, PRINTERS, Column, Printer, name_of
from volcanoio.localcluster.apiserver.printing.jsonpath import JsonPath, JsonPathError
from volcanoio.localcluster.apiserver.printing.stored import PRINTERS as STORED
from volcanoio.localcluster.apiserver.printing.workloads import PRINTERS as WORKLOADS
from volcanoio.localcluster.apiserver.resources import Resource
from volcanoio.localcluster.apiserver.schema.rules import is_number
from volcanoio.model.base import Manifest

_META = "meta.k8s.io/v1"
BUILT_IN: Final = {**PRINTERS, **STORED, **WORKLOADS}
"""The printers of built-in kinds by `plural.group`."""


class Tables:
    """The server's view of objects as rows. Printers of custom resources compile once per definition."""

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
        """The Table of `objects`; `include_object` is None, Metadata or Object. Its list metadata is the caller's."""
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
    """The name and then the definition's own columns, up to the first whose path cannot be read."""
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
    """How a column reads its first value; raises JsonPathError."""
    path = JsonPath(column.json_path)
    convert: Callable[[Any, datetime], Any] = _CONVERSIONS.get(column.type, _nothing)

    def cell(obj: Manifest, now: datetime) -> Any:
        found = path.find(obj)
        return convert(found[0], now) if found and found[0] is not None else None

    return cell


def _nothing(value: Any, now: datetime) -> None:
    """A column of a type that there is not shows nothing."""


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
"""From a JSON value to a cell, by the column's type (apiextensions `tableconvertor`)."""

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
