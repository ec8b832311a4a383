"""Discovery: the classic lists of groups and resources, and aggregated discovery.

Formats: Kubernetes' `meta/v1` APIGroupList and APIResourceList, `apidiscovery.k8s.io/v2` (and v2beta1, the same
shape). `Documents` encodes what is built from the served resources once per revision, with an ETag; OpenAPI uses it
too.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

import msgspec

from volcanoio.localcluster.apiserver.apimachinery.request import ApiRequest, ApiResponse
from volcanoio.localcluster.apiserver.apimachinery.resources import Resource
from volcanoio.localcluster.apiserver.apimachinery.served_resources import Registry


@dataclass(frozen=True, slots=True)
class Document:
    """An encoded document and the hash of its bytes."""

    body: bytes
    digest: str

    def answer(
        self, request: ApiRequest, content_type: str = "application/json", headers: Mapping[str, str] | None = None
    ) -> ApiResponse:
        """Return the document, or 304 when the client's copy is current."""
        etag = f'"{self.digest}"'
        sent = {"ETag": etag, "Vary": "Accept", "Cache-Control": "no-cache, private", **(headers or {})}
        known = [tag.strip().removeprefix("W/") for tag in request.headers.get("if-none-match", "").split(",")]
        if etag in known:
            return ApiResponse(304, b"", sent, content_type)
        return ApiResponse(200, self.body, sent, content_type)


class Documents:
    """Cached documents by key, dropped when the registry changes.

    Equal content has an equal hash.
    """

    def __init__(self, registry: Registry) -> None:
        self._registry = registry
        self._revision = registry.revision
        self._cache: dict[object, Document] = {}

    def get(self, key: object, build: Callable[[], Any]) -> Document:
        """Return the document under `key`.

        `build` returns its bytes or a value for JSON, once per revision.
        """
        if self._revision != self._registry.revision:
            self._cache.clear()
            self._revision = self._registry.revision
        document = self._cache.get(key)
        if document is None:
            built = build()
            body = built if isinstance(built, bytes) else msgspec.json.encode(built)
            document = self._cache[key] = Document(body, hashlib.sha256(body).hexdigest().upper()[:32])
        return document


_AGGREGATED = ("v2", "v2beta1")
_VERSION = re.compile(r"v(\d+)(?:(alpha|beta)(\d+))?")
_STAGE = {None: 2, "beta": 1, "alpha": 0}
_LAST = "scheduling.k8s.io"
"""Comes after Volcano's groups: for `kubectl get podgroup` kubectl takes the first group with that resource, which must
be Volcano's, as on a cluster where the beta API of native groups is off.
"""
_STATIC_PATHS = ("/api", "/apis", "/healthz", "/livez", "/openapi/v3", "/readyz", "/version")


class _Subresource(NamedTuple):
    """Entry of a subresource; an empty kind means that of the resource itself."""

    verbs: tuple[str, ...]
    kind: str = ""
    group: str = ""
    version: str = ""


_READ_WRITE = ("get", "patch", "update")
_SUBRESOURCES = {
    "status": _Subresource(_READ_WRITE),
    "scale": _Subresource(_READ_WRITE, "Scale", "autoscaling", "v1"),
    "binding": _Subresource(("create",), "Binding", "", "v1"),
    "eviction": _Subresource(("create",), "Eviction", "policy", "v1"),
    "log": _Subresource(("get",)),
    "exec": _Subresource(("create", "get"), "PodExecOptions", "", "v1"),
    "attach": _Subresource(("create", "get"), "PodAttachOptions", "", "v1"),
    "portforward": _Subresource(("create", "get"), "PodPortForwardOptions", "", "v1"),
    "finalize": _Subresource(("update",)),
    "token": _Subresource(("create",), "TokenRequest", "authentication.k8s.io", "v1"),
}


