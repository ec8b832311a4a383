"""Streams over a WebSocket: each message is a channel's number and data. Kubernetes: KEP-4006, `v5.channel.k8s.io`.

In version 5 a client ends its input with a message of 255 and the channel; version 4 has no such thing.
"""

from __future__ import annotations

import asyncio
import contextlib

import msgspec
from aiohttp import WSMsgType, web

from volcanoio.localcluster.apiserver.api import ApiStreams
from volcanoio.localcluster.apiserver.streams.remote import Channel, Outcome, Resize, Size

PROTOCOLS = ("v5.channel.k8s.io", "v4.channel.k8s.io")
_CLOSE = 255
_BACKLOG = 16
"""Messages of input that wait for the container; then the client waits."""


class WebSocketRemote:
    """A client behind a WebSocket (`remote.Remote`)."""

    def __init__(self, socket: web.WebSocketResponse) -> None:
        self._socket = socket
        self._input: asyncio.Queue[bytes] = asyncio.Queue(_BACKLOG)
        self._sizes: asyncio.Queue[Size] = asyncio.Queue()
        self._ended = False

    async def read(self) -> bytes:
        """The next input."""
        if self._ended:
            return b""
        data = await self._input.get()
        self._ended = not data
        return data

    async def write(self, channel: Channel, data: bytes) -> None:
        """Send output."""
        await self._socket.send_bytes(bytes((channel,)) + data)

    async def resized(self) -> Size:
        """The terminal's new size."""
        return await self._sizes.get()

    async def receive(self) -> None:
        """Take in what the client sends until it goes."""
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


async def serve(request: web.BaseRequest, upgrade: ApiStreams) -> web.StreamResponse:
    """Carry a container's streams until it ends or the client goes."""
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
