"""A connection that has been upgraded to SPDY: streams that the client opens, read and written by tasks of ours."""

from __future__ import annotations

import asyncio
import struct
from collections.abc import Awaitable, Callable

from aiohttp import web
from aiohttp.web_protocol import RequestHandler

from volcanoio.localcluster.apiserver.streams.spdyframes import (
    FIN,
    HEAD,
    Frame,
    HeaderCodec,
    Kind,
    ProtocolError,
    control,
    data,
    read_head,
)

_PIECE = 32 * 1024
_BACKLOG = 64
"""Data frames of a stream that wait to be read; then the whole connection waits."""
_GOODBYE = 2.0
"""Seconds that a client gets to hang up after the end."""
_BAD_STREAM = 1


class SpdyStream:
    """A stream that the client has opened."""

    def __init__(self, connection: SpdyConnection, number: int, headers: dict[str, str]) -> None:
        self.number = number
        self.headers = headers
        self.received: asyncio.Queue[bytes] = asyncio.Queue(_BACKLOG)
        self._connection = connection
        self._read_all = False
        self._written_all = False

    async def read(self) -> bytes:
        """What the client sends next; empty at the end, and ever after."""
        if self._read_all:
            return b""
        content = await self.received.get()
        self._read_all = not content
        return content

    async def write(self, content: bytes) -> None:
        """Send to the client. Raises ConnectionError when it is gone."""
        for at in range(0, len(content), _PIECE):
            await self._connection.send(data(self.number, content[at : at + _PIECE]))

    async def end(self) -> None:
        """Say that no more comes."""
        if not self._written_all:
            self._written_all = True
            await self._connection.send(data(self.number, b"", FIN))


class SpdyConnection:
    """Frames to streams and back. `opened` is told of each new stream, in order."""

    def __init__(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, opened: Callable[[SpdyStream], None]
    ) -> None:
        self._reader = reader
        self._writer = writer
        self._opened = opened
        self._headers = HeaderCodec()
        self._streams: dict[int, SpdyStream] = {}

    async def send(self, frame: bytes) -> None:
        """Send a frame; returns when more may be sent. Raises ConnectionError."""
        if self._writer.is_closing():  # a TLS transport that was closed twice has lost its protocol and cannot say so
            raise ConnectionResetError("the connection is closing")
        self._writer.write(frame)
        await self._writer.drain()

    async def receive(self) -> None:
        """Take in frames until the client hangs up. Raises ProtocolError, ConnectionError."""
        try:
            while True:
                frame = read_head(await self._reader.readexactly(HEAD))
                await self._take(frame, await self._reader.readexactly(frame.length))
        except asyncio.IncompleteReadError:
            return

    async def _take(self, frame: Frame, content: bytes) -> None:
        match frame.kind:
            case Kind.DATA:
                stream = self._streams.get(frame.stream)
                if stream is None:
                    await self.send(control(Kind.RST_STREAM, struct.pack(">II", frame.stream, _BAD_STREAM)))
                    return
                if content:
                    await stream.received.put(content)
                if frame.flags & FIN:
                    await stream.received.put(b"")
            case Kind.SYN_STREAM:
                if len(content) < 10:
                    raise ProtocolError("SYN_STREAM is too short")
                number = int.from_bytes(content[:4], "big") & 0x7FFFFFFF
                stream = self._streams[number] = SpdyStream(self, number, self._headers.decode(content[10:]))
                await self.send(control(Kind.SYN_REPLY, content[:4] + self._headers.encode({})))
                if frame.flags & FIN:
                    stream.received.put_nowait(b"")
                self._opened(stream)
            case Kind.RST_STREAM:
                ended = self._streams.pop(int.from_bytes(content[:4], "big") & 0x7FFFFFFF, None)
                if ended is not None:
                    await ended.received.put(b"")
            case Kind.HEADERS:
                self._headers.decode(content[4:])  # for the state of the compression
            case Kind.PING:
                await self.send(control(Kind.PING, content))


class _Protocol(asyncio.StreamReaderProtocol):
    """The upgraded connection's protocol; aiohttp's own hears of its end."""

    def __init__(self, reader: asyncio.StreamReader, before: RequestHandler) -> None:
        super().__init__(reader)
        self._before = before

    def connection_lost(self, exc: Exception | None) -> None:
        super().connection_lost(exc)
        self._before.connection_lost(exc)


async def upgrade(
    request: web.BaseRequest,
    protocol: str,
    opened: Callable[[SpdyStream], None],
    work: Callable[[], Awaitable[None]],
) -> None:
    """Take the connection over from aiohttp, do the work beside receiving, and hang up."""
    transport = request.transport
    if transport is None:
        return
    reader = asyncio.StreamReader()
    taken = _Protocol(reader, request.protocol)
    transport.set_protocol(taken)
    taken.connection_made(transport)
    writer = asyncio.StreamWriter(transport, taken, reader, asyncio.get_running_loop())
    lines = ("HTTP/1.1 101 Switching Protocols", "Connection: Upgrade", "Upgrade: SPDY/3.1")
    writer.write("\r\n".join((*lines, f"X-Stream-Protocol-Version: {protocol}", "", "")).encode())
    connection = SpdyConnection(reader, writer, opened)
    receiving = asyncio.ensure_future(connection.receive())
    working = asyncio.ensure_future(work())
    try:
        await asyncio.wait((receiving, working), return_when=asyncio.FIRST_COMPLETED)
        if not receiving.done():
            await asyncio.wait((receiving,), timeout=_GOODBYE)
    finally:
        for task in (receiving, working):
            task.cancel()
        await asyncio.gather(receiving, working, return_exceptions=True)
        transport.close()


def offered(request: web.BaseRequest) -> list[str]:
    """The protocols on top of SPDY that the client speaks."""
    return request.headers.getall("X-Stream-Protocol-Version", [])


def refuse(request: web.BaseRequest, protocol: str) -> web.Response:
    """The answer to a client that does not speak `protocol`."""
    theirs = ", ".join(offered(request)) or "none"
    return web.Response(status=403, text=f"unable to upgrade: the client speaks {theirs}, the server {protocol}")
