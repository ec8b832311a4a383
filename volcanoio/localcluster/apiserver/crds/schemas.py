"""Validation of a definition's schema: that it is structural, and the consistency of its lists and maps.

CRD docs, "Specifying a structural schema"; apiextensions `schema/validation.go`. Parts that were valid before in this
process are skipped: definitions of one project hold the same parts (a pod template is 200 KB in each of Volcano's), and
a process may serve many clusters. A part is identified by a digest of its text. Only parts whose errors cannot depend
on their context are skipped: objects without expressions, below nothing that has a default.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from hashlib import blake2b
from typing import Any, Final

import msgspec

from volcanoio.localcluster.apiserver.crds.expressions import (
    Costs,
    Place,
    default_errors,
    rule_errors,
    rule_text_errors,
)
from volcanoio.localcluster.apiserver.schema.declarations import declare, escaped
from volcanoio.model.base import Manifest
from volcanoio.model.cel.types import Type
from volcanoio.model.validation.field_errors import FieldError, forbidden, invalid, required, unsupported
from volcanoio.model.validation.patterns import PatternError, compile_pattern

WORTH: Final = 4096
"""Minimal bytes of a part for which a lookup is cheaper than validation."""
_MOST: Final = 10_000
_STAND_IN: Final = {"type": "object"}
_ELSEWHERE: Final = ("default", "nullable", "x-kubernetes-embedded-resource", "allOf", "anyOf", "oneOf", "not")
"""Fields that are validated together with their context."""
_META: Final = frozenset({"metadata", "kind", "apiVersion"})
"""Fields below which other rules may apply."""
_known: set[bytes] = set()


def without_validated(schema: Manifest) -> Manifest:
    """Return the schema with a plain object in place of each part known to be valid.

    Returns the schema itself when there is no such part.
    """
    return _stripped(schema) if _known and b'"x-kubernetes-validations"' not in _text(schema) else schema


def record_validated(schema: Manifest) -> None:
    """Record the parts of a valid schema."""
    if len(_known) > _MOST:
        _known.clear()
    if b'"x-kubernetes-validations"' not in _text(schema):
        _known.update(_digests(schema))


def _stripped(schema: Manifest) -> Manifest:
    if any(word in schema for word in _ELSEWHERE):
        return schema
    changed: dict[str, Any] = {}
    properties = schema.get("properties")
    if isinstance(properties, dict):
        below = {name: one if name in _META else _part(one) for name, one in properties.items()}
        if any(below[name] is not one for name, one in properties.items()):
            changed["properties"] = below
    items = schema.get("items")
    if isinstance(items, dict) and (stripped := _stripped(items)) is not items:
        changed["items"] = stripped
    return {**schema, **changed} if changed else schema


def _part(schema: Any) -> Any:
    """Return the replacement of a property's schema."""
    if not isinstance(schema, dict) or not ("properties" in schema or "items" in schema):
        return schema
    text = _text(schema)
    if len(text) < WORTH:
        return schema
    return _STAND_IN if _digest(text) in _known else _stripped(schema)


def _digests(schema: Manifest) -> Iterator[bytes]:
    """Yield digests of the parts of a valid schema that do not depend on their context."""
    if any(word in schema for word in _ELSEWHERE):
        return
    for one in (schema.get("properties") or {}).values():
        text = _text(one)
        if len(text) >= WORTH:
            if one.get("type") == "object" and not any(word in one for word in _ELSEWHERE):
                yield _digest(text)
            yield from _digests(one)
    if isinstance(schema.get("items"), dict):
        yield from _digests(schema["items"])


def _text(schema: Manifest) -> bytes:
    return msgspec.json.encode(schema)


def _digest(text: bytes) -> bytes:
    return blake2b(text, digest_size=16).digest()


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
"""Fields that are forbidden within allOf, anyOf, oneOf and not."""


def structural_errors(schema: Manifest, path: str) -> list[FieldError]:
    """Return the reasons why a schema is not structural, in the order of its text."""
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
    """Yield errors of apiVersion, kind and metadata of an object."""
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
    """Yield errors of the junctors and the pattern of a schema."""
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
    """Yield errors of a schema below a junctor, which must not specify the structure of a value."""
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
    """Yield errors of fields that only junctors specify."""
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


TYPES: Final = ("array", "boolean", "integer", "number", "object", "string")

