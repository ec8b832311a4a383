"""Rows of controllers with 100,000 pods: their memory, their restart, and their reaction time."""

from __future__ import annotations

import asyncio
import gc
import json
import random
import subprocess
import sys
import time
from collections import Counter
from typing import Any

import anyio
import msgspec

from bench.lifecycles.copies import SIZE, Piece, copies, specimen
from bench.lifecycles.tapped import Tapped
from bench.machine import memory_now, peak_memory
from bench.scheduling.starting import Lists
from bench.statistics import percentile
from bench.users import NAMESPACE
from volcanoio.compose.controllers import ControllerManager, ControllerSettings
from volcanoio.compose.local import install_crds
from volcanoio.kube.clock import WallClock
from volcanoio.kube.errors import check
from volcanoio.kube.transport import ContentType
from volcanoio.localcluster.apiserver.apimachinery.objects import Ref, Stored
from volcanoio.localcluster.apiserver.inprocess import InProcessTransport
from volcanoio.localcluster.apiserver.server import ApiServer
from volcanoio.model import kinds
from volcanoio.runtime.garbage_collection import tune_garbage_collector
from volcanoio.runtime.loading.registry import discover

QUIET = 0.3
"""Seconds without a write after which the controllers count as caught up."""
PATIENCE = 300.0
SAMPLES = 500
POD = kinds.POD.resource


def memory(jobs: int) -> dict[str, Any]:
    """Measure the memory of a process with all controllers, minus that of one with only the bytes of the lists."""
    lists, held = (_process("lists", jobs), _process("held", jobs))
    return {
        "jobs": jobs,
        "pods": jobs * SIZE,
        "memory_mib": held["memory_mib"] - lists["memory_mib"] + held["empty_mib"],
        "peak_memory_mib": held["peak_memory_mib"] - lists["memory_mib"] + held["empty_mib"],
        "writes": held["writes"],
        "cpu_seconds_to_listed": held["cpu_seconds"],
    }


def _process(part: str, jobs: int) -> dict[str, Any]:
    command = [sys.executable, "-m", "bench.lifecycles.held", part, str(jobs)]
    found: dict[str, Any] = json.loads(subprocess.run(command, check=True, stdout=subprocess.PIPE).stdout)
    return found


def hold(part: str, jobs: int) -> dict[str, Any]:
    """Measure the memory with the lists alone, or with controllers that read them and are idle."""
    empty = memory_now()
    lists: Any = Lists(())
    by_path: dict[str, list[bytes]] = {}
    for piece in copies(anyio.run(specimen), jobs):
        by_path.setdefault(piece.kind.path(""), []).append(piece.data)
    lists.fill(by_path)
    del by_path
    gc.collect()
    found: dict[str, Any] = {"cpu_seconds": 0.0, "writes": {}}
    if part == "held":
        tune_garbage_collector()
        found = anyio.run(_listed, lists)
    return {**found, "empty_mib": empty >> 20, "memory_mib": memory_now() >> 20, "peak_memory_mib": peak_memory() >> 20}


async def _listed(lists: Any) -> dict[str, Any]:
    tapped = Tapped(lists)
    manager = ControllerManager(tapped, clock=WallClock(), settings=ControllerSettings(registry=discover()))
    cpu = time.process_time()
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(manager.run)
        await manager.synced()
        await _rest(manager, tapped)
        found = {"cpu_seconds": round(time.process_time() - cpu, 2), "writes": dict(tapped.writes)}
        found["memory"] = memory_now()
        tasks.cancel_scope.cancel()
    return found


async def _rest(manager: ControllerManager, tapped: Tapped) -> None:
    """Return once no writes happened for a while."""
    quiet_since, seen, last = time.perf_counter(), sum(tapped.writes.values()), time.perf_counter() + PATIENCE
    while time.perf_counter() - quiet_since < QUIET and time.perf_counter() < last:
        await asyncio.sleep(QUIET / 10)
        now = sum(tapped.writes.values())
        if now != seen or manager.executor.steps_under_way:
            quiet_since, seen = time.perf_counter(), now


def restart(jobs: int) -> dict[str, Any]:
    """Measure a new controller process after one pod in a hundred changed, then its reactions to events."""
    tune_garbage_collector()
    return anyio.run(_restarted, jobs)


async def _restarted(jobs: int) -> dict[str, Any]:
    pieces = await specimen()
    api = ApiServer.open(None)
    async with api.running():
        transport = InProcessTransport(api)
        await install_crds(transport)
        ended, gone = _load(api, pieces, jobs)
        gc.collect()
        gc.freeze()
        tapped = Tapped(transport)
        started, cpu = time.perf_counter(), time.process_time()
        manager = ControllerManager(tapped, clock=WallClock(), settings=ControllerSettings(registry=discover()))
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(manager.run)
            await manager.synced()
            listed, listed_cpu = time.perf_counter(), time.process_time()
            await _rest(manager, tapped)
            figures = {
                "jobs": jobs,
                "pods": jobs * SIZE,
                "pods_changed_meanwhile": len(ended) + len(gone),
                "seconds_to_listed": round(listed - started, 2),
                "seconds_to_caught_up": round(tapped.last_answer - started, 2),
                "cpu_seconds_to_listed": round(listed_cpu - cpu, 2),
                "cpu_seconds_to_caught_up": round(time.process_time() - cpu, 2),
                "writes": dict(tapped.writes),
                "violations": _violations(api, ended, gone),
            }
            figures["reaction"] = await _reactions(api, transport, tapped, manager, jobs)
            tasks.cancel_scope.cancel()
    return figures


