"""The pods bound to any node: one list and one watch for the whole fleet."""

from __future__ import annotations

from typing import Protocol

import msgspec
import structlog

from volcanoio.kube.decoding import ObjectDecoder, UndecodableError, WithMeta
from volcanoio.kube.transport import StreamRefused, Transport, TransportError
from volcanoio.localcluster.clock import Clock
from volcanoio.model.core import Pod
from volcanoio.model.kinds import POD

_log = structlog.get_logger(__name__)
_BOUND = "spec.nodeName!="
_PAGE = 1000
_RETRY = 0.5  # seconds


class PodSink(Protocol):
    """Who is told about pods, in the order of the API server's revisions."""

    def seen(self, pod: Pod) -> None:
        """The pod is there, as it is now."""
        ...

    def gone(self, uid: str) -> None:
        """The pod of that uid is there no more."""
        ...

    def listed(self, uids: frozenset[str]) -> None:
        """A list is complete: pods not in it are gone."""
        ...


class _Expired(Exception):  # noqa: N818 - named for what happened
    """The watch cannot be continued from where it stood: list again."""


class PodFeed:
    """Keeps the sink told; survives broken connections and expired revisions."""

    def __init__(self, transport: Transport, clock: Clock, sink: PodSink) -> None:
        self._transport = transport
        self._clock = clock
        self._sink = sink
        self._decoder = ObjectDecoder(POD)
        self._revision = ""

    async def run(self) -> None:
        """List and watch for ever."""
        while True:
            try:
                if not self._revision:
                    self._revision = await self._list()
                if not await self._watch():
                    await self._pause()
            except _Expired:
                self._revision = ""
            except (TransportError, StreamRefused, msgspec.DecodeError) as error:
                _log.warning("the watch of pods broke", error=str(error))
                if isinstance(error, msgspec.DecodeError):
                    self._revision = ""
                await self._pause()

    async def _pause(self) -> None:
        await self._clock.sleep_until(self._clock.now() + _RETRY)

    async def _list(self) -> str:
        uids: set[str] = set()
        query = {"fieldSelector": _BOUND, "limit": str(_PAGE)}
        while True:
            response = await self._transport.request("GET", POD.path(), query=query)
            if not response.ok:
                raise StreamRefused(response)
            meta, pods, faults = self._decoder.page(response.body)
            for pod in pods:
                if isinstance(pod, Pod):
                    self._sink.seen(pod)
                    uids.add(pod.metadata.uid)
            for fault in faults:
                _skip(fault)
            if not meta.continue_:
                self._sink.listed(frozenset(uids))
                return meta.resource_version
            query = {**query, "continue": meta.continue_}

    async def _watch(self) -> bool:
        """Follow one watch to its end; whether it brought anything."""
        query = {
            "fieldSelector": _BOUND,
            "watch": "true",
            "allowWatchBookmarks": "true",
            "resourceVersion": self._revision,
        }
        lively = False
        try:
            async with self._transport.stream(POD.path(), query=query) as batches:
                async for batch in batches:
                    lively = True
                    for line in batch:
                        self._revision = self._handle(line)
        except StreamRefused as refused:
            if refused.response.status == 410:
                raise _Expired from None
            raise
        return lively

    def _handle(self, data: bytes) -> str:
        """Tell the sink of one line; the revision to go on from."""
        try:
            line = self._decoder.line(data)
        except UndecodableError as error:
            _skip(error)
            return self._revision
        pod = line.object
        if isinstance(pod, Pod):
            if line.type == "DELETED":
                self._sink.gone(pod.metadata.uid)
            else:
                self._sink.seen(pod)
            return pod.metadata.resource_version
        if line.type == "BOOKMARK" and isinstance(pod, msgspec.Raw):
            return msgspec.json.decode(pod, type=WithMeta).metadata.resource_version
        raise _Expired


def _skip(error: UndecodableError) -> None:
    """One odd pod must not blind the nodes to the others."""
    _log.error("a pod is skipped because it cannot be read", error=str(error))
