"""Latency-bound pods beside a full batch load: `python -m bench.agents [--rate 500] [--seconds 10] [--nodes 2000]`.

The scheduler's actor and bus in one process with everything else, on one event loop. Gangs of 8 are created, bound, run
for a moment, and are deleted and created again, all as fast as the loop can: there are always gangs to place. Beside
them pods of the agent scheduler are created at a fixed rate. The API server is a table in memory: it binds what it is
sent at the next turn of the loop, and publishes what watches would show. Prints one JSON object with the times from the
moment at which an agent's pod was due to be created until it is bound: first as latency-bound pods, then, for
comparison, as single pods that are placed after all gangs of a cycle.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import time
from collections import deque
from collections.abc import Sequence
from typing import Any

import anyio
import msgspec

from bench.machine import machine, software
from bench.scheduling.driving import freeze_garbage
from bench.statistics import percentile
from bench.workload import Workload
from volcanoio.bus.event_bus import EventBus
from volcanoio.engine.scheduling.cluster.state import REQUIRED_RESOURCES, ClusterState, StateOptions
from volcanoio.engine.scheduling.config.profile import WATCHABLE
from volcanoio.framework.events import Change, Event, Observed, Synced
from volcanoio.framework.scheduling_effects import BindBatch
from volcanoio.framework.scheduling_events import BindDone
from volcanoio.kube.clock import WallClock
from volcanoio.model import kinds
from volcanoio.model.base import ApiObject, ObjectMeta
from volcanoio.model.core import Container, Pod, PodSpec, PodStatus, ResourceList, ResourceRequirements
from volcanoio.model.names import GROUP_NAME
from volcanoio.model.scheduling import PodGroup
from volcanoio.runtime.loading.registry import discover
from volcanoio.runtime.scheduler.dispatcher import Writers
from volcanoio.runtime.scheduler.scheduler import Scheduler, SchedulerOptions
from volcanoio.runtime.scheduler.setup import PluginCatalog

AGENT = "agent-scheduler"
LIFE = 0.5
"""Seconds from a bind until the pod is deleted."""
EVENTS_PER_TURN = 64
"""Events published between two turns of the loop, as an informer does with a busy watch."""
REQUEST: ResourceList = {"cpu": "50m", "memory": "64Mi"}
WARM_UP = 2.0
"""Seconds that are not measured, once every gang was bound."""
TICK = 0.001
"""Seconds between two looks for what is due."""


class StillInformers:
    """Informers that watch nothing: events are published directly."""

    def informer(self, kind: kinds.Kind, **_: str) -> object:
        """Accept a kind."""
        return kind

    def forget(self, kind: kinds.Kind) -> None:
        """Accept that a kind is no longer needed."""

    async def run(self) -> None:
        """Wait until cancelled."""
        await anyio.sleep_forever()


class Table:
    """The API server: pods by uid; carries out binds, and publishes every change as watches would."""

    def __init__(self, bus: EventBus) -> None:
        self._bus = bus
        self.pods: dict[str, Pod] = {}
        self.groups: dict[str, tuple[PodGroup, list[Pod]]] = {}
        self._revision, self._gang_pods = 1, 0
        self.due: dict[str, float] = {}
        """When each agent's pod was due to be created."""
        self.latencies: list[tuple[float, float]] = []
        """Time of a bind, and the seconds since the pod was due."""
        self.bound = 0
        self.filled = asyncio.Event()
        """Set once as many pods of gangs were bound as there are."""
        self.ended: deque[tuple[float, str]] = deque()
        """When agents' pods, by uid, and gangs, by key, end."""

    def fill(self, workload: Workload) -> None:
        """Publish the cluster with its gangs, and that everything is listed."""
        groups = {group.metadata.key: group for group in workload.group_objects()}
        pods: dict[str, list[Pod]] = {}
        for pod in workload.pod_objects():
            pods.setdefault(f"{pod.metadata.namespace}/{pod.metadata.annotations[GROUP_NAME]}", []).append(pod)
        self.groups = {key: (group, pods[key]) for key, group in groups.items()}
        self._gang_pods = workload.pods
        every = (workload.node_objects(), workload.queue_objects(), groups.values(), *pods.values())
        self._bus.publish([self.show(obj) for objects in every for obj in objects])
        self._bus.publish([Synced(resource=resource) for resource in (*REQUIRED_RESOURCES, *sorted(WATCHABLE))])

    def show(self, obj: ApiObject, change: Change = Change.APPEARED) -> Observed:
        """Return the event of an object's new version."""
        self._revision += 1
        meta = msgspec.structs.replace(obj.metadata, resource_version=str(self._revision))
        obj = msgspec.structs.replace(obj, metadata=meta)
        if isinstance(obj, Pod):
            if change is Change.GONE:
                self.pods.pop(meta.uid, None)
            else:
                self.pods[meta.uid] = obj
        return Observed(resource=kinds.of(obj).resource, change=change, object=obj)

    def submit(self, first: BindBatch | object, *_: Any, cause: int = 0, **__: Any) -> None:
        """Carry out binds at the next turn of the loop; other writes have no effect."""
        if isinstance(first, BindBatch):
            asyncio.get_running_loop().call_soon(self._bind, first, cause)

    def _bind(self, batch: BindBatch, cause: int) -> None:
        now, events = time.perf_counter(), list[Event]()
        for bind in batch.binds:
            if (pod := self.pods.get(bind.uid)) is None:
                continue
            where: dict[str, Any] = {"uid": bind.uid, "namespace": bind.namespace, "name": bind.name, "node": bind.node}
            events.append(BindDone(group=batch.group, cause=cause, **where))
            spec = msgspec.structs.replace(pod.spec, node_name=bind.node)
            events.append(self.show(msgspec.structs.replace(pod, spec=spec), Change.CHANGED))
            if (due := self.due.pop(bind.uid, None)) is not None:
                self.latencies.append((now, now - due))
                self.ended.append((now + LIFE, bind.uid))
            else:
                self.bound += 1
        if batch.group in self.groups:
            self.ended.append((now + LIFE, batch.group))
        if self.bound >= self._gang_pods:
            self.filled.set()
        self._bus.publish(events)

    async def recycle(self) -> None:
        """Delete what has ended, and create its gangs again, a few events at a time."""
        while True:
            await asyncio.sleep(TICK)
            now, events = time.perf_counter(), list[Event]()
            while self.ended and self.ended[0][0] <= now and len(events) < EVENTS_PER_TURN:
                key = self.ended.popleft()[1]
                if (pod := self.pods.get(key)) is not None:
                    events.append(self.show(pod, Change.GONE))
                elif key in self.groups:
                    group, pods = self.groups[key]
                    known = [self.pods[pod.metadata.uid] for pod in pods if pod.metadata.uid in self.pods]
                    events += [self.show(pod, Change.GONE) for pod in known]
                    events += [self.show(group, Change.GONE), self.show(group), *map(self.show, pods)]
            if events:
                self._bus.publish(events)

    async def create_agents(self, rate: float) -> None:
        """Create pods at a rate, until cancelled."""
        began, number = time.perf_counter(), 0
        while True:
            await asyncio.sleep(TICK)
            while (due := began + number / rate) <= time.perf_counter():
                number += 1
                meta = ObjectMeta(name=f"agent-{number}", namespace="agents", uid=f"agent-{number}")
                container = Container(name="main", resources=ResourceRequirements(requests=REQUEST))
                spec = PodSpec(scheduler_name=AGENT, containers=(container,))
                self.due[meta.uid] = due
                self._bus.publish([self.show(Pod(metadata=meta, spec=spec, status=PodStatus(phase="Pending")))])


