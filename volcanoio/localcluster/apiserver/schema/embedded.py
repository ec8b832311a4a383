"""Checks of embedded objects (`x-kubernetes-embedded-resource`): their kind and metadata."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

from volcanoio.localcluster.apiserver.schema.builtin_types import check_part, is_exact
from volcanoio.localcluster.apiserver.schema.subschemas import compile_subschemas
from volcanoio.model.validation.dns_names import annotation_errors, label_errors
from volcanoio.model.validation.field_errors import FieldError, invalid, required, shown
from volcanoio.model.validation.formats import dns1035_rule

Check: TypeAlias = Callable[[Any, str, list[FieldError]], None]


def compile_embedded(schema: dict[str, Any]) -> Check | None:
    """Compile the checks of all embedded objects; None where there are none."""
    below = compile_subschemas(schema, compile_embedded)
    fields, each, item = below
    own = bool(schema.get("x-kubernetes-embedded-resource"))
    specified = schema.get("properties") or {}
    if below.is_empty and not own:
        return None

    def check(value: Any, path: str, errors: list[FieldError]) -> None:
        if type(value) is dict:
            if own:
                check_object(value, path, errors)
            for key, one in value.items():
                if key in fields:
                    fields[key](one, f"{path}.{key}" if path else key, errors)
                elif each is not None and key not in specified:
                    each(one, f"{path}[{key}]", errors)
        elif type(value) is list and item is not None:
            for at, one in enumerate(value):
                item(one, f"{path}[{at}]", errors)

    return check


def check_object(value: dict[str, Any], path: str, errors: list[FieldError]) -> None:
    """Check apiVersion, kind and metadata of an embedded object."""
    errors += [required(f"{path}.{name}") for name in ("apiVersion", "kind") if name not in value]
    for name, rule_of in (("apiVersion", _version_rule), ("kind", _kind_rule)):
        if name in value:
            text = value[name]
            rule = "must be a string" if type(text) is not str else rule_of(text) if text else "must not be empty"
            if rule:
                errors.append(invalid(f"{path}.{name}", text, rule))
    metadata = value.get("metadata")
    if type(metadata) is dict:
        _check_metadata(metadata, f"{path}.metadata", errors)
    elif metadata is not None:
        errors.append(invalid(path + ".metadata", metadata, f"must be an object, got {type(metadata).__name__}"))


def _version_rule(version: str) -> str:
    return f"unexpected GroupVersion string: {version}" if version.count("/") > 1 else ""


def _kind_rule(kind: str) -> str:
    rule = dns1035_rule(kind.lower())
    return f"may have mixed case, but should otherwise match: {rule}" if rule else ""


def _check_metadata(metadata: dict[str, Any], path: str, errors: list[FieldError]) -> None:
    name = metadata.get("name")
    if type(name) is str:
        if name in {".", ".."}:
            errors.append(invalid(f"{path}.name", name, f"may not be '{name}'"))
        errors += [
            invalid(f"{path}.name", name, f"may not contain '{letter}'") for letter in ("/", "%") if letter in name
        ]
    if type(metadata.get("labels")) is dict:
        errors += label_errors(metadata["labels"], f"{path}.labels")
    if type(metadata.get("annotations")) is dict:
        errors += annotation_errors(metadata["annotations"], f"{path}.annotations")


class EmbeddedObjectError(ValueError):
    """An embedded object is not a Kubernetes object; the text names field and value."""


Coerce: TypeAlias = Callable[[Any, str, list[str]], None]
"""Drop unknown fields of metadata and collect their paths; raises EmbeddedObjectError."""


def compile_coerce(schema: dict[str, Any], *, root: bool = False) -> Coerce | None:
    """Compile the coercion of the metadata of all objects; None where there are none."""
    below = compile_subschemas(schema, compile_coerce)
    fields, each, item = below
    own = root or bool(schema.get("x-kubernetes-embedded-resource"))
    specified = schema.get("properties") or {}
    if below.is_empty and not own:
        return None

    def coerce(value: Any, path: str, removed: list[str]) -> None:
        if type(value) is dict:
            if own:
                _coerce_meta(value, path, removed)
            for key, one in value.items():
                sub = fields.get(key) if key in specified else each
                if sub is not None:
                    sub(one, f"{path}.{key}" if path else key, removed)
        elif type(value) is list and item is not None:
            for at, one in enumerate(value):
                item(one, f"{path}[{at}]", removed)

    return coerce


def _coerce_meta(value: dict[str, Any], path: str, removed: list[str]) -> None:
    before = f"{path}." if path else ""
    for name in ("apiVersion", "kind"):
        if name in value and type(value[name]) is not str:
            raise EmbeddedObjectError(f"{before}{name}: Invalid value: {shown(value[name])}: must be a string")
    metadata = value.get("metadata")
    if metadata is None:
        value.pop("metadata", None)
        return
    if is_exact(metadata, "V1ObjectMeta"):
        return
    whole = shown(metadata)
    unknown, wrong = check_part(metadata, "V1ObjectMeta", f"{before}metadata")
    if wrong:
        raise EmbeddedObjectError(f"{before}metadata: Invalid value: {whole}: {'; '.join(wrong)}")
    removed += unknown
