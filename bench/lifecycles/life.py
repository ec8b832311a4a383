"""Rows of jobs from creation to deletion: jobs per second, the controllers' CPU time, and API writes."""

from __future__ import annotations

import asyncio
import json
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import anyio

from bench.machine import peak_memory
from bench.users import NAMESPACE, job_manifest, submit, watching
from bench.writes import CountedRequests
from volcanoio.compose.controllers import ControllerManager, ControllerSettings
from volcanoio.compose.local import LocalCluster
from volcanoio.compose.options import LocalOptions
from volcanoio.kube.client import Client
from volcanoio.kube.clock import WallClock
from volcanoio.kube.http_transport import HttpTransport
from volcanoio.kube.kubeconfig import from_file
from volcanoio.model import kinds
from volcanoio.runtime.garbage_collection import tune_garbage_collector
from volcanoio.runtime.loading.registry import discover

SIZE = 10
NODE, NODE_CORES = "cpu=64,memory=256Gi,pods=110", 64
RUN = "1s"
ASIDE = ("events", "leases", "nodes", "nodes/status", "leases/status")
"""Writes that do not depend on the number of pods, or are optional."""
USERS = ("create jobs",)
"""Writes of users, not of components."""
AIM = 5.0
"""Aim: API writes per pod over its whole life, all components."""


def together(jobs: int) -> dict[str, Any]:
    """Measure all components in one process, as under `volcanoio up`."""
    return asyncio.run(_life(jobs, apart=False))


def apart(jobs: int) -> dict[str, Any]:
    """Measure the controllers in a process of their own, over HTTPS."""
    return asyncio.run(_life(jobs, apart=True))


async def _life(jobs: int, *, apart: bool) -> dict[str, Any]:
    tune_garbage_collector()
    requests = CountedRequests()
    nodes = -(-jobs * SIZE // NODE_CORES)
    with tempfile.TemporaryDirectory(prefix="volcanoio-bench-") as directory:
        options = LocalOptions.parse(nodes=nodes, node_resources=NODE, data=Path(directory))
        async with LocalCluster(options, faults=requests) as cluster:
            used: dict[str, Any] = {}
            if apart:
                cluster.stop("controllers")
                used["process"] = await _controllers(cluster.kubeconfig)
            requests.forget()
            client = Client(cluster.transport)
            manifests = [_manifest(number) for number in range(jobs)]
            async with watching(client, kinds.POD, kinds.JOB) as seen:
                started, cpu = time.perf_counter(), time.process_time()
                await submit(client, manifests)
                await seen.until(lambda: len(seen.completed) >= jobs)
                completed = time.perf_counter() - started
                await seen.until(lambda: seen.gone >= jobs * SIZE)
            gone = time.perf_counter() - started
            while await client.list(kinds.JOB, NAMESPACE):  # noqa: ASYNC110 - no watch reports the last deletes
                await asyncio.sleep(0.1)
            figures = {
                "jobs": jobs,
                "pods": jobs * SIZE,
                "run_seconds": RUN,
                "seconds_to_completed": round(completed, 2),
                "seconds_to_all_gone": round(gone, 2),
                "jobs_completed_per_second": round(jobs / completed, 1),
                "cpu_ms_per_pod": _per_pod(time.process_time() - cpu, jobs),
                "violations": [f"{pod.pod} was refused by {pod.node}" for pod in cluster.fleet.overcommitted[:10]],
            }
            if apart:
                figures["controllers"] = await _ended(used["process"], jobs)
            return {**figures, **written(requests.writes, jobs * SIZE)}


def written(writes: Mapping[str, int], pods: int) -> dict[str, Any]:
    """Return the table of writes per pod, the most frequent first, with those independent of pods separate."""
    table, aside = Counter[str](), Counter[str]()
    for what, times in writes.items():
        apart = what in USERS or what.partition(" ")[2] in ASIDE
        (aside if apart else table)[what] += times
    return {
        "writes_per_pod": round(sum(table.values()) / pods, 3),
        "aim": AIM,
        "writes_per_pod_by_kind": {what: round(times / pods, 4) for what, times in table.most_common()},
        "beside": {what: round(times / pods, 4) for what, times in aside.most_common()},
    }


def _manifest(number: int) -> dict[str, Any]:
    """Return a gang that is deleted as soon as it has finished."""
    job = job_manifest(f"job-{number:05}", SIZE, run=RUN)
    job["spec"]["ttlSecondsAfterFinished"] = 0
    return job


def _per_pod(seconds: float, jobs: int) -> float:
    return round(1000 * seconds / (jobs * SIZE), 3)


async def _controllers(kubeconfig: Path) -> asyncio.subprocess.Process:
    """Start the controllers; returns when they have listed everything."""
    program = [sys.executable, "-m", "bench.lifecycles.life", str(kubeconfig)]
    pipe = asyncio.subprocess.PIPE
    process = await asyncio.create_subprocess_exec(*program, stdin=pipe, stdout=pipe)
    assert process.stdout is not None
    await process.stdout.readline()
    return process


async def _ended(process: asyncio.subprocess.Process, jobs: int) -> dict[str, Any]:
    output, _ = await process.communicate(b"end\n")
    used = json.loads(output)
    return {"cpu_ms_per_pod": _per_pod(used["cpu_seconds"], jobs), **used}


async def _run_controllers(kubeconfig: str) -> None:
    """Run all controllers until a line is read; prints when they are ready, and their usage from then on."""
    tune_garbage_collector()
    transport = HttpTransport(await from_file(Path(kubeconfig)))
    try:
        manager = ControllerManager(transport, clock=WallClock(), settings=ControllerSettings(registry=discover()))
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(manager.run)
            while not tuple(manager.informers):  # noqa: ASYNC110 - it offers no event
                await asyncio.sleep(0)
            await manager.synced()
            before = time.process_time()
            print("ready", flush=True)
            await anyio.to_thread.run_sync(sys.stdin.readline)
            used = {"cpu_seconds": round(time.process_time() - before, 2), "peak_memory_mib": peak_memory() >> 20}
            print(json.dumps(used), flush=True)
            tasks.cancel_scope.cancel()
    finally:
        await transport.aclose()


if __name__ == "__main__":
    asyncio.run(_run_controllers(sys.argv[1]))
