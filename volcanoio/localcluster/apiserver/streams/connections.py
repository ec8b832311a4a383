"""exec, attach and port-forward over WebSocket or SPDY, chosen by the headers of the request.

WebSocket: each message is a channel's number and data (KEP-4006, `v5.channel.k8s.io`). In version 5 a client ends its
input with a message of 255 and the channel; version 4 has no such thing. SPDY: one of the client's streams for each
channel, identified by a header (remotecommand v4). `kubectl port-forward` opens a stream of data and one for an error
for each connection, with the same `requestid` header (`portforward.k8s.io`).
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Coroutine
from typing import Any

import msgspec
from aiohttp import WSMsgType, web

from volcanoio.localcluster.apiserver.apimachinery.request import ApiForward, ApiStreams, ApiUpgrade
from volcanoio.localcluster.apiserver.streams.remote import Channel, Outcome, Resize, Size
from volcanoio.localcluster.apiserver.streams.spdy import SpdyStream, offered, refuse, upgrade

PROTOCOLS = ("v5.channel.k8s.io", "v4.channel.k8s.io")
_CLOSE = 255
_BACKLOG = 16
"""Queued input messages before the client has to wait."""


class WebSocketRemote:
    """A client behind a WebSocket (`remote.Remote`)."""

    def __init__(self, socket: web.WebSocketResponse) -> None:
        self._socket = socket
        self._input: asyncio.Queue[bytes] = asyncio.Queue(_BACKLOG)
        self._sizes: asyncio.Queue[Size] = asyncio.Queue()
        self._ended = False

    async def read(self) -> bytes:
        """Return the next input."""
        if self._ended:
            return b""
        data = await self._input.get()
        self._ended = not data
        return data

    async def write(self, channel: Channel, data: bytes) -> None:
        """Send output."""
        await self._socket.send_bytes(bytes((channel,)) + data)

    async def resized(self) -> Size:
        """Return the terminal's new size."""
        return await self._sizes.get()

    async def receive(self) -> None:
        """Read messages until the client disconnects."""
        async for message in self._socket:
            data = message.data.encode() if message.type is WSMsgType.TEXT else message.data
            if not isinstance(data, bytes) or not data:
                continue
            channel, content = data[0], data[1:]
            if channel == Channel.STDIN and content:
                await self._input.put(content)
            elif channel == _CLOSE and content[:1] == bytes((Channel.STDIN,)):
                await self._input.put(b"")
            elif channel == Channel.RESIZE:
                with contextlib.suppress(msgspec.DecodeError):
                    size = msgspec.json.decode(content, type=Resize)
                    self._sizes.put_nowait(Size(size.width, size.height))


async def serve_websocket(request: web.BaseRequest, upgrade: ApiStreams) -> web.StreamResponse:
    """Carry a container's streams until it ends or the client disconnects."""
    socket = web.WebSocketResponse(protocols=PROTOCOLS, max_msg_size=0, compress=False)
    try:
        await socket.prepare(request)
    except web.HTTPException as refused:  # no handshake
        return refused
    remote = WebSocketRemote(socket)
    receiving = asyncio.create_task(remote.receive())
    serving = asyncio.ensure_future(upgrade.serve(remote))
    try:
        await asyncio.wait((receiving, serving), return_when=asyncio.FIRST_COMPLETED)
        if serving.done():
            with contextlib.suppress(ConnectionError):
                await remote.write(Channel.ERROR, _outcome(serving).status())
            await socket.close()
    finally:
        for task in (receiving, serving):
            task.cancel()
        await asyncio.gather(receiving, serving, return_exceptions=True)
    return socket


def _outcome(serving: asyncio.Future[Outcome]) -> Outcome:
    error = serving.exception()
    return serving.result() if error is None else Outcome(error=f"{type(error).__name__}: {error}")


EXEC_PROTOCOL = "v4.channel.k8s.io"
_OPENING_SECONDS = 30.0
"""Seconds for a client to open its streams."""
_TYPES = {"stdin": Channel.STDIN, "stdout": Channel.STDOUT, "stderr": Channel.STDERR, "error": Channel.ERROR,
          "resize": Channel.RESIZE}  # fmt: skip


class SpdyRemote:
    """A client with a stream for each channel (`remote.Remote`)."""

    def __init__(self, wanted: frozenset[Channel]) -> None:
        self._wanted = wanted
        self._streams: dict[Channel, SpdyStream] = {}
        self._complete = asyncio.Event()
        self._sizes = b""

    def opened(self, stream: SpdyStream) -> None:
        """Add a stream that the client opened."""
        channel = _TYPES.get(stream.headers.get("streamtype", ""))
        if channel is not None:
            self._streams.setdefault(channel, stream)
        if self._wanted <= self._streams.keys():
            self._complete.set()

    async def connected(self) -> None:
        """Wait until the client has opened all streams that it requested; raises TimeoutError."""
        async with asyncio.timeout(_OPENING_SECONDS):
            await self._complete.wait()

    async def read(self) -> bytes:
        """Return the next input."""
        return await self._streams[Channel.STDIN].read()

    async def write(self, channel: Channel, data: bytes) -> None:
        """Send output."""
        await self._streams[channel].write(data)

    async def resized(self) -> Size:
        """Return the terminal's new size, from a sequence of JSON objects."""
        stream = self._streams[Channel.RESIZE]
        while True:
            document, brace, rest = self._sizes.partition(b"}")
            if brace:
                self._sizes = rest
                with contextlib.suppress(msgspec.DecodeError):
                    size = msgspec.json.decode(document + brace, type=Resize)
                    return Size(size.width, size.height)
                continue
            more = await stream.read()
            if not more:
                await asyncio.get_running_loop().create_future()  # the terminal keeps its size
            self._sizes += more

    async def end(self, outcome: Outcome) -> None:
        """Send the outcome, and end all output."""
        await self.write(Channel.ERROR, outcome.status())
        for channel in (Channel.STDOUT, Channel.STDERR, Channel.ERROR):
            if channel in self._streams:
                await self._streams[channel].end()


