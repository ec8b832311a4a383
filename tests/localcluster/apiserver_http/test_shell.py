"""The HTTP shell: what reaches the Api, what comes back, who is let in, and how streams end."""

from __future__ import annotations

import asyncio
import gzip
import io
from collections.abc import AsyncIterator
from pathlib import Path

import aiohttp
import pytest

from volcanoio.kube.credentials.sources import StaticCredentials
from volcanoio.kube.http_transport import HttpTransport
from volcanoio.kube.kubeconfig import Connection
from volcanoio.localcluster.apiserver.apimachinery.errors import MAX_REQUEST_BYTES
from volcanoio.localcluster.apiserver.apimachinery.request import ApiRequest, ApiResponse, ApiStream
from volcanoio.localcluster.apiserver.authn.credentials import load_or_create
from volcanoio.localcluster.apiserver.http.faults import ConnectionDropped
from volcanoio.localcluster.apiserver.http.listener import Address, PortBusy, serve


class Echo:
    """Answers /stream with a stream fed by the test, /drop with a reset, /big with much, /boom with a bug."""

    def __init__(self) -> None:
        self.seen: list[ApiRequest] = []
        self.batches: asyncio.Queue[list[bytes]] = asyncio.Queue()
        self.stream_closed = asyncio.Event()

    async def handle(self, request: ApiRequest) -> ApiResponse | ApiStream:
        self.seen.append(request)
        match request.path:
            case "/stream":
                return ApiStream(self._feed())
            case "/drop":
                raise ConnectionDropped
            case "/big":
                return ApiResponse(200, b"x" * 2_000_000)
            case "/boom":
                raise RuntimeError("a bug")
        return ApiResponse(200, b'{"ok":true}', warnings=('say "hi"',))

    async def _feed(self) -> AsyncIterator[list[bytes]]:
        try:
            while batch := await self.batches.get():
                yield batch
            raise RuntimeError("a bug")
        finally:
            self.stream_closed.set()


async def test_answers_and_streams_have_the_time_of_the_server() -> None:
    api = Echo()
    async with serve(api, now=lambda: 2_124_792_000.0) as bound, aiohttp.ClientSession() as session:
        for path in ("/api/v1/pods", "/stream"):
            async with session.get(f"{bound.url}{path}") as response:
                assert response.headers["Date"] == "Fri, 01 May 2037 12:00:00 GMT"


async def test_a_request_arrives_whole_and_warnings_go_back() -> None:
    api = Echo()
    async with serve(api) as bound, aiohttp.ClientSession() as session:
        url = f"{bound.url}/api/v1/pods?labelSelector=a%3Db&watch="
        async with session.post(url, data=b"body", headers={"X-Thing": "1"}) as response:
            assert response.status == 200
            assert await response.json() == {"ok": True}
            assert response.headers["Warning"] == '299 - "say \\"hi\\""'
        async with session.head(f"{bound.url}/livez/ping") as response:
            assert (response.status, await response.read()) == (200, b"")
    first, second = api.seen
    assert (first.method, first.path, first.body) == ("POST", "/api/v1/pods", b"body")
    assert first.query == {"labelSelector": ["a=b"], "watch": [""]}
    assert first.headers["x-thing"] == "1"
    assert second.method == "GET"


async def test_a_stream_is_lines_and_ends_with_the_client() -> None:
    api = Echo()
    async with serve(api) as bound, aiohttp.ClientSession() as session:
        async with session.get(f"{bound.url}/stream") as response:
            assert response.status == 200, "headers come before the first event"
            api.batches.put_nowait([b'{"a":1}', b'{"b":2}'])
            assert await response.content.readline() == b'{"a":1}\n'
            assert await response.content.readline() == b'{"b":2}\n'
            response.close()
        await api.stream_closed.wait()


async def test_a_broken_stream_breaks_the_connection() -> None:
    api = Echo()
    async with serve(api) as bound, aiohttp.ClientSession() as session, session.get(f"{bound.url}/stream") as response:
        api.batches.put_nowait([])
        with pytest.raises(aiohttp.ClientPayloadError):
            await response.content.read()


async def test_closing_the_server_ends_streams_in_order() -> None:
    api = Echo()
    async with aiohttp.ClientSession() as session:
        async with serve(api) as bound:
            response = await session.get(f"{bound.url}/stream")
        assert await response.content.read() == b"", "a clean end, not a broken connection"
        assert api.stream_closed.is_set()


