"""Custom metrics of nodes at the API server, as prometheus-adapter serves them.

Source of the names: Volcano pkg/scheduler/metrics/source/metrics_client_prometheus_adaptor.go; fractions of 1.
"""

from __future__ import annotations

import msgspec

from volcanoio.framework.scheduling.metricsettings import MetricsSettings
from volcanoio.kube.transport import Transport
from volcanoio.model.quantity import QuantityError, parse
from volcanoio.runtime.nodemetrics.answers import MetricsError, Percent, decoded

PATH = "/apis/custom.metrics.k8s.io/v1beta1/nodes/*/"
CPU, MEMORY = "node_cpu_usage_avg", "node_memory_usage_avg"


class _Object(msgspec.Struct):
    name: str = ""


class _Value(msgspec.Struct, rename="camel"):
    described_object: _Object = msgspec.field(default_factory=_Object)
    value: str = "0"


class _Values(msgspec.Struct):
    items: list[_Value] = []


async def read_adaptor(transport: Transport, settings: MetricsSettings) -> tuple[Percent, Percent]:  # noqa: ARG001 - the API server's address is known
    """Cpu and memory in percent by node."""
    return await _metric(transport, CPU), await _metric(transport, MEMORY)


async def _metric(transport: Transport, name: str) -> Percent:
    answer = decoded(await transport.request("GET", PATH + name), _Values, f"custom metric {name}")
    try:
        return {item.described_object.name: float(parse(item.value) * 100) for item in answer.items}
    except QuantityError as error:
        msg = f"custom metric {name}: {error}"
        raise MetricsError(msg) from error