async def serve_spdy(request: web.BaseRequest, offer: ApiStreams) -> web.StreamResponse:
    """Carry a container's streams until it ends or the client disconnects."""
    if EXEC_PROTOCOL not in offered(request):
        return refuse(request, EXEC_PROTOCOL)
    options = offer.options
    wanted = {Channel.ERROR}
    for channel, asked in (
        (Channel.STDIN, options.stdin),
        (Channel.STDOUT, options.stdout),
        (Channel.STDERR, options.stderr),
        (Channel.RESIZE, options.tty),
    ):
        if asked:
            wanted.add(channel)
    remote = SpdyRemote(frozenset(wanted))

    async def work() -> None:
        await remote.connected()
        try:
            outcome = await offer.serve(remote)
        except ConnectionError:
            raise
        except Exception as error:  # any error is sent to the client
            outcome = Outcome(error=f"{type(error).__name__}: {error}")
        await remote.end(outcome)

    await upgrade(request, EXEC_PROTOCOL, remote.opened, work)
    return web.Response()


FORWARD_PROTOCOL = "portforward.k8s.io"
_CHUNK = 64 * 1024


class _Forwarder:
    """The connections of one client to one pod."""

    def __init__(self, offer: ApiForward) -> None:
        self._offer = offer
        self._halves: dict[str, SpdyStream] = {}
        self._connections: set[asyncio.Task[None]] = set()

    def opened(self, stream: SpdyStream) -> None:
        """Add a stream that the client opened; data and error stream together are a connection."""
        request = stream.headers.get("requestid", "")
        other = self._halves.pop(request, None)
        if other is None:
            self._halves[request] = stream
            return
        data, error = (stream, other) if stream.headers.get("streamtype") == "data" else (other, stream)
        task = asyncio.create_task(self._connect(data, error))
        self._connections.add(task)
        task.add_done_callback(self._connections.discard)

    async def _connect(self, data: SpdyStream, error: SpdyStream) -> None:
        port = data.headers.get("port", "")
        with contextlib.suppress(ConnectionError):
            try:
                await self._carry(data, int(port))
            except (OSError, ValueError) as problem:
                text = f"error forwarding port {port} to pod {self._offer.pod}: {problem}"
                await error.write(text.encode())
            await data.end()
            await error.end()

    async def _carry(self, data: SpdyStream, port: int) -> None:
        """Carry bytes both ways until both sides have ended; raises OSError when nothing listens."""
        reader, writer = await self._reach(port)
        sending = asyncio.create_task(_to_pod(data, writer))
        try:
            while chunk := await reader.read(_CHUNK):
                await data.write(chunk)
            await data.end()
        finally:
            sending.cancel()
            await asyncio.gather(sending, return_exceptions=True)
            writer.close()
            with contextlib.suppress(OSError):
                await writer.wait_closed()

    async def _reach(self, port: int) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        problem: OSError = ConnectionRefusedError("no address")
        for address in self._offer.addresses:
            try:
                return await asyncio.open_connection(address, port)
            except OSError as error:
                problem = error
        raise problem

    async def work(self) -> None:
        """Serve connections until the client disconnects."""
        try:
            await asyncio.get_running_loop().create_future()
        finally:
            for task in self._connections:
                task.cancel()
            await asyncio.gather(*self._connections, return_exceptions=True)


async def _to_pod(data: SpdyStream, writer: asyncio.StreamWriter) -> None:
    while content := await data.read():
        writer.write(content)
        await writer.drain()
    if writer.can_write_eof():
        writer.write_eof()


async def serve_portforward(request: web.BaseRequest, offer: ApiForward) -> web.StreamResponse:
    """Carry connections to a pod until the client disconnects."""
    if FORWARD_PROTOCOL not in offered(request):
        return refuse(request, FORWARD_PROTOCOL)
    forwarder = _Forwarder(offer)
    await upgrade(request, FORWARD_PROTOCOL, forwarder.opened, forwarder.work)
    return web.Response()


Serve = Callable[[web.BaseRequest, ApiStreams], Coroutine[Any, Any, web.StreamResponse]]
Forward = Callable[[web.BaseRequest, ApiForward], Coroutine[Any, Any, web.StreamResponse]]

_STREAMS: dict[str, Serve] = {"websocket": serve_websocket, "spdy/3.1": serve_spdy}
_FORWARDS: dict[str, Forward] = {"spdy/3.1": serve_portforward}
"""Servers by `Upgrade` header. kubectl falls back to SPDY when its WebSocket tunnel is not supported."""


def carry(request: web.BaseRequest, offer: ApiUpgrade) -> Coroutine[Any, Any, web.StreamResponse] | None:
    """Return the coroutine that serves the upgraded connection.

    The result is None for a request without a supported upgrade.
    """
    protocol = request.headers.get("Upgrade", "").lower()
    if isinstance(offer, ApiStreams) and protocol in _STREAMS:
        return _STREAMS[protocol](request, offer)
    if isinstance(offer, ApiForward) and protocol in _FORWARDS:
        return _FORWARDS[protocol](request, offer)
    return None
