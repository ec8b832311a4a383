"""How busy nodes are, by the NodeMetrics of a state: what the source `node-metrics` would have said.

`kubectl get nodemetrics -o yaml` prints them (metrics.k8s.io). Their usage is of half a minute where Volcano's is the
average of ten; percentages are of the node's capacity.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import msgspec

from volcanoio.framework.scheduling.sources import NODE_METRICS, NodeUsage
from volcanoio.framework.scheduling_events import FactsSaid
from volcanoio.model.core import Node
from volcanoio.model.quantity import QuantityError, milli, value

GROUP, KIND = "metrics.k8s.io", "NodeMetrics"


class _Metadata(msgspec.Struct):
    name: str


class _Usage(msgspec.Struct):
    cpu: str
    memory: str


class Measured(msgspec.Struct):
    """A NodeMetrics object, as far as it is read."""

    metadata: _Metadata
    usage: _Usage

    @property
    def cpu(self) -> int:
        """What is used, in millicores."""
        return milli(self.usage.cpu)

    @property
    def memory(self) -> int:
        """What is used, in bytes."""
        return value(self.usage.memory)


def measured(item: Any) -> Measured:
    """A NodeMetrics object from a mapping or JSON. Raises ValidationError and QuantityError."""
    if isinstance(item, bytes | msgspec.Raw):
        found = msgspec.json.decode(item, type=Measured)
    else:
        found = msgspec.convert(item, Measured)
    for name in ("cpu", "memory"):
        try:
            getattr(found, name)
        except QuantityError as error:
            msg = f"usage[{name}]: {error}"
            raise QuantityError(msg) from None
    return found


def said(usage: Iterable[Measured], nodes: Iterable[Node], *, now: float, every: float) -> FactsSaid | None:
    """The event that tells the usage of nodes as of now; None where there is none to tell."""
    by_name = {each.metadata.name: each for each in usage}
    facts = {}
    for node in nodes:
        found = by_name.get(node.metadata.name)
        whole = {**node.status.allocatable, **node.status.capacity}
        cpu, memory = milli(whole.get("cpu", 0)), value(whole.get("memory", 0))
        if found is not None and cpu and memory:
            busy = NodeUsage(cpu=100 * found.cpu / cpu, memory=100 * found.memory / memory, at=now, every=every)
            facts[node.metadata.name] = msgspec.to_builtins(busy)
    return FactsSaid(at=now, source=NODE_METRICS, facts=facts, whole=True) if facts else None
