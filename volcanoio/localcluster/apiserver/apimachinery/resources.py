"""Served resources, and the compiled form of a CustomResourceDefinition.

A `Resource` is one group, version and plural. For a custom resource it holds a `CustomResource`: the compiled schema,
printer columns and subresource paths of one version of the definition.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import NamedTuple

import msgspec

from volcanoio.localcluster.apiserver.schema.compiled import CompiledSchema, ScalePaths
from volcanoio.localcluster.apiserver.schema.embedded import EmbeddedObjectError
from volcanoio.model.base import Manifest
from volcanoio.model.validation.field_errors import FieldError

ALL_VERBS = ("create", "delete", "deletecollection", "get", "list", "patch", "update", "watch")


@dataclass(frozen=True, slots=True)
class Resource:
    """One served resource.

    `subresources` names those that are served, such as status, scale, binding, log.

    `custom` is set for custom resources and holds the compiled schema, printer columns and subresource paths.
    `api_version` is `group/version`, or the version alone for the core group; `name` is `plural.group`, as in error
    messages.
    """

    group: str
    version: str
    kind: str
    plural: str
    namespaced: bool = True
    singular: str = ""
    short_names: tuple[str, ...] = ()
    categories: tuple[str, ...] = ()
    subresources: tuple[str, ...] = ()
    verbs: tuple[str, ...] = ALL_VERBS
    custom: CustomResource | None = field(default=None, compare=False)
    api_version: str = field(init=False)
    name: str = field(init=False)

    def __post_init__(self) -> None:
        group = self.group
        object.__setattr__(self, "api_version", f"{group}/{self.version}" if group else self.version)
        object.__setattr__(self, "name", f"{self.plural}.{group}" if group else self.plural)

    @property
    def list_kind(self) -> str:
        """The kind of a list."""
        return (self.custom.list_kind if self.custom is not None else "") or self.kind + "List"


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
    """Warning for users of a deprecated version."""
    terminating: bool = False
    """Whether the definition is being deleted, and accepts no new objects."""
    refusal: str = ""
    """Why this version cannot be read or written: it needs a conversion webhook."""

    def seen(self, obj: Manifest, api_version: str) -> Manifest:
        """Convert a decoded object to this version for clients, in place."""
        if obj["apiVersion"] != api_version:
            obj["apiVersion"] = api_version
            self.drop_unknown(obj)
        return obj

    def drop_unknown(self, obj: Manifest) -> None:
        """Drop fields that this version does not have from an object of another version, in place."""
        with suppress(EmbeddedObjectError):  # stored under an older schema; returned unchanged
            self.prune(obj)

    def convert_stored(self, obj: Manifest) -> None:
        """Convert a stored object to this version or to a changed schema, in place.

        Prunes the object and sets defaults.
        """
        self.drop_unknown(obj)
        self.default(obj)


def compile_version(version: Manifest, spec: Manifest | None = None) -> CustomResource:
    """Compile one entry of `spec.versions`; its schema is compiled on first use."""
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
    """Return a compiled schema, shared by all clusters of a process.

    It depends only on the text of the schema.
    """
    return CompiledSchema(msgspec.json.decode(schema), scale)


def _scale(given: Manifest | None) -> ScalePaths | None:
    if not given:
        return None
    return ScalePaths(given["specReplicasPath"], given["statusReplicasPath"], given.get("labelSelectorPath") or "")


def resources_of(definition: Manifest) -> tuple[Resource, ...]:
    """Return the resources of a definition under its accepted names.

    The stored version comes last, served or not.
    """
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
