"""Custom resources: what a CustomResourceDefinition compiles to."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

from volcanoio.localcluster.apiserver.fields import FieldError
from volcanoio.localcluster.apiserver.objects import encode
from volcanoio.localcluster.apiserver.resources import Resource
from volcanoio.localcluster.apiserver.schema.defaults import Default, compile_default
from volcanoio.localcluster.apiserver.schema.prune import Prune, compile_prune
from volcanoio.localcluster.apiserver.schema.validate import Validate, compile_validate
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


def compile_version(version: Manifest) -> CustomResource:
    """One entry of `spec.versions[]`; its schema is compiled when first used."""
    schema = (version.get("schema") or {}).get("openAPIV3Schema") or {}
    subresources = version.get("subresources") or {}
    scale = subresources.get("scale")
    compiled = _Compiled(schema)
    return CustomResource(
        schema=schema,
        prune=compiled.prune,
        default=compiled.default,
        validate=compiled.validate,
        printer_columns=tuple(_column(one) for one in version.get("additionalPrinterColumns") or ()),
        status_subresource="status" in subresources,
        scale=ScalePaths(scale["specReplicasPath"], scale["statusReplicasPath"], scale.get("labelSelectorPath", ""))
        if scale
        else None,
        selectable_fields=tuple(one["jsonPath"].lstrip(".") for one in version.get("selectableFields") or ()),
    )


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


class _Compiled:
    """The three functions of a schema, each compiled at its first call."""

    def __init__(self, schema: Manifest) -> None:
        self._schema = schema

    @cached_property
    def _prune(self) -> Prune | None:
        return compile_prune(self._schema, root=True)

    @cached_property
    def _default(self) -> Default | None:
        return compile_default(self._schema)

    @cached_property
    def _validate(self) -> tuple[Validate | None, dict[str, Validate]]:
        """The rules of the object as such, and those of each of its fields."""
        fields: Manifest = self._schema.get("properties") or {}
        each = {name: check for name, one in fields.items() if (check := compile_validate(one)) is not None}
        return compile_validate({**self._schema, "properties": {name: {} for name in fields}}), each

    def prune(self, obj: Manifest) -> list[str]:
        """Remove unspecified fields; returns their paths."""
        removed: list[str] = []
        if self._prune is not None and self._schema:
            self._prune(obj, "", removed)
        return removed

    def default(self, obj: Manifest) -> None:
        """Fill absent fields."""
        if self._default is not None:
            self._default(obj)

    def validate(self, obj: Manifest, old: Manifest | None) -> list[FieldError]:
        """The broken rules; rules about changes against `old` (CEL) are not evaluated.

        What an update does not change is not judged again (CRD docs, "Validation ratcheting"): here whole fields of the
        object, such as the spec under an update of the status.
        """
        errors: list[FieldError] = []
        whole, fields = self._validate
        if whole is not None:
            whole(obj, "", errors)
        for name, value in obj.items():
            check = fields.get(name)
            # compared as JSON, since Python takes true for 1
            if check is not None and (old is None or name not in old or encode(value) != encode(old[name])):
                check(value, name, errors)
        return errors
