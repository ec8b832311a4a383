"""What simulated containers use: what their pod says, else a share of what they requested.

kwok's annotations give each container's usage; a container without requests uses next to nothing.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from volcanoio.model import names, quantity
from volcanoio.model.base import Manifest
from volcanoio.model.quantity import QuantityError

SHARE = 0.5
"""The part of its requests that a container uses unless its pod says otherwise."""
_LEAST_CPU, _LEAST_MEMORY = 1, 2**20


class Usage(NamedTuple):
    """CPU in milli-cores, memory in bytes."""

    cpu: int = 0
    memory: int = 0

    def resources(self) -> dict[str, str]:
        """As metrics-server writes it."""
        return {"cpu": f"{self.cpu}m", "memory": f"{self.memory // 1024}Ki"}


def container_usages(pod: Manifest) -> dict[str, Usage]:
    """The usage of each container that runs, by name; sidecars after the others."""
    spec, status = pod["spec"], pod.get("status") or {}
    statuses = (*(status.get("containerStatuses") or ()), *(status.get("initContainerStatuses") or ()))
    running = {one["name"] for one in statuses if "running" in (one.get("state") or {})}
    annotations = pod["metadata"].get("annotations") or {}
    containers = (*(spec.get("containers") or ()), *(spec.get("initContainers") or ()))
    return {one["name"]: _usage(one, annotations) for one in containers if one["name"] in running}


def _usage(container: Manifest, annotations: Manifest) -> Usage:
    requests = (container.get("resources") or {}).get("requests") or {}
    cpu = _said(annotations.get(names.KWOK_USAGE_CPU), 1000)
    memory = _said(annotations.get(names.KWOK_USAGE_MEMORY), 1)
    return Usage(
        max(_LEAST_CPU, int((_said(requests.get("cpu"), 1000) or 0) * SHARE)) if cpu is None else cpu,
        max(_LEAST_MEMORY, int((_said(requests.get("memory"), 1) or 0) * SHARE)) if memory is None else memory,
    )


def _said(text: object, scale: int) -> int | None:
    """A quantity times `scale`, rounded up; None when there is none that can be read."""
    if text is None:
        return None
    try:
        exact = quantity.parse(str(text)) * scale
    except QuantityError:
        return None
    return -(-exact.numerator // exact.denominator)


def total(usages: Iterable[Usage]) -> Usage:
    """All of them together."""
    cpu = memory = 0
    for one in usages:
        cpu += one.cpu
        memory += one.memory
    return Usage(cpu, memory)
