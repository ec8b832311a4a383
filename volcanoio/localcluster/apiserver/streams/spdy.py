"""Streams over SPDY: one of the client's for each channel, told apart by a header. Kubernetes: remotecommand v4."""

from __future__ import annotations

import asyncio
import contextlib

import msgspec
from aiohttp import web

from volcanoio.localcluster.apiserver.api import ApiStreams
from volcanoio.localcluster.apiserver.streams.remote import Channel, Outcome, Resize, Size
from volcanoio.localcluster.apiserver.streams.spdyconnection import SpdyStream, offered, refuse, upgrade

PROTOCOL = "v4.channel.k8s.io"
_OPENING_SECONDS = 30.0
"""How long a client may take to open its streams."""
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
        """The client has opened a stream."""
        channel = _TYPES.get(stream.headers.get("streamtype", ""))
        if channel is not None:
            self._streams.setdefault(channel, stream)
        if self._wanted <= self._streams.keys():
            self._complete.set()

    async def connected(self) -> None:
        """Return when the client has opened all it asked for. Raises TimeoutError."""
        async with asyncio.timeout(_OPENING_SECONDS):
            await self._complete.wait()

    async def read(self) -> bytes:
        """The next input."""
        return await self._streams[Channel.STDIN].read()

    async def write(self, channel: Channel, data: bytes) -> None:
        """Send output."""
        await self._streams[channel].write(data)

    async def resized(self) -> Size:
        """The terminal's new size: JSON objects, one after the other."""
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
                await asyncio.get_running_loop().create_future()  # it stays as it is
            self._sizes += more

    async def end(self, outcome: Outcome) -> None:
        """Say how it ended, and end all output."""
        await self.write(Channel.ERROR, outcome.status())
        for channel in (Channel.STDOUT, Channel.STDERR, Channel.ERROR):
            if channel in self._streams:
                await self._streams[channel].end()


async def serve(request: web.BaseRequest, offer: ApiStreams) -> web.StreamResponse:
    """Carry a container's streams until it ends or the client goes."""
    if PROTOCOL not in offered(request):
        return refuse(request, PROTOCOL)
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
        except Exception as error:  # told to the client, whatever it is
            outcome = Outcome(error=f"{type(error).__name__}: {error}")
        await remote.end(outcome)

    await upgrade(request, PROTOCOL, remote.opened, work)
    return web.Response()
