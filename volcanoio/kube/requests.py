"""Requests as values: the verbs of Kubernetes' API as they are sent."""

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
    """One request that can be sent several times."""

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
        """Send the request; `timeout` in seconds. Raises TransportError."""
        return await transport.request(
            self.method,
            self.path,
            query=self.query or None,
            body=self.body,
            content_type=self.content_type,
            timeout=timeout,
        )


class PatchOptions(msgspec.Struct, frozen=True, kw_only=True):
    """Options of a patch; with `uid` or `resource_version`, only an object that matches is patched."""

    subresource: str = ""
    type: PatchType = PatchType.MERGE
    uid: str = ""
    resource_version: str = ""


class DeleteOptions(msgspec.Struct, frozen=True, kw_only=True):
    """Options of a delete; with `uid` or `resource_version`, only an object that matches is deleted.

    `grace` is in seconds, None for the object's own grace period.
    """

    uid: str = ""
    resource_version: str = ""
    grace: int | None = None
    propagation: str = "Background"


PATCH, DELETE = PatchOptions(), DeleteOptions()
"""Default options."""


def get(kind: Kind, namespace: str, name: str) -> Request:
    """Build the request that reads one object, uncached."""
    return Request(method="GET", path=kind.path(namespace, name))


def create(kind: Kind, manifest: Manifest, *, namespace: str = "") -> Request:
    """Build a create, in the object's own namespace unless one is given; adds missing apiVersion and kind."""
    if "kind" not in manifest:
        manifest = {"apiVersion": kind.api_version, "kind": kind.kind, **manifest}
    where = namespace or str(manifest.get("metadata", {}).get("namespace", ""))
    return Request(method="POST", path=kind.path(where), body=msgspec.json.encode(manifest))


def update(kind: Kind, manifest: Manifest) -> Request:
    """Build an update that replaces an object; with its resourceVersion, it is refused with 409 if that has changed."""
    meta = manifest["metadata"]
    return Request(
        method="PUT",
        path=kind.path(meta.get("namespace", ""), meta["name"]),
        body=msgspec.json.encode({"apiVersion": kind.api_version, "kind": kind.kind, **manifest}),
    )


def patch(kind: Kind, namespace: str, name: str, content: Any, options: PatchOptions = PATCH) -> Request:
    """Build a patch of an object or subresource; it is refused with 409 or 422 if a precondition does not hold."""
    return Request(
        method="PATCH",
        path=kind.path(namespace, name, options.subresource),
        body=msgspec.json.encode(_with_preconditions(content, options)),
        content_type=_CONTENT_TYPES[options.type],
    )


def apply(kind: Kind, manifest: Manifest, *, manager: str, force: bool = False) -> Request:
    """Build a server-side apply; without `force`, fields of other managers make it fail with 409."""
    meta = manifest["metadata"]
    return Request(
        method="PATCH",
        path=kind.path(meta.get("namespace", ""), meta["name"]),
        body=msgspec.json.encode(manifest),
        content_type=ContentType.APPLY_PATCH,
        query={"fieldManager": manager, "force": "true" if force else "false"},
    )


def delete(kind: Kind, namespace: str, name: str, options: DeleteOptions = DELETE) -> Request:
    """Build a delete; the server refuses it with 409 if a precondition does not hold."""
    body: Manifest = {"apiVersion": "v1", "kind": "DeleteOptions", "propagationPolicy": options.propagation}
    if preconditions := _preconditions(options):
        body["preconditions"] = preconditions
    if options.grace is not None:
        body["gracePeriodSeconds"] = options.grace
    return Request(method="DELETE", path=kind.path(namespace, name), body=msgspec.json.encode(body))


def _preconditions(options: PatchOptions | DeleteOptions) -> dict[str, str]:
    given = (("uid", options.uid), ("resourceVersion", options.resource_version))
    return {key: value for key, value in given if value}


def _with_preconditions(content: Any, options: PatchOptions) -> Any:
    """Add metadata that must match: a server refuses a changed uid or an old resourceVersion."""
    wanted = _preconditions(options)
    if not wanted:
        return content
    if options.type is PatchType.JSON:
        # "replace" rather than "test": a wrong resourceVersion is then a Conflict, not an invalid patch.
        return [
            {"op": "replace", "path": f"/metadata/{key}", "value": value} for key, value in wanted.items()
        ] + content
    return {**content, "metadata": {**content.get("metadata", {}), **wanted}}
