"""The embedded API server with a fleet of simulated nodes, in virtual time."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import asynccontextmanager
from typing import Any

import anyio
import msgspec

from tests.localcluster.nodes.pods import manifest
from volcanoio.kube.transport import ContentType
from volcanoio.localcluster.apiserver.http.faults import Faults
from volcanoio.localcluster.apiserver.inprocess import InProcessTransport
from volcanoio.localcluster.apiserver.server import ApiServer
from volcanoio.localcluster.clock import VirtualClock
from volcanoio.localcluster.nodes.fleet import FleetOptions, NodeFleet
from volcanoio.localcluster.nodes.hollow import NodeShape

PODS = "/api/v1/namespaces/default/pods"
SMALL = (NodeShape("node-0", {"cpu": "2", "memory": "4Gi", "pods": "10"}),)


class Cluster:
    """A server and what tests do with it."""

    def __init__(self, server: ApiServer, clock: VirtualClock) -> None:
        self.server = server
        self.clock = clock
        self.transport = InProcessTransport(server)

    async def call(self, method: str, path: str, body: Any = None, **query: str) -> dict[str, Any]:
        """A request that must succeed."""
        data = b"" if body is None else msgspec.json.encode(body)
        response = await self.transport.request(method, path, body=data, query=query)
        assert response.ok, response.body
        answer: dict[str, Any] = msgspec.json.decode(response.body)
        return answer

    async def patch(self, path: str, change: Any) -> None:
        """A merge patch that must succeed."""
        body = msgspec.json.encode(change)
        response = await self.transport.request("PATCH", path, body=body, content_type=ContentType.MERGE_PATCH)
        assert response.ok, response.body

    async def submit(self, name: str, **changes: Any) -> dict[str, Any]:
        """A pod that is already bound to node-0."""
        labels = changes.pop("metadata", {})
        body = manifest(name, **changes)
        del body["metadata"]["uid"]
        body["metadata"].update(labels)
        return await self.call("POST", PODS, body)

    def pod(self, name: str) -> dict[str, Any] | None:
        """The pod as stored."""
        return next((pod for pod in self.all("pods") if pod["metadata"]["name"] == name), None)

    def all(self, plural: str) -> Iterator[dict[str, Any]]:
        """All stored objects of a core resource, read past the API so that conditions stay synchronous."""
        for stored in self.server.store.collection(plural).objects.values():
            yield msgspec.json.decode(stored.data)

    def phase(self, name: str) -> str:
        """The pod's phase, `gone` when it is not stored."""
        pod = self.pod(name)
        return pod.get("status", {}).get("phase", "") if pod is not None else "gone"

    def reported(self, name: str) -> list[str]:
        """Reasons of the events about a pod."""
        return [e["reason"] for e in self.all("events") if e["involvedObject"]["name"] == name]

    async def until(self, condition: Callable[[], bool], limit: float = 600.0) -> None:
        """Let virtual time run until the condition holds."""
        await self.clock.run_until(condition, limit=limit)

    async def phases(self, moments: Sequence[float], name: str) -> list[str]:
        """The phases of a pod at moments (seconds from now)."""
        begin = self.clock.now()
        seen = []
        for moment in moments:
            await self.clock.advance(begin + moment - self.clock.now())
            seen.append(self.phase(name))
        return seen

    @asynccontextmanager
    async def nodes(self, shapes: Sequence[NodeShape] = SMALL, **options: Any) -> AsyncIterator[NodeFleet]:
        """A running fleet; leaving ends it as kill -9 would: nothing is cleaned up."""
        fleet = NodeFleet(self.transport, shapes, self.clock, FleetOptions(**options))
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(fleet.run)
            await self.until(fleet.registered.is_set)
            yield fleet
            tasks.cancel_scope.cancel()


@asynccontextmanager
async def cluster(faults: Faults | None = None) -> AsyncIterator[Cluster]:
    """An API server in memory; run nodes in it with `nodes`."""
    async with ApiServer.open(None, faults=faults).running() as server:
        yield Cluster(server, VirtualClock())


async def collected(cluster: Cluster, path: str, into: list[tuple[str, str]]) -> None:
    """Watch a collection for ever: (event type, phase) of each change."""
    async with cluster.transport.stream(path, query={"watch": "true"}) as batches:
        async for batch in batches:
            for line in batch:
                event = msgspec.json.decode(line)
                into.append((event["type"], event["object"].get("status", {}).get("phase", "")))
                await asyncio.sleep(0)
