"""`HttpTransport`: a Transport to any API server over HTTP/1.1, with a keep-alive pool (aiohttp)."""

from __future__ import annotations

import asyncio
import io
import os
import re
import ssl
import time
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Iterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from contextvars import ContextVar
from datetime import UTC, datetime, timedelta
from email.utils import parsedate_to_datetime
from typing import Any, NamedTuple, Unpack
from urllib.parse import quote, urlencode

import aiohttp
from multidict import CIMultiDict
from yarl import URL

from volcanoio import __version__
from volcanoio.kube.credentials.sources import CredentialsError
from volcanoio.kube.kubeconfig import Connection
from volcanoio.kube.transport import (
    ContentType,
    NoCredentials,
    NotSent,
    RequestOptions,
    Response,
    StreamRefused,
    TransportError,
)

_SAFE_IN_PATH = "/:@!$&'()*+,;=~-._"
_READ_BUFFER = 2 << 20
_WATCH_GRACE = 30.0
"""Seconds by which a watch may exceed its timeoutSeconds before its connection counts as broken."""

_WARNING = re.compile(r'^299 \S+ "((?:[^"\\]|\\.)*)"')
"""A Warning header in the form that API servers send (RFC 7234, section 5.5)."""
_LARGE = 2**20
"""Bytes above which a body is passed to aiohttp as a file, which it sends in chunks."""


class _HttpRequest(NamedTuple):
    """One request without credentials, which may be renewed between two attempts."""

    method: str
    url: URL
    headers: dict[str, str]
    body: bytes = b""
    limit: aiohttp.ClientTimeout = aiohttp.ClientTimeout()
    is_stream: bool = False


