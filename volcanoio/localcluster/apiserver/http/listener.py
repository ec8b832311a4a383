"""The aiohttp server in front of the API server: a loopback address with TLS and a token.

`serve` listens until its block ends. Each HTTP request passes the guard of `authn` and becomes an `ApiRequest`; the
`ApiResponse` or `ApiStream` is written back. Upgraded connections are handed to `streams.connections`.
"""

from __future__ import annotations

import asyncio
import errno
import gzip
import logging
import socket
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from email.utils import formatdate
from time import perf_counter, time
from typing import Any, Final, NamedTuple, Protocol
from urllib.parse import parse_qs

import structlog
from aiohttp import web
from aiohttp.web_protocol import RequestHandler
from multidict import CIMultiDict

from volcanoio.localcluster.apiserver.apimachinery.errors import (
    MAX_REQUEST_BYTES,
    ApiError,
    internal,
    too_large,
    unsupported_media_type,
)
from volcanoio.localcluster.apiserver.apimachinery.request import ApiRequest, ApiResponse, ApiStream, ApiUpgrade, User
from volcanoio.localcluster.apiserver.authn.credentials import Identity
from volcanoio.localcluster.apiserver.authn.guard import LOOPBACK_NAMES, Call, Guard
from volcanoio.localcluster.apiserver.http.faults import ConnectionDropped
from volcanoio.localcluster.apiserver.metrics.request_metrics import Traffic
from volcanoio.localcluster.apiserver.streams.connections import carry

GZIP_FROM = 128 * 1024
"""Larger answers are compressed on request (Kubernetes: defaultGzipThresholdBytes)."""

_log = structlog.get_logger(__name__)
_protocol_log = logging.getLogger(f"{__name__}.protocol")  # messages of aiohttp itself


class Api(Protocol):
    """Protocol of the served API."""

    async def handle(self, request: ApiRequest) -> ApiResponse | ApiStream:
        """Handle one request."""
        ...


class HttpBridge:
    """Adapter that handles aiohttp requests with an Api."""

    def __init__(self, api: Api, guard: Guard, traffic: Traffic | None, now: Callable[[], float]) -> None:
        self._api = api
        self._guard = guard
        self._now = now
        self._traffic = traffic
        self._streams: dict[RequestHandler, asyncio.Task[web.StreamResponse]] = {}
        self._closing = False

    async def answer(self, request: web.BaseRequest) -> web.StreamResponse:
        """Handle one request; never raises."""
        response = await self._answer(request)
        if not response.prepared:
            self._set_date(response)
        return response

    def _set_date(self, response: web.StreamResponse) -> None:
        """Set the server's time, from which clients compute ages; aiohttp would send the machine's."""
        response.headers["Date"] = formatdate(self._now(), usegmt=True)

    async def _answer(self, request: web.BaseRequest) -> web.StreamResponse:
        headers = {name.lower(): value for name, value in request.headers.items()}
        headers.setdefault("user-agent", "")  # a missing header would mean a component of this process
        path = request.path
        transport = request.transport
        certificate = transport.get_extra_info("peercert") if transport is not None else None
        query_string = request.query_string
        user = self._guard.admit(Call(request.method, path, query_string, headers, request.headers, certificate))
        if isinstance(user, ApiError):
            return _whole(user.response())
        encoding = headers.get("content-encoding", "identity")
        if encoding != "identity":  # not decompressed: a small body may expand to a huge one
            text = f"Content-Encoding: {encoding}: compressed bodies are not read; send the body as it is"
            return _whole(unsupported_media_type(text).response())
        try:
            body = await _read_body(request)
        except web.RequestPayloadError:  # the client disconnected half-way through, or sent invalid HTTP
            return _reset(request)
        if body is None:
            return _whole(too_large(request.content_length or 0).response())
        query = parse_qs(query_string, keep_blank_values=True) if query_string else {}
        method = "GET" if request.method == "HEAD" else request.method
        asked, begun = ApiRequest(method, path, query, headers, body, user), perf_counter()
        try:
            answer = await self._api.handle(asked)
        except ConnectionDropped:
            return _reset(request)
        except Exception:
            _log.exception("request failed", method=request.method, path=path)
            return _whole(
                internal(f"while answering {request.method} {path}; the server's log has the trace").response()
            )
        if self._traffic is not None:
            status = 200 if isinstance(answer, ApiStream) else answer.status
            self._traffic.answered(asked, status, perf_counter() - begun)
        return await self._send(request, answer)

    async def _send(self, request: web.BaseRequest, answer: ApiResponse | ApiStream) -> web.StreamResponse:
        if isinstance(answer, ApiStream):
            return await self._stream(request, answer)
        if isinstance(answer, ApiUpgrade):
            carried = carry(request, answer)
            return _whole(answer) if carried is None else await self._run_until_closed(request, carried)
        if len(answer.body) > GZIP_FROM and "gzip" in request.headers.get("accept-encoding", ""):
            return await _compressed(answer)
        return _whole(answer)

    async def _stream(self, request: web.BaseRequest, stream: ApiStream) -> web.StreamResponse:
        """Write batches until the stream ends, the client disconnects or the server closes."""
        response = web.StreamResponse(headers=_warnings(stream.warnings))
        response.content_type = stream.content_type
        self._set_date(response)
        return await self._run_until_closed(request, _pump(request, response, stream), response)

    async def _run_until_closed(
        self,
        request: web.BaseRequest,
        work: Coroutine[Any, Any, web.StreamResponse],
        ended: web.StreamResponse | None = None,
    ) -> web.StreamResponse:
        """Run a long-lived response until it is done or its connection ends.

        The connection ends when the client disconnects or the server closes (then `ended`).
        """
        handler = request.protocol
        pump = asyncio.create_task(work)
        self._streams[handler] = pump
        if self._closing or request.transport is None:
            pump.cancel()
        try:
            return await pump
        except asyncio.CancelledError:
            if not pump.cancelled():  # this request was cancelled, not its pump
                pump.cancel()
                raise
            return ended or _reset(request)
        except (ConnectionDropped, ConnectionError):
            return _reset(request)
        except Exception:
            _log.exception("stream failed", path=request.path)
            return _reset(request)  # the client must not see a regular end
        finally:
            self._streams.pop(handler, None)

    def connection_lost(self, handler: RequestHandler) -> None:
        """End the stream of a client that has disconnected."""
        pump = self._streams.pop(handler, None)
        if pump is not None:
            pump.cancel()

    def end_streams(self) -> None:
        """End all streams, and refuse new ones."""
        self._closing = True
        for pump in self._streams.values():
            pump.cancel()


