"""The HTTP transport against a real HTTP server: answers, refusals, silence, broken streams."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta

import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer

from volcanoio.kube.credentials.sources import StaticCredentials
from volcanoio.kube.http_transport import HttpTransport
from volcanoio.kube.kubeconfig import Connection
from volcanoio.kube.transport import ContentType, StreamRefused, TransportError

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


class Renewing:
    """Credentials that are refused once."""

    def __init__(self) -> None:
        self.value = "Bearer old"

    async def header(self, *, refused: str | None = None) -> str:
        if refused == self.value:
            self.value = "Bearer new"
        return self.value


@asynccontextmanager
async def transport_to(
    handler: Handler, credentials: StaticCredentials | Renewing | None = None
) -> AsyncIterator[HttpTransport]:
    app = web.Application()
    app.router.add_route("*", "/{rest:.*}", handler)
    async with TestServer(app) as server:
        connection = Connection(
            str(server.make_url("")).rstrip("/"), credentials=credentials or StaticCredentials("Bearer secret")
        )
        transport = HttpTransport(connection)
        try:
            yield transport
        finally:
            await transport.aclose()


async def test_the_time_is_that_of_the_server() -> None:
    async def handler(_: web.Request) -> web.Response:
        return web.Response(headers={"Date": "Fri, 01 May 2037 12:00:00 GMT"})

    async with transport_to(handler) as transport:
        assert transport.now().year < 2037
        await transport.request("GET", "/version")
        assert timedelta() <= transport.now() - datetime(2037, 5, 1, 12, tzinfo=UTC) < timedelta(hours=1)


async def test_a_request_is_sent_complete_and_any_status_is_a_response() -> None:
    async def handler(request: web.Request) -> web.Response:
        seen.update(
            path=request.path_qs, method=request.method, body=await request.read(), headers=dict(request.headers)
        )
        return web.Response(status=409, body=b'{"kind":"Status"}', headers={"Retry-After": "3"})

    seen: dict[str, object] = {}
    async with transport_to(handler) as transport:
        response = await transport.request(
            "PATCH",
            "/api/v1/namespaces/ns/pods/p",
            query={"a": "b c"},
            body=b"{}",
            content_type=ContentType.MERGE_PATCH,
            timeout=5,
        )
    assert (response.status, response.body, response.headers["retry-after"]) == (409, b'{"kind":"Status"}', "3")
    assert seen["path"] == "/api/v1/namespaces/ns/pods/p?a=b+c&timeout=5.000s"
    assert seen["body"] == b"{}"
    headers = seen["headers"]
    assert isinstance(headers, dict)
    assert headers["Content-Type"] == "application/merge-patch+json"
    assert headers["Authorization"] == "Bearer secret"


async def test_credentials_are_renewed_once_when_refused() -> None:
    async def handler(request: web.Request) -> web.Response:
        return web.Response(status=200 if request.headers["Authorization"] == "Bearer new" else 401)

    async with transport_to(handler, Renewing()) as transport:
        assert (await transport.request("GET", "/version")).status == 200


async def test_no_answer_is_a_transport_error() -> None:
    async def handler(request: web.Request) -> web.Response:
        assert request.transport is not None
        request.transport.abort()
        return web.Response()

    async with transport_to(handler) as transport:
        with pytest.raises(TransportError, match="POST /api/v1/pods"):
            await transport.request("POST", "/api/v1/pods", body=b"{}")
        with pytest.raises(TransportError):
            async with transport.stream("/api/v1/pods"):
                pass


async def test_a_server_that_stops_in_its_answer_is_given_up() -> None:
    async def handler(request: web.Request) -> web.StreamResponse:
        answer = web.StreamResponse()
        await answer.prepare(request)
        if request.path == "/begun":
            await answer.write(b"{")
        await asyncio.wait_for(asyncio.Event().wait(), 5)
        return answer

    async with transport_to(handler) as transport:
        for path in ("/silent", "/begun"):
            with pytest.raises(TransportError, match=f"GET {path}: no answer in time"):
                await transport.request("GET", path, timeout=0.05)


async def test_a_stream_yields_whole_lines_for_any_chunks() -> None:
    long = b"x" * (3 << 20)

    async def handler(request: web.Request) -> web.StreamResponse:
        answer = web.StreamResponse()
        await answer.prepare(request)
        for part in (b"one\ntw", b"o\n\n", long[: 1 << 20], long[1 << 20 :], b"\nlast"):
            await answer.write(part)
        await answer.write_eof()
        return answer

    async with transport_to(handler) as transport, transport.stream("/log", query={"timeoutSeconds": "5"}) as stream:
        lines = [line async for batch in stream for line in batch]
    assert lines == [b"one", b"two", b"", long, b"last"]


async def test_a_refused_and_a_broken_stream() -> None:
    async def handler(request: web.Request) -> web.StreamResponse:
        if request.path == "/refused":
            return web.Response(status=410, body=b"gone")
        answer = web.StreamResponse()
        await answer.prepare(request)
        await answer.write(b"one\n")
        assert request.transport is not None
        request.transport.abort()
        return answer

    async with transport_to(handler) as transport:
        with pytest.raises(StreamRefused) as refused:
            async with transport.stream("/refused"):
                pass
        assert refused.value.response.status == 410
        async with transport.stream("/broken") as stream:
            assert await anext(stream) == [b"one"]
            with pytest.raises(TransportError, match="stream broke"):
                await anext(stream)
