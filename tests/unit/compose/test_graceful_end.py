"""SIGTERM ends a scheduler between decisions: what was begun is completed, what was not is left to the next one."""

from __future__ import annotations

import os
import re
import signal
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass, field
from typing import Any, Unpack

import anyio
import anyio.lowlevel
import pytest

from tests.localcluster.apiserver.api import Api
from tests.scenario.cluster.takeovers import PREEMPTING, create, registry
from tests.scenario.scheduling.harness import group, node, pods, priority_class, waiting
from volcanoio.compose.component import Component, ComponentSettings, run_until_signal
from volcanoio.compose.local import install_crds
from volcanoio.compose.scheduler import SchedulerProcess, SchedulerSettings
from volcanoio.kube.clock import WallClock
from volcanoio.kube.credentials.sources import StaticCredentials
from volcanoio.kube.kubeconfig import Connection
from volcanoio.kube.leader_election import LeaseSettings
from volcanoio.kube.transport import RequestOptions, Response, Transport
from volcanoio.localcluster.apiserver.http.listener import serve
from volcanoio.localcluster.apiserver.server import ApiServer
from volcanoio.model import kinds
from volcanoio.model.base import Manifest

LEASE = LeaseSettings(name="test", namespace="default", retry_period=0.05)
GANG = 200
"""Pods, more than the binder sends at once."""
BINDING = r"/pods/[^/]+/binding$"
READS_GROUP, WRITES_STATUS = ("GET", r"/podgroups/g$"), ("PATCH", r"/podgroups/waits$")
DELETES_POD = ("DELETE", r"/pods/low-\d$")


@dataclass
class Hold:
    """Requests that wait."""

    method: str
    path: str
    arrived: anyio.Event = field(default_factory=anyio.Event)
    released: anyio.Event = field(default_factory=anyio.Event)


class HoldingTransport:
    """A transport that holds requests, and counts all by method and path."""

    def __init__(self, transport: Transport, holds: list[Hold]) -> None:
        self._transport = transport
        self._holds = holds

    async def request(self, method: str, path: str, **options: Unpack[RequestOptions]) -> Response:
        for hold in self._holds:
            if hold.method == method and re.search(hold.path, path):
                hold.arrived.set()
                await hold.released.wait()
        return await self._transport.request(method, path, **options)

    def stream(
        self, path: str, *, query: Mapping[str, str] | None = None
    ) -> AbstractAsyncContextManager[AsyncIterator[list[bytes]]]:
        return self._transport.stream(path, query=query)

    async def aclose(self) -> None:
        await self._transport.aclose()


class Running:
    """A cluster, and a scheduler in a component of its own."""

    def __init__(self, api: Api, holds: list[Hold]) -> None:
        self.api = api
        self.holds = holds
        self.outcomes: list[str] = []
        """Types of the outcomes of binds and evictions."""
        self.code: int | None = None
        self.pods: list[Manifest] = []
        """The pods at the end."""

    def build(self, settings: SchedulerSettings) -> Callable[..., SchedulerProcess]:
        def build(transport: Transport, probe: Any, leadership: Any) -> SchedulerProcess:
            held = HoldingTransport(transport, self.holds)
            process = SchedulerProcess(held, clock=WallClock(), settings=settings, probe=probe, leadership=leadership)
            process.bus.subscribe(self._see)
            return process

        return build

    def _see(self, batch: Any) -> None:
        self.outcomes += [name for each in batch if (name := type(each).__name__).startswith(("Bind", "Evict"))]

    async def run(self, component: Component) -> None:
        self.code = await run_until_signal(component)

    def bound(self) -> list[str]:
        return [pod["metadata"]["name"] for pod in self.pods if pod["spec"].get("nodeName")]

    async def turns(self, number: int = 2000) -> None:
        """Let everything run that can, for so many turns of the event loop or until the process has ended."""
        for _ in range(number):
            if self.code is not None:
                return
            await anyio.lowlevel.checkpoint()


@asynccontextmanager
async def running(
    lease: LeaseSettings | None, *held: tuple[str, str], configuration: str | None = None
) -> AsyncIterator[Running]:
    """Run a scheduler; leaving waits for its end."""
    server = ApiServer.open(None)
    async with server.running(), serve(server) as bound, anyio.create_task_group() as tasks:
        this = Running(Api(server), [Hold(*each) for each in held])
        await install_crds(this.api.transport)
        await this.api.made("/api/v1/namespaces", {"metadata": {"name": "ns"}})
        connection = Connection(bound.url, credentials=StaticCredentials(f"Bearer {bound.token}"))
        settings = SchedulerSettings(registry=registry(), configuration=configuration)
        component = Component(connection, ComponentSettings(name="test", lease=lease, grace=60.0), this.build(settings))
        tasks.start_soon(this.run, component)
        with anyio.fail_after(60):
            yield this
            while this.code is None:
                await anyio.lowlevel.checkpoint()
            this.pods = (await this.api("GET", kinds.POD.path("ns"))).body["items"]


LEASES = pytest.mark.parametrize("lease", [LEASE, None], ids=["elected", "alone"])


@LEASES
async def test_a_gang_whose_podgroup_is_being_read_is_not_bound_in_part(lease: LeaseSettings | None) -> None:
    async with running(lease, READS_GROUP, WRITES_STATUS) as this:
        reads, writes = this.holds
        await create(this.api, node("n1", cpu="400", pods="400", memory="400Gi"))
        await create(this.api, group("waits", 1), *waiting("waits", 1, cpu="1000"))
        await writes.arrived.wait()
        await create(this.api, *waiting("g", GANG), group("g", GANG))
        await reads.arrived.wait()
        os.kill(os.getpid(), signal.SIGTERM)
        await this.turns()
        reads.released.set()
        await this.turns(50)
        writes.released.set()
    assert this.code == 0
    assert this.bound() == []
    assert this.outcomes == ["BindRefused"] * GANG


@LEASES
async def test_a_gang_that_is_being_bound_is_bound_whole(lease: LeaseSettings | None) -> None:
    async with running(lease, ("POST", r"/pods/g-7/binding$")) as this:
        await create(this.api, node("n1", cpu="400", pods="400", memory="400Gi"))
        await create(this.api, *waiting("g", GANG), group("g", GANG))
        await this.holds[0].arrived.wait()
        os.kill(os.getpid(), signal.SIGTERM)
        await this.turns()
        this.holds[0].released.set()
    assert this.code == 0
    assert len(this.bound()) == GANG
    assert this.outcomes == ["BindDone"] * GANG


@LEASES
async def test_a_victim_that_was_marked_is_deleted(lease: LeaseSettings | None) -> None:
    async with running(lease, ("DELETE", r"/pods/low-\d$"), configuration=PREEMPTING) as this:
        await create(this.api, node("n1", cpu="2"), priority_class("high", 1000), group("low", 1))
        await create(this.api, *pods("low", 2, "low", cpu="1", on="n1", phase="Running"))
        await create(this.api, *waiting("high", 1, spec={"priorityClassName": "high"}))
        await create(this.api, group("high", 1, priorityClassName="high"))
        await this.holds[0].arrived.wait()
        os.kill(os.getpid(), signal.SIGTERM)
        await this.turns()
        this.holds[0].released.set()
    assert this.code == 0
    low = [pod for pod in this.pods if pod["metadata"]["name"].startswith("low")]
    (victim,) = (pod for pod in low if pod["status"].get("conditions"))
    assert {each["type"] for each in victim["status"]["conditions"]} == {"Ready", "DisruptionTarget"}
    assert "deletionTimestamp" in victim["metadata"]
    assert this.outcomes == ["EvictDone"]