class ApiHttpServer(web.Server):
    """aiohttp's server, which reports lost connections to the bridge.

    aiohttp's handler_cancellation would also cancel writes half-way through.
    """

    def __init__(self, bridge: HttpBridge) -> None:
        super().__init__(bridge.answer, access_log=None, logger=_protocol_log, auto_decompress=False)
        self._bridge = bridge

    def connection_lost(self, handler: RequestHandler, exc: BaseException | None = None) -> None:
        """Handle aiohttp's notice of a closed connection."""
        self._bridge.connection_lost(handler)
        super().connection_lost(handler, exc)


async def _pump(request: web.BaseRequest, response: web.StreamResponse, stream: ApiStream) -> web.StreamResponse:
    try:
        await response.prepare(request)
        if request.method == "HEAD":
            return response
        async for batch in stream.batches:
            if batch:
                await response.write(b"".join(batch) if stream.raw else b"\n".join(batch) + b"\n")
        return response
    finally:
        close = getattr(stream.batches, "aclose", None)
        if close is not None:
            with suppress(RuntimeError):  # the iterator is still running its own clean-up
                await close()


async def _read_body(request: web.BaseRequest) -> bytes | None:
    """Return the body, or None when it is over MAX_REQUEST_BYTES."""
    if not request.body_exists:
        return b""
    if (request.content_length or 0) > MAX_REQUEST_BYTES:
        return None
    chunks: list[bytes] = []
    size = 0
    while chunk := await request.content.readany():
        size += len(chunk)
        if size > MAX_REQUEST_BYTES:
            return None
        chunks.append(chunk)
    return chunks[0] if len(chunks) == 1 else b"".join(chunks)


def _whole(answer: ApiResponse, body: bytes | None = None) -> web.Response:
    headers = _warnings(answer.warnings)
    headers.extend(answer.headers)
    headers["Content-Type"] = answer.content_type
    return web.Response(status=answer.status, body=answer.body if body is None else body, headers=headers)


async def _compressed(answer: ApiResponse) -> web.Response:
    body = await asyncio.to_thread(gzip.compress, answer.body, 1, mtime=0)
    response = _whole(answer, body)
    response.headers["Content-Encoding"] = "gzip"
    response.headers["Vary"] = "Accept-Encoding"
    return response


