"""A minimal HTTP/1.1 client, so that the server is measured: prebuilt bytes, one request at a time, no TLS."""

from __future__ import annotations

import asyncio
from typing import Self


class Connection(asyncio.Protocol):
    """One keep-alive connection. Supports responses with a Content-Length."""

    def __init__(self, host: str, agent: str) -> None:
        self._host = host
        self._agent = agent
        self._buffer = bytearray()
        self._waiter: asyncio.Future[int] | None = None
        self._transport: asyncio.Transport | None = None

    @classmethod
    async def open(cls, host: str, port: int, agent: str) -> Self:
        """Open a connection with `agent` as its user agent."""
        protocol = cls(f"{host}:{port}", agent)
        await asyncio.get_running_loop().create_connection(lambda: protocol, host, port)
        return protocol

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """asyncio's notice."""
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport

    async def post(self, path: str, body: bytes) -> int:
        """Send a request and return the status of the response."""
        assert self._transport is not None
        head = f"POST {path} HTTP/1.1\r\nHost: {self._host}\r\nUser-Agent: {self._agent}\r\n"
        head += f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
        self._waiter = asyncio.get_running_loop().create_future()
        self._transport.write(head.encode() + body)
        return await self._waiter

    def data_received(self, data: bytes) -> None:
        """asyncio's notice."""
        buffer = self._buffer
        buffer += data
        end = buffer.find(b"\r\n\r\n")
        if end < 0 or self._waiter is None:
            return
        head = bytes(buffer[:end])
        length = int(head.lower().split(b"content-length:", 1)[1].split(b"\r\n", 1)[0])
        if len(buffer) >= end + 4 + length:
            del buffer[: end + 4 + length]
            self._waiter.set_result(int(head[9:12]))

    def connection_lost(self, exc: Exception | None) -> None:
        """asyncio's notice."""
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_exception(exc or ConnectionResetError("the server closed the connection"))

    def close(self) -> None:
        """End the connection."""
        if self._transport is not None:
            self._transport.close()


class Watching(asyncio.Protocol):
    """A watch whose lines are counted, not decoded."""

    def __init__(self, request: bytes) -> None:
        self._request = request
        self._lines = 0
        self._goal = 0
        self._tail = b""
        self._reached = asyncio.get_running_loop().create_future()
        self._transport: asyncio.Transport | None = None

    @classmethod
    async def start(cls, host: str, port: int, path: str) -> Self:
        """Start a watch; returns once the head of the response has arrived."""
        request = f"GET {path} HTTP/1.1\r\nHost: {host}:{port}\r\n\r\n".encode()
        protocol = cls(request)
        await asyncio.get_running_loop().create_connection(lambda: protocol, host, port)
        return protocol

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """asyncio's notice."""
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport
        transport.write(self._request)

    def data_received(self, data: bytes) -> None:
        """asyncio's notice; an event ends with a brace and a newline, which the framing of chunks does not contain."""
        self._lines += data.count(b"}\n") + (self._tail == b"}" and data[:1] == b"\n")
        self._tail = data[-1:]
        if self._goal and self._lines >= self._goal and not self._reached.done():
            self._reached.set_result(None)

    async def reach(self, lines: int) -> None:
        """Wait until that many events have arrived."""
        self._goal = lines
        if self._lines < lines:
            await self._reached

    def close(self) -> None:
        """End the watch."""
        if self._transport is not None:
            self._transport.close()
