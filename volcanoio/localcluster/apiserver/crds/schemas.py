"""The rules of a definition's schema: what may be written, and how its lists and maps fit (apiextensions)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final, NamedTuple

from volcanoio.engine.admission.fielderrors import FieldError, forbidden, invalid, required, unsupported
from volcanoio.localcluster.apiserver.cel.types import Type
from volcanoio.localcluster.apiserver.crds.costs import Costs
from volcanoio.localcluster.apiserver.crds.defaults import default_errors
from volcanoio.localcluster.apiserver.crds.expressions import rule_errors, rule_text_errors
from volcanoio.localcluster.apiserver.crds.sound import remember, without_known
from volcanoio.localcluster.apiserver.crds.structural import structural_errors
from volcanoio.localcluster.apiserver.schema.declarations import declare, escaped
from volcanoio.model.base import Manifest

TYPES: Final = ("array", "boolean", "integer", "number", "object", "string")
_META: Final = frozenset({"metadata", "kind", "apiVersion"})
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
"""What the root may say beside a status subresource."""


class _Place(NamedTuple):
    """What surrounds a schema: whether it may have defaults (else why not), and whether oldSelf has a counterpart.

    `times` is how often values of it may occur, as far as lists and maps around it are bounded.
    """

    no_defaults: str | None = None
    in_meta: bool = False
    uncorrelated: str = ""
    root: bool = False
    embedded: bool = False
    times: int | None = 1

    def many(self, most: Any) -> _Place:
        """The place of a value that occurs up to so many times in each of this one's."""
        known = self.times is not None and isinstance(most, int)
        return self._replace(times=self.times * most if known and self.times is not None else None)


def schema_errors(schema: Any, path: str, *, status: bool) -> list[FieldError]:
    """What is wrong with the schema of a version; `status` says whether it has the status subresource."""
    if not isinstance(schema, dict):
        return [invalid(path, schema, "must be a schema")]
    if not _errors(without_known(schema), path, status=status):
        remember(schema)
        return []
    return _errors(schema, path, status=status)


def _errors(schema: Manifest, path: str, *, status: bool) -> list[FieldError]:
    found = [invalid(where, value, "must be a schema") for where, value in _strangers(schema, path)]
    if found:
        return found
    found += _root_errors(schema, path, status=status)
    broken = structural_errors(schema, path)
    if not broken:
        broken = default_errors(schema, path)
    found += broken
    rules: list[FieldError] = []
    type_ = declare(schema, root=True) if not broken else None
    wrong: list[FieldError] = []
    costs = Costs(path)
    _judge(schema, path, _Place(root=True, embedded=True), type_, wrong, rules, costs)
    return found + wrong + ([] if broken else rules + costs.total())


def _strangers(schema: Manifest, path: str) -> Iterator[tuple[str, Any]]:
    """Places below which there should be schemas and are other things."""
    for where, one in _below(schema, path):
        if isinstance(one, dict):
            yield from _strangers(one, where)
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


def _judge(
    schema: Manifest,
    path: str,
    place: _Place,
    type_: Type | None,
    wrong: list[FieldError],
    rules: list[FieldError],
    costs: Costs,
) -> None:
    """Faults of a schema and those below it; `rules` gets those of expressions, judged while nothing else is wrong."""
    before = len(wrong)
    wrong += _word_errors(schema, path, place)
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
        _judge(others, f"{path}.additionalProperties", below, value_type, wrong, rules, costs)
    _judge_properties(schema, path, place, type_, wrong, rules, costs)
    if isinstance(schema.get("not"), dict):
        _judge(schema["not"], f"{path}.not", inner, None, wrong, [], costs)
    for word in _JUNCTORS:
        for at, one in enumerate(schema.get(word) or ()):
            _judge(one, f"{path}.{word}[{at}]", inner, None, wrong, [], costs)
    items = schema.get("items")
    if isinstance(items, dict):
        below = inner
        if schema.get("x-kubernetes-list-type") != "map" and not place.uncorrelated:
            below = inner._replace(uncorrelated=path)
        item_type = type_.params[0] if type_ is not None and type_.kind == "list" else None
        _judge(items, f"{path}.items", below.many(schema.get("maxItems")), item_type, wrong, rules, costs)
    wrong += _list_errors(schema, path)
    wrong += _key_errors(schema, path)
    wrong += rule_text_errors(schema, path)
    if schema.get("x-kubernetes-validations") and type_ is not None and len(wrong) == before:
        rules += rule_errors(schema, path, type_, place.uncorrelated, place.times, costs)


def _judge_properties(
    schema: Manifest,
    path: str,
    place: _Place,
    type_: Type | None,
    wrong: list[FieldError],
    rules: list[FieldError],
    costs: Costs,
) -> None:
    for name, one in (schema.get("properties") or {}).items():
        below = place._replace(root=False, embedded=bool(one.get("x-kubernetes-embedded-resource")))
        if schema.get("x-kubernetes-map-type") not in {None, "granular", "atomic"} and not place.uncorrelated:
            below = below._replace(uncorrelated=path)
        if place.embedded and name in _META:
            below = below._replace(in_meta=True)
            if place.root:
                below = below._replace(no_defaults=f" in top-level {name}")
        known = escaped(name)
        field = (type_.fields or {}).get(known) if type_ is not None and known is not None else None
        field_type = field.type if field is not None else None
        if known is None and type_ is not None:
            field_type = declare(one, root=bool(one.get("x-kubernetes-embedded-resource")))
        _judge(one, f"{path}.properties[{name}]", below, field_type, wrong, rules, costs)


def _word_errors(schema: Manifest, path: str, place: _Place) -> Iterator[FieldError]:
    """Words that schemas of definitions do not have, or not with this value."""
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


def _wants_type(schema: Manifest, path: str, kind: str, word: str) -> Iterator[FieldError]:
    rule = f"must be {kind} if {word} is specified"
    if not schema.get("type"):
        yield required(f"{path}.type", rule)
    elif schema["type"] != kind:
        yield invalid(f"{path}.type", schema["type"], rule)


def _list_errors(schema: Manifest, path: str) -> Iterator[FieldError]:
    """Lists that are sets or maps have items that can be one."""
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
    """Keys of lists that are maps are always there."""
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