class _Pools(NamedTuple):
    """Connections with one TLS context, which contains the client certificate."""

    context: ssl.SSLContext | bool
    requests: aiohttp.ClientSession
    streams: aiohttp.ClientSession

    async def close(self) -> None:
        async with AsyncExitStack() as stack:  # all are closed, also when the task is cancelled
            stack.push_async_callback(self.requests.close)
            stack.push_async_callback(self.streams.close)


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
    concurrent requests; streams have further connections. `timeout` (seconds) is the default of a request. `warn` gets
    the text of each warning in a response.
    """

    def __init__(
        self,
        connection: Connection,
        *,
        connections: int = 96,
        timeout: float = 60.0,
        warn: Callable[[str], None] | None = None,
    ) -> None:
        self._connection = connection
        self._connections = connections
        self._timeout = timeout
        self._warn = warn
        self._dated: tuple[str, float] | None = None
        """Date of the last answer, and the monotonic time at which it arrived."""
        self._pools: _Pools | None = None
        self._retired: _Pools | None = None
        """Connections with the last client certificate but one, on which requests may still be open."""

    def now(self) -> datetime:
        """Return the server's time by its last answer, to a second; the machine's if none had a Date."""
        if self._dated is not None:
            text, arrived = self._dated
            with suppress(ValueError):
                return parsedate_to_datetime(text) + timedelta(seconds=time.monotonic() - arrived)
        return datetime.now(UTC)

    async def request(self, method: str, path: str, **options: Unpack[RequestOptions]) -> Response:
        """Send one request and return its whole answer; raises TransportError if there is none within `timeout`."""
        query, body, timeout = options.get("query"), options.get("body", b""), options.get("timeout")
        if timeout is not None:
            query = {**(query or {}), "timeout": f"{timeout:.3f}s"}
        headers = {"Accept": options.get("accept", "application/json")}
        if body:
            headers["Content-Type"] = options.get("content_type", ContentType.JSON)
        asked = _HttpRequest(method, self._url(path, query), headers, body)
        fence = _FENCE.set(options.get("fence"))
        try:
            async with asyncio.timeout(timeout or self._timeout), await self._open(asked) as answer:
                response = Response(answer.status, await answer.read(), answer.headers)
        except CredentialsError as error:
            raise NoCredentials(f"{method} {path}: {error}") from error
        except (aiohttp.ClientError, TimeoutError, OSError) as error:
            raise TransportError(f"{method} {path}: {_error_text(error)}") from error
        finally:
            _FENCE.reset(fence)
        if self._warn is not None:
            for text in _warnings(answer):
                self._warn(text)
        return response

    @asynccontextmanager
    async def stream(
        self, path: str, *, query: Mapping[str, str] | None = None
    ) -> AsyncIterator[AsyncIterator[list[bytes]]]:
        """Open a streamed GET as batches of lines. A `timeoutSeconds` in the query limits its duration."""
        lifetime = float(query["timeoutSeconds"]) + _WATCH_GRACE if query and "timeoutSeconds" in query else None
        limit = aiohttp.ClientTimeout(total=lifetime, sock_connect=self._timeout)
        asked = _HttpRequest("GET", self._url(path, query), {"Accept": "application/json"}, b"", limit, is_stream=True)
        try:
            answer = await self._open(asked)
            refused = None if answer.status == 200 else Response(answer.status, await answer.read(), answer.headers)
        except CredentialsError as error:
            raise NoCredentials(f"GET {path}: {error}") from error
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

    async def _open(self, asked: _HttpRequest) -> aiohttp.ClientResponse:
        """Send a request and return the answer, its body unread; a refusal of the credentials renews them once."""
        authorization, pools = await self._authorization(), await self._current_pools()
        answer = await self._send(asked, pools, authorization)
        if answer.status != 401:
            return answer
        await answer.read()  # the connection is free again
        renewed, fresh = await self._authorization(refused=authorization), await self._current_pools(recheck=True)
        if renewed == authorization and fresh is pools:
            return answer
        return await self._send(asked, fresh, renewed)

    async def _authorization(self, *, refused: str | None = None) -> str:
        try:
            return await self._connection.credentials.header(refused=refused)
        except (CredentialsError, TimeoutError):
            raise
        except Exception as error:  # a source may raise anything; callers retry
            raise CredentialsError(f"the credentials raised {_error_text(error)}") from error

    async def _send(self, asked: _HttpRequest, pools: _Pools, authorization: str) -> aiohttp.ClientResponse:
        data = io.BytesIO(asked.body) if len(asked.body) > _LARGE else asked.body or None
        session = pools.streams if asked.is_stream else pools.requests
        answer = await session.request(
            asked.method,
            asked.url,
            data=data,
            headers={**asked.headers, "Authorization": authorization} if authorization else asked.headers,
            timeout=asked.limit,
            allow_redirects=False,
            server_hostname=self._connection.server_name or None,
        )
        if date := answer.headers.get("Date"):
            self._dated = date, time.monotonic()
        return answer

    async def _current_pools(self, *, recheck: bool = False) -> _Pools:
        """Return the connections to use, other ones after certificates have changed."""
        context = self._connection.context(recheck=recheck)
        if (before := self._pools) is not None and before.context is context:
            return before
        self._pools = made = _Pools(context, self._session(context, limit=self._connections), self._session(context))
        oldest, self._retired = self._retired, before
        if oldest is not None:
            await oldest.close()
        return made

    async def aclose(self) -> None:
        """Close all connections."""
        open_ones = [pools for pools in (self._pools, self._retired) if pools is not None]
        self._pools = self._retired = None
        async with AsyncExitStack() as stack:
            for pools in open_ones:
                stack.push_async_callback(pools.close)

    def _session(self, context: ssl.SSLContext | bool, *, limit: int = 0) -> aiohttp.ClientSession:
        """Return a session with its own pool, made on first use because it belongs to the running loop."""
        general = [("User-Agent", f"volcanoio/{__version__}"), ("Accept-Encoding", "identity")]
        return aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(limit=limit, ssl=context, keepalive_timeout=60.0),
            request_class=_FencedRequest,
            headers=CIMultiDict([*general, *self._connection.headers]),
            cookie_jar=aiohttp.DummyCookieJar(),
            read_bufsize=_READ_BUFFER,
            proxy=self._connection.proxy or None,
        )

    def _url(self, path: str, query: Mapping[str, str] | None) -> URL:
        text = self._connection.server + quote(path, safe=_SAFE_IN_PATH)
        return URL(f"{text}?{urlencode(query)}" if query else text, encoded=True)


def _warnings(answer: aiohttp.ClientResponse) -> Iterator[str]:
    """Yield the texts of the Warning headers that an API server sent."""
    for header in answer.headers.getall("Warning", ()):
        if found := _WARNING.match(header):
            yield re.sub(r"\\(.)", r"\1", found[1])


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
