"""Elasticsearch: averages of ten minutes over what metricbeat has written, by host.

Source of the fields: Volcano pkg/scheduler/metrics/source/metrics_client_elasticsearch.go; fractions of 1.
"""

from __future__ import annotations

from typing import Any

import msgspec

from volcanoio.framework.scheduling.metricsettings import MetricsSettings
from volcanoio.kube.transport import Transport
from volcanoio.runtime.nodemetrics.answers import Percent, decoded, number

MOST_NODES = 20_000
"""Buckets asked for: one a node."""
CPU, MEMORY = "host.cpu.usage", "system.memory.actual.used.pct"


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


class _Answer(msgspec.Struct):
    aggregations: _Aggregations = msgspec.field(default_factory=_Aggregations)


async def read_elasticsearch(transport: Transport, settings: MetricsSettings) -> tuple[Percent, Percent]:
    """Cpu and memory in percent by node."""
    given = settings.elasticsearch
    body = msgspec.json.encode(_search(given.hostname_field))
    answer = await transport.request("POST", f"/{given.index}/_search", body=body)
    buckets = decoded(answer, _Answer, f"Elasticsearch at {settings.address}").aggregations.nodes.buckets
    return _percent(buckets, "cpu"), _percent(buckets, "memory")


def _search(hostname_field: str) -> dict[str, Any]:
    """The averages of the last ten minutes, by host."""
    averages = {"cpu": {"avg": {"field": CPU}}, "memory": {"avg": {"field": MEMORY}}}
    return {
        "size": 0,
        "query": {"range": {"@timestamp": {"gte": "now-10m", "lt": "now"}}},
        "aggs": {"nodes": {"terms": {"field": hostname_field, "size": MOST_NODES}, "aggs": averages}},
    }


def _percent(buckets: list[_Bucket], name: str) -> Percent:
    values = {bucket.key: number(getattr(bucket, name).value) for bucket in buckets}
    return {node: value * 100 for node, value in values.items() if value is not None}