_UNSUPPORTED: Final = ("id", "additionalItems", "patternProperties", "definitions", "dependencies", "$ref")
_JUNCTORS: Final = ("allOf", "oneOf", "anyOf")
_AT_ROOT: Final = {
    "description": "Description", "type": "Type", "format": "Format", "title": "Title", "maximum": "Maximum",
    "exclusiveMaximum": "ExclusiveMaximum", "minimum": "Minimum", "exclusiveMinimum": "ExclusiveMinimum",
    "maxLength": "MaxLength", "minLength": "MinLength", "pattern": "Pattern", "maxItems": "MaxItems",
    "minItems": "MinItems", "uniqueItems": "UniqueItems", "multipleOf": "MultipleOf", "required": "Required",
    "items": "Items", "properties": "Properties", "externalDocs": "ExternalDocs", "example": "Example",
    "x-kubernetes-preserve-unknown-fields": "XPreserveUnknownFields", "x-kubernetes-validations": "XValidations",
}  # fmt: skip
"""Fields allowed at the root of a schema with a status subresource."""


@dataclass(frozen=True, slots=True)
class _Faults:
    """Errors found so far.

    Those of rules are kept apart, as they are reported only where nothing else is wrong.
    """

    costs: Costs
    structure: list[FieldError] = field(default_factory=list)
    rules: list[FieldError] = field(default_factory=list)


def schema_errors(schema: Any, path: str, *, status: bool) -> list[FieldError]:
    """Return errors of the schema of a version.

    `status` is whether it has the status subresource.
    """
    if not isinstance(schema, dict):
        return [invalid(path, schema, "must be a schema")]
    if not _errors(without_validated(schema), path, status=status):
        record_validated(schema)
        return []
    return _errors(schema, path, status=status)


def _errors(schema: Manifest, path: str, *, status: bool) -> list[FieldError]:
    found = [invalid(where, value, "must be a schema") for where, value in _not_schemas(schema, path)]
    if found:
        return found
    found += _root_errors(schema, path, status=status)
    broken = structural_errors(schema, path)
    if not broken:
        broken = default_errors(schema, path)
    found += broken
    type_ = declare(schema, root=True) if not broken else None
    faults = _Faults(Costs(path))
    _check(schema, path, Place(root=True, embedded=True), type_, faults)
    return found + faults.structure + ([] if broken else faults.rules + faults.costs.total())


def _not_schemas(schema: Manifest, path: str) -> Iterator[tuple[str, Any]]:
    """Yield paths and values of other types where schemas are expected."""
    for where, one in _below(schema, path):
        if isinstance(one, dict):
            yield from _not_schemas(one, where)
        else:
            yield where, one


def _below(schema: Manifest, path: str) -> Iterator[tuple[str, Any]]:
    properties = schema.get("properties")
    if isinstance(properties, dict):
        for name, one in properties.items():
            yield f"{path}.properties[{name}]", one
    elif properties is not None:
        yield f"{path}.properties", properties
    others, items = schema.get("additionalProperties"), schema.get("items")
    if others is not None and not isinstance(others, bool):
        yield f"{path}.additionalProperties", others
    if items is not None and not isinstance(items, list):
        yield f"{path}.items", items
    for word in _JUNCTORS:
        given = schema.get(word)
        for at, one in enumerate(given if isinstance(given, list) else [] if given is None else [given]):
            yield f"{path}.{word}[{at}]", one
    if schema.get("not") is not None:
        yield f"{path}.not", schema["not"]


def _root_errors(schema: Manifest, path: str, *, status: bool) -> Iterator[FieldError]:
    if status:
        if schema.get("type") != "object":
            rule = 'only "object" is allowed as the type at the root of the schema if the status subresource is enabled'
            yield invalid(f"{path}.type", schema.get("type") or "", rule)
        other = next((word for word, value in schema.items() if value and word not in _AT_ROOT), None)
        if other is not None:
            listed = " ".join(_AT_ROOT.values())
            rule = f"only [{listed}] fields are allowed at the root of the schema if the status subresource is enabled"
            yield invalid(path, schema, rule)
    if schema.get("nullable"):
        yield forbidden(f"{path}.nullable", "nullable cannot be true at the root")