async def test_a_body_over_the_limit_is_413_with_and_without_a_length() -> None:
    api = Echo()

    async def chunks() -> AsyncIterator[bytes]:
        for _ in range(4):
            yield b"x" * (MAX_REQUEST_BYTES // 2)

    async with serve(api) as bound, aiohttp.ClientSession() as session:
        async with session.post(bound.url, data=io.BytesIO(b"x" * MAX_REQUEST_BYTES)) as response:
            assert response.status == 200
        for body in (io.BytesIO(b"x" * (MAX_REQUEST_BYTES + 1)), chunks()):
            async with session.post(bound.url, data=body) as response:
                assert response.status == 413
                status = await response.json()
                assert status["reason"] == "RequestEntityTooLarge"
                assert "limit is 3145728" in status["message"]
    assert len(api.seen) == 1


async def test_compressed_bodies_are_not_unpacked() -> None:
    api = Echo()
    async with serve(api) as bound, aiohttp.ClientSession() as session:
        headers = {"Content-Encoding": "gzip"}
        async with session.post(bound.url, data=gzip.compress(b"x" * 1000), headers=headers) as response:
            assert response.status == 415
            assert (await response.json())["reason"] == "UnsupportedMediaType"
    assert api.seen == []


async def test_a_client_that_leaves_within_its_body_is_forgotten() -> None:
    api = Echo()
    async with serve(api) as bound, aiohttp.ClientSession() as session:
        _, writer = await asyncio.open_connection(bound.host, bound.port)
        writer.write(b"POST / HTTP/1.1\r\nHost: localhost\r\nContent-Length: 100\r\n\r\nhalf")
        await writer.drain()
        writer.close()
        await writer.wait_closed()
        async with session.get(f"{bound.url}/after") as response:
            assert response.status == 200
    assert [request.path for request in api.seen] == ["/after"]


async def test_large_answers_are_compressed_for_those_who_ask() -> None:
    async with serve(Echo()) as bound, aiohttp.ClientSession(auto_decompress=False) as session:
        async with session.get(f"{bound.url}/big", headers={"Accept-Encoding": "gzip"}) as response:
            assert response.headers["Content-Encoding"] == "gzip"
            assert gzip.decompress(await response.read()) == b"x" * 2_000_000
        async with session.get(f"{bound.url}/big", headers={"Accept-Encoding": "identity"}) as response:
            assert "Content-Encoding" not in response.headers


async def test_a_dropped_connection_and_a_bug() -> None:
    async with serve(Echo()) as bound, aiohttp.ClientSession() as session:
        with pytest.raises(aiohttp.ClientConnectionError):
            await session.post(f"{bound.url}/drop")
        async with session.get(f"{bound.url}/boom") as response:
            assert response.status == 500
            assert (await response.json())["reason"] == "InternalError"


async def test_tls_and_the_token_guard_the_door(tmp_path: Path) -> None:
    identity = load_or_create(tmp_path)
    api = Echo()
    async with serve(api, identity=identity) as bound:
        assert bound.url.startswith("https://127.0.0.1:")
        connector = aiohttp.TCPConnector(ssl=identity.client_context())
        async with aiohttp.ClientSession(bound.url, connector=connector) as session:
            good = {"Authorization": f"Bearer {bound.token}"}
            for path, headers, expected in (
                ("/api", {}, 403),
                ("/api", {"Authorization": "Bearer wrong"}, 401),
                ("/versions", {}, 403),
                ("/version", {}, 200),
                ("/version", {"Authorization": "Bearer wrong"}, 401),
                ("/livez/ping", {}, 200),
                ("/api", good, 200),
                ("/api", good | {"Host": "evil.example"}, 403),
                ("/api", good | {"Host": "localhost:1"}, 200),
                ("/api", good | {"Origin": "https://evil.example"}, 403),
            ):
                async with session.get(path, headers=headers) as response:
                    assert response.status == expected, (path, headers)
                    if expected != 200:
                        assert (await response.json())["code"] == expected


async def test_a_busy_port_is_named_with_the_next_step() -> None:
    async with serve(Echo()) as bound:
        with pytest.raises(PortBusy, match=rf"port {bound.port} .*choose another port"):
            async with serve(Echo(), Address(port=bound.port)):
                pass


async def test_only_loopback_is_served() -> None:
    with pytest.raises(ValueError, match=r"0\.0\.0\.0.*loopback"):
        async with serve(Echo(), Address("0.0.0.0")):
            pass


async def test_a_stream_that_a_client_breaks_off_leaves_no_connection_behind(tmp_path: Path) -> None:
    api, identity = Echo(), load_or_create(tmp_path)
    api.batches.put_nowait([b"{}"])
    async with serve(api, identity=identity) as bound:
        credentials = StaticCredentials(f"Bearer {bound.token}")
        transport = HttpTransport(Connection(bound.url, ssl=identity.client_context(), credentials=credentials))
        async with transport.stream("/stream") as batches:
            assert await anext(batches) == [b"{}"]
            [client] = _open_transports(bound.port)
        await transport.aclose()
        await asyncio.sleep(0)  # closing a socket takes one turn; a goodbye of TLS would take the server's answer
        assert client.get_extra_info("socket").fileno() == -1


def _open_transports(port: int) -> list[asyncio.Transport]:
    """The client ends of connections to the port."""
    known = asyncio.get_running_loop()._transports  # type: ignore[attr-defined]  # the loop keeps no public list
    return [one for one in known.values() if (one.get_extra_info("peername") or ("", 0))[1] == port]
