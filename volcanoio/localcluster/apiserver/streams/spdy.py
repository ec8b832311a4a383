"""A connection upgraded to SPDY/3.1: its frames, and the streams that a client opens.

Supports what `kubectl exec`, `attach` and `port-forward` use (mbelshe-httpbis-spdy-00). A control frame is a
version and type, flags, a length and its content; a data frame has the number of its stream instead. Headers are
compressed with a fixed dictionary. There is no flow control: the other side (moby/spdystream) has none either; TCP
slows a sender down.
"""

from __future__ import annotations

import asyncio
import struct
import zlib
from collections.abc import Awaitable, Callable
from enum import IntEnum
from typing import NamedTuple

from aiohttp import web
from aiohttp.web_protocol import RequestHandler

HEAD = 8
"""Length of a frame's head in bytes."""
FIN = 1
"""The flag of a stream's last frame."""
_VERSION = 3
_DICTIONARY_WORDS = (
    "options head post put delete trace accept accept-charset accept-encoding accept-language accept-ranges age allow "
    "authorization cache-control connection content-base content-encoding content-language content-length "
    "content-location content-md5 content-range content-type date etag expect expires from host if-match "
    "if-modified-since if-none-match if-range if-unmodified-since last-modified location max-forwards pragma "
    "proxy-authenticate proxy-authorization range referer retry-after server te trailer transfer-encoding upgrade "
    "user-agent vary via warning www-authenticate method get status 200_OK version HTTP/1.1 url public set-cookie "
    "keep-alive origin"
)
_DICTIONARY_REST = (
    b"100101201202205206300302303304305306307402405406407408409410411412413414415416417502504505"
    b"203 Non-Authoritative Information204 No Content301 Moved Permanently400 Bad Request401 Unauthorized"
    b"403 Forbidden404 Not Found500 Internal Server Error501 Not Implemented503 Service Unavailable"
    b"Jan Feb Mar Apr May Jun Jul Aug Sept Oct Nov Dec 00:00:00 Mon, Tue, Wed, Thu, Fri, Sat, Sun, GMT"
    b"chunked,text/html,image/png,image/jpg,image/gif,application/xml,application/xhtml+xml,text/plain,"
    b"text/javascript,publicprivatemax-age=gzip,deflate,sdchcharset=utf-8charset=iso-8859-1,utf-,*,enq=0."
)
DICTIONARY = (
    b"".join(struct.pack(">I", len(word)) + word.replace("_", " ").encode() for word in _DICTIONARY_WORDS.split(" "))
    + _DICTIONARY_REST
)
"""Dictionary of the header compression (2.6.10.1)."""


class Kind(IntEnum):
    """Types of control frames; DATA stands for a data frame."""

    DATA = 0
    SYN_STREAM = 1
    SYN_REPLY = 2
    RST_STREAM = 3
    SETTINGS = 4
    PING = 6
    GOAWAY = 7
    HEADERS = 8
    WINDOW_UPDATE = 9


class Frame(NamedTuple):
    """A frame. `stream` is that of a data frame; in a control frame it is part of the content."""

    kind: int
    stream: int
    flags: int
    length: int


class ProtocolError(ValueError):
    """The client violates SPDY/3.1."""


def read_head(head: bytes) -> Frame:
    """Decode the head of a frame; raises ProtocolError."""
    first, rest = struct.unpack(">II", head)
    flags, length = rest >> 24, rest & 0xFFFFFF
    if not first >> 31:
        return Frame(Kind.DATA, first, flags, length)
    if first >> 16 & 0x7FFF != _VERSION:
        raise ProtocolError(f"SPDY version {first >> 16 & 0x7FFF} instead of {_VERSION}")
    return Frame(first & 0xFFFF, 0, flags, length)


def control(kind: Kind, content: bytes, flags: int = 0) -> bytes:
    """Encode a control frame."""
    return struct.pack(">II", 1 << 31 | _VERSION << 16 | kind, flags << 24 | len(content)) + content


def data(stream: int, content: bytes, flags: int = 0) -> bytes:
    """Encode a data frame."""
    return struct.pack(">II", stream, flags << 24 | len(content)) + content


