"""The source `node-metrics`: polls node usage from the server in the configuration's `metrics` section.

All servers are queried for averages of ten minutes; expressions and names are those of Volcano's
pkg/scheduler/metrics/source:
- Prometheus, with node-exporter's series, whose `instance` is the node's name
  (https://prometheus.io/docs/prometheus/latest/querying/api/#instant-queries); one query covers all nodes.
- Elasticsearch, with metricbeat's documents, by host, as fractions of 1.
- prometheus-adapter, which serves custom metrics of nodes at the API server, as fractions of 1.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from math import isfinite
from typing import Any, NamedTuple, Protocol, TypeAlias, TypeVar

import anyio
import msgspec

from volcanoio.framework.scheduling.settings import MetricsSettings, MetricsType
from volcanoio.framework.scheduling.sources import Feed, Source
from volcanoio.kube.credentials.sources import StaticCredentials, basic_authorization
from volcanoio.kube.http_transport import HttpTransport
from volcanoio.kube.kubeconfig import Connection
from volcanoio.kube.transport import Response, Transport
from volcanoio.model.documents import ANSWER, decode_json
from volcanoio.model.quantity import QuantityError, parse

Percent: TypeAlias = dict[str, float]
"""Percentages (0 to 100) by node."""
Form = TypeVar("Form")


class MetricsError(Exception):
    """A response that cannot be used."""


def decoded(answer: Response, form: type[Form], who: str) -> Form:
    """Decode a response; raises MetricsError."""
    if not answer.ok:
        msg = f"{who} answered HTTP {answer.status}: {answer.body[:200].decode(errors='replace')}; look into its log"
        raise MetricsError(msg)
    try:
        return decode_json(answer.body, form, ANSWER)
    except msgspec.DecodeError as error:
        raise MetricsError(f"{who} answered what its API does not say: {error}; check metrics.address") from error


def number(text: Any) -> float | None:
    """Return a finite number, None for anything else (Prometheus returns NaN if there is no data)."""
    try:
        value = float(text)
    except (TypeError, ValueError):
        return None
    return value if isfinite(value) else None


_IDLE = 'avg by (instance) (rate(node_cpu_seconds_total{mode="idle"}[5m]))'
_FREE = "max by (instance) (node_memory_MemAvailable_bytes / node_memory_MemTotal_bytes)"
_PROMETHEUS_CPU = f"100 * avg_over_time((1 - {_IDLE})[10m:30s])"
_PROMETHEUS_MEMORY = f"100 * avg_over_time((1 - {_FREE})[10m:30s])"


class _Sample(msgspec.Struct):
    metric: dict[str, str] = {}
    value: tuple[float, str] = (0.0, "NaN")


class _Data(msgspec.Struct, rename="camel"):
    result_type: str = ""
    result: list[Any] = []


class _PrometheusResponse(msgspec.Struct):
    status: str = ""
    data: _Data = msgspec.field(default_factory=_Data)
    error: str = ""


async def read_prometheus(transport: Transport, settings: MetricsSettings) -> tuple[Percent, Percent]:
    """Read cpu and memory in percent by node."""
    return await _query(transport, settings, _PROMETHEUS_CPU), await _query(transport, settings, _PROMETHEUS_MEMORY)


async def _query(transport: Transport, settings: MetricsSettings, expression: str) -> Percent:
    """Run an instant query; returns values by instance."""
    who = f"Prometheus at {settings.address}"
    answer = decoded(
        await transport.request("GET", "/api/v1/query", query={"query": expression}), _PrometheusResponse, who
    )
    if answer.status != "success" or answer.data.result_type != "vector":
        msg = f"{who} answered {answer.status or 'nothing'} {answer.data.result_type} {answer.error}; expected a vector"
        raise MetricsError(msg)
    found: Percent = {}
    for item in answer.data.result:
        sample = msgspec.convert(item, _Sample)
        value = number(sample.value[1])
        if value is not None and (instance := sample.metric.get("instance")):
            found[instance] = value
    return found


MOST_NODES = 20_000
"""Maximum number of buckets in a response: one for each node."""
_ELASTICSEARCH_CPU, _ELASTICSEARCH_MEMORY = "host.cpu.usage", "system.memory.actual.used.pct"


class _Average(msgspec.Struct):
    value: float | None = None


class _Bucket(msgspec.Struct):
    key: str
    cpu: _Average = msgspec.field(default_factory=_Average)
    memory: _Average = msgspec.field(default_factory=_Average)


class _Nodes(msgspec.Struct):
    buckets: list[_Bucket] = []


class _Aggregations(msgspec.Struct):
    nodes: _Nodes = msgspec.field(default_factory=_Nodes)


class _ElasticsearchResponse(msgspec.Struct):
    aggregations: _Aggregations = msgspec.field(default_factory=_Aggregations)


async def read_elasticsearch(transport: Transport, settings: MetricsSettings) -> tuple[Percent, Percent]:
    """Read cpu and memory in percent by node."""
    given = settings.elasticsearch
    body = msgspec.json.encode(_search(given.hostname_field))
    answer = await transport.request("POST", f"/{given.index}/_search", body=body)
    buckets = decoded(answer, _ElasticsearchResponse, f"Elasticsearch at {settings.address}").aggregations.nodes.buckets
    return _percent_by_node(buckets, "cpu"), _percent_by_node(buckets, "memory")


def _search(hostname_field: str) -> dict[str, Any]:
    """Query the averages of the last ten minutes, by host."""
    averages = {"cpu": {"avg": {"field": _ELASTICSEARCH_CPU}}, "memory": {"avg": {"field": _ELASTICSEARCH_MEMORY}}}
    return {
        "size": 0,
        "query": {"range": {"@timestamp": {"gte": "now-10m", "lt": "now"}}},
        "aggs": {"nodes": {"terms": {"field": hostname_field, "size": MOST_NODES}, "aggs": averages}},
    }


def _percent_by_node(buckets: list[_Bucket], name: str) -> Percent:
    values = {bucket.key: number(getattr(bucket, name).value) for bucket in buckets}
    return {node: value * 100 for node, value in values.items() if value is not None}


_ADAPTER_PATH = "/apis/custom.metrics.k8s.io/v1beta1/nodes/*/"
_ADAPTER_CPU, _ADAPTER_MEMORY = "node_cpu_usage_avg", "node_memory_usage_avg"


class _DescribedObject(msgspec.Struct):
    name: str = ""


class _MetricValue(msgspec.Struct, rename="camel"):
    described_object: _DescribedObject = msgspec.field(default_factory=_DescribedObject)
    value: str = "0"


class _MetricValueList(msgspec.Struct):
    items: list[_MetricValue] = []


async def read_adapter(transport: Transport, settings: MetricsSettings) -> tuple[Percent, Percent]:  # noqa: ARG001 - the API server's address is known
    """Read cpu and memory in percent by node."""
    return await _metric(transport, _ADAPTER_CPU), await _metric(transport, _ADAPTER_MEMORY)


async def _metric(transport: Transport, name: str) -> Percent:
    answer = decoded(await transport.request("GET", _ADAPTER_PATH + name), _MetricValueList, f"custom metric {name}")
    try:
        return {item.described_object.name: float(parse(item.value) * 100) for item in answer.items}
    except QuantityError as error:
        raise MetricsError(f"custom metric {name}: {error}") from error


POLL_TIMEOUT = 60.0
"""Time limit of one poll, in seconds."""


class Reader(Protocol):
    """Reader for one kind of server: returns cpu and memory in percent, each by node."""

    async def __call__(self, transport: Transport, settings: MetricsSettings) -> tuple[Percent, Percent]:
        """Read once; raises MetricsError for an unusable response, TransportError without one."""
        ...


class _MetricsServer(NamedTuple):
    """A reader, and whether it uses the API server rather than an address of its own."""

    read: Reader
    of_api_server: bool


_SERVERS: Mapping[MetricsType, _MetricsServer] = {
    MetricsType.PROMETHEUS: _MetricsServer(read_prometheus, of_api_server=False),
    MetricsType.PROMETHEUS_ADAPTOR: _MetricsServer(read_adapter, of_api_server=True),
    MetricsType.ELASTICSEARCH: _MetricsServer(read_elasticsearch, of_api_server=False),
}


def node_metrics(api_server: Transport) -> Callable[[MetricsSettings], Source]:
    """Return the function that makes the source from settings."""

    def make(settings: MetricsSettings) -> Source:
        kind = _SERVERS[settings.type]

        async def source(feed: Feed) -> None:
            if kind.of_api_server:
                await _poll(kind.read, api_server, settings, feed)
                return
            transport = HttpTransport(_connection(settings), connections=4, timeout=POLL_TIMEOUT)
            try:
                await _poll(kind.read, transport, settings, feed)
            finally:
                with anyio.CancelScope(shield=True):
                    await transport.aclose()

        return source

    return make


async def _poll(read: Reader, transport: Transport, settings: MetricsSettings, feed: Feed) -> None:
    """Poll and publish until cancelled; raises on errors. Nodes with only one of both figures are skipped."""
    while True:
        cpu, memory = await read(transport, settings)
        now = feed.now()
        facts = {
            node: {"cpu": cpu[node], "memory": memory[node], "at": now, "every": settings.interval}
            for node in sorted(cpu.keys() & memory.keys())
        }
        feed.publish(facts, whole=True)
        await feed.sleep(settings.interval)


def _connection(settings: MetricsSettings) -> Connection:
    account = settings.elasticsearch if settings.type is MetricsType.ELASTICSEARCH else None
    header = basic_authorization(account.username, account.password) if account is not None and account.username else ""
    return Connection(
        server=settings.address, ssl=not settings.insecure_skip_verify, credentials=StaticCredentials(header)
    )
