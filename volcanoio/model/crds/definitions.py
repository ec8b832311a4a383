"""The CustomResourceDefinition of each of our kinds, with the structural schema of its Struct.

`DEFINITIONS` contains names, printer columns and subresources; values: Volcano `config/crd/volcano/bases/*.yaml`.
`struct_schema` turns a Struct of `volcanoio.model` into an OpenAPI schema (apiextensions.k8s.io/v1).
"""

import ast
import inspect
import textwrap
from dataclasses import dataclass
from functools import cache
from itertools import pairwise
from typing import Any

import msgspec

from volcanoio.model import kinds
from volcanoio.model.base import Manifest, Model, ObjectMeta
from volcanoio.model.core import ResourceList
from volcanoio.model.crds.constraints import CONSTRAINTS, REQUIRED, Whole
from volcanoio.model.crds.podtemplate import RESOURCE_LIST
from volcanoio.model.kinds import Kind

Schema = dict[str, Any]
_info = msgspec.inspect
_IDENTITY: Schema = {
    "apiVersion": {"type": "string", "description": "Group and version that the object is written in."},
    "kind": {"type": "string", "description": "Kind of the object."},
}
_RESOURCE_TYPES = (ResourceList, ResourceList | None)


def struct_schema(struct: type[Model]) -> Schema:
    """Return the schema of a Struct: its fields in camelCase, with their docstrings and `constraints.CONSTRAINTS`.

    Raises TypeError for a field whose type has no schema and no constraint that contains one.
    """
    overlays = CONSTRAINTS.get(struct, {})
    required = REQUIRED.get(struct, ())
    fields = msgspec.structs.fields(struct)
    _check_names(struct, overlays, required)
    descriptions = _descriptions(struct)
    properties: dict[str, Schema] = {}
    for field in fields:
        described = {"description": descriptions[field.name]} if field.name in descriptions else {}
        if field.type is ObjectMeta:
            properties[field.encode_name] = {"type": "object"}  # a server allows nothing else and describes it itself
            continue
        if isinstance(overlay := overlays.get(field.name, {}), Whole):
            whole = struct_schema(overlay.struct)
            properties[field.encode_name] = {**described, **(whole if overlay.defaults else _without_defaults(whole))}
            continue
        base = (
            RESOURCE_LIST if field.type in _RESOURCE_TYPES else _schema(_info.type_info(field.type), struct, field.name)
        )
        merged = {**described, **base, **overlay}
        if "type" not in merged and "x-kubernetes-int-or-string" not in merged:
            raise TypeError(f"{struct.__name__}.{field.name} is a bare Manifest: give its schema in CONSTRAINTS")
        properties[field.encode_name] = merged
    schema: Schema = {"type": "object", "properties": dict(sorted(properties.items()))}
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
    raise TypeError(f"{struct.__name__}.{field}: no schema for {info}")


def _without_defaults(schema: Schema) -> Schema:
    """Return the schema of a part that is merged over another, without defaults.

    Defaults of keys of lists that are merged by key stay, because the keys must have values (apiextensions' rule).
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
    if unknown := {*overlays, *required} - {field.name for field in msgspec.structs.fields(struct)}:
        raise TypeError(f"constraints name fields that {struct.__name__} has not: {', '.join(sorted(unknown))}")


@cache
def _descriptions(struct: type[Model]) -> dict[str, str]:
    """Return the docstring after each field, of the Struct and its bases."""
    found: dict[str, str] = {}
    for cls in reversed(struct.__mro__):
        if not issubclass(cls, Model):
            continue
        (definition,) = ast.parse(textwrap.dedent(inspect.getsource(cls))).body
        assert isinstance(definition, ast.ClassDef)
        for field, after in pairwise(definition.body):
            match field, after:
                case ast.AnnAssign(target=ast.Name(id=name)), ast.Expr(value=ast.Constant(value=str(text))):
                    found[name] = " ".join(text.split())
    return found


def object_schema(struct: type[Model]) -> Schema:
    """Return the schema of a whole object: the Struct's, with apiVersion, kind and the first line of its docstring."""
    schema = struct_schema(struct)
    summary = inspect.cleandoc(struct.__doc__ or "").partition("\n")[0]
    return {**schema, "description": summary, "properties": {**_IDENTITY, **schema["properties"]}}


@dataclass(frozen=True, slots=True)
class Column:
    """One printer column; priority 1 is shown with `-o wide` only."""

    name: str
    path: str
    type: str = "string"
    priority: int = 0

    def manifest(self) -> dict[str, Any]:
        """Return the column as it is written in the definition."""
        result: dict[str, Any] = {"name": self.name, "type": self.type, "jsonPath": self.path}
        return {**result, "priority": self.priority} if self.priority else result


