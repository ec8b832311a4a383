"""OpenAPI v3 documents, one for each group and version, as kubectl needs them for create, apply and explain.

kubectl looks in `paths` for a PATCH with the kind and a `fieldValidation` parameter, and in `components.schemas` for
what to explain. The media type of strategic merge patch is left out on purpose: kubectl then takes merge keys from its
own tables. Schemas of the built-in kinds come from the generated table of their types.
"""

from __future__ import annotations

import re
from typing import Any

from volcanoio.localcluster.apiserver.apimachinery.request import ApiRequest, ApiResponse
from volcanoio.localcluster.apiserver.apimachinery.resources import Resource
from volcanoio.localcluster.apiserver.apimachinery.served_resources import Registry
from volcanoio.localcluster.apiserver.http.health import KUBERNETES_VERSION
from volcanoio.localcluster.apiserver.openapi.discovery import Document, Documents
from volcanoio.localcluster.apiserver.schema.builtin_types import type_table

OBJECT_META = "V1ObjectMeta"
_MODEL = re.compile(r"([A-Z][a-z]+)?(V\d+(?:alpha\d+|beta\d+)?)([A-Z]\w*)")
_SCALARS: dict[str, dict[str, Any]] = {
    "str": {"type": "string"},
    "int": {"type": "integer"},
    "float": {"type": "number"},
    "bool": {"type": "boolean"},
    "any": {"x-kubernetes-preserve-unknown-fields": True},
}
_NAMED: dict[str, tuple[str, dict[str, Any]]] = {
    "quantity": (
        "io.k8s.apimachinery.pkg.api.resource.Quantity",
        {"oneOf": [{"type": "string"}, {"type": "number"}]},
    ),
    "intorstring": (
        "io.k8s.apimachinery.pkg.util.intstr.IntOrString",
        {"oneOf": [{"type": "integer"}, {"type": "string"}], "format": "int-or-string"},
    ),
}
"""Scalars that have a schema of their own, as in Kubernetes' documents: kubectl explain shows its name."""


def closure(types: list[str]) -> dict[str, Any]:
    """Return the schemas, by name, of the given types and of all types that they refer to."""
    table = type_table()
    found: dict[str, Any] = {}
    waiting = list(types)
    while waiting:
        type_ = waiting.pop()
        name = schema_name(type_)
        if name not in found:
            fields = table.types[type_]
            found[name] = {"type": "object", "properties": {field: _schema(kind) for field, kind in fields.items()}}
            if table.required.get(type_):
                found[name]["required"] = table.required[type_]
            inner = {_innermost(kind) for kind in fields.values()}
            found |= dict(_NAMED[kind] for kind in inner & _NAMED.keys())
            waiting += inner - _SCALARS.keys() - _NAMED.keys()
    return dict(sorted(found.items()))


def schema_name(type_: str) -> str:
    """Return the schema name of a type: `V1Pod` is `io.k8s.v1.Pod`.

    `CoreV1Event` is `io.k8s.core.v1.Event`.
    """
    match = _MODEL.fullmatch(type_)
    if match is None:
        return f"io.k8s.{type_}"
    group, version, kind = match.groups()
    return ".".join(part for part in ("io.k8s", (group or "").lower(), version.lower(), kind) if part)


def reference(name: str) -> dict[str, str]:
    """Return a reference to a schema of the same document."""
    return {"$ref": f"#/components/schemas/{name}"}


def _innermost(kind: str) -> str:
    return kind.rpartition("[")[2].rstrip("]")


def _schema(kind: str) -> dict[str, Any]:
    if kind.startswith("list["):
        return {"type": "array", "items": _schema(kind[5:-1])}
    if kind.startswith("map["):
        return {"type": "object", "additionalProperties": _schema(kind[4:-1])}
    if kind in _NAMED:
        return reference(_NAMED[kind][0])
    return dict(_SCALARS[kind] if kind in _SCALARS else reference(schema_name(kind)))


_ROOT = "/openapi/v3"
WRITE_PARAMETERS = ("dryRun", "fieldManager", "fieldValidation")
"""Query parameters of every write."""
_COLLECTION = (("get", "list"), ("post", "create"), ("delete", "deletecollection"))
_ITEM = (("get", "get"), ("put", "update"), ("patch", "patch"), ("delete", "delete"))


class OpenApi:
    """The routes `/openapi/v3` and `/openapi/v3/<api/VERSION or apis/GROUP/VERSION>`."""

    def __init__(self, registry: Registry) -> None:
        self._registry = registry
        self._documents = Documents(registry)

    async def __call__(self, request: ApiRequest) -> ApiResponse | None:
        """Answer a request for a document; None for any other."""
        if request.method != "GET" or not request.path.startswith(_ROOT):
            return None
        path = request.path.rstrip("/")
        if path == _ROOT:
            return self._documents.get(_ROOT, self._root).answer(request)
        resources = self._groups().get(path.removeprefix(_ROOT + "/"))
        if not resources:
            return None
        document = self._document(path.removeprefix(_ROOT + "/"), resources)
        # A URL with the hash of its content never changes its content.
        lasting = {"Cache-Control": "public, immutable"} if request.first("hash") == document.digest else None
        return document.answer(request, headers=lasting)

    def _groups(self) -> dict[str, list[Resource]]:
        groups: dict[str, list[Resource]] = {}
        for one in self._registry.resources():
            groups.setdefault(_prefix(one), []).append(one)
        return groups

    def _root(self) -> dict[str, Any]:
        return {
            "paths": {
                prefix: {"serverRelativeURL": f"{_ROOT}/{prefix}?hash={self._document(prefix, resources).digest}"}
                for prefix, resources in sorted(self._groups().items())
            }
        }

    def _document(self, prefix: str, resources: list[Resource]) -> Document:
        return self._documents.get(prefix, lambda: build(resources))


