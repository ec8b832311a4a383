"""Rows of the scheduler process from LIST bytes on: its start, and how long it blocks the event loop.

Informers, bus and actor are those of the process; requests are answered from prepared bytes, and binds have no outcome.
"""

from __future__ import annotations

import asyncio
import gc
import time
from collections.abc import AsyncIterator, Iterable, Mapping
from contextlib import asynccontextmanager
from typing import Any, Unpack

import anyio
import msgspec

from bench.machine import peak_memory
from bench.workload import Workload
from volcanoio.bus.event_bus import EventBus
from volcanoio.framework.scheduling_effects import BindBatch, Evict
from volcanoio.kube.client import Client
from volcanoio.kube.clock import WallClock
from volcanoio.kube.informer import InformerSet
from volcanoio.kube.transport import RequestOptions, Response
from volcanoio.model import kinds
from volcanoio.model.base import ApiObject
from volcanoio.runtime.garbage_collection import tune_garbage_collector
from volcanoio.runtime.loading.registry import discover
from volcanoio.runtime.metrics import PrometheusProbe
from volcanoio.runtime.scheduler.dispatcher import Writers
from volcanoio.runtime.scheduler.scheduler import Scheduler, SchedulerOptions
from volcanoio.runtime.scheduler.setup import PluginCatalog

PAGE = 500
REST = 3.0
"""Seconds without a bind after which the remaining pods have no room: some GPU gangs, whose nodes others filled."""
SHORT, LIMIT = 0.002, 0.02
"""Seconds: shorter holds are ignored, and longer ones than the limit must not occur."""


