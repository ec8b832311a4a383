"""What a pod asks for as a whole: its containers together, or the largest step of its initialisation.

Kubernetes: component-helpers/resource. Restartable init containers (sidecars) run beside all that start after them.
Amounts stated for the pod itself replace the sums of cpu, memory and huge pages.
"""

from __future__ import annotations

from typing import Any, Literal

from volcanoio.localcluster.apiserver.plugins.amounts import Amounts, added, amounts, largest
from volcanoio.model.base import Manifest


def pod_amounts(spec: Manifest, what: Literal["requests", "limits"]) -> Amounts:
    """The requests or limits of a pod's spec; overhead included as Kubernetes counts it."""
    total: Amounts = {}
    for container in spec.get("containers") or ():
        total = added(total, _of(container, what))
    sidecars: Amounts = {}
    peak: Amounts = {}
    for container in spec.get("initContainers") or ():
        own = _of(container, what)
        if container.get("restartPolicy") == "Always":
            total, sidecars = added(total, own), added(sidecars, own)
            peak = largest(peak, sidecars)
        else:
            peak = largest(peak, added(own, sidecars))
    total = largest(total, peak)
    stated = _of(spec, what)
    total |= {name: one for name, one in stated.items() if name in {"cpu", "memory"} or name.startswith("hugepages-")}
    return total


def with_overhead(spec: Manifest, total: Amounts, what: Literal["requests", "limits"]) -> Amounts:
    """The total and the pod's overhead, which adds to limits only where there is one."""
    overhead = amounts(spec.get("overhead"))
    if what == "limits":
        overhead = {name: one for name, one in overhead.items() if name in total}
    return added(total, overhead)


def _of(holder: Any, what: str) -> Amounts:
    resources = holder.get("resources")
    return amounts(resources.get(what)) if isinstance(resources, dict) else {}
