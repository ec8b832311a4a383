"""`HttpTransport`: a Transport to any API server over HTTP/1.1, with a keep-alive pool (aiohttp)."""

from __future__ import annotations

import asyncio
import io
import os
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from contextvars import ContextVar
from typing import Any, NamedTuple, Unpack
from urllib.parse import quote, urlencode

import aiohttp
from yarl import URL

from volcanoio import __version__
from volcanoio.kube.kubeconfig import Connection
from volcanoio.kube.transport import ContentType, NotSent, RequestOptions, Response, StreamRefused, TransportError

_SAFE_IN_PATH = "/:@!$&'()*+,;=~-._"
_READ_BUFFER = 2 << 20
_WATCH_GRACE = 30.0
"""Seconds by which a watch may exceed its timeoutSeconds before its connection counts as broken."""

_LARGE = 2**20
"""Bytes above which a body is passed to aiohttp as a file, which it sends in chunks."""


class _HttpRequest(NamedTuple):
    """One request without credentials, which may be renewed between two attempts."""

    method: str
    url: URL
    headers: dict[str, str]
    body: bytes
    limit: aiohttp.ClientTimeout


_FENCE: ContextVar[Callable[[], bool] | None] = ContextVar("fence", default=None)


class _FencedRequest(aiohttp.ClientRequest):
    """A request that asks the fence of its caller when its bytes are written.

    It may have waited for a connection, and on Python 3.11 its bytes are written by a task of their own.
    """

    def __init__(self, method: str, url: URL, **options: Any) -> None:
        super().__init__(method, url, **options)
        self._fence = _FENCE.get()

    async def write_bytes(
        self,
        writer: aiohttp.abc.AbstractStreamWriter,
        conn: aiohttp.connector.Connection,
        content_length: int | None = None,
    ) -> None:
        if self._fence is None or self._fence():
            await super().write_bytes(writer, conn, content_length)
        elif conn.protocol is not None:
            conn.protocol.set_exception(NotSent(self.method, self.url.path))


