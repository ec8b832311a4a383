"""The words of a schema: those that there are not go with a warning, those of another type are refused.

As decoding into `JSONSchemaProps` does it (apiextensions `v1/types_jsonschema.go`).
"""

from __future__ import annotations

from typing import Any, Final

from volcanoio.model.base import Manifest

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


class WrongWordError(ValueError):
    """A word has a value of another type; the text names both."""


def check_words(definition: Manifest) -> list[str]:
    """Drop what schemas do not know, and nulls, in place; returns the paths of the former. Raises WrongWordError."""
    unknown: list[str] = []
    spec = definition.get("spec")
    versions = spec.get("versions") if isinstance(spec, dict) else None
    for at, version in enumerate(versions if isinstance(versions, list) else ()):
        holder = version.get("schema") if isinstance(version, dict) else None
        if isinstance(holder, dict) and isinstance(holder.get("openAPIV3Schema"), dict):
            walker = _Walker(unknown)
            walker.schema(
                holder["openAPIV3Schema"],
                f"spec.versions[{at}].schema.openAPIV3Schema",
                "spec.versions.schema.openAPIV3Schema",
            )
    return unknown


class _Walker:
    """Walks schemas. A path names a place for readers; a field names it as Go does, without keys and indexes."""

    def __init__(self, unknown: list[str]) -> None:
        self._unknown = unknown

    def schema(self, schema: Manifest, path: str, field: str) -> None:
        self._object(schema, _WORDS, path, field, "JSONSchemaProps")

    def _object(self, value: Manifest, words: dict[str, str], path: str, field: str, owner: str) -> None:
        for word in list(value):
            kind = words.get(word)
            if kind is None:
                self._unknown.append(f"{path}.{word}")
                del value[word]
            elif value[word] is None:
                del value[word]
            else:
                self._word(value, word, kind, f"{path}.{word}", f"{field}.{word}", owner)

    def _word(self, holder: Manifest, word: str, kind: str, path: str, field: str, owner: str) -> None:
        value = holder[word]
        match kind:
            case "any":
                pass
            case "string" | "bool" | "int64" | "float64":
                self._scalar(value, kind, field, owner)
            case "[]string" | "[]v1.JSON":
                self._list(value, kind, field, owner)
                if kind == "[]string":
                    for one in value:
                        self._scalar(one, "string", field, owner)
            case "[]v1.JSONSchemaProps":
                self._list(value, kind, field, owner)
                self._schemas(value, path, field)
            case "map[string]v1.JSONSchemaProps":
                self._expect(value, dict, kind, field, owner)
                for name, one in value.items():
                    value[name] = {} if one is None else one
                    self._one(value[name], f"{path}.{name}", field)
            case "schema or bool":
                if not isinstance(value, bool | dict):
                    raise WrongWordError("boolean or JSON schema expected")
                if isinstance(value, dict):
                    _Walker([]).schema(value, path, field)  # read by a decoder of its own, which keeps silent
            case "schema or list":
                if isinstance(value, list | dict):
                    _Walker([])._schemas(value if isinstance(value, list) else [value], path, field)
                else:
                    del holder[word]  # what is neither is none at all, to Go
            case "v1.JSONSchemaProps":
                self._one(value, path, field)
            case "v1.ExternalDocumentation":
                self._expect(value, dict, kind, field, owner)
                self._object(value, _DOCS, path, field, "ExternalDocumentation")
            case "v1.ValidationRules":
                self._list(value, kind, field, owner)
                for at, one in enumerate(value):
                    self._expect(one, dict, "v1.ValidationRule", field, owner)
                    self._object(one, _RULE, f"{path}[{at}]", field, "ValidationRule")

    def _schemas(self, value: list[Any], path: str, field: str) -> None:
        for at, one in enumerate(value):
            self._one(one, f"{path}[{at}]", field)

    def _one(self, value: Any, path: str, field: str) -> None:
        self._expect(value, dict, "v1.JSONSchemaProps", field, "JSONSchemaProps")
        self.schema(value, path, field)

    def _scalar(self, value: Any, kind: str, field: str, owner: str) -> None:
        fits = {
            "string": isinstance(value, str),
            "bool": isinstance(value, bool),
            "int64": type(value) is int or (type(value) is float and value.is_integer()),
            "float64": type(value) in {int, float},
        }[kind]
        if not fits:
            self._refuse(value, kind, field, owner)

    def _list(self, value: Any, kind: str, field: str, owner: str) -> None:
        self._expect(value, list, kind, field, owner)

    def _expect(self, value: Any, type_: type, kind: str, field: str, owner: str) -> None:
        if not isinstance(value, type_):
            self._refuse(value, kind, field, owner)

    def _refuse(self, value: Any, kind: str, field: str, owner: str) -> None:
        found = _JSON_NAMES.get(type(value), "object")
        if type(value) is float:
            found = f"number {value}"
        raise WrongWordError(f"json: cannot unmarshal {found} into Go struct field {owner}.{field} of type {kind}")
