"""One HTTP request to the API server and back: aiohttp in, ApiRequest across, ApiResponse or ApiStream out."""

from __future__ import annotations

import asyncio
import gzip
import logging
from collections.abc import Coroutine
from contextlib import suppress
from time import perf_counter
from typing import Any, Protocol
from urllib.parse import parse_qs

import structlog
from aiohttp import web
from aiohttp.web_protocol import RequestHandler
from multidict import CIMultiDict

from volcanoio.localcluster.apiserver.api import ApiRequest, ApiResponse, ApiStream, ApiUpgrade
from volcanoio.localcluster.apiserver.auth import Call, Guard
from volcanoio.localcluster.apiserver.errors import (
    MAX_REQUEST_BYTES,
    ApiError,
    internal,
    too_large,
    unsupported_media_type,
)
from volcanoio.localcluster.apiserver.faults import ConnectionDropped
from volcanoio.localcluster.apiserver.metrics.traffic import Traffic
from volcanoio.localcluster.apiserver.streams.connections import carry

GZIP_FROM = 128 * 1024
"""Answers larger than this are compressed for those who ask (Kubernetes: defaultGzipThresholdBytes)."""

_log = structlog.get_logger(__name__)
_protocol_log = logging.getLogger(f"{__name__}.protocol")  # what aiohttp itself has to say


class Api(Protocol):
    """What the shell serves."""

    async def handle(self, request: ApiRequest) -> ApiResponse | ApiStream:
        """The answer to one request."""
        ...


class HttpShell:
    """Answers aiohttp requests from an Api."""

    def __init__(self, api: Api, guard: Guard, traffic: Traffic | None = None) -> None:
        self._api = api
        self._guard = guard
        self._traffic = traffic
        self._streams: dict[RequestHandler, asyncio.Task[web.StreamResponse]] = {}
        self._closing = False

    async def answer(self, request: web.BaseRequest) -> web.StreamResponse:
        """One request, whatever comes of it."""
        headers = {name.lower(): value for name, value in request.headers.items()}
        headers.setdefault("user-agent", "")  # one without is still no component of this process
        path = request.path
        transport = request.transport
        certificate = transport.get_extra_info("peercert") if transport is not None else None
        query_string = request.query_string
        user = self._guard.admit(Call(request.method, path, query_string, headers, request.headers, certificate))
        if isinstance(user, ApiError):
            return _whole(user.response())
        encoding = headers.get("content-encoding", "identity")
        if encoding != "identity":  # not even unpacked: a small body may hide a huge one
            text = f"Content-Encoding: {encoding}: compressed bodies are not read; send the body as it is"
            return _whole(unsupported_media_type(text).response())
        try:
            body = await _read_body(request)
        except web.RequestPayloadError:  # the client has gone half-way through, or sends no HTTP
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
        if isinstance(answer, ApiStream):
            return await self._stream(request, answer)
        if isinstance(answer, ApiUpgrade):
            carried = carry(request, answer)
            return _whole(answer) if carried is None else await self._attend(request, carried)
        if len(answer.body) > GZIP_FROM and "gzip" in headers.get("accept-encoding", ""):
            return await _compressed(answer)
        return _whole(answer)

    async def _stream(self, request: web.BaseRequest, stream: ApiStream) -> web.StreamResponse:
        """Write batches until the stream ends, the client goes or the server closes."""
        response = web.StreamResponse(headers=_warnings(stream.warnings))
        response.content_type = stream.content_type
        return await self._attend(request, _pump(request, response, stream), response)

    async def _attend(
        self,
        request: web.BaseRequest,
        work: Coroutine[Any, Any, web.StreamResponse],
        ended: web.StreamResponse | None = None,
    ) -> web.StreamResponse:
        """Do what lasts, until it is done, the client goes or the server closes; then the answer is `ended`."""
        handler = request.protocol
        pump = asyncio.create_task(work)
        self._streams[handler] = pump
        if self._closing or request.transport is None:
            pump.cancel()
        try:
            return await pump
        except asyncio.CancelledError:
            if not pump.cancelled():  # it is this request that was cancelled, not its pump
                pump.cancel()
                raise
            return ended or _reset(request)
        except (ConnectionDropped, ConnectionError):
            return _reset(request)
        except Exception:
            _log.exception("stream failed", path=request.path)
            return _reset(request)  # the client must not take it for an orderly end
        finally:
            self._streams.pop(handler, None)

    def connection_lost(self, handler: RequestHandler) -> None:
        """The client has gone: end what is streamed to it."""
        pump = self._streams.pop(handler, None)
        if pump is not None:
            pump.cancel()

    def end_streams(self) -> None:
        """End all streams, and those that are about to begin."""
        self._closing = True
        for pump in self._streams.values():
            pump.cancel()


class ShellServer(web.Server):
    """aiohttp's server, telling the shell when a connection is lost.

    Not aiohttp's handler_cancellation: that would also cancel writes half-way through.
    """

    def __init__(self, shell: HttpShell) -> None:
        super().__init__(shell.answer, access_log=None, logger=_protocol_log, auto_decompress=False)
        self._shell = shell

    def connection_lost(self, handler: RequestHandler, exc: BaseException | None = None) -> None:
        """aiohttp's notice that a client has gone."""
        self._shell.connection_lost(handler)
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
            with suppress(RuntimeError):  # an iterator that is still running its own clean-up
                await close()


async def _read_body(request: web.BaseRequest) -> bytes | None:
    """The body, or None when it is over MAX_REQUEST_BYTES."""
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
    """`Warning` headers, which kubectl prints (RFC 7234: code 299, agent unknown)."""
    quoted = (text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", " ") for text in texts)
    return CIMultiDict(("Warning", f'299 - "{text}"') for text in quoted)


def _reset(request: web.BaseRequest) -> web.StreamResponse:
    """Abort the connection; aiohttp notices when it tries to send what is returned."""
    if request.transport is not None:
        request.transport.abort()
    return web.Response()
