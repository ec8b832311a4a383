"""What serves in pods of simulated nodes: a container that is only simulated answers while its pod is ready."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

from volcanoio.framework.effects import CheckEndpoint
from volcanoio.localcluster.nodes.intake import Entry

LOOPBACK = "127."
"""Where the addresses of pods that are processes begin: those are really asked."""


class Network(Protocol):
    """How real endpoints are asked (`runtime.endpoints`)."""

    async def check(self, effect: CheckEndpoint) -> tuple[int, str]:
        """The HTTP status, 0 and the reason when nobody answered."""
        ...


class SimulatedEndpoints:
    """Answers for pods that nodes know, by uid; passes on what is about others."""

    def __init__(self, pods: Mapping[str, Entry], network: Network) -> None:
        self._pods = pods
        self._network = network

    async def check(self, effect: CheckEndpoint) -> tuple[int, str]:
        """200 from a ready pod; 0 from one that is not, or is gone."""
        if effect.host.startswith(LOOPBACK) or not effect.pod:
            return await self._network.check(effect)
        known = self._pods.get(effect.pod)
        if known is None or known.run is None:
            return 0, "no route to host"
        mains = known.run.mains
        return (200, "") if mains and all(container.ready for container in mains) else (0, "connection refused")
