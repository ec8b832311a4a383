"""What a controller's shell makes of answers that do not come, come late or say no."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from volcanoio.compose.controllers import WorkloadControllers
from volcanoio.compose.local import all_controllers
from volcanoio.localcluster.apiserver.http.faults import Faults, Rule
from volcanoio.localcluster.apiserver.inprocess import InProcessTransport
from volcanoio.localcluster.apiserver.server import ApiServer
from volcanoio.localcluster.clock import VirtualClock

TEMPLATE = {"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [{"name": "c", "image": "i"}]}}


@asynccontextmanager
async def running(server: ApiServer, clock: VirtualClock) -> AsyncIterator[InProcessTransport]:
    """The controllers over a server."""
    transport = InProcessTransport(server)
    host = WorkloadControllers(transport, clock, all_controllers())
    task = asyncio.ensure_future(host.run())
    await host.synced()
    yield transport
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)


async def make(transport: InProcessTransport, replicas: int) -> None:
    """A ReplicaSet."""
    spec = {"replicas": replicas, "selector": {"matchLabels": {"a": "b"}}, "template": TEMPLATE}
    body = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "metadata": {"name": "rs"}, "spec": spec}
    path = "/apis/apps/v1/namespaces/default/replicasets"
    assert (await transport.request("POST", path, body=json.dumps(body).encode())).status == 201


def pods(server: ApiServer) -> int:
    """How many pods there are."""
    return len(server.store.collection("pods").objects)


def status(server: ApiServer) -> dict[str, Any]:
    """The ReplicaSet's status."""
    stored = server.store.collection("replicasets.apps").objects["default", "rs"]
    found: dict[str, Any] = stored.decode()["status"]
    return found


@pytest.mark.parametrize(
    "rules",
    [
        (Rule("POST", "/pods$", "reset", "after", nth=1), Rule("POST", "/pods$", "reset", "after", nth=3)),
        (Rule("POST", "/pods$", "reset", "before", nth=2),),
        (Rule("POST", "/pods$", "status", code=500, nth=1), Rule("POST", "/pods$", "status", code=429, nth=4)),
        (Rule("PATCH", "/status$", "status", code=409, nth=1), Rule("PATCH", "/status$", "reset", "after", nth=2)),
        (Rule("GET", "/pods$", "status", code=500, nth=1),),
    ],
    ids=["answers lost", "requests lost", "refused for now", "statuses refused", "lists refused"],
)
async def test_there_are_as_many_pods_as_wanted(rules: tuple[Rule, ...]) -> None:
    clock, faults = VirtualClock(), Faults(*rules)
    async with ApiServer.open(None, faults=faults).running() as server, running(server, clock) as transport:
        await make(transport, 5)
        await clock.run_until(lambda: pods(server) >= 5 and status(server).get("replicas") == 5)
        await clock.advance(60.0)
        assert pods(server) == 5
        assert any(rule.seen for rule in rules)


async def test_a_permanent_refusal_is_reported_and_retried() -> None:
    clock, rule = VirtualClock(), Rule("POST", "/pods$", "status", code=403)
    async with ApiServer.open(None, faults=Faults(rule)).running() as server, running(server, clock) as transport:
        await make(transport, 3)
        await clock.run_until(lambda: bool(status(server).get("conditions")))
        (condition,) = status(server)["conditions"]
        assert (condition["type"], condition["reason"]) == ("ReplicaFailure", "FailedCreate")
        tried = rule.seen
        await clock.advance(1.0)
        assert tried < rule.seen < 20, "with back-off, and one at a time"
        rule.method = "NONE"
        await clock.run_until(lambda: pods(server) == 3 and "conditions" not in status(server))


async def test_a_new_host_continues_after_a_crash() -> None:
    clock = VirtualClock()
    async with ApiServer.open(None).running() as server:
        async with running(server, clock) as transport:
            first = asyncio.Event()
            server.store.on("pods", lambda _ref, _event: first.set())
            await make(transport, 20)
            await first.wait()
        async with running(server, clock):
            await clock.run_until(lambda: status(server).get("replicas") == 20)
        assert pods(server) == 20