class HttpTransport:
    """A `Transport` to one API server.

    `connections` limits the pool. HTTP/1.1 sends one request at a time per connection, so this is the number of
    concurrent requests; streams have further connections. `timeout` (seconds) is the default of a request.
    """

    def __init__(self, connection: Connection, *, connections: int = 96, timeout: float = 60.0) -> None:
        self._connection = connection
        self._connections = connections
        self._timeout = timeout
        self._requests: aiohttp.ClientSession | None = None
        self._streams: aiohttp.ClientSession | None = None

    async def request(self, method: str, path: str, **options: Unpack[RequestOptions]) -> Response:
        """Send one request and return its whole answer; raises TransportError if there is none within `timeout`."""
        if self._requests is None:
            self._requests = self._session(limit=self._connections)
        query, body, timeout = options.get("query"), options.get("body", b""), options.get("timeout")
        if timeout is not None:
            query = {**(query or {}), "timeout": f"{timeout:.3f}s"}
        url = self._url(path, query)
        headers = {"Accept": options.get("accept", "application/json")}
        if body:
            headers["Content-Type"] = options.get("content_type", ContentType.JSON)
        asked = _HttpRequest(method, url, headers, body, aiohttp.ClientTimeout(total=timeout or self._timeout))
        credentials = self._connection.credentials
        fence = _FENCE.set(options.get("fence"))
        try:
            authorization = await credentials.header()
            response = await self._send(asked, authorization)
            if response.status == 401 and (renewed := await credentials.header(renew=True)) != authorization:
                response = await self._send(asked, renewed)
        except (aiohttp.ClientError, TimeoutError, OSError) as error:
            raise TransportError(f"{method} {path}: {_error_text(error)}") from error
        finally:
            _FENCE.reset(fence)
        return response

    async def _send(self, asked: _HttpRequest, authorization: str) -> Response:
        assert self._requests is not None
        headers = {**asked.headers, "Authorization": authorization} if authorization else asked.headers
        data = io.BytesIO(asked.body) if len(asked.body) > _LARGE else asked.body or None
        async with self._requests.request(
            asked.method, asked.url, data=data, headers=headers, timeout=asked.limit, allow_redirects=False
        ) as answer:
            return Response(answer.status, await answer.read(), answer.headers)

    @asynccontextmanager
    async def stream(
        self, path: str, *, query: Mapping[str, str] | None = None
    ) -> AsyncIterator[AsyncIterator[list[bytes]]]:
        """Open a streamed GET as batches of lines. A `timeoutSeconds` in the query limits its duration."""
        if self._streams is None:
            self._streams = self._session(limit=0)
        lifetime = float(query["timeoutSeconds"]) + _WATCH_GRACE if query and "timeoutSeconds" in query else None
        try:
            authorization = await self._connection.credentials.header()
            answer = await self._streams.get(
                self._url(path, query),
                headers={"Accept": "application/json", **({"Authorization": authorization} if authorization else {})},
                timeout=aiohttp.ClientTimeout(total=lifetime, sock_connect=self._timeout),
                allow_redirects=False,
            )
            refused = None if answer.status == 200 else Response(answer.status, await answer.read(), answer.headers)
        except (aiohttp.ClientError, TimeoutError, OSError) as error:
            raise TransportError(f"GET {path}: {_error_text(error)}") from error
        if refused is not None:
            answer.close()
            raise StreamRefused(refused)
        lines = _lines(answer.content, path)
        try:
            yield lines
        finally:
            await lines.aclose()
            _close_connection(answer)

    async def aclose(self) -> None:
        """Close all connections."""
        for session in (self._requests, self._streams):
            if session is not None:
                await session.close()
        self._requests = self._streams = None

    def _session(self, *, limit: int) -> aiohttp.ClientSession:
        """Return the session with its own pool, made on first use because it belongs to the running loop."""
        return aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(limit=limit, ssl=self._connection.ssl, keepalive_timeout=60.0),
            request_class=_FencedRequest,
            headers={"User-Agent": f"volcanoio/{__version__}", "Accept-Encoding": "identity"},
            cookie_jar=aiohttp.DummyCookieJar(),
            read_bufsize=_READ_BUFFER,
            proxy=self._connection.proxy or None,
        )

    def _url(self, path: str, query: Mapping[str, str] | None) -> URL:
        text = self._connection.server + quote(path, safe=_SAFE_IN_PATH)
        return URL(f"{text}?{urlencode(query)}" if query else text, encoded=True)


async def _lines(content: aiohttp.StreamReader, path: str) -> AsyncGenerator[list[bytes], None]:
    """Yield whole lines in batches as they are received; a line may have any length."""
    pending: list[bytes] = []
    try:
        async for chunk in content.iter_any():
            whole, newline, rest = chunk.rpartition(b"\n")
            if newline:
                pending.append(whole)
                yield b"".join(pending).split(b"\n")
                pending = [rest] if rest else []
            else:
                pending.append(chunk)
    except (aiohttp.ClientError, TimeoutError, OSError) as error:
        raise TransportError(f"GET {path}: stream broke: {_error_text(error)}") from error
    if pending:
        yield [b"".join(pending)]


def _close_connection(answer: aiohttp.ClientResponse) -> None:
    """Close the connection of a response that was not read to its end, without the closing handshake of TLS.

    A regular close would wait for the server's answer, which may arrive after the event loop has ended.
    """
    if answer.connection is not None and answer.connection.transport is not None:
        answer.connection.transport.abort()
    answer.close()


def _error_text(error: Exception) -> str:
    if isinstance(error, asyncio.TimeoutError):
        return "no answer in time"
    if isinstance(error, aiohttp.ClientConnectorError) and not isinstance(error, aiohttp.ClientSSLError):
        number = error.os_error.errno or 0  # asyncio has one text for all; name lookups have negative numbers
        why = os.strerror(number) if number > 0 else error.os_error.strerror or error.os_error
        return f"cannot connect to {error.host}:{error.port}: {why}"
    return f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
