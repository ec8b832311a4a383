"""Embedded objects (`x-kubernetes-embedded-resource`): they name their kind and have valid metadata."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

from volcanoio.engine.admission.dnsnames import annotation_errors, label_errors
from volcanoio.engine.admission.fielderrors import FieldError, invalid, required, shown
from volcanoio.localcluster.apiserver.builtin_types import check_part, is_exact
from volcanoio.localcluster.apiserver.schema.names import dns1035_rule

Judge: TypeAlias = Callable[[Any, str, list[FieldError]], None]


def compile_embedded(schema: dict[str, Any]) -> Judge | None:
    """The check of all embedded objects within a schema; None where there are none."""
    fields = {
        name: inner
        for name, sub in (schema.get("properties") or {}).items()
        if (inner := compile_embedded(sub)) is not None
    }
    others = schema.get("additionalProperties")
    each = compile_embedded(others) if isinstance(others, dict) else None
    items = schema.get("items")
    item = compile_embedded(items) if isinstance(items, dict) else None
    own = bool(schema.get("x-kubernetes-embedded-resource"))
    specified = schema.get("properties") or {}
    if not fields and each is None and item is None and not own:
        return None

    def check(value: Any, path: str, errors: list[FieldError]) -> None:
        if type(value) is dict:
            if own:
                judge_object(value, path, errors)
            for key, one in value.items():
                if key in fields:
                    fields[key](one, f"{path}.{key}" if path else key, errors)
                elif each is not None and key not in specified:
                    each(one, f"{path}[{key}]", errors)
        elif type(value) is list and item is not None:
            for at, one in enumerate(value):
                item(one, f"{path}[{at}]", errors)

    return check


def judge_object(value: dict[str, Any], path: str, errors: list[FieldError]) -> None:
    """apiVersion and kind are there and well formed; metadata too, if it is there."""
    errors += [required(f"{path}.{name}") for name in ("apiVersion", "kind") if name not in value]
    version, kind, metadata = value.get("apiVersion"), value.get("kind"), value.get("metadata")
    if "apiVersion" in value:
        if type(version) is not str:
            errors.append(invalid(f"{path}.apiVersion", version, "must be a string"))
        elif not version:
            errors.append(invalid(f"{path}.apiVersion", version, "must not be empty"))
        elif version.count("/") > 1:
            errors.append(invalid(f"{path}.apiVersion", version, f"unexpected GroupVersion string: {version}"))
    if "kind" in value:
        if type(kind) is not str:
            errors.append(invalid(f"{path}.kind", kind, "must be a string"))
        elif not kind:
            errors.append(invalid(f"{path}.kind", kind, "must not be empty"))
        elif rule := dns1035_rule(kind.lower()):
            text = f"may have mixed case, but should otherwise match: {rule}"
            errors.append(invalid(f"{path}.kind", kind, text))
    if type(metadata) is dict:
        _judge_metadata(metadata, f"{path}.metadata", errors)
    elif metadata is not None:
        errors.append(invalid(path + ".metadata", metadata, f"must be an object, got {type(metadata).__name__}"))


def _judge_metadata(metadata: dict[str, Any], path: str, errors: list[FieldError]) -> None:
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


class Misfit(ValueError):  # noqa: N818 - named for what it is
    """An embedded object is no object of Kubernetes at all; the text names field and value."""


Coerce: TypeAlias = Callable[[Any, str, list[str]], None]
"""Drops unknown fields of metadata and notes their paths; raises Misfit."""


def compile_coerce(schema: dict[str, Any], *, root: bool = False) -> Coerce | None:
    """The coercion of the metadata of all objects within a schema; None where there are none."""
    fields = {
        name: inner
        for name, sub in (schema.get("properties") or {}).items()
        if (inner := compile_coerce(sub)) is not None
    }
    others = schema.get("additionalProperties")
    each = compile_coerce(others) if isinstance(others, dict) else None
    items = schema.get("items")
    item = compile_coerce(items) if isinstance(items, dict) else None
    own = root or bool(schema.get("x-kubernetes-embedded-resource"))
    specified = schema.get("properties") or {}
    if not fields and each is None and item is None and not own:
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
            raise Misfit(f"{before}{name}: Invalid value: {shown(value[name])}: must be a string")
    metadata = value.get("metadata")
    if metadata is None:
        value.pop("metadata", None)
        return
    if is_exact(metadata, "V1ObjectMeta"):
        return
    whole = shown(metadata)
    unknown, wrong = check_part(metadata, "V1ObjectMeta", f"{before}metadata")
    if wrong:
        raise Misfit(f"{before}metadata: Invalid value: {whole}: {'; '.join(wrong)}")
    removed += unknown