def _check(schema: Manifest, path: str, place: Place, type_: Type | None, faults: _Faults) -> None:
    """Collect the faults of a schema and of those within it.

    Rules are checked where nothing else is wrong.
    """
    wrong, before = faults.structure, len(faults.structure)
    wrong += _field_errors(schema, path, place)
    inner = place._replace(root=False, embedded=False)
    others = schema.get("additionalProperties")
    if others is not None and schema.get("properties") and others is not True:
        rule = "additionalProperties and properties are mutual exclusive"
        wrong.append(forbidden(f"{path}.additionalProperties", rule))
    if isinstance(others, dict):
        below = inner
        if place.in_meta:
            below = inner._replace(no_defaults=" inside additionalProperties applying to object metadata")
        value_type = type_.params[1] if type_ is not None and type_.kind == "map" else None
        below = below.many(schema.get("maxProperties"))
        _check(others, f"{path}.additionalProperties", below, value_type, faults)
    _check_properties(schema, path, place, type_, faults)
    _check_junctors(schema, path, inner, replace(faults, rules=[]))
    items = schema.get("items")
    if isinstance(items, dict):
        below = inner
        if schema.get("x-kubernetes-list-type") != "map" and not place.uncorrelated:
            below = inner._replace(uncorrelated=path)
        item_type = type_.params[0] if type_ is not None and type_.kind == "list" else None
        _check(items, f"{path}.items", below.many(schema.get("maxItems")), item_type, faults)
    wrong += _list_errors(schema, path)
    wrong += _key_errors(schema, path)
    wrong += rule_text_errors(schema, path)
    if schema.get("x-kubernetes-validations") and type_ is not None and len(wrong) == before:
        faults.rules.extend(rule_errors(schema, path, type_, place, faults.costs))


def _check_junctors(schema: Manifest, path: str, place: Place, faults: _Faults) -> None:
    if isinstance(schema.get("not"), dict):
        _check(schema["not"], f"{path}.not", place, None, faults)
    for word in _JUNCTORS:
        for at, one in enumerate(schema.get(word) or ()):
            _check(one, f"{path}.{word}[{at}]", place, None, faults)


def _check_properties(schema: Manifest, path: str, place: Place, type_: Type | None, faults: _Faults) -> None:
    for name, one in (schema.get("properties") or {}).items():
        below = place._replace(root=False, embedded=bool(one.get("x-kubernetes-embedded-resource")))
        if schema.get("x-kubernetes-map-type") not in {None, "granular", "atomic"} and not place.uncorrelated:
            below = below._replace(uncorrelated=path)
        if place.embedded and name in _META:
            below = below._replace(in_meta=True)
            if place.root:
                below = below._replace(no_defaults=f" in top-level {name}")
        known = escaped(name)
        declared = (type_.fields or {}).get(known) if type_ is not None and known is not None else None
        field_type = declared.type if declared is not None else None
        if known is None and type_ is not None:
            field_type = declare(one, root=bool(one.get("x-kubernetes-embedded-resource")))
        _check(one, f"{path}.properties[{name}]", below, field_type, faults)


def _field_errors(schema: Manifest, path: str, place: Place) -> Iterator[FieldError]:
    """Yield errors of fields that schemas of definitions do not have, or not with this value."""
    yield from _value_errors(schema, path, place)
    if isinstance(schema.get("items"), list) and schema["items"]:
        yield forbidden(f"{path}.items", "items must be a schema object and not an array")
    if place.in_meta and schema.get("x-kubernetes-embedded-resource"):
        yield forbidden(f"{path}.x-kubernetes-embedded-resource", "must not be used inside of resource meta")
    if schema.get("uniqueItems"):
        rule = "uniqueItems cannot be set to true since the runtime complexity becomes quadratic"
        yield forbidden(f"{path}.uniqueItems", rule)
    if schema.get("x-kubernetes-preserve-unknown-fields") is False:
        yield invalid(f"{path}.x-kubernetes-preserve-unknown-fields", False, "must be true or undefined")
    map_type = schema.get("x-kubernetes-map-type")
    if map_type is not None:
        yield from _wants_type(schema, path, "object", "x-kubernetes-map-type")
        if map_type not in {"atomic", "granular"}:
            yield unsupported(f"{path}.x-kubernetes-map-type", map_type, ("atomic", "granular"))


