"""`kubectl port-forward` over SPDY: for each connection the client opens a stream of data and one for an error.

Kubernetes: `portforward.k8s.io`; the two streams of a connection have the same `requestid` header.
"""

from __future__ import annotations

import asyncio
import contextlib

from aiohttp import web

from volcanoio.localcluster.apiserver.api import ApiForward
from volcanoio.localcluster.apiserver.streams.spdyconnection import SpdyStream, offered, refuse, upgrade

PROTOCOL = "portforward.k8s.io"
_CHUNK = 64 * 1024


class _Forwarder:
    """The connections of one client to one pod."""

    def __init__(self, offer: ApiForward) -> None:
        self._offer = offer
        self._halves: dict[str, SpdyStream] = {}
        self._connections: set[asyncio.Task[None]] = set()

    def opened(self, stream: SpdyStream) -> None:
        """The client has opened a stream; with its counterpart it is a connection."""
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
        """Carry bytes both ways until both sides have ended. Raises OSError when nobody listens."""
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
        """Until the client goes."""
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


async def serve(request: web.BaseRequest, offer: ApiForward) -> web.StreamResponse:
    """Carry connections to a pod until the client goes."""
    if PROTOCOL not in offered(request):
        return refuse(request, PROTOCOL)
    forwarder = _Forwarder(offer)
    await upgrade(request, PROTOCOL, forwarder.opened, forwarder.work)
    return web.Response()
