"""Custom resources: what a CustomResourceDefinition compiles to."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

from volcanoio.localcluster.apiserver.fields import FieldError
from volcanoio.model.base import Manifest


class PrinterColumn(NamedTuple):
    """One of `additionalPrinterColumns`; priority 0 is shown always, above that with `-o wide`."""

    name: str
    type: str
    json_path: str
    priority: int = 0
    description: str = ""
    format: str = ""


class ScalePaths(NamedTuple):
    """Where the scale subresource reads and writes, as JSON paths such as `.spec.replicas`."""

    spec_replicas: str
    status_replicas: str
    label_selector: str = ""


@dataclass(frozen=True, slots=True)
class CustomResource:
    """The compiled definition of one version.

    `schema` is the openAPIV3Schema (structural). `prune` and `default` change the object in place; `prune` returns the
    paths it removed. `validate(new, old)` returns the broken rules. All compile on first use.
    """

    schema: Manifest
    prune: Callable[[Manifest], list[str]]
    default: Callable[[Manifest], None]
    validate: Callable[[Manifest, Manifest | None], list[FieldError]]
    printer_columns: tuple[PrinterColumn, ...] = ()
    status_subresource: bool = False
    scale: ScalePaths | None = None
    selectable_fields: tuple[str, ...] = ()