def _value_errors(schema: Manifest, path: str, place: Place) -> Iterator[FieldError]:
    kind = schema.get("type") or ""
    if kind and kind not in TYPES:
        yield unsupported(f"{path}.type", kind, TYPES)
    if schema.get("default") is not None and place.no_defaults is not None:
        yield forbidden(f"{path}.default", f"must not be set{place.no_defaults}")
    for word in _UNSUPPORTED:
        if schema.get(word):
            yield forbidden(f"{path}.{word}", f"{word} is not supported")
    if kind == "null":
        yield forbidden(f"{path}.type", "type cannot be set to null, use nullable as an alternative")


def _wants_type(schema: Manifest, path: str, kind: str, word: str) -> Iterator[FieldError]:
    rule = f"must be {kind} if {word} is specified"
    if not schema.get("type"):
        yield required(f"{path}.type", rule)
    elif schema["type"] != kind:
        yield invalid(f"{path}.type", schema["type"], rule)


def _list_errors(schema: Manifest, path: str) -> Iterator[FieldError]:
    """Yield errors of x-kubernetes-list-type and of its items."""
    list_type, keys, items = (
        schema.get("x-kubernetes-list-type"),
        schema.get("x-kubernetes-list-map-keys") or [],
        schema.get("items"),
    )
    if list_type is not None and schema.get("type") != "array":
        yield from _wants_type(schema, path, "array", "x-kubernetes-list-type")
    elif list_type == "set" and isinstance(items, dict):
        rule = "must be atomic as item of a list with x-kubernetes-list-type=set"
        inner = items.get("x-kubernetes-list-type")
        if items.get("type") == "array" and inner not in {None, "atomic"}:
            yield invalid(f"{path}.items.x-kubernetes-list-type", inner, rule)
        if items.get("type") == "object" and items.get("x-kubernetes-map-type") != "atomic":
            yield invalid(f"{path}.items.x-kubernetes-map-type", inner, rule)
    if list_type is not None and list_type not in {"atomic", "set", "map"}:
        yield unsupported(f"{path}.x-kubernetes-list-type", list_type, ("atomic", "set", "map"))
    if keys and list_type != "map":
        where, rule = f"{path}.x-kubernetes-list-type", "must be map if x-kubernetes-list-map-keys is non-empty"
        yield required(where, rule) if list_type is None else invalid(where, list_type, rule)
    if list_type == "map":
        yield from _map_errors(path, keys, items)


def _map_errors(path: str, keys: list[str], items: Any) -> Iterator[FieldError]:
    if not keys:
        rule = "must not be empty if x-kubernetes-list-type is map"
        yield required(f"{path}.x-kubernetes-list-map-keys", rule)
    if items is None:
        yield required(f"{path}.items", "must have a schema if x-kubernetes-list-type is map")
    elif not isinstance(items, dict):
        yield invalid(f"{path}.items", items, "must only have a single schema if x-kubernetes-list-type is map")
    elif items.get("type") != "object":
        rule = "must be object if parent array's x-kubernetes-list-type is map"
        yield invalid(f"{path}.items.type", items.get("type") or "", rule)
    else:
        where, properties = f"{path}.x-kubernetes-list-map-keys", items.get("properties") or {}
        for at, key in enumerate(keys):
            if key not in properties:
                yield invalid(where, keys, "entries must all be names of item properties")
            elif properties[key].get("type") in {"array", "object"}:
                rule = "must be a scalar type if parent array's x-kubernetes-list-type is map"
                yield invalid(f"{path}.items.properties[{key}].type", items["type"], rule)
            if key in keys[:at]:
                yield invalid(where, keys, "must not contain duplicate entries")


def _key_errors(schema: Manifest, path: str) -> Iterator[FieldError]:
    """Yield errors of map-list keys that may be missing."""
    items, list_type = schema.get("items"), schema.get("x-kubernetes-list-type")
    if not isinstance(items, dict) or list_type not in {"set", "map"}:
        return
    if items.get("nullable"):
        yield forbidden(f"{path}.items.nullable", f"cannot be nullable when x-kubernetes-list-type is {list_type}")
    if list_type == "set":
        return
    for key in schema.get("x-kubernetes-list-map-keys") or ():
        one = (items.get("properties") or {}).get(key)
        if one is None:
            continue
        where, rule = f"{path}.items.properties[{key}]", "this property is in x-kubernetes-list-map-keys, so it"
        if key not in (items.get("required") or ()) and one.get("default") is None:
            yield required(f"{where}.default", f"{rule} must have a default or be a required property")
        if one.get("nullable"):
            yield forbidden(f"{where}.nullable", f"{rule} cannot be nullable")
