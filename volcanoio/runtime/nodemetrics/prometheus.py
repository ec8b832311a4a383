"""Prometheus: averages of ten minutes over node-exporter's figures, whose `instance` is the node's name.

Source of the expressions: Volcano pkg/scheduler/metrics/source/metrics_client_prometheus.go; one query asks for all
nodes. HTTP API: https://prometheus.io/docs/prometheus/latest/querying/api/#instant-queries.
"""

from __future__ import annotations

from typing import Any

import msgspec

from volcanoio.framework.scheduling.metricsettings import MetricsSettings
from volcanoio.kube.transport import Transport
from volcanoio.runtime.nodemetrics.answers import MetricsError, Percent, decoded, number

_IDLE = 'avg by (instance) (rate(node_cpu_seconds_total{mode="idle"}[5m]))'
_FREE = "max by (instance) (node_memory_MemAvailable_bytes / node_memory_MemTotal_bytes)"
CPU = f"100 * avg_over_time((1 - {_IDLE})[10m:30s])"
MEMORY = f"100 * avg_over_time((1 - {_FREE})[10m:30s])"


class _Sample(msgspec.Struct):
    metric: dict[str, str] = {}
    value: tuple[float, str] = (0.0, "NaN")


class _Data(msgspec.Struct, rename="camel"):
    result_type: str = ""
    result: list[Any] = []


class _Answer(msgspec.Struct):
    status: str = ""
    data: _Data = msgspec.field(default_factory=_Data)
    error: str = ""


async def read_prometheus(transport: Transport, settings: MetricsSettings) -> tuple[Percent, Percent]:
    """Cpu and memory in percent by node."""
    return await _query(transport, settings, CPU), await _query(transport, settings, MEMORY)


async def _query(transport: Transport, settings: MetricsSettings, expression: str) -> Percent:
    """An instant query by instance."""
    who = f"Prometheus at {settings.address}"
    answer = decoded(await transport.request("GET", "/api/v1/query", query={"query": expression}), _Answer, who)
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
