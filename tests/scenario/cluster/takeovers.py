"""Schedulers and controllers of one cluster, of which one leads, in virtual time on the embedded API server."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from functools import cache
from typing import Any

import msgspec

from tests.localcluster.apiserver.api import Api, running
from tests.unit.kube.elections import Process, World
from volcanoio.compose.controllers import ControllerManager, ControllerSettings
from volcanoio.compose.local import install_crds
from volcanoio.compose.scheduler import SchedulerProcess, SchedulerSettings
from volcanoio.localcluster.clock import VirtualClock
from volcanoio.model import kinds
from volcanoio.model.base import Manifest
from volcanoio.model.kinds import Kind
from volcanoio.runtime.loading.registry import Registry, discover

MERGE = "application/merge-patch+json"
BINDING = re.compile(r"/pods/([^/]+)/binding$")
PREEMPTING = """\
actions: "enqueue, allocate, preempt"
tiers:
- plugins: [{name: priority}, {name: gang}, {name: conformance}]
- plugins: [{name: predicates}, {name: proportion}, {name: nodeorder}]
"""


@cache
def registry() -> Registry:
    """What is installed, found once."""
    return discover()


class ClusterTime:
    """The test's clock as a server's."""

    def __init__(self, clock: VirtualClock) -> None:
        self._clock = clock

    def now(self) -> datetime:
        return datetime.fromtimestamp(self._clock.now(), UTC)

    async def idle(self, seconds: float) -> None:
        await self._clock.idle(seconds)


class Takeovers(World):
    """A cluster and the processes that compete to lead in it."""

    api: Api

    def scheduler(self, name: str, *, skew: float = 0.0, configuration: str | None = None) -> Process:
        process = self.process(name, skew=skew)
        settings = SchedulerSettings(registry=registry(), configuration=configuration)
        component = SchedulerProcess(
            process.transport, clock=process.clock, settings=settings, leadership=process.leadership
        )
        process.run(component.run())
        return process

    def controllers(self, name: str, *, skew: float = 0.0) -> Process:
        process = self.process(name, skew=skew)
        settings = ControllerSettings(registry=registry(), policies=())
        component = ControllerManager(
            process.transport, clock=process.clock, settings=settings, leadership=process.leadership
        )
        process.run(component.run())
        return process

    async def create(self, *manifests: Manifest) -> None:
        await create(self.api, *manifests)

    async def objects(self, kind: Kind, namespace: str = "ns") -> list[Any]:
        answer = await self.api("GET", kind.path(namespace if kind.namespaced else ""))
        return [msgspec.convert(each, kind.type) for each in answer.body["items"]]

    async def nodes_of_pods(self) -> dict[str, str]:
        return {pod.metadata.name: pod.spec.node_name for pod in await self.objects(kinds.POD)}

    async def until_bound(self, count: int, limit: float = 60.0) -> float:
        """Advance until so many pods have a node; returns the seconds that took."""
        since = self.clock.now()
        while sum(bool(node) for node in (await self.nodes_of_pods()).values()) < count:
            assert self.clock.now() - since < limit, await self.nodes_of_pods()
            await self.clock.advance(0.2)
        return self.clock.now() - since

    def binds(self, *processes: Process) -> Counter[str]:
        """Bindings that the server received, by pod."""
        return Counter(
            found[1]
            for process in processes or self.processes
            for method, path in process.transport.carried_out
            if method == "POST" and (found := BINDING.search(path))
        )


async def create(api: Api, *manifests: Manifest) -> None:
    """Create objects with their status; uids are the server's."""
    for manifest in manifests:
        kind = kinds.named(manifest["apiVersion"], manifest["kind"])
        assert kind is not None
        metadata = {key: value for key, value in manifest["metadata"].items() if key != "uid"}
        namespace = metadata.get("namespace", "")
        if kind is kinds.POD:
            for container in manifest["spec"]["containers"]:
                container["image"] = "busybox"
        await api.made(kind.path(namespace), {**manifest, "metadata": metadata})
        if kind in (kinds.NODE, kinds.POD) and manifest.get("status"):
            answer = await api(
                "PATCH", kind.path(namespace, metadata["name"], "status"), {"status": manifest["status"]}, MERGE
            )
            assert answer.code == 200, answer.body


def writes(process: Process) -> list[tuple[str, str]]:
    """What a process wrote, its Lease left out."""
    return [
        (method, path) for method, path in process.transport.carried_out if method != "GET" and "/leases" not in path
    ]


@asynccontextmanager
async def takeovers() -> AsyncIterator[Takeovers]:
    clock = VirtualClock()
    async with running(clock=ClusterTime(clock)) as api:
        await install_crds(api.transport)
        await api.made("/api/v1/namespaces", {"metadata": {"name": "ns"}})
        world = Takeovers(api.server, clock)
        world.api = api
        try:
            yield world
        finally:
            await world.close()
