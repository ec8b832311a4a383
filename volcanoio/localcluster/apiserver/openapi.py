"""OpenAPI v3 documents, one for each group and version, as kubectl needs them for create, apply and explain.

kubectl looks in `paths` for a PATCH with the kind and a `fieldValidation` parameter, and in `components.schemas` for
what to explain. Strategic merge patch is not named as a media type on purpose: kubectl then takes merge keys from its
own tables.
"""

from __future__ import annotations

from typing import Any

from volcanoio.localcluster.apiserver.api import ApiRequest, ApiResponse
from volcanoio.localcluster.apiserver.builtin_schemas import OBJECT_META, closure, reference, schema_name
from volcanoio.localcluster.apiserver.builtin_types import type_table
from volcanoio.localcluster.apiserver.documents import Document, Documents
from volcanoio.localcluster.apiserver.health import KUBERNETES_VERSION
from volcanoio.localcluster.apiserver.registry import Registry
from volcanoio.localcluster.apiserver.resources import Resource

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
    """The document of the resources of one group and version."""
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
    """The schema's name: the group's parts reversed, version, kind (`sh.volcano.batch.v1alpha1.Job`)."""
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
    """The schema, where embedded objects say what every object has; parts without such are the same."""
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
    """The path of one object, with its variable parts in braces."""
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