def _load(api: ApiServer, pieces: list[Piece], jobs: int) -> tuple[set[str], set[str]]:
    """Store all jobs; one pod in 200 has ended and as many are deleted, which no Job counts yet."""
    ended, gone = set[str](), set[str]()
    pods = 0
    for piece in copies(pieces, jobs):
        namespace = NAMESPACE if piece.kind.namespaced else ""
        data = piece.data
        if piece.kind is kinds.POD:
            pods += 1
            if pods % 200 == 7:
                gone.add(piece.name)
                continue
            if pods % 200 == 107:
                ended.add(piece.name)
                data = data.replace(b'"phase":"Running"', b'"phase":"Succeeded"')
        api.core.store.revision += 1
        stored = Stored(namespace, piece.name, api.core.store.revision, _at(data, api.core.store.revision))
        api.core.store.load(Ref(piece.kind.resource, namespace, piece.name), stored)
    return ended, gone


def _at(data: bytes, revision: int) -> Any:
    obj = msgspec.json.decode(data)
    obj["metadata"]["resourceVersion"] = str(revision)
    return obj


def _violations(api: ApiServer, ended: set[str], gone: set[str]) -> list[str]:
    """Return wrong results: each Job must count its existing pods, and deleted ones must exist again."""
    store, found = api.core.store, list[str]()
    there: dict[str, Counter[str]] = {}
    for (_, name), stored in store.collection(POD).objects.items():
        phase = stored.decode().get("status", {}).get("phase") or "Pending"
        there.setdefault(name.rpartition("-task-")[0], Counter())[phase] += 1
        if name in ended and phase != "Succeeded":
            found.append(f"pod {name} had succeeded and is {phase}")
    found += [f"pod {name} is not there" for name in gone if store.get(Ref(POD, NAMESPACE, name)) is None]
    for (_, name), stored in store.collection(kinds.JOB.resource).objects.items():
        status, pods = stored.decode()["status"], there[name]
        counted = {phase: status.get(phase.lower(), 0) for phase in ("Pending", "Running", "Succeeded")}
        if any(counted[phase] != pods[phase] for phase in counted):
            found.append(f"job {name} counts {counted}, there are {dict(pods)}")
    return found[:10]


async def _reactions(
    api: ApiServer, transport: InProcessTransport, tapped: Tapped, manager: ControllerManager, jobs: int
) -> dict[str, Any]:
    """Measure from a pod's watch event until the Job's status is sent; one event at a time, of random jobs.

    A failed pod restarts its Job. A succeeded pod only changes counts, whose status write is delayed.
    """
    drawn = random.Random(0).sample(range(jobs), min(2 * SAMPLES, jobs))
    found: dict[str, Any] = {}
    for what, phase, numbers in (("acting", "Failed", drawn[::2]), ("counting", "Succeeded", drawn[1::2])):
        took, cpus = list[float](), list[float]()
        for number in numbers:
            times = await _reaction(api, transport, tapped, f"job-{number:05}", phase)
            if times is not None:
                took.append(times[0])
                cpus.append(times[1])
            while manager.executor.steps_under_way:  # noqa: ASYNC110 - it offers no event
                await asyncio.sleep(0.001)
        found[what] = {
            "events": len(took),
            **{f"ms_{label}": _ms(took, part) for label, part in (("p50", 0.5), ("p99", 0.99), ("max", 1.0))},
            **{f"cpu_ms_{label}": _ms(cpus, part) for label, part in (("p50", 0.5), ("p99", 0.99), ("max", 1.0))},
        }
    return found


async def _reaction(
    api: ApiServer, transport: InProcessTransport, tapped: Tapped, job: str, phase: str
) -> tuple[float, float] | None:
    """Return the seconds, and CPU seconds with the server's, until the Job's status is sent; None without a pod."""
    name = f"{job}-task-3"
    stored = api.core.store.get(Ref(POD, NAMESPACE, name))
    if stored is None or stored.decode()["status"].get("phase") != "Running":
        return None
    sent = asyncio.Event()
    took = cpu = 0.0
    began = time.process_time()

    def on_write(path: str) -> None:
        nonlocal took, cpu
        if path.endswith(f"/jobs/{job}/status") and not sent.is_set():
            took, cpu = time.perf_counter() - tapped.came, time.process_time() - began
            sent.set()

    tapped.on_write = on_write
    check(
        await transport.request(
            "PATCH",
            kinds.POD.path(NAMESPACE, name) + "/status",
            body=msgspec.json.encode({"status": {"phase": phase}}),
            content_type=ContentType.MERGE_PATCH,
        )
    )
    await sent.wait()
    tapped.on_write = None
    return took, cpu


def _ms(seconds: list[float], part: float) -> float:
    return round(1000 * percentile(seconds, part), 2)


if __name__ == "__main__":
    print(json.dumps(hold(sys.argv[1], int(sys.argv[2]))))
