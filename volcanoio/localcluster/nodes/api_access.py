"""Requests of the fleet to the API server: one list and watch of a kind for all nodes, and writes of pods."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Generic, Protocol, TypeVar

import msgspec
import structlog

from volcanoio.kube.decoding import ObjectDecoder, UndecodableError, WithMeta
from volcanoio.kube.transport import ContentType, Response, StreamRefused, Transport, TransportError
from volcanoio.localcluster.clock import Clock
from volcanoio.localcluster.nodes.devices import Handover
from volcanoio.model.base import ApiObject, ObjectMeta
from volcanoio.model.kinds import NODE, POD, Kind

_log = structlog.get_logger(__name__)
_PAGE = 1000
_AT_A_TIME, _TURNS = 64, 8
"""Watch lines handled before the event loop gets a turn, and the most turns that a batch takes."""
_RETRY = 0.5  # seconds
Watched = TypeVar("Watched", bound=ApiObject)
_Watched_contra = TypeVar("_Watched_contra", bound=ApiObject, contravariant=True)


class WatchSink(Protocol[_Watched_contra]):
    """Receiver of changes, in the order of the API server's revisions."""

    def seen(self, one: _Watched_contra) -> None:
        """Handle an added or changed object."""
        ...

    def gone(self, uid: str) -> None:
        """Handle the deletion of the object with that uid."""
        ...

    def listed(self, uids: frozenset[str]) -> None:
        """Handle a complete list: objects that are not in it are deleted."""
        ...


class _Expired(Exception):  # noqa: N818 - named for what happened
    """The watch cannot be continued from its last revision; list again."""


@dataclass(frozen=True, slots=True)
class WatchedKind(Generic[Watched]):
    """A kind, its Struct, and the query that selects its objects."""

    kind: Kind
    type: type[Watched]
    query: Mapping[str, str]


class Reflector(Generic[Watched]):
    """Client that lists and watches a kind for a sink.

    Survives broken connections and expired revisions.
    """

    def __init__(
        self,
        transport: Transport,
        clock: Clock,
        watched: WatchedKind[Watched],
        sink: WatchSink[Watched],
    ) -> None:
        self._transport = transport
        self._clock = clock
        self._kind = watched.kind
        self._type = watched.type
        self._query = dict(watched.query)
        self._sink = sink
        self._decoder = ObjectDecoder(watched.kind)
        self._revision = ""

    async def run(self) -> None:
        """List and watch until cancelled."""
        while True:
            try:
                if not self._revision:
                    self._revision = await self._list()
                if not await self._watch():
                    await self._pause()
            except _Expired:
                self._revision = ""
            except (TransportError, StreamRefused, msgspec.DecodeError) as error:
                _log.warning("a watch of the nodes broke", kind=str(self._kind), error=str(error))
                if isinstance(error, msgspec.DecodeError):
                    self._revision = ""
                await self._pause()

    async def _pause(self) -> None:
        await self._clock.sleep(_RETRY)

    async def _list(self) -> str:
        uids: set[str] = set()
        query = {**self._query, "limit": str(_PAGE)}
        while True:
            response = await self._transport.request("GET", self._kind.path(), query=query)
            if not response.ok:
                raise StreamRefused(response)
            meta, found, faults = self._decoder.page(response.body)
            for one in found:
                if isinstance(one, self._type):
                    self._sink.seen(one)
                    uids.add(one.metadata.uid)
            for fault in faults:
                _skip(fault)
            if not meta.continue_:
                self._sink.listed(frozenset(uids))
                return meta.resource_version
            query = {**query, "continue": meta.continue_}

    async def _watch(self) -> bool:
        """Follow one watch to its end; returns whether it delivered any change."""
        query = {**self._query, "watch": "true", "allowWatchBookmarks": "true", "resourceVersion": self._revision}
        lively = False
        try:
            async with self._transport.stream(self._kind.path(), query=query) as batches:
                async for batch in batches:
                    lively = True
                    step = max(_AT_A_TIME, len(batch) // _TURNS)
                    for number, line in enumerate(batch, 1):
                        self._revision = self._handle(line)
                        if number % step == 0:
                            await asyncio.sleep(0)
        except StreamRefused as refused:
            if refused.response.status == 410:
                raise _Expired from None
            raise
        return lively

    def _handle(self, data: bytes) -> str:
        """Pass one line to the sink; returns the resourceVersion from which to continue."""
        try:
            line = self._decoder.line(data)
        except UndecodableError as error:
            _skip(error)
            return self._revision
        one = line.object
        if isinstance(one, self._type):
            if line.type == "DELETED":
                self._sink.gone(one.metadata.uid)
            else:
                self._sink.seen(one)
            return one.metadata.resource_version
        if line.type == "BOOKMARK" and isinstance(one, msgspec.Raw):
            return msgspec.json.decode(one, type=WithMeta).metadata.resource_version
        raise _Expired


def _skip(error: UndecodableError) -> None:
    """Skip an invalid object, so that the nodes still observe the others."""
    _log.error("an object is skipped because it cannot be read", error=str(error))


_OBJECT = msgspec.json.Decoder(ApiObject)


class NoResponse(Exception):  # noqa: N818 - named for what happened
    """The server did not answer, or requested a back-off; retry later."""


class PodGone(Exception):  # noqa: N818 - named for what happened
    """The pod of that uid no longer exists."""


class PodWriter:
    """The writes of a kubelet and its device plugins about a pod, bound to its uid."""

    def __init__(self, transport: Transport) -> None:
        self._transport = transport

    async def status(self, meta: ObjectMeta, status: bytes) -> None:
        """Patch the status (encoded JSON).

        Conditions of others stay: lists are merged strategically.
        """
        body = b'{"metadata":{"uid":"%s"},"status":%s}' % (meta.uid.encode(), status)
        await self._send("PATCH", meta, "status", body, ContentType.STRATEGIC_MERGE_PATCH)

    async def hand_over(self, meta: ObjectMeta, node: str, handover: Handover) -> None:
        """Write that devices were handed over, and unlock the node."""
        if handover.pod:
            body = msgspec.json.encode({"metadata": {"uid": meta.uid, "annotations": handover.pod}})
            await self._send("PATCH", meta, "", body, ContentType.MERGE_PATCH)
        if handover.node:
            body = msgspec.json.encode({"metadata": {"annotations": handover.node}})
            await self._request("PATCH", NODE.path(name=node), body, ContentType.MERGE_PATCH)

    async def remove(self, meta: ObjectMeta) -> None:
        """Delete the pod from the API, now that all its containers have ended."""
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
        if response.status in (403, 409, 429) or response.status >= 500:  # a starting API server forbids everything
            raise NoResponse(f"HTTP {response.status}")
        _log.error("refused", method=method, path=path, code=response.status, body=response.body[:300])

    async def _request(self, method: str, path: str, body: bytes, content_type: str) -> Response:
        try:
            return await self._transport.request(method, path, body=body, content_type=content_type)
        except TransportError as error:
            raise NoResponse(str(error)) from error
