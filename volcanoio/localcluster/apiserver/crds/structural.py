"""Whether a schema is structural (CRD docs, "Specifying a structural schema"; apiextensions `schema/validation.go`)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from volcanoio.engine.admission.fielderrors import FieldError, forbidden, invalid, required
from volcanoio.localcluster.apiserver.schema.patterns import PatternError, compile_pattern
from volcanoio.model.base import Manifest

_INT_OR_STRING: Final = [{"type": "integer"}, {"type": "string"}]
_UNTYPED: Final = {
    "root": "must not be empty at the root",
    "item": "must not be empty for specified array items",
    "field": "must not be empty for specified object fields",
}
_OUTSIDE: Final = {
    "type": "must be empty to be structural",
    "additionalProperties": "must be undefined to be structural",
    "default": "must be undefined to be structural",
    "title": "must be empty to be structural",
    "description": "must be empty to be structural",
    "nullable": "must be false to be structural",
    "x-kubernetes-preserve-unknown-fields": "must be false to be structural",
    "x-kubernetes-embedded-resource": "must be false to be structural",
    "x-kubernetes-int-or-string": "must be false to be structural",
    "x-kubernetes-list-map-keys": "must be empty to be structural",
    "x-kubernetes-list-type": "must be undefined to be structural",
    "x-kubernetes-map-type": "must be undefined to be structural",
    "x-kubernetes-validations": "must be empty to be structural",
}
"""What may be said only outside of allOf, anyOf, oneOf and not."""


def structural_errors(schema: Manifest, path: str) -> list[FieldError]:
    """What keeps a schema from being structural, in the order of its text."""
    found = [*_invariants(schema, "root", path), *_completeness(schema, schema, path, path)]
    return sorted(found, key=str)


def _invariants(schema: Manifest, level: str, path: str) -> Iterator[FieldError]:
    kind, items, others = schema.get("type") or "", schema.get("items"), schema.get("additionalProperties")
    if kind == "array" and items is None:
        yield required(f"{path}.items", "must be specified")
    if isinstance(items, dict):
        yield from _invariants(items, "item", f"{path}.items")
    for name, one in (schema.get("properties") or {}).items():
        yield from _invariants(one, "field", f"{path}.properties[{name}]")
    if others is not None:
        if level == "root":
            yield forbidden(f"{path}.additionalProperties", "must not be used at the root")
        if isinstance(others, dict):
            yield from _invariants(others, "field", f"{path}.additionalProperties")
    yield from _extension_errors(schema, path)
    all_of = schema.get("allOf") or []
    yield from _values(
        schema,
        path,
        skip_any=schema.get("anyOf") == _INT_OR_STRING,
        skip_first=bool(all_of) and all_of[0].get("anyOf") == _INT_OR_STRING,
    )
    yield from _type_errors(schema, level, path)
    yield from _meta_errors(schema, level, path)


def _extension_errors(schema: Manifest, path: str) -> Iterator[FieldError]:
    if schema.get("x-kubernetes-int-or-string"):
        for word in ("x-kubernetes-preserve-unknown-fields", "x-kubernetes-embedded-resource"):
            if schema.get(word):
                yield invalid(f"{path}.{word}", True, "must be false if x-kubernetes-int-or-string is true")


def _type_errors(schema: Manifest, level: str, path: str) -> Iterator[FieldError]:
    kind, embedded = schema.get("type") or "", bool(schema.get("x-kubernetes-embedded-resource"))
    preserves = bool(schema.get("x-kubernetes-preserve-unknown-fields"))
    if embedded and kind != "object":
        rule = "must be object if x-kubernetes-embedded-resource is true"
        yield invalid(f"{path}.type", kind, rule) if kind else required(f"{path}.type", rule)
    elif not kind and not schema.get("x-kubernetes-int-or-string") and not preserves:
        yield required(f"{path}.type", _UNTYPED[level])
    if embedded and schema.get("additionalProperties") is not None:
        rule = "must not be used if x-kubernetes-embedded-resource is set"
        yield forbidden(f"{path}.additionalProperties", rule)
    if level == "root" and kind and kind != "object":
        yield invalid(f"{path}.type", kind, "must be object at the root")
    if embedded and not preserves and not schema.get("properties"):
        rule = (
            "must not be empty if x-kubernetes-embedded-resource is true without x-kubernetes-preserve-unknown-fields"
        )
        yield required(f"{path}.properties", rule)


def _meta_errors(schema: Manifest, level: str, path: str) -> Iterator[FieldError]:
    """apiVersion, kind and metadata of an object are what they always are."""
    properties = schema.get("properties") or {}
    if level != "root" and not schema.get("x-kubernetes-embedded-resource"):
        return
    for name in ("kind", "apiVersion"):
        if name in properties and properties[name].get("type") != "string":
            yield invalid(f"{path}.properties[{name}].type", properties[name].get("type") or "", "must be string")
    metadata = properties.get("metadata")
    if metadata is None:
        return
    where = f"{path}.properties[metadata]"
    if metadata.get("type") != "object":
        yield invalid(f"{where}.type", metadata.get("type") or "", "must be object")
    if level == "root":
        names = set(metadata.get("properties") or ())
        said = {word for word, value in metadata.items() if value and word not in {"type", "default"}}
        if names and names <= {"name", "generateName"}:
            said.discard("properties")
        if said:
            rule = "must not specify anything other than name and generateName, but metadata is implicitly specified"
            yield forbidden(where, rule)


def _values(schema: Manifest, path: str, *, skip_any: bool, skip_first: bool) -> Iterator[FieldError]:
    """The junctors and the pattern of a schema."""
    if not skip_any:
        for at, one in enumerate(schema.get("anyOf") or ()):
            yield from _nested(one, f"{path}.anyOf[{at}]")
    for at, one in enumerate(schema.get("allOf") or ()):
        yield from _nested(one, f"{path}.allOf[{at}]", skip_any=skip_first and at == 0)
    for at, one in enumerate(schema.get("oneOf") or ()):
        yield from _nested(one, f"{path}.oneOf[{at}]")
    if isinstance(schema.get("not"), dict):
        yield from _nested(schema["not"], f"{path}.not")
    if schema.get("pattern"):
        try:
            compile_pattern(schema["pattern"])
        except PatternError as error:
            rule = f"must be a valid regular expression, but isn't: {error}"
            yield invalid(f"{path}.pattern", schema["pattern"], rule)


def _nested(schema: Manifest, path: str, *, skip_any: bool = False) -> Iterator[FieldError]:
    """A schema below a junctor says nothing of what a value consists of."""
    yield from _values(schema, path, skip_any=skip_any, skip_first=False)
    if isinstance(schema.get("items"), dict):
        yield from _nested(schema["items"], f"{path}.items")
    for name, one in (schema.get("properties") or {}).items():
        yield from _nested(one, f"{path}.properties[{name}]")
    for word, rule in _OUTSIDE.items():
        value = schema.get(word)
        if value or (word == "additionalProperties" and value is not None):
            yield forbidden(f"{path}.{word}", rule)
    if "metadata" in (schema.get("properties") or {}):
        yield forbidden(f"{path}.properties[metadata]", "must not be specified in a nested context")


def _completeness(values: Manifest, schema: Any, path: str, where: str) -> Iterator[FieldError]:
    """What junctors speak of is specified outside of them."""
    inner = [(f"{where}.not", values["not"])] if isinstance(values.get("not"), dict) else []
    for word in ("allOf", "anyOf", "oneOf"):
        inner += [(f"{where}.{word}[{at}]", one) for at, one in enumerate(values.get(word) or ())]
    for place, one in inner:
        yield from _nested_completeness(one, schema, path, place)


def _nested_completeness(values: Manifest, schema: Any, path: str, where: str) -> Iterator[FieldError]:
    if not isinstance(schema, dict):
        yield required(path, f"because it is defined in {where}")
        return
    yield from _completeness(values, schema, path, where)
    if isinstance(values.get("items"), dict):
        yield from _nested_completeness(values["items"], schema.get("items"), f"{path}.items", f"{where}.items")
    specified = schema.get("properties") or {}
    for name, one in (values.get("properties") or {}).items():
        yield from _nested_completeness(
            one, specified.get(name), f"{path}.properties[{name}]", f"{where}.properties[{name}]"
        )
