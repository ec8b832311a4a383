"""`Client`: generic verbs over kinds, for rare calls. Continuous work uses informers and executors."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import msgspec

from volcanoio.kube import requests
from volcanoio.kube.decoding import ObjectDecoder
from volcanoio.kube.errors import Status, check, error_from_status, error_of
from volcanoio.kube.requests import DELETE, PATCH, DeleteOptions, PatchOptions, Request
from volcanoio.kube.transport import Response, StreamRefused, Transport
from volcanoio.model import kinds
from volcanoio.model.base import ApiObject, Manifest
from volcanoio.model.kinds import Kind, owner_reference


class WatchEvent(msgspec.Struct, frozen=True):
    """One change of a watch: `type` is ADDED, MODIFIED or DELETED."""

    type: str
    object: ApiObject


class Client:
    """Reads and writes objects; raises ApiError, and TransportError without a response. `timeout` in seconds."""

    def __init__(self, transport: Transport, *, timeout: float = 30.0) -> None:
        self.transport = transport
        self._timeout = timeout
        self._decoders: dict[Kind, ObjectDecoder] = {}

    async def get(self, kind: Kind, name: str, namespace: str = "") -> ApiObject:
        """Read one object into its Struct, uncached; raises NotFound."""
        return self._decoder(kind).one((await self._send(requests.get(kind, namespace, name))).body)

    async def get_raw(self, kind: Kind, name: str, namespace: str = "") -> Manifest:
        """Read one object with every field; raises NotFound."""
        return _manifest(await self._send(requests.get(kind, namespace, name)))

    async def list(
        self, kind: Kind, namespace: str = "", *, label_selector: str = "", field_selector: str = "", limit: int = 500
    ) -> list[ApiObject]:
        """List all objects of a namespace (of all namespaces for ""), in pages of `limit`."""
        decoder, result = self._decoder(kind), list[ApiObject]()
        async for page in self._pages(kind, namespace, label_selector, field_selector, limit):
            _, objects, faults = decoder.page(page)
            if faults:
                raise faults[0]
            result += objects
        return result

    async def list_raw(
        self, kind: Kind, namespace: str = "", *, label_selector: str = "", field_selector: str = "", limit: int = 500
    ) -> tuple[Manifest, ...]:
        """Read a list, in pages of `limit`, with every field of each object."""
        selectors = {"label_selector": label_selector, "field_selector": field_selector}
        return tuple([one async for one in self.scan(kind, namespace, limit=limit, **selectors)])

    async def scan(
        self, kind: Kind, namespace: str = "", *, label_selector: str = "", field_selector: str = "", limit: int = 500
    ) -> AsyncIterator[Manifest]:
        """Yield the objects of a list with every field; a page of `limit` is read once it is needed."""
        async for page in self._pages(kind, namespace, label_selector, field_selector, limit):
            for one in msgspec.json.decode(page).get("items") or ():
                yield one

    async def create(self, kind: Kind, manifest: Manifest, *, namespace: str = "") -> Manifest:
        """Create an object and return the stored one; raises AlreadyExists, Invalid, Forbidden."""
        return _manifest(await self._send(requests.create(kind, manifest, namespace=namespace)))

    async def patch(
        self, kind: Kind, name: str, patch: Any, namespace: str = "", options: PatchOptions = PATCH
    ) -> Manifest:
        """Patch an object and return the stored one; raises Conflict if uid or resourceVersion do not match."""
        return _manifest(await self._send(requests.patch(kind, namespace, name, patch, options)))

    async def apply(self, kind: Kind, manifest: Manifest, *, manager: str, force: bool = False) -> Manifest:
        """Apply an object on the server and return the stored one; raises Conflict for fields of other managers."""
        return _manifest(await self._send(requests.apply(kind, manifest, manager=manager, force=force)))

    async def delete(self, kind: Kind, name: str, namespace: str = "", options: DeleteOptions = DELETE) -> Manifest:
        """Delete an object; returns the object while it terminates, else a Status. Raises NotFound, Conflict."""
        return _manifest(await self._send(requests.delete(kind, namespace, name, options)))

    async def command(self, kind: Kind, target: ApiObject, action: str, namespace: str) -> None:
        """Create a Command that requests `action` on a Job or Queue; the controller deletes it once it has read it."""
        meta = target.metadata
        reference = owner_reference(kind, target)
        owners = [reference] if not kind.namespaced or namespace == meta.namespace else []
        await self.create(
            kinds.COMMAND,
            {
                "apiVersion": kinds.COMMAND.api_version,
                "kind": "Command",
                "metadata": {
                    "generateName": f"{meta.name}-{action.lower()}-",
                    "namespace": namespace,
                    "ownerReferences": owners,
                },
                "action": action,
                "target": reference,
            },
        )

    @asynccontextmanager
    async def watch(  # noqa: PLR0913 - the parameters of the request
        self,
        kind: Kind,
        namespace: str = "",
        *,
        resource_version: str = "",
        label_selector: str = "",
        field_selector: str = "",
        timeout: int = 300,  # noqa: ASYNC109 - it is the server that ends the watch
    ) -> AsyncIterator[AsyncIterator[WatchEvent]]:
        """Watch changes after `resource_version` until the server ends the watch; "" starts with all objects as ADDED.

        Raises Expired if the version is too old. For a lasting cache use `volcanoio.kube.informer`.
        """
        query = {
            "watch": "true",
            "resourceVersion": resource_version,
            "labelSelector": label_selector,
            "fieldSelector": field_selector,
            "timeoutSeconds": str(timeout),
        }
        try:
            async with self.transport.stream(
                kind.path(namespace), query={key: value for key, value in query.items() if value}
            ) as stream:
                yield _changes(self._decoder(kind), stream)
        except StreamRefused as refused:
            raise error_of(refused.response) from refused

    async def _pages(
        self, kind: Kind, namespace: str, label_selector: str, field_selector: str, limit: int
    ) -> AsyncIterator[bytes]:
        query = {"limit": str(limit)}
        if label_selector:
            query["labelSelector"] = label_selector
        if field_selector:
            query["fieldSelector"] = field_selector
        decoder = msgspec.json.Decoder(_Continued)
        while True:
            page = await self._send(Request(method="GET", path=kind.path(namespace), query=query))
            yield page.body
            token = decoder.decode(page.body).metadata.get("continue")
            if not token:
                return
            query = {**query, "continue": token}

    async def _send(self, request: Request) -> Response:
        return check(await request.send(self.transport, timeout=self._timeout))

    def _decoder(self, kind: Kind) -> ObjectDecoder:
        if kind not in self._decoders:
            self._decoders[kind] = ObjectDecoder(kind)
        return self._decoders[kind]


class _Continued(msgspec.Struct, frozen=True):
    metadata: dict[str, Any] = {}


def _manifest(response: Response) -> Manifest:
    manifest: Manifest = msgspec.json.decode(response.body)
    return manifest


async def _changes(decoder: ObjectDecoder, stream: AsyncIterator[list[bytes]]) -> AsyncIterator[WatchEvent]:
    async for batch in stream:
        for data in filter(None, batch):
            line = decoder.line(data)
            if isinstance(line.object, ApiObject):
                yield WatchEvent(line.type, line.object)
            elif line.type == "ERROR":
                raise error_from_status(msgspec.json.decode(line.object, type=Status))