def _warnings(texts: tuple[str, ...]) -> CIMultiDict[str]:
    """Return `Warning` headers, which kubectl prints (RFC 7234: code 299, agent unknown)."""
    quoted = (text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", " ") for text in texts)
    return CIMultiDict(("Warning", f'299 - "{text}"') for text in quoted)


def _reset(request: web.BaseRequest) -> web.StreamResponse:
    """Abort the connection; aiohttp detects it when it sends the returned response."""
    if request.transport is not None:
        request.transport.abort()
    return web.Response()


_LOG = structlog.get_logger(__name__)
CLOSE_LIMIT = 2.0
"""Seconds for current requests when the server closes."""


class PortBusy(OSError):  # noqa: N818 - named for what happened
    """Another process listens on the wanted port."""

    def __init__(self, host: str, port: int) -> None:
        super().__init__(
            errno.EADDRINUSE,
            f"port {port} on {host} is in use by another process; stop that process, choose another port, "
            "or use port 0 to take any free one",
        )
        self.port = port


@dataclass(frozen=True, slots=True)
class Bound:
    """The address of a listening server.

    `ca_pem` is empty without TLS, `token` without authentication.

    `connections` returns the number of open connections.
    """

    host: str
    port: int
    token: str = ""
    ca_pem: bytes = b""
    connections: Callable[[], int] = int

    @property
    def url(self) -> str:
        """The server's URL, without a slash at its end."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{'https' if self.ca_pem else 'http'}://{host}:{self.port}"


class Address(NamedTuple):
    """Address to listen on; port 0 takes `last_port` if it is free, else any."""

    host: str = "127.0.0.1"
    port: int = 0
    last_port: int = 0


_ANY_PORT: Final = Address()


@asynccontextmanager
async def serve(  # noqa: PLR0913 - the parts of a server
    api: Api,
    address: Address = _ANY_PORT,
    *,
    identity: Identity | None = None,
    account: Callable[[str], User | None] | None = None,
    traffic: Traffic | None = None,
    now: Callable[[], float] = time,
) -> AsyncIterator[Bound]:
    """Serve `api` on a loopback address until the block ends.

    With `identity` the server speaks TLS and requires the identity's token, a client certificate of its authority, or a
    service account's token whose user `account` finds. Requests are counted in `traffic`. `now` is the
    server's time in seconds since the epoch. Raises ValueError for an
    address that is not loopback, PortBusy when the port is taken. Leaving the block ends watches at once.
    """
    host, port, last_port = address
    if host not in LOOPBACK_NAMES:
        raise ValueError(f"host: {host!r} is not a loopback address; use one of {', '.join(sorted(LOOPBACK_NAMES))}")
    token = identity.token if identity else ""
    bridge = HttpBridge(api, Guard(token, account=account), traffic, now)
    server = ApiHttpServer(bridge)
    runner = web.ServerRunner(server, shutdown_timeout=CLOSE_LIMIT)
    await runner.setup()
    try:
        bound_socket = _listen_again(host, last_port) if last_port and not port else _listen(host, port)
        context = identity.server_context() if identity else None
        await web.SockSite(runner, bound_socket, ssl_context=context, backlog=1024).start()
        port, ca_pem = bound_socket.getsockname()[1], identity.ca_pem if identity else b""
        yield Bound(host, port, token, ca_pem, lambda: len(server.connections))
    finally:
        bridge.end_streams()
        await runner.cleanup()


def _listen_again(host: str, port: int) -> socket.socket:
    """Listen on the port of an earlier start, so that kubeconfigs stay valid.

    On any port when it is taken.
    """
    try:
        return _listen(host, port)
    except OSError:
        bound = _listen(host, 0)
        _LOG.warning(
            "the port of the last start is in use; copies of the kubeconfig need the new address",
            last=port,
            now=bound.getsockname()[1],
        )
        return bound


def _listen(host: str, port: int) -> socket.socket:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    listener = socket.socket(family, socket.SOCK_STREAM)
    try:
        # Otherwise a restart would have to wait for old connections to leave TIME_WAIT.
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind((host, port))
        listener.listen(1024)
        listener.setblocking(False)
    except OSError as error:
        listener.close()
        if error.errno == errno.EADDRINUSE:
            raise PortBusy(host, port) from None
        raise
    return listener