def build(resources: list[Resource]) -> dict[str, Any]:
    """Build the document of the resources of one group and version."""
    builtin = {one.plural: type_table().resources[one.name] for one in resources if not one.custom}
    schemas = closure([OBJECT_META, *builtin.values()])
    paths: dict[str, Any] = {}
    for one in resources:
        if one.custom:
            name = custom_schema_name(one)
            schemas[name] = _custom_schema(one, one.custom.schema)
        else:
            name = schema_name(builtin[one.plural])
        schemas[name]["x-kubernetes-group-version-kind"] = [_kind(one)]
        paths |= _paths(one, name)
    return {
        "openapi": "3.0.0",
        "info": {"title": "Kubernetes", "version": "v{}.{}.{}".format(*KUBERNETES_VERSION)},
        "paths": paths,
        "components": {"schemas": schemas},
    }


def custom_schema_name(one: Resource) -> str:
    """Return the name of a custom schema: reversed group, version, kind.

    For example `sh.volcano.batch.v1alpha1.Job`.
    """
    return ".".join([*reversed(one.group.split(".")), one.version, one.kind])


def _custom_schema(one: Resource, schema: dict[str, Any]) -> dict[str, Any]:
    fixed: dict[str, Any] = {
        "apiVersion": {"type": "string", "description": f"Always {one.api_version}."},
        "kind": {"type": "string", "description": f"Always {one.kind}."},
        "metadata": {"description": "Metadata as of every object.", "allOf": [reference(schema_name(OBJECT_META))]},
    }
    whole: dict[str, Any] = with_embedded_meta(schema)
    return {**whole, "type": "object", "properties": {**(whole.get("properties") or {}), **fixed}}


def with_embedded_meta(schema: Any) -> Any:
    """Return the schema with the fields of every object added to embedded ones.

    Other parts are shared.
    """
    if not isinstance(schema, dict):
        return schema
    changed: dict[str, Any] = {}
    for word in ("items", "additionalProperties"):
        if word in schema and (inner := with_embedded_meta(schema[word])) is not schema[word]:
            changed[word] = inner
    properties: dict[str, Any] = schema.get("properties") or {}
    fields = {name: with_embedded_meta(one) for name, one in properties.items()}
    if any(fields[name] is not one for name, one in properties.items()):
        changed["properties"] = fields
    if schema.get("x-kubernetes-embedded-resource"):
        meta = {"allOf": [reference(schema_name(OBJECT_META))]}
        changed["properties"] = {**fields, **_EMBEDDED_META, "metadata": meta}
        changed["required"] = sorted({*(schema.get("required") or ()), "apiVersion", "kind"})
    return {**schema, **changed} if changed else schema


_EMBEDDED_META = {"apiVersion": {"type": "string"}, "kind": {"type": "string"}}


def _prefix(one: Resource) -> str:
    return f"apis/{one.group}/{one.version}" if one.group else f"api/{one.version}"


def _kind(one: Resource) -> dict[str, str]:
    return {"group": one.group, "version": one.version, "kind": one.kind}


def item_path(one: Resource) -> str:
    """Return the path of one object, with its variable parts in braces."""
    place = "namespaces/{namespace}/" if one.namespaced else ""
    return f"/{_prefix(one)}/{place}{one.plural}/{{name}}"


def _paths(one: Resource, schema: str) -> dict[str, Any]:
    item = item_path(one)
    paths = {item.removesuffix("/{name}"): _operations(one, schema, _COLLECTION)}
    operations = _operations(one, schema, _ITEM)
    return paths | {item: operations} if operations else paths


def _operations(one: Resource, schema: str, rows: tuple[tuple[str, str], ...]) -> dict[str, Any]:
    return {method: _operation(one, schema, method, verb) for method, verb in rows if verb in one.verbs}


def _operation(one: Resource, schema: str, method: str, verb: str) -> dict[str, Any]:
    body = {"application/json": {"schema": reference(schema)}}
    operation: dict[str, Any] = {
        "operationId": f"{verb}{one.kind}",
        "responses": {"200": {"description": "OK", "content": body}},
        "x-kubernetes-action": method if verb in {"get", "patch", "delete"} else verb,
        "x-kubernetes-group-version-kind": _kind(one),
    }
    if method in {"post", "put", "patch"}:
        operation["parameters"] = [
            {"name": name, "in": "query", "schema": {"type": "string", "uniqueItems": True}}
            for name in WRITE_PARAMETERS
        ]
        media = ("application/merge-patch+json", "application/json-patch+json") if method == "patch" else tuple(body)
        operation["requestBody"] = {"content": {one_type: {"schema": reference(schema)} for one_type in media}}
    return operation
