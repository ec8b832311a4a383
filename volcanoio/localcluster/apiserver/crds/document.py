"""A definition as Kubernetes judges it: what all its versions share stands at the top of the spec.

So a fault in the schema of a definition with one version is at `spec.validation`, not at `spec.versions[0].schema`
(apiextensions `v1/conversion.go`).
"""

from __future__ import annotations

from typing import Any, NamedTuple

from volcanoio.model.base import Manifest


class Part(NamedTuple):
    """Something a version may have, and where it is said to be; `version` is empty for what all share."""

    path: str
    value: Any
    version: Manifest


def parts(spec: Manifest, field: str, top: str, inner: str) -> list[Part]:
    """One part of the versions: `field` of each, called `top` where all have the same, else `inner`."""
    versions: list[Manifest] = spec.get("versions") or []
    values = [one.get(field) for one in versions]
    if values and all(one == values[0] for one in values):
        return [Part(f"spec.{top}", values[0], {})] if values[0] else []
    return [Part(f"spec.versions[{at}].{inner}", one[field], one) for at, one in enumerate(versions) if one.get(field)]


def schemas(spec: Manifest) -> list[Part]:
    """The schemas."""
    found = parts(spec, "schema", "validation.openAPIV3Schema", "schema.openAPIV3Schema")
    return [one._replace(value=one.value["openAPIV3Schema"]) for one in found if one.value.get("openAPIV3Schema")]


def versions_shown(spec: Manifest) -> list[Manifest]:
    """The versions as they stand in messages."""
    versions: list[Manifest] = spec.get("versions") or []
    shared = {
        field: all(one.get(field) == versions[0].get(field) for one in versions)
        for field in ("schema", "subresources", "additionalPrinterColumns", "selectableFields")
    }

    def of(version: Manifest, field: str) -> Any:
        return None if shared[field] else version.get(field)

    return [
        {
            "Name": one.get("name") or "",
            "Served": bool(one.get("served")),
            "Storage": bool(one.get("storage")),
            "Deprecated": bool(one.get("deprecated")),
            "DeprecationWarning": one.get("deprecationWarning"),
            "Schema": of(one, "schema"),
            "Subresources": of(one, "subresources"),
            "AdditionalPrinterColumns": of(one, "additionalPrinterColumns"),
            "SelectableFields": of(one, "selectableFields"),
        }
        for one in versions
    ]
