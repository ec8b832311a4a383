"""Rows of `bench.real`: the load of one, and what its users see on their own watch."""

from __future__ import annotations

import asyncio
import re
import time
from collections.abc import AsyncIterator, Iterable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

from bench.statistics import percentile
from bench.users import NAMESPACE, SUBMITTERS, Seen, job_manifest
from volcanoio.bus.event_bus import EventBus
from volcanoio.framework.events import Change, Observed
from volcanoio.kube.client import Client, WatchEvent
from volcanoio.kube.clock import WallClock
from volcanoio.kube.informer import InformerSet
from volcanoio.model import kinds
from volcanoio.model.base import Manifest

_ROW = re.compile(r"(?P<jobs>\d+)x(?P<pods>\d+)(@(?P<nodes>\d+))?(?P<single>:nogang|:one-by-one)?")
DEFAULT_NODES = 100


class RowError(ValueError):
    """A row that cannot be read."""


@dataclass(frozen=True)
class Row:
    """`jobs` jobs of `pods` pods on `nodes` nodes, submitted at once or `one_by_one`; each a gang or not."""

    jobs: int
    pods: int
    nodes: int = DEFAULT_NODES
    gang: bool = True
    one_by_one: bool = False

    @classmethod
    def parse(cls, text: str) -> Row:
        """Return the row JOBSxPODS[@NODES][:nogang|:one-by-one]."""
        if (found := _ROW.fullmatch(text)) is None:
            raise RowError(f'"{text}" is no row; write JOBSxPODS[@NODES][:nogang|:one-by-one], for instance 20x50@100')
        kind = found["single"]
        nodes = int(found["nodes"] or DEFAULT_NODES)
        return cls(int(found["jobs"]), int(found["pods"]), nodes, kind != ":nogang", kind == ":one-by-one")

    def __str__(self) -> str:
        kind = ":one-by-one" if self.one_by_one else "" if self.gang else ":nogang"
        return f"{self.jobs}x{self.pods}@{self.nodes}{kind}"

    @property
    def total(self) -> int:
        """Number of pods."""
        return self.jobs * self.pods

    def manifests(self) -> list[Manifest]:
        """Return the jobs."""
        manifests = [job_manifest(f"job-{index}", self.pods) for index in range(self.jobs)]
        if not self.gang:
            for manifest in manifests:
                manifest["spec"]["minAvailable"] = 1
        return manifests


@asynccontextmanager
async def observing(client: Client) -> AsyncIterator[Seen]:
    """Observe pods and jobs while open; a watch that a busy server closes is resumed."""
    seen = Seen()

    def fold(batch: Iterable[object]) -> None:
        for event in batch:
            if isinstance(event, Observed):
                change = WatchEvent("DELETED" if event.change is Change.GONE else "MODIFIED", event.obj)
                (seen.pod if event.resource == kinds.POD.resource else seen.job)(change)

    bus = EventBus(WallClock().now)
    bus.subscribe(fold)
    informers = InformerSet(client.transport, bus.publish, clock=WallClock())
    for kind in (kinds.POD, kinds.JOB):
        informers.informer(kind)
    task = asyncio.create_task(informers.run())
    await informers.synced()
    try:
        yield seen
    finally:
        task.cancel()
        await asyncio.wait([task])


async def carry_out(client: Client, row: Row) -> dict[str, Any]:
    """Submit the jobs of a row; ends when every pod runs and every job is Running."""
    submitted: dict[str, float] = {}
    async with observing(client) as seen:
        if row.one_by_one:
            for manifest in row.manifests():
                await _submit(client, manifest, submitted)
                await seen.until(lambda: len(seen.running) >= len(submitted) * row.pods)
        else:
            waiting = iter(row.manifests())

            async def submit_some() -> None:
                for manifest in waiting:
                    await _submit(client, manifest, submitted)

            async with asyncio.TaskGroup() as group:
                for _ in range(min(SUBMITTERS, row.jobs)):
                    group.create_task(submit_some())
        await seen.until(lambda: len(seen.running) >= row.total and len(seen.jobs_running) >= row.jobs)
    return _figures(row, seen, submitted)


async def _submit(client: Client, manifest: Manifest, submitted: dict[str, float]) -> None:
    submitted[manifest["metadata"]["name"]] = time.perf_counter()
    await client.create(kinds.JOB, manifest, namespace=NAMESPACE)


def _figures(row: Row, seen: Seen, submitted: Mapping[str, float]) -> dict[str, Any]:
    first, last = min(submitted.values()), max(seen.running.values())
    since_submitted = {uid: submitted[job] for uid, job in seen.job_of.items()}
    return {
        "pods": row.total,
        "pods_per_second": round(row.total / (last - first), 1),
        "seconds_submit_to_running": _spread(seen.running[uid] - begun for uid, begun in since_submitted.items()),
        "seconds_submit_to_bound": _spread(seen.bound[uid] - begun for uid, begun in since_submitted.items()),
        "seconds_created_to_bound": _spread(seen.bound[uid] - seen.created[uid] for uid in since_submitted),
        "seconds": round(last - first, 2),
        "by_timestamps": _by_timestamps(row, seen),
    }


def _spread(values: Iterable[float]) -> dict[str, float]:
    measured = list(values)
    return {name: round(percentile(measured, part), 3) for name, part in (("p50", 0.5), ("p99", 0.99), ("max", 1.0))}


def _by_timestamps(row: Row, seen: Seen) -> dict[str, float]:
    """Return pods per second from the objects' own timestamps, which have a resolution of one second."""
    seconds = max(seen.started_at) - min(seen.created_at)
    return {"seconds": seconds, "pods_per_second": round(row.total / max(1.0, seconds), 1)}


async def warm_up(client: Client) -> None:
    """Run one job of one pod and remove it, so that connections, caches and queues exist."""
    async with observing(client) as seen:
        await client.create(kinds.JOB, job_manifest("warm-up", 1), namespace=NAMESPACE)
        await seen.until(lambda: len(seen.running) >= 1)
        await client.delete(kinds.JOB, "warm-up", NAMESPACE)
        await seen.until(lambda: seen.gone >= 1)
