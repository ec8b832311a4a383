"""The controllers of a local cluster and the async host that runs them: informers in, writes, Events and timers out.

All decisions are made in `engine.hosting` and in the controllers, which are `Reconciler`s of the framework. Responses
to our own writes are in the cache before the key is reconciled again, so a late watch never causes a second creation.
`all_controllers` lists the controllers; add new ones there.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Sequence
from itertools import count

import structlog
from msgspec.structs import replace

from volcanoio.engine.hosting.controller_host import InvariantError
from volcanoio.engine.hosting.host import Host
from volcanoio.framework.effects import LocalEffect, StartTimer
from volcanoio.framework.events import Event, Observed, Synced, TimerFired
from volcanoio.framework.objects import Objects
from volcanoio.framework.probe import Probe
from volcanoio.kube.effect_executor import EffectExecutor, EffectSinks
from volcanoio.kube.event_recorder import EventRecorder
from volcanoio.kube.informer import InformerSet
from volcanoio.kube.object_writer import Writable
from volcanoio.kube.sender import Sender, SendLimits
from volcanoio.kube.transport import Transport
from volcanoio.localcluster.clock import Clock
from volcanoio.localcluster.controllers.contract import ClusterController
from volcanoio.localcluster.controllers.daemonsets import DaemonSetController
from volcanoio.localcluster.controllers.deployments.controller import DeploymentController
from volcanoio.localcluster.controllers.disruption import BudgetController
from volcanoio.localcluster.controllers.endpoints.controller import EndpointsController
from volcanoio.localcluster.controllers.jobs.controller import JobController
from volcanoio.localcluster.controllers.nodelifecycle import NodeHealthController
from volcanoio.localcluster.controllers.objects import KINDS, REPLICATION_CONTROLLER
from volcanoio.localcluster.controllers.podgc import PodCollector
from volcanoio.localcluster.controllers.replicasets import ReplicaSetController
from volcanoio.localcluster.controllers.statefulsets import StatefulSetController
from volcanoio.localcluster.controllers.tainteviction import TaintEvictionController
from volcanoio.localcluster.timers import Timers
from volcanoio.model.kinds import Kind

_log = structlog.get_logger(__name__)


class ControllerManager:
    """Runs controllers over one transport, `run` until cancelled. Times are the cluster's (`clock`).

    Only the primary kinds are watched at first, and what a controller reads once it `wakes`: most clusters have no
    use for most controllers, and pods are many.
    """

    def __init__(
        self,
        transport: Transport,
        clock: Clock,
        controllers: Sequence[ClusterController],
        *,
        probe: Probe | None = None,
    ) -> None:
        self._clock = clock
        self._controllers = {controller.name: controller for controller in controllers}
        self._host = Host(controllers, on_fault=_log_fault)
        self.objects = Objects(self._host.cache)
        self._dormant: dict[str, list[ClusterController]] = {}
        for controller in controllers:
            self._dormant.setdefault(controller.primary.resource, []).append(controller)
        self._sequence = count(1)
        self._timers = Timers(clock)
        self._timer_ids: dict[tuple[str, str, str], int] = {}
        self._informers = InformerSet(transport, self._publish, clock=clock, probe=probe)
        self._watched: set[str] = set()
        self._recorder = EventRecorder(transport, component="kube-controller-manager", clock=clock, probe=probe)
        self._executor = EffectExecutor(
            Sender(transport, clock=clock, limits=SendLimits(patience=10.0)),
            EffectSinks(publish=self._publish, own=self._informers, local=self._set_timer),
            recorder=self._recorder,
            writable=Writable(known=KINDS),
            probe=probe,
        )
        self._started = asyncio.Event()

    async def run(self) -> None:
        """Watch and act until cancelled."""
        for controller in self._controllers.values():
            self._watch(controller.primary)
        async with self._executor, asyncio.TaskGroup() as tasks:
            tasks.create_task(self._informers.run())
            tasks.create_task(self._recorder.run())
            tasks.create_task(self._timers.run())
            for controller in self._controllers.values():
                if controller.resync_period:
                    tasks.create_task(self._resync(controller))
            self._started.set()

    async def synced(self) -> None:
        """Return once the primary kinds were listed."""
        await self._started.wait()
        await self._informers.synced()

    def wake(self, name: str) -> None:
        """Start a controller though no change of its primary kind woke it."""
        controller = self._controllers[name]
        dormant = self._dormant.get(controller.primary.resource, [])
        if controller in dormant:
            dormant.remove(controller)
            for kind in controller.reads:
                self._watch(kind)

    def _watch(self, kind: Kind) -> None:
        if kind.resource not in self._watched:
            self._watched.add(kind.resource)
            self._informers.informer(kind)

    def _publish(self, events: Iterable[Event]) -> None:
        for event in events:
            self._handle(replace(event, seq=next(self._sequence), at=self._clock.now()))

    def _handle(self, event: Event) -> None:
        for dispatch in self._host.handle(event):  # type: ignore[arg-type]  # informers and executor publish no others
            self._executor.submit(dispatch.controller, dispatch.key, dispatch.stages, dispatch.cause)
        if isinstance(event, Observed) and (dormant := self._dormant.get(event.resource)):
            for controller in [each for each in dormant if each.wakes(event)]:
                self.wake(controller.name)

    def _set_timer(self, controller: str, key: str, effect: LocalEffect) -> None:
        """Start, replace or stop a timer; reconcilers have no other local effects."""
        name = (controller, key, effect.name)  # type: ignore[union-attr]  # see above
        self._timer_ids.pop(name, None)
        if isinstance(effect, StartTimer):
            self._timer_ids[name] = effect.id
            self._timers.at(effect.due, lambda: self._fire(name, effect.id))

    def _fire(self, name: tuple[str, str, str], timer_id: int) -> None:
        if self._timer_ids.get(name) == timer_id:  # else it was replaced or stopped
            del self._timer_ids[name]
            controller, key, timer = name
            self._publish([TimerFired(controller=controller, key=key, name=timer)])

    async def _resync(self, controller: ClusterController) -> None:
        """Reconcile all keys from time to time, without hurrying a clock for it."""
        while True:
            await self._clock.idle(controller.resync_period)
            event = Synced(seq=next(self._sequence), at=self._clock.now(), resource="")
            for dispatch in self._host.resync(controller.name, event):
                self._executor.submit(dispatch.controller, dispatch.key, dispatch.stages, dispatch.cause)


def _log_fault(fault: InvariantError) -> None:
    _log.error("controller failed", controller=fault.controller, key=fault.key, exc_info=fault.__cause__)


def all_controllers() -> tuple[ClusterController, ...]:
    """Return one of each; add new ones here."""
    return (
        ReplicaSetController(),
        ReplicaSetController(REPLICATION_CONTROLLER, "replication-controller"),
        DeploymentController(),
        StatefulSetController(),
        DaemonSetController(),
        JobController(),
        BudgetController(),
        EndpointsController(),
        NodeHealthController(),
        TaintEvictionController(),
        PodCollector(),
    )