@dataclass(frozen=True, slots=True)
class Definition:
    """The definition of one kind; its Kind determines whether there is a status subresource."""

    kind: Kind
    short_names: tuple[str, ...] = ()
    columns: tuple[Column, ...] = ()

    @property
    def file_name(self) -> str:
        """The file's name under `config/crds/`, as Volcano's."""
        return f"{self.kind.group}_{self.kind.plural}.yaml"

    def manifest(self) -> Manifest:
        """Return the CustomResourceDefinition."""
        names: dict[str, Any] = {
            "kind": self.kind.kind,
            "listKind": f"{self.kind.kind}List",
            "plural": self.kind.plural,
            "singular": self.kind.kind.lower(),
        }
        if self.short_names:
            names["shortNames"] = list(self.short_names)
        version: dict[str, Any] = {
            "name": self.kind.version,
            "served": True,
            "storage": True,
            "schema": {"openAPIV3Schema": object_schema(self.kind.type)},
            "subresources": {"status": {}} if self.kind.status_subresource else {},
        }
        if self.columns:
            version["additionalPrinterColumns"] = [column.manifest() for column in self.columns]
        return {
            "apiVersion": "apiextensions.k8s.io/v1",
            "kind": "CustomResourceDefinition",
            "metadata": {"name": self.kind.resource, "annotations": {"helm.sh/resource-policy": "keep"}},
            "spec": {
                "group": self.kind.group,
                "names": names,
                "scope": "Namespaced" if self.kind.namespaced else "Cluster",
                "versions": [version],
            },
        }


_AGE = Column("AGE", ".metadata.creationTimestamp", "date")
_QUEUE = Column("QUEUE", ".spec.queue", priority=1)

DEFINITIONS: tuple[Definition, ...] = (
    Definition(
        kinds.JOB,
        short_names=("vcjob", "vj"),
        columns=(
            Column("STATUS", ".status.state.phase"),
            Column("minAvailable", ".status.minAvailable", "integer"),
            Column("RUNNINGS", ".status.running", "integer"),
            _AGE,
            _QUEUE,
            Column("WHY", ".status.state.message", priority=1),  # Volcano has none; only with -o wide
        ),
    ),
    Definition(
        kinds.CRON_JOB,
        short_names=("cronvcjob", "cronvj"),
        columns=(  # Volcano has none; these are the columns of Kubernetes' CronJob
            Column("SCHEDULE", ".spec.schedule"),
            Column("TIMEZONE", ".spec.timeZone"),
            Column("SUSPEND", ".spec.suspend", "boolean"),
            Column("LAST SCHEDULE", ".status.lastScheduleTime", "date"),
            _AGE,
        ),
    ),
    Definition(
        kinds.JOB_FLOW,
        short_names=("jf",),
        columns=(Column("Status", ".status.state.phase"), Column("Age", ".metadata.creationTimestamp", "date")),
    ),
    Definition(kinds.JOB_TEMPLATE, short_names=("jt",)),
    Definition(kinds.COMMAND),
    Definition(
        kinds.POD_GROUP,
        short_names=("pg", "podgroup-v1beta1"),
        columns=(
            Column("STATUS", ".status.phase"),
            Column("minMember", ".spec.minMember", "integer"),
            Column("RUNNINGS", ".status.running", "integer"),
            _AGE,
            _QUEUE,
        ),
    ),
    Definition(
        kinds.QUEUE,
        short_names=("q", "queue-v1beta1"),
        columns=(  # Volcano has only the parent
            Column("STATE", ".status.state"),
            Column("WEIGHT", ".spec.weight", "integer"),
            Column("PARENT", ".spec.parent"),
            Column("RUNNINGS", ".status.running", "integer"),
        ),
    ),
    Definition(
        kinds.HYPER_NODE,
        short_names=("hn",),
        columns=(
            Column("Tier", ".spec.tier"),
            Column("TierName", ".spec.tierName"),
            Column("NodeCount", ".status.nodeCount", "integer"),
            Column("Age", ".metadata.creationTimestamp", "date"),
        ),
    ),
    Definition(kinds.NUMATOPOLOGY, short_names=("numatopo",)),
    Definition(kinds.NODE_SHARD, short_names=("nsh",), columns=(_AGE,)),
    Definition(kinds.COLOCATION_CONFIGURATION),
)
