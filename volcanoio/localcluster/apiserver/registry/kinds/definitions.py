"""CustomResourceDefinitions: validation, accepted names and conditions (apiextensions-apiserver)."""

from __future__ import annotations

from collections.abc import Iterator

from volcanoio.localcluster.apiserver.core import Core
from volcanoio.localcluster.apiserver.crds import CLEANUP, NAME
from volcanoio.localcluster.apiserver.crds.acceptance import accept
from volcanoio.localcluster.apiserver.crds.documents import format_warnings
from volcanoio.localcluster.apiserver.crds.spec import change_errors, definition_errors
from volcanoio.localcluster.apiserver.registry.kinds.strategy import Strategy
from volcanoio.model.base import Manifest
from volcanoio.model.validation.field_errors import FieldError


def group_of(name: str) -> str:
    """Return the group in a definition's name."""
    return name.partition(".")[2]


def others_of_group(core: Core, name: str) -> Iterator[Manifest]:
    """Yield the other stored definitions of the group."""
    for (_, other), stored in core.store.collection(NAME).objects.items():
        if other != name and group_of(other) == group_of(name):
            yield stored.decode()


def _default(definition: Manifest, core: Core) -> None:
    spec = definition.get("spec")
    if not isinstance(spec, dict):
        return
    names = spec.get("names")
    if isinstance(names, dict) and isinstance(names.get("kind"), str) and names["kind"]:
        names.setdefault("singular", names["kind"].lower())
        names.setdefault("listKind", names["kind"] + "List")
    for version in spec.get("versions") or ():
        for flag in ("served", "storage"):
            version.setdefault(flag, False)
    conversion = spec.setdefault("conversion", {"strategy": "None"})
    service = ((conversion.get("webhook") or {}).get("clientConfig") or {}).get("service")
    if isinstance(service, dict):
        service.setdefault("port", 443)
    if isinstance(names, dict):
        accept(definition, others_of_group(core, str(definition["metadata"].get("name") or "")), core.now())


def _validate(definition: Manifest) -> list[FieldError]:
    return definition_errors(definition)


def _validate_update(new: Manifest, old: Manifest) -> list[FieldError]:
    return change_errors(new, old)


__all__ = ["CLEANUP", "DEFINITIONS", "NAME", "group_of", "others_of_group"]

DEFINITIONS = Strategy(default=_default, validate=_validate, validate_update=_validate_update, warn=format_warnings)
