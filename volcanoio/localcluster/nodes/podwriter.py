"""What a node writes about a pod, as raw bytes over the public API."""

from __future__ import annotations

from typing import Any

import msgspec
import structlog

from volcanoio.kube.transport import ContentType, Response, Transport, TransportError
from volcanoio.model.base import ApiObject, ObjectMeta
from volcanoio.model.kinds import POD

_log = structlog.get_logger(__name__)
_OBJECT = msgspec.json.Decoder(ApiObject)


class Unanswered(Exception):  # noqa: N818 - named for what happened
    """The server did not answer, or asked to be left alone for a while: try again later."""


class PodGone(Exception):  # noqa: N818 - named for what happened
    """There is no pod of that uid any more."""


class PodWriter:
    """The two writes of a kubelet about a pod, both bound to its uid."""

    def __init__(self, transport: Transport) -> None:
        self._transport = transport

    async def status(self, meta: ObjectMeta, status: bytes) -> None:
        """Patch the status (encoded JSON). Conditions of others stay: lists are merged strategically."""
        body = b'{"metadata":{"uid":"%s"},"status":%s}' % (meta.uid.encode(), status)
        await self._send("PATCH", meta, "status", body, ContentType.STRATEGIC_MERGE_PATCH)

    async def remove(self, meta: ObjectMeta) -> None:
        """Take the pod out of the API, now that nothing of it runs any more."""
        options: dict[str, Any] = {
            "apiVersion": "v1",
            "kind": "DeleteOptions",
            "gracePeriodSeconds": 0,
            "preconditions": {"uid": meta.uid},
        }
        await self._send("DELETE", meta, "", msgspec.json.encode(options), ContentType.JSON)

    async def _send(self, method: str, meta: ObjectMeta, subresource: str, body: bytes, content_type: str) -> None:
        path = POD.path(meta.namespace, meta.name, subresource)
        response = await self._request(method, path, body, content_type)
        if response.ok:
            return
        if response.status == 404:
            raise PodGone
        if response.status in (409, 422):  # another uid (of a patch it is Invalid), or a conflict that will pass
            now = await self._request("GET", POD.path(meta.namespace, meta.name), b"", ContentType.JSON)
            if now.status == 404 or (now.ok and _OBJECT.decode(now.body).metadata.uid != meta.uid):
                raise PodGone
        if response.status in (409, 429) or response.status >= 500:
            raise Unanswered(f"HTTP {response.status}")
        _log.error("refused", method=method, path=path, code=response.status, body=response.body[:300])

    async def _request(self, method: str, path: str, body: bytes, content_type: str) -> Response:
        try:
            return await self._transport.request(method, path, body=body, content_type=content_type)
        except TransportError as error:
            raise Unanswered(str(error)) from error
