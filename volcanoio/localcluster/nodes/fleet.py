"""Simulated nodes against any API server: registration, signs of life, what befalls them, and their pods."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence

import anyio

from volcanoio.kube.transport import Transport
from volcanoio.localcluster.clock import Clock
from volcanoio.localcluster.nodes.behaviour import DEFAULT_START_LATENCY
from volcanoio.localcluster.nodes.endpoints import Network, SimulatedEndpoints
from volcanoio.localcluster.nodes.executions import Executions
from volcanoio.localcluster.nodes.feed import Feed
from volcanoio.localcluster.nodes.hollow import hollow_nodes
from volcanoio.localcluster.nodes.intake import KubeletSettings, Overcommit
from volcanoio.localcluster.nodes.kubelets import Kubelets
from volcanoio.localcluster.nodes.recorder import Recorder
from volcanoio.localcluster.nodes.registration import LOCAL, Registration
from volcanoio.localcluster.nodes.runtime import SIMULATED, ContainerRuntime
from volcanoio.localcluster.nodes.shapes import NodeShape
from volcanoio.localcluster.nodes.timers import Timers
from volcanoio.localcluster.nodes.troubles import Troubles
from volcanoio.model import names
from volcanoio.model.core import Node, Pod
from volcanoio.model.kinds import NODE, POD

WRITERS = 16


class NodeFleet:
    """Simulated nodes; `run` until cancelled, `registered` is set when all are known.

    `kubelet_lag` (seconds) delays what nodes see of pods, and how long they count an ended one. `events=False` writes
    no Events. `runtimes` carry out containers of pods that ask for them by name (`nodes.runtime`), or of all pods that
    do not ask otherwise when `default_runtime` names one. `name` tells fleets of one cluster apart: each removes
    nodes of its own name that it no longer has.
    """

    def __init__(
        self,
        transport: Transport,
        shapes: Sequence[NodeShape],
        clock: Clock,
        *,
        kubelet_lag: float = 0.0,
        seed: int = 0,
        events: bool = True,
        start_latency: float = DEFAULT_START_LATENCY,
        runtimes: Mapping[str, ContainerRuntime] | None = None,
        default_runtime: str = SIMULATED,
        name: str = LOCAL,
    ) -> None:
        self.registered = asyncio.Event()
        nodes = hollow_nodes(shapes)
        self._timers, self._looks = Timers(clock), Timers(clock, patient=True)
        self._recorder = Recorder(transport, clock) if events else None
        settings = KubeletSettings(kubelet_lag, seed, start_latency)
        self._kubelets = Kubelets(transport, clock, nodes, self._timers, self._looks, self._recorder, settings)
        executions = self._kubelets.executions
        executions.runtimes, executions.default = runtimes or {}, default_runtime
        self._registration = Registration(transport, clock, nodes, self._recorder, name)
        self._troubles = Troubles(
            transport, clock, nodes, self._timers, self._looks, self._registration, self._kubelets
        )
        mine = {"labelSelector": f"{names.SIM_NODE}={name}"}
        self._node_feed = Feed(transport, clock, NODE, Node, mine, self._troubles)
        self._pod_feed = Feed(transport, clock, POD, Pod, {"fieldSelector": "spec.nodeName!="}, self._kubelets)

    @property
    def pods(self) -> int:
        """Pods the nodes know and have not finished with."""
        return len(self._kubelets.entries)

    @property
    def overcommitted(self) -> list[Overcommit]:
        """The alarm: every pod refused for lack of resources, so somebody's scheduler is wrong."""
        return self._kubelets.intake.overcommitted

    @property
    def executions(self) -> Executions:
        """What runtimes carry out; while any of it is active, time must not be skipped."""
        return self._kubelets.executions

    def endpoints(self, network: Network) -> SimulatedEndpoints:
        """What serves in its pods; real ones are asked by way of `network`."""
        return SimulatedEndpoints(self._kubelets.entries, network)

    async def run(self) -> None:
        """Register the nodes, then serve until cancelled."""
        intake = self._kubelets.intake
        intake.attempts.resumed, intake.removed = await self._registration.register()
        self.registered.set()
        async with anyio.create_task_group() as tasks:
            self._kubelets.executions.use(tasks)
            tasks.start_soon(self._timers.run)
            tasks.start_soon(self._looks.run)
            tasks.start_soon(self._registration.keep_alive)
            tasks.start_soon(self._troubles.run)
            if self._recorder is not None:
                tasks.start_soon(self._recorder.run)
            for _ in range(WRITERS):
                tasks.start_soon(self._kubelets.work)
            tasks.start_soon(self._node_feed.run)
            await self._troubles.known.wait()
            await self._pod_feed.run()