class Discovery:
    """The routes `/`, `/api`, `/apis` and the two levels below them."""

    def __init__(self, registry: Registry) -> None:
        self._registry = registry
        self._documents = Documents(registry)

    async def __call__(self, request: ApiRequest) -> ApiResponse | None:
        """Answer a discovery request; None for any other."""
        if request.method != "GET":
            return None
        match request.path.strip("/").split("/"):
            case [""]:
                return self._documents.get("/", self._root).answer(request)
            case ["api" | "apis" as prefix]:
                return self._groups(request, prefix)
            case ["apis", group] if self._versions(group):
                return self._documents.get(group, lambda: self._group(group, "APIGroup")).answer(request)
            case ["api", version] if version in self._versions(""):
                return self._resources(request, "", version)
            case ["apis", group, version] if group and version in self._versions(group):
                return self._resources(request, group, version)
        return None

    def _groups(self, request: ApiRequest, prefix: str) -> ApiResponse:
        aggregated = _wanted_form(request.headers.get("accept", ""))
        if aggregated:
            document = self._documents.get((prefix, aggregated), lambda: self._aggregate(prefix, aggregated))
            return document.answer(
                request, f"application/json;g=apidiscovery.k8s.io;v={aggregated};as=APIGroupDiscoveryList"
            )
        build = self._core_versions if prefix == "api" else self._group_list
        return self._documents.get(prefix, build).answer(request)

    def _resources(self, request: ApiRequest, group: str, version: str) -> ApiResponse:
        document = self._documents.get((group, version), lambda: self._resource_list(group, version))
        return document.answer(request)

    def _names(self) -> list[str]:
        """Return all named groups: built-ins in their order, then custom ones, then `_LAST`."""
        names = dict.fromkeys(one.group for one in self._registry.resources() if one.group)
        return sorted(names, key=_LAST.__eq__)

    def _versions(self, group: str) -> list[str]:
        """Return a group's versions, the preferred one first; empty when it is not served."""
        found = {one.version for one in self._registry.resources() if one.group == group}
        return sorted(found, key=version_rank, reverse=True)

    def _served(self, group: str, version: str) -> Iterator[Resource]:
        return (one for one in self._registry.resources() if one.group == group and one.version == version)

    def _root(self) -> dict[str, Any]:
        groups = [(group, version) for group in self._names() for version in self._versions(group)]
        paths = {*_STATIC_PATHS, "/api/v1", *(f"/apis/{group}" for group, _ in groups)}
        return {"paths": sorted(paths | {f"/apis/{group}/{version}" for group, version in groups})}

    def _core_versions(self) -> dict[str, Any]:
        return {"kind": "APIVersions", "versions": self._versions(""), "serverAddressByClientCIDRs": []}

    def _group_list(self) -> dict[str, Any]:
        groups = [self._group(name) for name in self._names()]
        return {"kind": "APIGroupList", "apiVersion": "v1", "groups": groups}

    def _group(self, name: str, kind: str = "") -> dict[str, Any]:
        versions = [{"groupVersion": f"{name}/{version}", "version": version} for version in self._versions(name)]
        head = {"kind": kind, "apiVersion": "v1"} if kind else {}
        return {**head, "name": name, "versions": versions, "preferredVersion": versions[0]}

    def _resource_list(self, group: str, version: str) -> dict[str, Any]:
        rows: list[dict[str, Any]] = []
        for one in self._served(group, version):
            row = {
                "name": one.plural,
                "singularName": one.singular,
                "namespaced": one.namespaced,
                "kind": one.kind,
                "verbs": sorted(one.verbs),
            }
            rows.append(row | _names_of(one))
            rows += [_subresource_row(one, name) for name in sorted(one.subresources)]
        group_version = f"{group}/{version}" if group else version
        return {"kind": "APIResourceList", "apiVersion": "v1", "groupVersion": group_version, "resources": rows}

    def _aggregate(self, prefix: str, form: str) -> dict[str, Any]:
        groups = [""] if prefix == "api" else self._names()
        items = [
            {
                "metadata": {"name": group} if group else {},
                "versions": [
                    {
                        "version": version,
                        "resources": [_discovered(one) for one in self._served(group, version)],
                        "freshness": "Current",
                    }
                    for version in self._versions(group)
                ],
            }
            for group in groups
        ]
        return {
            "kind": "APIGroupDiscoveryList",
            "apiVersion": f"apidiscovery.k8s.io/{form}",
            "metadata": {},
            "items": items,
        }


def version_rank(version: str) -> tuple[int, int, int, str]:
    """Return the sort key of a version, least preferred first.

    General availability over beta over alpha, then by number.
    """
    match = _VERSION.fullmatch(version)
    if match is None:
        return (-1, 0, 0, version)
    major, stage, minor = match.groups()
    return (_STAGE[stage], int(major), int(minor or 0), version)


def _wanted_form(accept: str) -> str:
    """Return the version of aggregated discovery that the client prefers; empty for plain JSON."""
    for media in accept.split(","):
        kind, *parameters = (part.strip() for part in media.split(";"))
        given = dict(parameter.partition("=")[::2] for parameter in parameters)
        if given.get("g") == "apidiscovery.k8s.io" and given.get("as") == "APIGroupDiscoveryList":
            if given.get("v") in _AGGREGATED:
                return given["v"]
        elif kind in {"application/json", "*/*", "application/*"}:
            return ""
    return ""


def _names_of(one: Resource) -> dict[str, list[str]]:
    names = {"shortNames": list(one.short_names), "categories": list(one.categories)}
    return {key: value for key, value in names.items() if value}


def _subresource_row(one: Resource, name: str) -> dict[str, Any]:
    listed = _SUBRESOURCES[name]
    row: dict[str, Any] = {
        "name": f"{one.plural}/{name}",
        "singularName": "",
        "namespaced": one.namespaced,
        "kind": listed.kind or one.kind,
        "verbs": list(listed.verbs),
    }
    if listed.kind:
        row |= {"group": listed.group, "version": listed.version}
    return row


def _discovered(one: Resource) -> dict[str, Any]:
    entry: dict[str, Any] = {
        "resource": one.plural,
        "responseKind": {"group": one.group, "version": one.version, "kind": one.kind},
        "scope": "Namespaced" if one.namespaced else "Cluster",
        "singularResource": one.singular,
        "verbs": sorted(one.verbs),
    }
    entry |= _names_of(one)
    if one.subresources:
        entry["subresources"] = [_discovered_subresource(one, name) for name in sorted(one.subresources)]
    return entry


def _discovered_subresource(one: Resource, name: str) -> dict[str, Any]:
    listed = _SUBRESOURCES[name]
    kind = (
        {"group": listed.group, "version": listed.version, "kind": listed.kind}
        if listed.kind
        else {"group": one.group, "version": one.version, "kind": one.kind}
    )
    return {"subresource": name, "responseKind": kind, "verbs": list(listed.verbs)}
