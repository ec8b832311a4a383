"""Node metrics are read over HTTP as the three kinds of server answer."""

from __future__ import annotations

import base64
import json
from typing import Any

import anyio
import pytest
from aiohttp import web

from tests.unit.runtime.metrics_server import server, vector
from volcanoio.framework.scheduling.settings import ElasticsearchSettings, MetricsSettings, MetricsType
from volcanoio.kube.http_transport import HttpTransport
from volcanoio.kube.kubeconfig import Connection
from volcanoio.kube.transport import TransportError
from volcanoio.runtime.scheduler.node_metrics import MetricsError, node_metrics


class Notes:
    """A feed that keeps what is said; `sleep` ends the source."""

    def __init__(self) -> None:
        self.facts: list[dict[str, Any]] = []
        self.slept: list[float] = []

    def now(self) -> float:
        return 5000.0

    async def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)
        raise StopAsyncIteration

    def publish(self, facts: Any, *, whole: bool = False) -> None:
        assert whole
        self.facts.append(dict(facts))


async def polled(settings: MetricsSettings, api_server: str = "http://127.0.0.1:9") -> Notes:
    """One poll."""
    notes = Notes()
    transport = HttpTransport(Connection(server=api_server))
    try:
        with anyio.fail_after(30), pytest.raises(StopAsyncIteration):
            await node_metrics(transport)(settings)(notes)
    finally:
        await transport.aclose()
    return notes


async def test_prometheus_answers_by_instance_in_percent() -> None:
    asked: list[str] = []

    async def answer(request: web.Request) -> web.Response:
        assert request.path == "/under/api/v1/query"
        asked.append(request.query["query"])
        if "node_cpu" in asked[-1]:
            return vector(n1="12.5", n2="NaN", n3="7")
        return vector(n1="80", n2="3", n4="1")

    async with server(answer) as address:
        settings = MetricsSettings(type=MetricsType.PROMETHEUS, address=f"{address}/under", interval=15.0)
        notes = await polled(settings)
    assert notes.facts == [{"n1": {"cpu": 12.5, "memory": 80.0, "at": 5000.0, "every": 15.0}}]
    assert notes.slept == [15.0]
    assert all("[10m:30s]" in query for query in asked)


async def test_the_adaptor_is_asked_through_the_api_server_for_parts_of_one() -> None:
    async def answer(request: web.Request) -> web.Response:
        value = {"node_cpu_usage_avg": "250m", "node_memory_usage_avg": "0.5"}[request.path.rpartition("/")[2]]
        assert request.path.startswith("/apis/custom.metrics.k8s.io/v1beta1/nodes/*/")
        return web.json_response({"items": [{"describedObject": {"kind": "Node", "name": "n1"}, "value": value}]})

    async with server(answer) as address:
        notes = await polled(MetricsSettings(type=MetricsType.PROMETHEUS_ADAPTOR), address)
    assert notes.facts[0]["n1"] == {"cpu": 25.0, "memory": 50.0, "at": 5000.0, "every": 30.0}


async def test_elasticsearch_averages_by_host_with_the_account_given() -> None:
    async def answer(request: web.Request) -> web.Response:
        assert request.path == "/beats-*/_search"
        assert request.headers["Authorization"] == "Basic " + base64.b64encode(b"reader:secret").decode()
        terms = json.loads(await request.text())["aggs"]["nodes"]["terms"]
        assert terms["field"] == "agent.name"
        bucket = {"key": "n1", "doc_count": 3, "cpu": {"value": 0.25}, "memory": {"value": 0.5}}
        empty = {"key": "n2", "doc_count": 0, "cpu": {"value": None}, "memory": {"value": 0.1}}
        return web.json_response({"aggregations": {"nodes": {"buckets": [bucket, empty]}}})

    account = ElasticsearchSettings(index="beats-*", username="reader", password="secret", hostname_field="agent.name")
    async with server(answer) as address:
        settings = MetricsSettings(type=MetricsType.ELASTICSEARCH, address=address, elasticsearch=account)
        notes = await polled(settings)
    assert notes.facts == [{"n1": {"cpu": 25.0, "memory": 50.0, "at": 5000.0, "every": 30.0}}]


@pytest.mark.parametrize(
    ("status", "body"),
    [(503, b"no"), (200, b"<html>"), (200, b'{"status":"error","error":"bad query"}'), (200, b'{"data":7}')],
)
async def test_a_useless_answer_is_reported(status: int, body: bytes) -> None:
    async def answer(_request: web.Request) -> web.Response:
        return web.Response(status=status, body=body)

    async with server(answer) as address:
        settings = MetricsSettings(type=MetricsType.PROMETHEUS, address=address)
        transport = HttpTransport(Connection(server=address))
        with pytest.raises(MetricsError, match="Prometheus at http"):
            await node_metrics(transport)(settings)(Notes())
        await transport.aclose()


async def test_an_unreachable_server_is_reported() -> None:
    settings = MetricsSettings(type=MetricsType.PROMETHEUS, address="http://127.0.0.1:9")
    transport = HttpTransport(Connection(server="http://127.0.0.1:9"))
    with pytest.raises(TransportError, match=r"127\.0\.0\.1:9"):
        await node_metrics(transport)(settings)(Notes())
    await transport.aclose()