class HeaderCodec:
    """Codec for headers of one connection, which share their compression state."""

    def __init__(self) -> None:
        self._inflate = zlib.decompressobj(zdict=DICTIONARY)
        self._deflate = zlib.compressobj(zdict=DICTIONARY)

    def decode(self, block: bytes) -> dict[str, str]:
        """Decode a block of headers, names in lower case; raises ProtocolError."""
        try:
            plain = self._inflate.decompress(block)
            (count,), at = struct.unpack_from(">I", plain), 4
            found = []
            for _ in range(2 * count):
                (length,) = struct.unpack_from(">I", plain, at)
                found.append(plain[at + 4 : at + 4 + length].decode())
                at += 4 + length
        except (zlib.error, struct.error, UnicodeDecodeError) as error:
            raise ProtocolError(f"headers: {error}") from None
        return {name.lower(): value for name, value in zip(found[::2], found[1::2], strict=True)}

    def encode(self, headers: dict[str, str]) -> bytes:
        """Encode a block of headers."""
        plain = [struct.pack(">I", len(headers))]
        for pair in headers.items():
            plain += [struct.pack(">I", len(text.encode())) + text.encode() for text in pair]
        return self._deflate.compress(b"".join(plain)) + self._deflate.flush(zlib.Z_SYNC_FLUSH)


_PIECE = 32 * 1024
_BACKLOG = 64
"""Queued data frames of a stream before the whole connection has to wait."""
_GOODBYE = 2.0
"""Seconds for a client to close the connection after the end."""
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
        """Return the next data from the client; empty at the end, and on all later calls."""
        if self._read_all:
            return b""
        content = await self.received.get()
        self._read_all = not content
        return content

    async def write(self, content: bytes) -> None:
        """Send to the client; raises ConnectionError when it has disconnected."""
        for at in range(0, len(content), _PIECE):
            await self._connection.send(data(self.number, content[at : at + _PIECE]))

    async def end(self) -> None:
        """End the output."""
        if not self._written_all:
            self._written_all = True
            await self._connection.send(data(self.number, b"", FIN))


class SpdyConnection:
    """Converter of frames to streams and back; `opened` is called for each new stream, in order."""

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
        if self._writer.is_closing():  # a TLS transport that was closed twice raises no error
            raise ConnectionResetError("the connection is closing")
        self._writer.write(frame)
        await self._writer.drain()

    async def receive(self) -> None:
        """Receive frames until the client disconnects; raises ProtocolError, ConnectionError."""
        try:
            while True:
                frame = read_head(await self._reader.readexactly(HEAD))
                await self._take(frame, await self._reader.readexactly(frame.length))
        except asyncio.IncompleteReadError:
            return

    async def _take(self, frame: Frame, content: bytes) -> None:
        match frame.kind:
            case Kind.DATA:
                await self._take_data(frame, content)
            case Kind.SYN_STREAM:
                await self._open(frame, content)
            case Kind.RST_STREAM:
                ended = self._streams.pop(_stream_number(content), None)
                if ended is not None:
                    await ended.received.put(b"")
            case Kind.HEADERS:
                self._headers.decode(content[4:])  # for the state of the compression
            case Kind.PING:
                await self.send(control(Kind.PING, content))

    async def _take_data(self, frame: Frame, content: bytes) -> None:
        stream = self._streams.get(frame.stream)
        if stream is None:
            await self.send(control(Kind.RST_STREAM, struct.pack(">II", frame.stream, _BAD_STREAM)))
            return
        if content:
            await stream.received.put(content)
        if frame.flags & FIN:
            await stream.received.put(b"")

    async def _open(self, frame: Frame, content: bytes) -> None:
        if len(content) < 10:
            raise ProtocolError("SYN_STREAM is too short")
        number = _stream_number(content)
        stream = self._streams[number] = SpdyStream(self, number, self._headers.decode(content[10:]))
        await self.send(control(Kind.SYN_REPLY, content[:4] + self._headers.encode({})))
        if frame.flags & FIN:
            stream.received.put_nowait(b"")
        self._opened(stream)


def _stream_number(content: bytes) -> int:
    return int.from_bytes(content[:4], "big") & 0x7FFFFFFF


class _Protocol(asyncio.StreamReaderProtocol):
    """The protocol of the upgraded connection; reports its end to aiohttp's own."""

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
    """Take the connection over from aiohttp, run `work` while receiving, and close it."""
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
    """Return the protocols on top of SPDY that the client supports."""
    return request.headers.getall("X-Stream-Protocol-Version", [])


def refuse(request: web.BaseRequest, protocol: str) -> web.Response:
    """Return the answer to a client that does not support `protocol`."""
    theirs = ", ".join(offered(request)) or "none"
    return web.Response(status=403, text=f"unable to upgrade: the client speaks {theirs}, the server {protocol}")
