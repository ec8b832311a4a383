"""CustomResourceDefinitions: their rules, accepted names and conditions (apiextensions-apiserver)."""

from __future__ import annotations

import re
from typing import Any, Final

from volcanoio.engine.admission.fielderrors import FieldError, forbidden, invalid, required, unsupported
from volcanoio.localcluster.apiserver.core import Core
from volcanoio.localcluster.apiserver.kinds.strategy import Strategy
from volcanoio.model.base import Manifest

NAME: Final = "customresourcedefinitions.apiextensions.k8s.io"
CLEANUP: Final = "customresourcecleanup.apiextensions.k8s.io"
"""Finalizer that keeps a definition until its objects are gone."""


def _default(definition: Manifest, core: Core) -> None:
    spec = definition.get("spec")
    if not isinstance(spec, dict):
        return
    names = spec.get("names")
    if isinstance(names, dict) and isinstance(names.get("kind"), str):
        names.setdefault("singular", names["kind"].lower())
        names.setdefault("listKind", names["kind"] + "List")
    spec.setdefault("conversion", {"strategy": "None"})
    _set_status(definition, core)


def _set_status(definition: Manifest, core: Core) -> None:
    """Names are accepted and the definition is established at once: nothing else serves them here."""
    spec, status = definition["spec"], definition.setdefault("status", {})
    known = {one["type"]: one for one in status.get("conditions") or ()}
    conditions = []
    for type_, reason, message in (
        ("NamesAccepted", "NoConflicts", "no conflicts found"),
        ("Established", "InitialNamesAccepted", "the initial names have been accepted"),
    ):
        since = known.get(type_, {}).get("lastTransitionTime") or core.now()
        condition = {"type": type_, "status": "True", "reason": reason, "message": message}
        conditions.append(condition | {"lastTransitionTime": since})
    others = [one for type_, one in known.items() if type_ not in {"NamesAccepted", "Established"}]
    versions = spec.get("versions")
    stored = [one["name"] for one in versions if one.get("storage")] if isinstance(versions, list) else []
    status["acceptedNames"] = spec.get("names")
    status["storedVersions"] = list(dict.fromkeys([*(status.get("storedVersions") or ()), *stored]))
    status["conditions"] = conditions + others


def _create(definition: Manifest, core: Core) -> None:
    del core
    metadata = definition["metadata"]
    metadata["finalizers"] = list(dict.fromkeys([*(metadata.get("finalizers") or ()), CLEANUP]))


def _validate(definition: Manifest) -> list[FieldError]:
    spec = definition.get("spec")
    if not isinstance(spec, dict):
        return [required("spec")]
    found = [required(f"spec.{field}") for field in ("group", "names", "scope", "versions") if not spec.get(field)]
    if found:
        return found
    names, versions = spec["names"], spec["versions"]
    found += [required(f"spec.names.{field}") for field in ("plural", "kind") if not names.get(field)]
    if spec["scope"] not in {"Namespaced", "Cluster"}:
        found.append(unsupported("spec.scope", spec["scope"], ("Cluster", "Namespaced")))
    if not found and definition["metadata"].get("name") != f"{names['plural']}.{spec['group']}":
        rule = 'must be spec.names.plural+"."+spec.group'
        found.append(invalid("metadata.name", definition["metadata"].get("name"), rule))
    if sum(bool(one.get("storage")) for one in versions) != 1:
        found.append(
            invalid(
                "spec.versions",
                [one.get("name") for one in versions],
                "must have exactly one version marked as storage version",
            )
        )
    for at, version in enumerate(versions):
        found += _version_errors(version, f"spec.versions[{at}]")
    return found


def _version_errors(version: Manifest, path: str) -> list[FieldError]:
    if not version.get("name"):
        return [required(f"{path}.name")]
    schema = (version.get("schema") or {}).get("openAPIV3Schema")
    if not isinstance(schema, dict):
        return [required(f"{path}.schema.openAPIV3Schema", "schemas are required")]
    where = f"{path}.schema.openAPIV3Schema"
    found: list[FieldError] = []
    if schema.get("type") != "object":
        found.append(invalid(f"{where}.type", schema.get("type") or "", "must be object at the root"))
    _schema_errors(schema, where, found)
    return found


def _schema_errors(schema: Manifest, path: str, found: list[FieldError]) -> None:
    """Patterns must compile, and nodes that specify nothing must say so."""
    pattern = schema.get("pattern")
    if isinstance(pattern, str):
        try:
            re.compile(pattern)
        except re.error as error:
            found.append(invalid(f"{path}.pattern", pattern, f"must be a valid regular expression, but isn't: {error}"))
    untyped = not schema.get("type") and not schema.get("x-kubernetes-int-or-string")
    if untyped and not schema.get("x-kubernetes-preserve-unknown-fields"):
        found.append(required(f"{path}.type", "must not be empty for specified object fields"))
    if schema.get("properties") and isinstance(schema.get("additionalProperties"), dict):
        found.append(
            forbidden(f"{path}.additionalProperties", "additionalProperties and properties are mutual exclusive")
        )
    properties: Any = schema.get("properties")
    for name, inner in (properties or {}).items():
        if isinstance(inner, dict):
            _schema_errors(inner, f"{path}.properties[{name}]", found)
    for key in ("items", "additionalProperties"):
        if isinstance(schema.get(key), dict):
            _schema_errors(schema[key], f"{path}.{key}", found)


def _validate_update(new: Manifest, old: Manifest) -> list[FieldError]:
    after, before = new["spec"], old["spec"]
    found = [
        invalid(f"spec.{field}", after.get(field), "field is immutable")
        for field in ("group", "scope")
        if after.get(field) != before.get(field)
    ]
    return found + [
        invalid(f"spec.names.{field}", after["names"].get(field), "field is immutable")
        for field in ("plural", "kind")
        if after["names"].get(field) != before["names"].get(field)
    ]


DEFINITIONS = Strategy(create=_create, default=_default, validate=_validate, validate_update=_validate_update)