async def measure(workload: Workload, rate: float, seconds: float, options: StateOptions) -> dict[str, Any]:
    """Run the actor under load; returns the figures of the agents' pods, if any, and of the gangs."""
    clock = WallClock()
    bus = EventBus(clock.now)
    scheduler = Scheduler(
        bus=bus, informers=StillInformers(), clock=clock, known=PluginCatalog.of(discover()),
        options=SchedulerOptions(state=ClusterState(options)),
    )  # fmt: skip
    async with anyio.create_task_group() as tasks:
        table = Table(bus)
        edge: Any = table
        tasks.start_soon(scheduler.run, Writers(edge, edge, edge, _NoClient()))  # type: ignore[arg-type]  # queues exist
        await asyncio.sleep(0)
        table.fill(workload)
        freeze_garbage()
        tasks.start_soon(table.recycle)
        if rate:
            tasks.start_soon(table.create_agents, rate)
        await table.filled.wait()
        await asyncio.sleep(WARM_UP)
        began, bound, cycles = time.perf_counter(), table.bound, scheduler.cycles
        await asyncio.sleep(seconds)
        ended = time.perf_counter()
        figures: dict[str, Any] = {
            "gang_pods_bound_per_second": round((table.bound - bound) / (ended - began)),
            "cycles_per_second": round((scheduler.cycles - cycles) / (ended - began)),
        }
        if found := [latency for at, latency in table.latencies if began <= at <= ended]:
            figures |= {"agent_pods_bound_per_second": round(len(found) / (ended - began))}
            figures |= {f"p{part}_ms": round(1000 * percentile(found, part / 100), 2) for part in (50, 90, 99)}
            figures |= {"longest_ms": round(1000 * max(found), 2), "agent_pods_waiting_at_the_end": len(table.due)}
        tasks.cancel_scope.cancel()
    return figures


class _NoClient:
    """A client of an API server on which every object exists."""

    async def get_raw(self, *_: object) -> object:
        """Return that an object exists."""
        return {}


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure and print."""
    parser = argparse.ArgumentParser(prog="python -m bench.agents", description=__doc__)
    parser.add_argument("--nodes", type=int, default=2_000)
    parser.add_argument("--pods", type=int, default=20_000, help="pods in gangs of 8 that exist at any time")
    parser.add_argument("--rate", type=float, default=500.0, help="pods of agents per second")
    parser.add_argument("--seconds", type=float, default=10.0, help="duration of each of the three runs")
    given = parser.parse_args(arguments)
    workload = Workload(given.nodes, given.pods, 8)
    names = frozenset({AGENT})
    runs = {
        "gangs_alone": (0.0, StateOptions()),
        "latency_bound": (given.rate, StateOptions(agent_schedulers=names)),
        "after_all_gangs": (given.rate, StateOptions(single_pod_schedulers=names)),
    }
    figures = {
        name: anyio.run(measure, workload, rate, given.seconds, options) for name, (rate, options) in runs.items()
    }
    result = {"nodes": given.nodes, "gang_pods": given.pods, "agent_pods_per_second": given.rate, **figures}
    print(json.dumps({**result, "machine": machine(), "software": software()}, indent=2))
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
