"""Users of the end-to-end benchmark: they submit jobs and watch their pods, through any transport.

As a program it is one user in a process of its own, over HTTPS with a kubeconfig: `python -m bench.users KUBECONFIG
PHASE OPTIONS-AS-JSON` prints its observations as JSON.
"""

from __future__ import annotations

import asyncio
import json
import sys
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from typing import Any

from bench.statistics import percentile
from volcanoio.kube.client import Client, WatchEvent
from volcanoio.kube.http_transport import HttpTransport
from volcanoio.kube.kubeconfig import from_file
from volcanoio.kube.transport import Transport
from volcanoio.model import kinds, names
from volcanoio.model.base import Manifest
from volcanoio.model.batch import Job
from volcanoio.model.core import Pod
from volcanoio.model.kinds import Kind
from volcanoio.model.times import epoch

NAMESPACE = "default"
SUBMITTERS = 16
"""Requests of a user in flight."""

NOWHERE = {"bench": "no-such-node"}
"""A selector that no node matches."""


@dataclass(frozen=True, slots=True)
class Load:
    """Size of the load: `jobs` gangs of `pods` for throughput; `samples` consecutive jobs for latency.

    `backlog` jobs that do not fit are pending while latency with a backlog is measured. `run` is a pod's run time in
    seconds where jobs have to complete.
    """

    jobs: int = 20
    pods: int = 20
    samples: int = 20
    backlog: int = 200
    run: float = 1.0


@dataclass(slots=True)
class Seen:
    """Observations of a watch of pods and jobs, as seconds of `time.perf_counter`."""

    created: dict[str, float] = field(default_factory=dict)
    bound: dict[str, float] = field(default_factory=dict)
    running: dict[str, float] = field(default_factory=dict)
    completed: dict[str, float] = field(default_factory=dict)
    bound_of: dict[str, int] = field(default_factory=dict)
    """Bound pods by job."""
    job_of: dict[str, str] = field(default_factory=dict)
    """Job of each pod, by the pod's uid."""
    jobs_running: set[str] = field(default_factory=set)
    created_at: list[float] = field(default_factory=list)
    started_at: list[float] = field(default_factory=list)
    """Creation and start of pods by their own timestamps, in epoch seconds."""
    gone: int = 0
    changed: asyncio.Event = field(default_factory=asyncio.Event)

    def pod(self, event: WatchEvent) -> None:
        """Fold a change of a pod."""
        pod, now = event.object, time.perf_counter()
        assert isinstance(pod, Pod)
        uid, job = pod.metadata.uid, pod.metadata.annotations.get(names.JOB_NAME, "")
        if event.type == "DELETED":
            self.gone += 1
        if uid not in self.created:
            self.created[uid] = now
            self.created_at.append(epoch(pod.metadata.creation_timestamp) or 0.0)
            self.job_of[uid] = job
        if pod.spec.node_name and uid not in self.bound:
            self.bound[uid] = now
            self.bound_of[job] = self.bound_of.get(job, 0) + 1
        if pod.status.phase == "Running" and uid not in self.running:
            self.running[uid] = now
            self.started_at.append(epoch(pod.status.start_time) or 0.0)
        self.changed.set()

    def job(self, event: WatchEvent) -> None:
        """Fold a change of a job."""
        job = event.object
        assert isinstance(job, Job)
        if job.status.state.phase == "Running":
            self.jobs_running.add(job.metadata.uid)
        if job.status.state.phase == "Completed":
            self.completed.setdefault(job.metadata.uid, time.perf_counter())
        self.changed.set()

    async def until(self, holds: Callable[[], bool]) -> None:
        """Return once a condition holds."""
        while not holds():
            self.changed.clear()
            await self.changed.wait()


def job_manifest(
    name: str, pods: int, *, run: str = "never", cpu: str = "1", selector: dict[str, str] | None = None
) -> Manifest:
    """Return a gang of `pods` pods with that run time, on nodes of the selector."""
    container = {"name": "main", "image": "busybox", "resources": {"requests": {"cpu": cpu, "memory": "64Mi"}}}
    template = {
        "metadata": {"annotations": {names.RUN_DURATION: run}},
        "spec": {"restartPolicy": "Never", "containers": [container], "nodeSelector": selector or {}},
    }
    return {
        "apiVersion": kinds.JOB.api_version,
        "kind": "Job",
        "metadata": {"name": name, "namespace": NAMESPACE},
        "spec": {
            "minAvailable": pods,
            "schedulerName": names.SCHEDULER_NAME,
            "tasks": [{"name": "task", "replicas": pods, "template": template}],
        },
    }


async def submit(client: Client, manifests: list[Manifest]) -> None:
    """Create jobs, a few at a time."""
    waiting = iter(manifests)

    async def one_after_the_other() -> None:
        for manifest in waiting:
            await client.create(kinds.JOB, manifest, namespace=NAMESPACE)

    async with asyncio.TaskGroup() as group:
        for _ in range(min(SUBMITTERS, len(manifests))):
            group.create_task(one_after_the_other())