class Lists:
    """A transport that serves lists only, page by page as bytes; watches never deliver an event."""

    def __init__(self, objects: Iterable[ApiObject]) -> None:
        by_path: dict[str, list[bytes]] = {}
        for number, obj in enumerate(objects, 1):
            meta = msgspec.structs.replace(obj.metadata, resource_version=str(number))
            body = msgspec.json.encode(msgspec.structs.replace(obj, metadata=meta))
            by_path.setdefault(kinds.of(obj).path(""), []).append(body)
        self.fill(by_path)

    def fill(self, by_path: Mapping[str, list[bytes]]) -> None:
        """Replace the lists, as JSON by the path of their kind."""
        self.pages = {
            path: [self._page(bodies, at) for at in range(0, len(bodies), PAGE)] for path, bodies in by_path.items()
        }

    async def request(self, method: str, path: str, **options: Unpack[RequestOptions]) -> Response:
        """Return a page of a list, empty for unknown kinds; everything created exists already."""
        if method != "GET":
            return Response(409, b'{"kind":"Status","code":409,"reason":"AlreadyExists"}')
        await asyncio.sleep(0)
        pages = self.pages.get(path)
        if pages is None:
            return Response(200, b'{"metadata":{"resourceVersion":"1"},"items":[]}')
        return Response(200, pages[int((options.get("query") or {}).get("continue", "0"))])

    @asynccontextmanager
    async def stream(self, path: str, *, query: Mapping[str, str] | None = None) -> AsyncIterator[Any]:  # noqa: ARG002 - every watch is silent
        """Open a watch that never delivers an event."""

        async def silence() -> AsyncIterator[list[bytes]]:
            await asyncio.Event().wait()
            yield []

        yield silence()

    @staticmethod
    def _page(bodies: list[bytes], at: int) -> bytes:
        more = str(at // PAGE + 1) if at + PAGE < len(bodies) else ""
        head = f'{{"metadata":{{"resourceVersion":"1000000","continue":"{more}"}},"items":['
        return head.encode() + b",".join(bodies[at : at + PAGE]) + b"]}"


class Taken:
    """Binder, evictor and executor that accept everything; `first` is the time of the first bind."""

    def __init__(self) -> None:
        self.first = 0.0
        self.binds = 0

    def submit(self, first: BindBatch | Evict | str, *_: Any, **__: Any) -> None:
        """Accept a batch of binds, an eviction or another write."""
        if isinstance(first, BindBatch):
            self.first = self.first or time.perf_counter()
            self.binds += len(first.binds)


class Holds:
    """Recorder of how long the event loop is blocked, as seen from a task that runs every turn.

    Also records the longest runs of the garbage collector. Wall time and CPU time differ on a busy machine.
    """

    def __init__(self) -> None:
        self.longest: list[float] = []
        self.longest_cpu: list[float] = []
        self.collections: list[float] = []
        self._started = 0.0
        gc.callbacks.append(self._collected)

    def _collected(self, phase: str, _: Mapping[str, int]) -> None:
        if phase == "start":
            self._started = time.thread_time()
        else:
            self.collections.append(time.thread_time() - self._started)

    async def watch(self) -> None:
        """Record until cancelled."""
        before, cpu_before = time.perf_counter(), time.thread_time()
        while True:
            await asyncio.sleep(0)
            now, cpu = time.perf_counter(), time.thread_time()
            if now - before > SHORT:
                self.longest.append(now - before)
            if cpu - cpu_before > SHORT:
                self.longest_cpu.append(cpu - cpu_before)
            before, cpu_before = now, cpu

    def figures(self) -> dict[str, Any]:
        """Return the longest ones, in milliseconds."""
        longest = sorted(self.longest, reverse=True)
        cpu = sorted(self.longest_cpu, reverse=True)
        return {
            "longest_hold_ms": round(1000 * max(longest, default=0.0), 1),
            "holds_over_20_ms": sum(hold > LIMIT for hold in longest),
            "longest_hold_cpu_ms": round(1000 * max(cpu, default=0.0), 1),
            "cpu_holds_over_20_ms": sum(hold > LIMIT for hold in cpu),
            "longest_holds_cpu_ms": [round(1000 * hold, 1) for hold in cpu[:5]],
            "longest_collection_ms": round(1000 * max(self.collections, default=0.0), 1),
        }


async def _run(workload: Workload, upto: int, lists: Lists) -> dict[str, Any]:
    clock, taken, holds = WallClock(), Taken(), Holds()
    probe = PrometheusProbe()
    bus = EventBus(clock.now)
    informers: Any = InformerSet(lists, bus.publish, clock=clock)  # type: ignore[arg-type]  # it knows lists alone
    known, options = PluginCatalog.of(discover()), SchedulerOptions(probe=probe)
    scheduler = Scheduler(bus=bus, informers=informers, clock=clock, known=known, options=options)
    edge: Any = taken
    watching = asyncio.create_task(holds.watch())
    started, cpu = time.perf_counter(), time.process_time()
    running = asyncio.create_task(scheduler.run(Writers(edge, edge, edge, Client(lists))))  # type: ignore[arg-type]  # as above
    synced = synced_cpu = 0.0
    bound, ended, ended_cpu = 0, started, cpu
    while bound < upto and not running.done():
        await asyncio.sleep(0.01)
        if not synced and scheduler.state.is_ready:
            synced, synced_cpu = time.perf_counter(), time.process_time()
        if taken.binds > bound:
            bound, ended, ended_cpu = taken.binds, time.perf_counter(), time.process_time()
        elif bound and time.perf_counter() > ended + REST:
            break
    page = await probe.render()
    await asyncio.sleep(0.1)
    if running.done():
        running.result()
    for task in (watching, running):
        task.cancel()
    await asyncio.gather(watching, running, return_exceptions=True)
    return {
        "nodes": workload.nodes,
        "pods": workload.pods,
        "seconds_to_first_decision": round(taken.first - started, 2),
        "seconds_to_listed": round(synced - started, 2),
        "cpu_seconds_to_listed": round(synced_cpu - cpu, 2),
        "bound": bound,
        "seconds_to_bound": round(ended - started, 2),
        "cpu_seconds_to_bound": round(ended_cpu - cpu, 2),
        "metrics_bytes": len(page),
        **holds.figures(),
        "peak_memory_mib": round(peak_memory() / 2**20),
    }


def _objects(workload: Workload) -> Iterable[ApiObject]:
    yield from workload.node_objects()
    yield from workload.other_objects()
    yield from workload.queue_objects()
    yield from workload.group_objects()
    yield from workload.pod_objects()


def start(nodes: int, pods: int) -> dict[str, Any]:
    """Measure from the first LIST to the first decision, on half of the nodes."""
    return _measured(Workload(nodes // 2, pods, 8, used=True), 1)


def holds(nodes: int, pods: int) -> dict[str, Any]:
    """Measure the longest block while everything is listed and bound, then with one gang of a tenth of the pods."""
    every = _measured(Workload(nodes, pods, 8, used=True), pods)
    large = _measured(Workload(nodes, pods // 10, pods // 10, used=True), pods // 10)
    longest = {name: max(every[name], large[name]) for name in ("longest_hold_ms", "longest_hold_cpu_ms")}
    return {**longest, "gangs": every, "one": large}


def _measured(workload: Workload, upto: int) -> dict[str, Any]:
    lists = Lists(_objects(workload))
    tune_garbage_collector()
    gc.collect()
    gc.freeze()
    return anyio.run(_run, workload, upto, lists)


def remembered(part: str, nodes: int, pods: int) -> dict[str, Any]:
    """Measure the memory with the lists alone, or with a scheduler that read them and bound all pods."""
    workload, empty = Workload(nodes, pods, 8, used=True), peak_memory()
    lists = Lists(_objects(workload))
    listed = peak_memory()
    if part == "all":
        tune_garbage_collector()
        anyio.run(_run, workload, pods, lists)
    return {
        "empty_mib": round(empty / 2**20),
        "lists_mib": round(listed / 2**20),
        "peak_memory_mib": round(peak_memory() / 2**20),
    }
