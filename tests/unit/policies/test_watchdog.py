"""What the watchdog reads of Prometheus, and which arguments make no sense."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest
from aiohttp import web
from volcanoio_policies.watchdog import Prometheus, Watchdog

from volcanoio.framework.arguments import ArgumentError
from volcanoio.model.base import Manifest


class Server:
    """A Prometheus that knows one pod."""

    def __init__(self) -> None:
        self.asked: list[str] = []
        self.status = "success"
        self.url = ""

    async def answer(self, request: web.Request) -> web.Response:
        query = request.query["query"]
        self.asked.append(query)
        value = "0.25" if "cpu" in query else "1048576"
        series = [{"metric": {"pod": "p"}, "value": [1.0, value]}]
        return web.json_response({"status": self.status, "error": "bad query", "data": {"result": series}})


@pytest.fixture
async def server() -> AsyncIterator[Server]:
    """A running one."""
    known = Server()
    app = web.Application()
    app.router.add_get("/api/v1/query", known.answer)
    runner = web.AppRunner(app)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    host, port = runner.addresses[0][:2]
    known.url = f"http://{host}:{port}/"
    yield known
    await runner.cleanup()


async def test_usage_of_a_namespace_is_asked_for_once_in_a_while(server: Server) -> None:
    prometheus = Prometheus(server.url)
    assert await prometheus.usage("team", 100.0) == {"p": {"cpu": 0.25, "memory": 1048576.0}}
    assert await prometheus.usage("team", 110.0) == {"p": {"cpu": 0.25, "memory": 1048576.0}}
    assert len(server.asked) == 2
    assert all('namespace="team"' in query for query in server.asked)
    await prometheus.usage("team", 120.0)
    assert len(server.asked) == 4


async def test_a_refused_query_is_an_error(server: Server) -> None:
    server.status = "error"
    with pytest.raises(ValueError, match="bad query"):
        await Prometheus(server.url).usage("team", 0.0)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"share": 2}, '"share" must be more than 0 and at most 1'),
        ({"webhook": "hook"}, '"webhook" must begin with http:// or https://'),
        ({"waiting": 5}, '"waiting" takes a duration'),
    ],
)
def test_senseless_arguments_are_refused(arguments: Manifest, message: str) -> None:
    with pytest.raises(ArgumentError) as caught:
        Watchdog(arguments)
    assert message in str(caught.value)
