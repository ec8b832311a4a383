"""CustomResourceDefinitions: their rules, accepted names and conditions (apiextensions-apiserver)."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any, Final

from volcanoio.engine.admission.fielderrors import FieldError, forbidden, invalid, required, unsupported
from volcanoio.localcluster.apiserver.core import Core
from volcanoio.localcluster.apiserver.kinds.strategy import Strategy
from volcanoio.localcluster.apiserver.schema.rules import is_number
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


def _schema_errors(schema: Any, path: str, found: list[FieldError]) -> None:
    """Each word has its type, patterns compile, and nodes that specify nothing say so."""
    if not isinstance(schema, dict):
        found.append(invalid(path, schema, "must be a schema"))
        return
    wrong = [word for word, holds in _WORDS.items() if schema.get(word) is not None and not holds(schema[word])]
    if wrong:
        found += [invalid(f"{path}.{word}", schema[word], "has the wrong type") for word in wrong]
        return
    untyped = not schema.get("type") and not schema.get("x-kubernetes-int-or-string")
    if untyped and not schema.get("x-kubernetes-preserve-unknown-fields"):
        found.append(required(f"{path}.type", "must not be empty for specified object fields"))
    others = schema.get("additionalProperties")
    if schema.get("properties") and isinstance(others, dict):
        found.append(
            forbidden(f"{path}.additionalProperties", "additionalProperties and properties are mutual exclusive")
        )
    for name, inner in (schema.get("properties") or {}).items():
        _schema_errors(inner, f"{path}.properties[{name}]", found)
    if schema.get("items") is not None:
        _schema_errors(schema["items"], f"{path}.items", found)
    if isinstance(others, dict):
        _schema_errors(others, f"{path}.additionalProperties", found)


def _is_texts(value: Any) -> bool:
    return isinstance(value, list) and all(isinstance(one, str) for one in value)


def _is_schemas(value: Any) -> bool:
    return isinstance(value, list) and all(isinstance(one, dict) for one in value)


def _is_count(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0


def _is_pattern(value: Any) -> bool:
    try:
        re.compile(value)
    except (re.error, TypeError):
        return False
    return True


_WORDS: Final[dict[str, Callable[[Any], bool]]] = {
    "type": lambda value: value in ("object", "array", "string", "boolean", "integer", "number"),
    "properties": lambda value: isinstance(value, dict),
    "items": lambda value: isinstance(value, dict),
    "additionalProperties": lambda value: isinstance(value, bool | dict),
    "required": _is_texts,
    "enum": lambda value: isinstance(value, list),
    "pattern": _is_pattern,
    "format": lambda value: isinstance(value, str),
    "minimum": is_number,
    "maximum": is_number,
    "multipleOf": lambda value: is_number(value) and value > 0,
    **dict.fromkeys(("minLength", "maxLength", "minItems", "maxItems", "minProperties", "maxProperties"), _is_count),
    **dict.fromkeys(("allOf", "anyOf", "oneOf"), _is_schemas),
    "not": lambda value: isinstance(value, dict),
    "x-kubernetes-list-type": lambda value: value in ("atomic", "set", "map"),
    "x-kubernetes-list-map-keys": _is_texts,
}
"""What each word of a schema must hold."""


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
