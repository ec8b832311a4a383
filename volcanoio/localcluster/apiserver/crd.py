"""Custom resources: what a CustomResourceDefinition compiles to."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

from volcanoio.localcluster.apiserver.fields import FieldError
from volcanoio.localcluster.apiserver.resources import Resource
from volcanoio.localcluster.apiserver.schema.compiled import CompiledSchema, ScalePaths
from volcanoio.model.base import Manifest


class PrinterColumn(NamedTuple):
    """One of `additionalPrinterColumns`; priority 0 is shown always, above that with `-o wide`."""

    name: str
    type: str
    json_path: str
    priority: int = 0
    description: str = ""
    format: str = ""


@dataclass(frozen=True, slots=True)
class CustomResource:
    """The compiled definition of one version.

    `schema` is the openAPIV3Schema (structural). `prune` and `default` change the object in place; `prune` returns the
    paths it removed. `validate(new, old, status, warnings)` returns the broken rules, of the status alone if that is
    what is written, and adds warnings. All compile on first use.
    """

    schema: Manifest
    prune: Callable[[Manifest], list[str]]
    default: Callable[[Manifest], None]
    validate: Callable[[Manifest, Manifest | None, bool, list[str]], list[FieldError]]
    printer_columns: tuple[PrinterColumn, ...] = ()
    status_subresource: bool = False
    scale: ScalePaths | None = None
    selectable_fields: tuple[str, ...] = ()


def compile_version(version: Manifest) -> CustomResource:
    """One entry of `spec.versions[]`; its schema is compiled when first used."""
    schema = (version.get("schema") or {}).get("openAPIV3Schema") or {}
    subresources = version.get("subresources") or {}
    scale = _scale(subresources.get("scale"))
    compiled = CompiledSchema(schema, scale)
    return CustomResource(
        schema=schema,
        prune=compiled.prune,
        default=compiled.default,
        validate=compiled.validate,
        printer_columns=tuple(_column(one) for one in version.get("additionalPrinterColumns") or ()),
        status_subresource="status" in subresources,
        scale=scale,
        selectable_fields=tuple(one["jsonPath"].lstrip(".") for one in version.get("selectableFields") or ()),
    )


def _scale(given: Manifest | None) -> ScalePaths | None:
    if not given:
        return None
    return ScalePaths(given["specReplicasPath"], given["statusReplicasPath"], given.get("labelSelectorPath") or "")


def resources_of(definition: Manifest) -> tuple[Resource, ...]:
    """The served resources of a definition, the stored version last."""
    spec = definition["spec"]
    names = spec["names"]
    found = []
    for version in sorted(spec["versions"], key=lambda one: bool(one.get("storage"))):
        if not version.get("served", True) and not version.get("storage"):
            continue
        custom = compile_version(version)
        subresources = [name for name in ("status", "scale") if name in (version.get("subresources") or {})]
        found.append(
            Resource(
                group=spec["group"],
                version=version["name"],
                kind=names["kind"],
                plural=names["plural"],
                namespaced=spec.get("scope") == "Namespaced",
                singular=names.get("singular") or names["kind"].lower(),
                short_names=tuple(names.get("shortNames") or ()),
                categories=tuple(names.get("categories") or ()),
                subresources=tuple(subresources),
                custom=custom,
            )
        )
    return tuple(found)


def _column(one: Manifest) -> PrinterColumn:
    return PrinterColumn(
        one["name"],
        one.get("type", "string"),
        one["jsonPath"],
        one.get("priority", 0),
        one.get("description", ""),
        one.get("format", ""),
    )
