"""A fleet of simulated nodes against any API server: registration, heartbeats, pods and their endpoints.

`NodeFleet` runs all parts; `SimulatedEndpoints` answers for containers that are only simulated.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

import anyio

from volcanoio.framework.effects import CheckEndpoint
from volcanoio.kube.transport import Transport
from volcanoio.localcluster.clock import Clock
from volcanoio.localcluster.nodes.api_access import Reflector, WatchedKind
from volcanoio.localcluster.nodes.container_runtime import SIMULATED, ContainerRuntime
from volcanoio.localcluster.nodes.executions import Executions
from volcanoio.localcluster.nodes.hollow import FleetContext, NodeShape, hollow_nodes
from volcanoio.localcluster.nodes.kubelets import Kubelets
from volcanoio.localcluster.nodes.numa import NumaReports
from volcanoio.localcluster.nodes.outages import Outages
from volcanoio.localcluster.nodes.pod_admission import Entry, KubeletSettings, Overcommit
from volcanoio.localcluster.nodes.pod_events import KubeletEvents
from volcanoio.localcluster.nodes.pods.behaviour import DEFAULT_START_LATENCY
from volcanoio.localcluster.nodes.registration import LOCAL, Registration
from volcanoio.localcluster.timers import Timers
from volcanoio.model import names
from volcanoio.model.core import Node, Pod
from volcanoio.model.kinds import NODE, POD

LOOPBACK = "127."
"""Prefix of the addresses of pods that run as processes; checks of those are sent."""


class EndpointCheck(Protocol):
    """Protocol of checks of real endpoints (`runtime.endpoints`)."""

    async def check(self, effect: CheckEndpoint) -> tuple[int, str]:
        """Return the HTTP status; 0 and the reason without an answer."""
        ...


class SimulatedEndpoints:
    """Endpoint checks of simulated pods, by uid; checks of others go to `network`."""

    def __init__(self, pods: Mapping[str, Entry], network: EndpointCheck) -> None:
        self._pods = pods
        self._network = network

    async def check(self, effect: CheckEndpoint) -> tuple[int, str]:
        """Return 200 for a ready pod, and 0 for one that is not ready or deleted."""
        if effect.host.startswith(LOOPBACK) or not effect.pod:
            return await self._network.check(effect)
        known = self._pods.get(effect.pod)
        if known is None or known.run is None:
            return 0, "no route to host"
        mains = known.run.mains
        return (200, "") if mains and all(container.ready for container in mains) else (0, "connection refused")


WRITERS = 16


@dataclass(frozen=True, kw_only=True)
class FleetOptions:
    """Options of a fleet.

    `kubelet_lag` (seconds) delays what nodes observe of pods, and how long they count an ended one. `events=False`
    writes no Events. `runtimes` run containers of pods that request them by name, or of all other pods when
    `default_runtime` names one. `name` distinguishes the fleets of a cluster: each removes nodes of its own name that
    it no longer has. `unknown_node` is called with a node's name when a pod is on a node of no fleet.
    """

    kubelet_lag: float = 0.0
    seed: int = 0
    events: bool = True
    start_latency: float = DEFAULT_START_LATENCY
    runtimes: Mapping[str, ContainerRuntime] = field(default_factory=dict)
    default_runtime: str = SIMULATED
    name: str = LOCAL
    unknown_node: Callable[[str], None] | None = None


DEFAULT_OPTIONS = FleetOptions()


class NodeFleet:
    """Simulated nodes; `run` serves until cancelled, `registered` is set when all are stored."""

    def __init__(
        self,
        transport: Transport,
        shapes: Sequence[NodeShape],
        clock: Clock,
        options: FleetOptions = DEFAULT_OPTIONS,
    ) -> None:
        self.registered = asyncio.Event()
        nodes = hollow_nodes(shapes)
        self._context = FleetContext(transport, clock, nodes, Timers(clock), Timers(clock, patient=True))
        self._events = KubeletEvents(transport, clock) if options.events else None
        settings = KubeletSettings(options.kubelet_lag, options.seed, options.start_latency)
        self._kubelets = Kubelets(self._context, self._events, settings)
        self._kubelets.intake.unknown_node = options.unknown_node
        executions = self._kubelets.executions
        executions.runtimes, executions.default = options.runtimes, options.default_runtime
        self._registration = Registration(transport, clock, nodes, self._events, options.name)
        managers = {name: node.cpus for name, node in nodes.items() if node.cpus is not None}
        self._numa_reports = NumaReports(transport, clock, managers)
        self._outages = Outages(self._context, self._registration, self._kubelets)
        own_nodes = WatchedKind(NODE, Node, {"labelSelector": f"{names.SIM_NODE}={options.name}"})
        self._node_feed = Reflector(transport, clock, own_nodes, self._outages)
        bound_pods = WatchedKind(POD, Pod, {"fieldSelector": "spec.nodeName!="})
        self._pod_feed = Reflector(transport, clock, bound_pods, self._kubelets)

    @property
    def pods(self) -> int:
        """Number of unfinished pods on the nodes."""
        return len(self._kubelets.entries)

    @property
    def overcommitted(self) -> list[Overcommit]:
        """Pods refused because their node had too few free resources: an error of a scheduler."""
        return self._kubelets.intake.overcommitted

    @property
    def executions(self) -> Executions:
        """Pods that container runtimes run; while any is active, time must not be skipped."""
        return self._kubelets.executions

    def endpoints(self, network: EndpointCheck) -> SimulatedEndpoints:
        """Return the endpoints of simulated pods; real ones are called through `network`."""
        return SimulatedEndpoints(self._kubelets.entries, network)

    async def run(self) -> None:
        """Register the nodes, then serve until cancelled."""
        intake = self._kubelets.intake
        intake.attempts.resumed, intake.removed = await self._registration.register()
        self.registered.set()
        async with anyio.create_task_group() as tasks:
            self._kubelets.executions.use(tasks)
            tasks.start_soon(self._context.timers.run)
            tasks.start_soon(self._context.patient_timers.run)
            tasks.start_soon(self._registration.keep_alive)
            tasks.start_soon(self._outages.run)
            if self._events is not None:
                tasks.start_soon(self._events.run)
            for _ in range(WRITERS):
                tasks.start_soon(self._kubelets.work)
            tasks.start_soon(self._node_feed.run)
            tasks.start_soon(self._numa_reports.run)
            await self._outages.known.wait()
            await self._pod_feed.run()