@asynccontextmanager
async def watching(client: Client, *watched: Kind) -> AsyncIterator[Seen]:
    """Observe changes of pods (and jobs) while open."""
    seen = Seen()

    async def follow(kind: Kind, fold: Callable[[WatchEvent], None], listening: asyncio.Event) -> None:
        async with client.watch(kind, NAMESPACE, timeout=3600) as events:
            listening.set()
            async for event in events:
                fold(event)

    folds = {kinds.POD: seen.pod, kinds.JOB: seen.job}
    async with asyncio.TaskGroup() as group:
        tasks = []
        for kind in watched:
            listening = asyncio.Event()
            tasks.append(group.create_task(follow(kind, folds[kind], listening)))
            await listening.wait()
        yield seen
        for task in tasks:
            task.cancel()


async def throughput(client: Client, load: Load) -> dict[str, Any]:
    """Submit all jobs at once; ends when every pod runs."""
    total = load.jobs * load.pods
    async with watching(client, kinds.POD) as seen:
        started = time.perf_counter()
        await submit(client, [job_manifest(f"job-{index}", load.pods) for index in range(load.jobs)])
        submitted = time.perf_counter()
        await seen.until(lambda: len(seen.running) >= total)
    created, bound, running = seen.created.values(), seen.bound.values(), seen.running.values()
    return {
        "pods": total,
        "pods_per_second_created_to_bound": round(total / (max(bound) - min(created))),
        "pods_per_second_bound_to_running": round(total / (max(running) - min(bound))),
        "pods_per_second_submit_to_running": round(total / (max(running) - started)),
        "jobs_accepted_per_second": round(load.jobs / (submitted - started)),
        "seconds": {
            "submitted": round(submitted - started, 3),
            "first_created": round(min(created) - started, 3),
            "all_created": round(max(created) - started, 3),
            "all_bound": round(max(bound) - started, 3),
            "all_running": round(max(running) - started, 3),
        },
    }


async def latency(client: Client, load: Load) -> dict[str, Any]:
    """Submit one job at a time on an idle cluster; measures from the request until all its pods are bound."""
    async with watching(client, kinds.POD) as seen:
        return await _one_by_one(client, seen, load)


async def backlog(client: Client, load: Load) -> dict[str, Any]:
    """Measure latency while jobs are pending that fit no node.

    They request little, so that their reservations once they are Inqueue do not delay the measured job.
    """
    async with watching(client, kinds.POD) as seen:
        pending = [
            job_manifest(f"fits-nowhere-{index}", 1, cpu="1m", selector=NOWHERE) for index in range(load.backlog)
        ]
        await submit(client, pending)
        await seen.until(lambda: len(seen.created) == load.backlog)
        figures = await _one_by_one(client, seen, load)
    return {"pending_jobs": load.backlog, **figures}


async def completion(client: Client, load: Load) -> dict[str, Any]:
    """Submit all jobs at once, with pods that end; ends when every job is Completed."""
    async with watching(client, kinds.JOB) as seen:
        started = time.perf_counter()
        run = f"{load.run}s"
        await submit(client, [job_manifest(f"job-{index}", load.pods, run=run) for index in range(load.jobs)])
        await seen.until(lambda: len(seen.completed) >= load.jobs)
    seconds = max(seen.completed.values()) - started
    total = load.jobs * load.pods
    return {
        "pods": total,
        "run_seconds": load.run,
        "seconds": round(seconds, 3),
        "jobs_completed_per_second": round(load.jobs / seconds, 1),
        "pods_per_second_submit_to_completed": round(total / seconds),
    }


async def _one_by_one(client: Client, seen: Seen, load: Load) -> dict[str, Any]:
    took: list[float] = []
    for index in count():
        if len(took) == load.samples:
            break
        name, gone = f"one-{index}", seen.gone
        started = time.perf_counter()
        await submit(client, [job_manifest(name, load.pods)])
        await seen.until(lambda name=name: seen.bound_of.get(name, 0) == load.pods)  # type: ignore[misc]  # mypy cannot infer the default's type
        took.append(time.perf_counter() - started)
        await client.delete(kinds.JOB, name, NAMESPACE)
        await seen.until(lambda gone=gone: seen.gone >= gone + load.pods)  # type: ignore[misc]  # as above
    return {
        "samples": load.samples,
        "submit_to_all_bound_ms": {
            name: round(1000 * percentile(took, part), 2) for name, part in (("p50", 0.5), ("p99", 0.99), ("max", 1.0))
        },
    }


PHASES = {"throughput": throughput, "latency": latency, "backlog": backlog, "completion": completion}
"""The phases, each measured on a new cluster."""


async def use(transport: Transport, phase: str, load: Load) -> dict[str, Any]:
    """Run one phase through a transport; returns the observations."""
    return await PHASES[phase](Client(transport), load)


async def _over_https(kubeconfig: Path, phase: str, load: Load) -> dict[str, Any]:
    transport = HttpTransport(await from_file(kubeconfig))
    try:
        return await use(transport, phase, load)
    finally:
        await transport.aclose()


def main() -> int:
    """Run a phase and print its observations."""
    kubeconfig, phase, load = sys.argv[1:4]
    print(json.dumps(asyncio.run(_over_https(Path(kubeconfig), phase, Load(**json.loads(load))))))
    return 0


if __name__ == "__main__":
    sys.exit(main())
