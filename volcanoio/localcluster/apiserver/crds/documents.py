"""A definition as a document: its parts, unknown fields of its schemas, and warnings.

Fields that all versions share are reported at the top of the spec: an error in the schema of a definition with one
version is at `spec.validation`, not at `spec.versions[0].schema` (apiextensions `v1/conversion.go`). Unknown fields of
a schema are dropped with a warning, those of a wrong type are refused, as decoding into `JSONSchemaProps` does.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import lru_cache
from typing import Any, Final, NamedTuple

import msgspec

from volcanoio.model.base import Manifest
from volcanoio.model.validation.formats import known_format


class Part(NamedTuple):
    """A part of a version and its path in messages; `version` is empty for parts that all share."""

    path: str
    value: Any
    version: Manifest


def parts(spec: Manifest, field: str, top: str, inner: str) -> list[Part]:
    """Return one part of all versions: `field` of each.

    It is reported as `top` where all versions have the same value, else as `inner`.
    """
    versions: list[Manifest] = spec.get("versions") or []
    values = [one.get(field) for one in versions]
    if values and all(one == values[0] for one in values):
        return [Part(f"spec.{top}", values[0], {})] if values[0] else []
    return [Part(f"spec.versions[{at}].{inner}", one[field], one) for at, one in enumerate(versions) if one.get(field)]


def schemas(spec: Manifest) -> list[Part]:
    """Return the schemas of all versions."""
    found = parts(spec, "schema", "validation.openAPIV3Schema", "schema.openAPIV3Schema")
    return [one._replace(value=one.value["openAPIV3Schema"]) for one in found if one.value.get("openAPIV3Schema")]


def versions_shown(spec: Manifest) -> list[Manifest]:
    """Return the versions as messages show them."""
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


_WORDS: Final[dict[str, str]] = {
    **dict.fromkeys(("id", "$schema", "$ref", "description", "type", "format", "title", "pattern"), "string"),
    **dict.fromkeys(("maximum", "minimum", "multipleOf"), "float64"),
    **dict.fromkeys(
        ("maxLength", "minLength", "maxItems", "minItems", "maxProperties", "minProperties"),
        "int64",
    ),
    **dict.fromkeys(
        (
            "exclusiveMaximum", "exclusiveMinimum", "uniqueItems", "nullable", "x-kubernetes-preserve-unknown-fields",
            "x-kubernetes-embedded-resource", "x-kubernetes-int-or-string",
        ),
        "bool",
    ),
    **dict.fromkeys(("x-kubernetes-list-type", "x-kubernetes-map-type"), "string"),
    **dict.fromkeys(("required", "x-kubernetes-list-map-keys"), "[]string"),
    **dict.fromkeys(("default", "example"), "any"),
    **dict.fromkeys(("allOf", "anyOf", "oneOf"), "[]v1.JSONSchemaProps"),
    **dict.fromkeys(("properties", "patternProperties", "definitions"), "map[string]v1.JSONSchemaProps"),
    **dict.fromkeys(("additionalProperties", "additionalItems"), "schema or bool"),
    "enum": "[]v1.JSON",
    "items": "schema or list",
    "not": "v1.JSONSchemaProps",
    "dependencies": "any",
    "externalDocs": "v1.ExternalDocumentation",
    "x-kubernetes-validations": "v1.ValidationRules",
}  # fmt: skip
_RULE: Final = {
    **dict.fromkeys(("rule", "message", "messageExpression", "reason", "fieldPath"), "string"),
    "optionalOldSelf": "bool",
}
_DOCS: Final = dict.fromkeys(("description", "url"), "string")
_JSON_NAMES: Final[dict[type, str]] = {str: "string", bool: "bool", int: "number", float: "number", list: "array"}


class FieldTypeError(ValueError):
    """A field of a schema has a value of a wrong type; the text names both types."""


def check_schema_fields(definition: Manifest) -> list[str]:
    """Drop unknown fields and nulls of schemas in place.

    Returns the paths of the former. Raises FieldTypeError.
    """
    unknown: list[str] = []
    spec = definition.get("spec")
    versions = spec.get("versions") if isinstance(spec, dict) else None
    for at, version in enumerate(versions if isinstance(versions, list) else ()):
        holder = version.get("schema") if isinstance(version, dict) else None
        if isinstance(holder, dict) and isinstance(holder.get("openAPIV3Schema"), dict):
            place = _Place(f"spec.versions[{at}].schema.openAPIV3Schema", "spec.versions.schema.openAPIV3Schema")
            _Walker(unknown).schema(holder["openAPIV3Schema"], place)
    return unknown


class _Place(NamedTuple):
    """Location of a value: its path for readers, and its field as Go names it.

    The field has no keys and indexes.
    """

    path: str
    field: str
    owner: str = "JSONSchemaProps"
    """The Go type that has the field."""

    def below(self, word: str) -> _Place:
        return self._replace(path=f"{self.path}.{word}", field=f"{self.field}.{word}")

    def item(self, at: int) -> _Place:
        return self._replace(path=f"{self.path}[{at}]")


class _Walker:
    """Checker of schemas that collects the paths of unknown fields."""

    def __init__(self, unknown: list[str]) -> None:
        self._unknown = unknown
        self._checks: dict[str, Callable[[Any, str, _Place], None]] = {
            **dict.fromkeys(("string", "bool", "int64", "float64"), _check_scalar),
            "[]string": self._check_strings,
            "[]v1.JSON": _check_list,
            "[]v1.JSONSchemaProps": self._check_schemas,
            "map[string]v1.JSONSchemaProps": self._check_schema_map,
            "schema or bool": _check_schema_or_bool,
            "v1.JSONSchemaProps": self._check_schema,
            "v1.ExternalDocumentation": self._check_documentation,
            "v1.ValidationRules": self._check_rules,
        }

    def schema(self, schema: Manifest, place: _Place) -> None:
        """Check a schema and those within it."""
        self._object(schema, _WORDS, place._replace(owner="JSONSchemaProps"))

    def _object(self, value: Manifest, words: dict[str, str], place: _Place) -> None:
        for word in list(value):
            kind = words.get(word)
            if kind is None:
                self._unknown.append(f"{place.path}.{word}")
                del value[word]
            elif value[word] is None:
                del value[word]
            elif kind in self._checks:
                self._checks[kind](value[word], kind, place.below(word))
            elif kind == "schema or list" and not _check_schema_or_list(value[word], place.below(word)):
                del value[word]  # Go drops a value of any other type

    def _check_strings(self, value: Any, kind: str, place: _Place) -> None:
        _expect(value, list, kind, place)
        for one in value:
            _check_scalar(one, "string", place)

    def _check_schemas(self, value: Any, kind: str, place: _Place) -> None:
        _expect(value, list, kind, place)
        for at, one in enumerate(value):
            self._check_schema(one, "v1.JSONSchemaProps", place.item(at))

    def _check_schema_map(self, value: Any, kind: str, place: _Place) -> None:
        _expect(value, dict, kind, place)
        for name, one in value.items():
            value[name] = {} if one is None else one
            self._check_schema(value[name], "v1.JSONSchemaProps", place._replace(path=f"{place.path}.{name}"))

    def _check_schema(self, value: Any, kind: str, place: _Place) -> None:
        _expect(value, dict, kind, place._replace(owner="JSONSchemaProps"))
        self.schema(value, place)

    def _check_documentation(self, value: Any, kind: str, place: _Place) -> None:
        _expect(value, dict, kind, place)
        self._object(value, _DOCS, place._replace(owner="ExternalDocumentation"))

    def _check_rules(self, value: Any, kind: str, place: _Place) -> None:
        _expect(value, list, kind, place)
        for at, one in enumerate(value):
            _expect(one, dict, "v1.ValidationRule", place)
            self._object(one, _RULE, place.item(at)._replace(owner="ValidationRule"))


def _check_schema_or_bool(value: Any, _kind: str, place: _Place) -> None:
    if not isinstance(value, bool | dict):
        raise FieldTypeError("boolean or JSON schema expected")
    if isinstance(value, dict):
        _Walker([]).schema(value, place)  # Go decodes it separately, and does not report unknown fields in it


def _check_schema_or_list(value: Any, place: _Place) -> bool:
    """Check a schema or a list of schemas; False when the value is neither."""
    if isinstance(value, list | dict):
        _Walker([])._check_schemas(value if isinstance(value, list) else [value], "[]v1.JSONSchemaProps", place)
    return isinstance(value, list | dict)


def _check_scalar(value: Any, kind: str, place: _Place) -> None:
    fits = {
        "string": isinstance(value, str),
        "bool": isinstance(value, bool),
        "int64": type(value) is int or (type(value) is float and value.is_integer()),
        "float64": type(value) in {int, float},
    }[kind]
    if not fits:
        raise _wrong_type(value, kind, place)


def _check_list(value: Any, kind: str, place: _Place) -> None:
    _expect(value, list, kind, place)


def _expect(value: Any, type_: type, kind: str, place: _Place) -> None:
    if not isinstance(value, type_):
        raise _wrong_type(value, kind, place)


def _wrong_type(value: Any, kind: str, place: _Place) -> FieldTypeError:
    found = _JSON_NAMES.get(type(value), "object")
    if type(value) is float:
        found = f"number {value}"
    return FieldTypeError(
        f"json: cannot unmarshal {found} into Go struct field {place.owner}.{place.field} of type {kind}"
    )


def format_warnings(new: Manifest, old: Manifest | None) -> list[str]:
    """Return warnings of unknown formats; on an update, only of new ones."""
    known = set(_formats(old)) if old is not None else set()
    return [f'unrecognized format "{one}"' for one in _formats(new) if one not in known]


def _formats(definition: Manifest) -> list[str]:
    return [one for part in schemas(definition["spec"]) for one in _unknown_in(msgspec.json.encode(part.value))]


@lru_cache(maxsize=64)
def _unknown_in(schema: bytes) -> tuple[str, ...]:
    """Return the unknown formats of an encoded schema; cached for all clusters of the process."""
    return tuple(_unknown(msgspec.json.decode(schema)))


def _unknown(schema: Any) -> Iterator[str]:
    if isinstance(schema, list):
        for one in schema:
            yield from _unknown(one)
        return
    if not isinstance(schema, dict):
        return
    if schema.get("format") and not known_format(schema):
        yield schema["format"]
    for word in ("items", "allOf", "anyOf", "oneOf", "not", "additionalProperties"):
        if word in schema:
            yield from _unknown(schema[word])
    for one in (schema.get("properties") or {}).values():
        yield from _unknown(one)
