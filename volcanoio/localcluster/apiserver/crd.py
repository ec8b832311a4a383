"""Custom resources: what a CustomResourceDefinition compiles to."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import NamedTuple

import msgspec

from volcanoio.localcluster.apiserver.fields import FieldError
from volcanoio.localcluster.apiserver.resources import Resource
from volcanoio.localcluster.apiserver.schema.compiled import CompiledSchema, ScalePaths
from volcanoio.localcluster.apiserver.schema.embedded import Misfit
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
    list_kind: str = ""
    served: bool = True
    deprecation: str = ""
    """What whoever uses a deprecated version is warned of."""
    terminating: bool = False
    """Whether the definition is on its way out, and takes no new objects."""
    refusal: str = ""
    """Why this version cannot be read or written: its conversion is a webhook's."""

    def seen(self, obj: Manifest, api_version: str) -> Manifest:
        """A decoded object as clients of this version see it; changes it in place."""
        if obj["apiVersion"] != api_version:
            obj["apiVersion"] = api_version
            self.shed(obj)
        return obj

    def shed(self, obj: Manifest) -> None:
        """Drop what this version does not know from an object that was stored in another, in place."""
        with suppress(Misfit):  # stored under an older schema; shown as it is
            self.prune(obj)

    def refit(self, obj: Manifest) -> None:
        """Make a stored object one of this version, or of a changed schema: pruned and with defaults, in place."""
        self.shed(obj)
        self.default(obj)


def compile_version(version: Manifest, spec: Manifest | None = None) -> CustomResource:
    """One entry of the `versions[]` of a spec; its schema is compiled when first used."""
    spec = spec or {}
    names: Manifest = spec.get("names") or {}
    kind = f"{spec.get('group')}/{version.get('name')}"
    deprecation = ""
    if version.get("deprecated"):
        deprecation = version.get("deprecationWarning") or f"{kind} {names.get('kind')} is deprecated"
    refusal = ""
    if (spec.get("conversion") or {}).get("strategy") == "Webhook" and not version.get("storage"):
        stored = next((one["name"] for one in spec["versions"] if one.get("storage")), "")
        refusal = (
            f"conversion webhook for {kind}, Kind={names.get('kind')} failed: this server calls none; "
            f"use the stored version {stored}"
        )
    schema = (version.get("schema") or {}).get("openAPIV3Schema") or {}
    subresources = version.get("subresources") or {}
    scale = _scale(subresources.get("scale"))
    compiled = _compiled(msgspec.json.encode(schema), scale)
    return CustomResource(
        schema=schema,
        prune=compiled.prune,
        default=compiled.default,
        validate=compiled.validate,
        printer_columns=tuple(_column(one) for one in version.get("additionalPrinterColumns") or ()),
        status_subresource="status" in subresources,
        scale=scale,
        selectable_fields=tuple(one["jsonPath"].lstrip(".") for one in version.get("selectableFields") or ()),
        list_kind=names.get("listKind") or "",
        served=bool(version.get("served", True)),
        deprecation=deprecation,
        refusal=refusal,
    )


@lru_cache(maxsize=64)
def _compiled(schema: bytes, scale: ScalePaths | None) -> CompiledSchema:
    """The same for all clusters of a process: what a schema compiles to depends on its text alone."""
    return CompiledSchema(msgspec.json.decode(schema), scale)


def _scale(given: Manifest | None) -> ScalePaths | None:
    if not given:
        return None
    return ScalePaths(given["specReplicasPath"], given["statusReplicasPath"], given.get("labelSelectorPath") or "")


def resources_of(definition: Manifest) -> tuple[Resource, ...]:
    """The resources of a definition under the names it was given, the stored version last, served or not."""
    spec, terminating = definition["spec"], definition["metadata"].get("deletionTimestamp") is not None
    accepted: Manifest = (definition.get("status") or {}).get("acceptedNames") or {}
    names = accepted if accepted.get("kind") else spec["names"]
    found = []
    for version in sorted(spec["versions"], key=lambda one: bool(one.get("storage"))):
        if not version.get("served", True) and not version.get("storage"):
            continue
        custom = replace(compile_version(version, spec), terminating=terminating)
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
