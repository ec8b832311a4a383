"""Objects as a `meta.k8s.io/v1` Table: built-ins by their printers, custom resources by their printer columns."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from typing import Any

import msgspec

from volcanoio.localcluster.apiserver.clock import TimeOfDay
from volcanoio.localcluster.apiserver.crd import PrinterColumn
from volcanoio.localcluster.apiserver.printing.ages import since
from volcanoio.localcluster.apiserver.printing.columns import GENERIC, PRINTERS, Column, Printer, name_of
from volcanoio.localcluster.apiserver.printing.jsonpath import JsonPath, JsonPathError
from volcanoio.localcluster.apiserver.resources import Resource
from volcanoio.model.base import Manifest

_META = "meta.k8s.io/v1"


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
            return PRINTERS.get(resource.name, GENERIC)
        columns = resource.custom.printer_columns
        if not columns:
            return GENERIC
        if columns not in self._custom:
            self._custom[columns] = custom_printer(columns)
        return self._custom[columns]


def custom_printer(columns: tuple[PrinterColumn, ...]) -> Printer:
    """The name and then the definition's own columns."""
    definitions = (
        Column("Name", format="name"),
        *(Column(one.name, one.type, one.priority, one.format, one.description) for one in columns),
    )
    cells = [_cell(one) for one in columns]
    return Printer(definitions, lambda obj, now: [name_of(obj), *(cell(obj, now) for cell in cells)])


def _cell(column: PrinterColumn) -> Callable[[Manifest, datetime], Any]:
    try:
        path = JsonPath(column.json_path)
    except JsonPathError:
        return lambda _obj, _now: None  # a column that cannot be read must not hide the object

    def cell(obj: Manifest, now: datetime) -> Any:
        found = path.find(obj)
        if not found or found[0] is None:
            return None
        match column.type:
            case "date":
                return since(str(found[0]), now)
            case "string":
                return " ".join(_text(value) for value in found)
        return found[0]

    return cell


def _text(value: Any) -> str:
    return value if isinstance(value, str) else msgspec.json.encode(value).decode()


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
