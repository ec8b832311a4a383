"""Requests as values: what the verbs of Kubernetes' API look like on the wire."""

from __future__ import annotations

from typing import Any

import msgspec

from volcanoio.framework.effects import PatchType
from volcanoio.kube.transport import ContentType, Response, Transport
from volcanoio.model.base import Manifest
from volcanoio.model.kinds import Kind

_CONTENT_TYPES = {
    PatchType.MERGE: ContentType.MERGE_PATCH,
    PatchType.JSON: ContentType.JSON_PATCH,
    PatchType.STRATEGIC: ContentType.STRATEGIC_MERGE_PATCH,
}


class Request(msgspec.Struct, frozen=True, kw_only=True):
    """One request, ready to be sent (again)."""

    method: str
    path: str
    body: bytes = b""
    content_type: str = ContentType.JSON
    query: dict[str, str] = {}

    async def send(
        self,
        transport: Transport,
        *,
        timeout: float | None = None,  # noqa: ASYNC109 - handed to the server, too
    ) -> Response:
        """Send it; `timeout` in seconds. Raises TransportError."""
        return await transport.request(
            self.method,
            self.path,
            query=self.query or None,
            body=self.body,
            content_type=self.content_type,
            timeout=timeout,
        )


def get(kind: Kind, namespace: str, name: str) -> Request:
    """Read one object, uncached."""
    return Request(method="GET", path=kind.path(namespace, name))


def create(kind: Kind, manifest: Manifest, *, namespace: str = "") -> Request:
    """Create an object, in its own namespace unless one is given. apiVersion and kind are added where missing."""
    if "kind" not in manifest:
        manifest = {"apiVersion": kind.api_version, "kind": kind.kind, **manifest}
    where = namespace or str(manifest.get("metadata", {}).get("namespace", ""))
    return Request(method="POST", path=kind.path(where), body=msgspec.json.encode(manifest))


def patch(
    kind: Kind,
    namespace: str,
    name: str,
    content: Any,
    *,
    subresource: str = "",
    type_: PatchType = PatchType.MERGE,
    uid: str = "",
    resource_version: str = "",
) -> Request:
    """Patch an object or subresource; it is refused with 409 or 422 if uid or resourceVersion are others."""
    return Request(
        method="PATCH",
        path=kind.path(namespace, name, subresource),
        body=msgspec.json.encode(_with_preconditions(content, type_, uid, resource_version)),
        content_type=_CONTENT_TYPES[type_],
    )


def delete(
    kind: Kind,
    namespace: str,
    name: str,
    *,
    uid: str = "",
    resource_version: str = "",
    grace: int | None = None,
    propagation: str = "Background",
) -> Request:
    """Delete an object, of that uid and version where they are given. `grace` in seconds, None for the object's own."""
    options: Manifest = {"apiVersion": "v1", "kind": "DeleteOptions", "propagationPolicy": propagation}
    if preconditions := {key: value for key, value in (("uid", uid), ("resourceVersion", resource_version)) if value}:
        options["preconditions"] = preconditions
    if grace is not None:
        options["gracePeriodSeconds"] = grace
    return Request(method="DELETE", path=kind.path(namespace, name), body=msgspec.json.encode(options))


def _with_preconditions(content: Any, type_: PatchType, uid: str, resource_version: str) -> Any:
    """The patch with metadata that must match: a server refuses a change of uid or an old resourceVersion."""
    wanted = {key: value for key, value in (("uid", uid), ("resourceVersion", resource_version)) if value}
    if not wanted:
        return content
    if type_ is PatchType.JSON:
        # "replace" rather than "test": a wrong resourceVersion is then the usual Conflict, not an invalid patch.
        return [
            {"op": "replace", "path": f"/metadata/{key}", "value": value} for key, value in wanted.items()
        ] + content
    return {**content, "metadata": {**content.get("metadata", {}), **wanted}}
