"""A Struct of `volcanoio.model` as a structural OpenAPI schema (apiextensions.k8s.io/v1)."""

from __future__ import annotations

import inspect
from typing import Any

import msgspec

from volcanoio.model.base import Model, ObjectMeta
from volcanoio.model.core import ResourceList
from volcanoio.model.crds.constraints import CONSTRAINTS, REQUIRED, Whole
from volcanoio.model.crds.podtemplate import RESOURCE_LIST

Schema = dict[str, Any]
_info = msgspec.inspect
_RESOURCE_TYPES = (ResourceList, ResourceList | None)


def struct_schema(struct: type[Model]) -> Schema:
    """The schema of a Struct: its fields in camelCase, with the constraints of `constraints.CONSTRAINTS`.

    Raises TypeError for a field whose type has no schema and no constraint that gives one.
    """
    overlays = CONSTRAINTS.get(struct, {})
    required = REQUIRED.get(struct, ())
    fields = msgspec.structs.fields(struct)
    _check_names(struct, overlays, required)
    properties: dict[str, Schema] = {}
    for field in fields:
        if field.type is ObjectMeta:
            properties[field.encode_name] = {"type": "object"}
            continue
        overlay = overlays.get(field.name, {})
        if isinstance(overlay, Whole):
            whole = struct_schema(overlay.struct)
            properties[field.encode_name] = whole if overlay.defaults else _without_defaults(whole)
            continue
        base = (
            RESOURCE_LIST if field.type in _RESOURCE_TYPES else _schema(_info.type_info(field.type), struct, field.name)
        )
        merged = {**base, **overlay}
        if "type" not in merged and "x-kubernetes-int-or-string" not in merged:
            msg = f"{struct.__name__}.{field.name} is a bare Manifest: give its schema in CONSTRAINTS"
            raise TypeError(msg)
        properties[field.encode_name] = merged
    schema: Schema = {
        "type": "object",
        "description": _description(struct),
        "properties": dict(sorted(properties.items())),
    }
    if required:
        names = {field.name: field.encode_name for field in fields}
        schema["required"] = sorted(names[name] for name in required)
    return schema


def _schema(info: _info.Type, struct: type[Model], field: str) -> Schema:
    match info:
        case _info.StrType():
            return {"type": "string"}
        case _info.BoolType():
            return {"type": "boolean"}
        case _info.IntType():
            return {"type": "integer", "format": "int32"}
        case _info.VarTupleType(item_type=item):
            items = _schema(item, struct, field)
            return {"type": "array", "items": items} if items else {"type": "array"}
        case _info.DictType(value_type=_info.AnyType()):
            return {}
        case _info.DictType(value_type=value):
            return {"type": "object", "additionalProperties": _schema(value, struct, field)}
        case _info.StructType(cls=cls) if issubclass(cls, Model):
            return struct_schema(cls)
        case _info.UnionType(types=types):
            present = [option for option in types if not isinstance(option, _info.NoneType)]
            if len(present) == 1:
                return _schema(present[0], struct, field)
    msg = f"{struct.__name__}.{field}: no schema for {info}"
    raise TypeError(msg)


def _without_defaults(schema: Schema) -> Schema:
    """The schema of a part that is laid over another: nothing is added to it.

    A key of a list that is merged by it must have a value (apiextensions' rule), so those defaults stay.
    """
    result = {name: value for name, value in schema.items() if name != "default"}
    if "properties" in schema:
        result["properties"] = {name: _without_defaults(each) for name, each in schema["properties"].items()}
    for name in ("items", "additionalProperties"):
        if isinstance(schema.get(name), dict):
            result[name] = _without_defaults(schema[name])
    if schema.get("x-kubernetes-list-type") == "map":
        fields = schema["items"]["properties"]
        for key in schema["x-kubernetes-list-map-keys"]:
            result["items"]["properties"][key] = fields[key]
    return result


def _check_names(struct: type[Model], overlays: dict[str, Schema | Whole], required: tuple[str, ...]) -> None:
    unknown = {*overlays, *required} - {field.name for field in msgspec.structs.fields(struct)}
    if unknown:
        msg = f"constraints name fields that {struct.__name__} has not: {', '.join(sorted(unknown))}"
        raise TypeError(msg)


def _description(struct: type[Model]) -> str:
    return " ".join(inspect.cleandoc(struct.__doc__ or "").replace("`", "").split())


def object_schema(struct: type[Model]) -> Schema:
    """The schema of a whole object: the Struct's, with apiVersion and kind."""
    schema = struct_schema(struct)
    identity = {"apiVersion": {"type": "string"}, "kind": {"type": "string"}}
    return {**schema, "properties": {**identity, **schema["properties"]}}
