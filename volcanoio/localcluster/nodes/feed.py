"""What the nodes hear from the API server: one list and one watch of a kind for the whole fleet."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Generic, Protocol, TypeVar

import msgspec
import structlog

from volcanoio.kube.decoding import ObjectDecoder, UndecodableError, WithMeta
from volcanoio.kube.transport import StreamRefused, Transport, TransportError
from volcanoio.localcluster.clock import Clock
from volcanoio.model.base import ApiObject
from volcanoio.model.kinds import Kind

_log = structlog.get_logger(__name__)
_PAGE = 1000
_AT_A_TIME, _TURNS = 64, 8
"""Lines of a watch that are told before the event loop gets a turn; and the most turns that a batch takes."""
_RETRY = 0.5  # seconds
Heard = TypeVar("Heard", bound=ApiObject)
_Told_contra = TypeVar("_Told_contra", bound=ApiObject, contravariant=True)


class Sink(Protocol[_Told_contra]):
    """Who is told about objects, in the order of the API server's revisions."""

    def seen(self, one: _Told_contra) -> None:
        """The object is there, as it is now."""
        ...

    def gone(self, uid: str) -> None:
        """The object of that uid is there no more."""
        ...

    def listed(self, uids: frozenset[str]) -> None:
        """A list is complete: objects not in it are gone."""
        ...


class _Expired(Exception):  # noqa: N818 - named for what happened
    """The watch cannot be continued from where it stood: list again."""


class Feed(Generic[Heard]):
    """Keeps the sink told of a kind; survives broken connections and expired revisions. `query` selects."""

    def __init__(
        self,
        transport: Transport,
        clock: Clock,
        kind: Kind,
        type_: type[Heard],
        query: Mapping[str, str],
        sink: Sink[Heard],
    ) -> None:
        self._transport = transport
        self._clock = clock
        self._kind = kind
        self._type = type_
        self._query = dict(query)
        self._sink = sink
        self._decoder = ObjectDecoder(kind)
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
        """Follow one watch to its end; whether it brought anything."""
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
        """Tell the sink of one line; the revision to go on from."""
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
    """One odd object must not blind the nodes to the others."""
    _log.error("an object is skipped because it cannot be read", error=str(error))
