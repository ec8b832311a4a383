"""A component as a process: it waits for the API server, is ready, ends gracefully or at once."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import aiohttp
import anyio
import anyio.lowlevel
import pytest
import structlog.testing

from volcanoio.compose.component import Component, ComponentSettings, EndpointSettings, Process
from volcanoio.kube.client import Client
from volcanoio.kube.clock import WallClock
from volcanoio.kube.credentials.sources import StaticCredentials
from volcanoio.kube.http_transport import HttpTransport
from volcanoio.kube.kubeconfig import Connection
from volcanoio.kube.leader_election import LeaseSettings
from volcanoio.kube.transport import Transport
from volcanoio.localcluster.apiserver.http.faults import Faults, Rule
from volcanoio.localcluster.apiserver.http.listener import serve
from volcanoio.localcluster.apiserver.server import ApiServer
from volcanoio.model import kinds
from volcanoio.model.core import Lease
from volcanoio.runtime.api_metrics import REQUESTS

LEASE = LeaseSettings(name="test", namespace="default", retry_period=0.05)
LOCAL = EndpointSettings(health=("127.0.0.1", 0), metrics=("127.0.0.1", 0), profile=("127.0.0.1", 0))


class EagerClock(WallClock):
    """The wall clock, whose waits between tries are over at once."""

    async def sleep(self, seconds: float) -> None:
        await anyio.lowlevel.checkpoint()


class Work:
    """What a component runs, as far as the test lets it."""

    def __init__(self) -> None:
        self.listed, self.flown, self.draining = anyio.Event(), anyio.Event(), anyio.Event()
        self.busy = 0.0

    async def run(self) -> None:
        await anyio.sleep_forever()

    async def synced(self) -> None:
        await self.listed.wait()

    async def drain(self) -> None:
        self.draining.set()
        await self.flown.wait()

    def busy_for(self) -> float:
        return self.busy


@asynccontextmanager
async def connection(faults: Faults | None = None) -> AsyncIterator[Connection]:
    api = ApiServer.open(None, faults=faults)
    async with api.running(), serve(api) as bound:
        yield Connection(bound.url, credentials=StaticCredentials(f"Bearer {bound.token}"))


class Running:
    """A component that runs in the background, and its exit code."""

    def __init__(self, component: Component) -> None:
        self.component = component
        self.code: int | None = None

    async def run(self) -> None:
        self.code = await self.component.run()

    async def answer(self, path: str) -> tuple[int, str]:
        url = f"http://127.0.0.1:{self.component.ports[path]}{path}"
        async with aiohttp.ClientSession() as session, session.get(url) as answer:
            return answer.status, await answer.text()

    async def until(self, path: str, wanted: tuple[int, str]) -> None:
        while path not in self.component.ports or await self.answer(path) != wanted:
            await anyio.lowlevel.checkpoint()


@asynccontextmanager
async def running(connection: Connection, work: Process, *, grace: float = 60.0, **more: Any) -> AsyncIterator[Running]:
    settings = ComponentSettings(name="test", endpoints=LOCAL, grace=grace, **more)
    component = Component(connection, settings, lambda *_: work, clock=EagerClock())
    this = Running(component)
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(this.run)
        yield this
    assert this.code is not None


async def test_it_is_ready_once_everything_is_listed_and_no_longer_when_it_ends() -> None:
    work = Work()
    async with connection() as server, running(server, work) as this:
        await this.until("/readyz", (500, "not everything is listed yet"))
        work.listed.set()
        await this.until("/readyz", (200, "ok"))
        assert (await this.answer("/metrics"))[0] == 200
        this.component.stop()
        await work.draining.wait()
        assert await this.answer("/readyz") == (500, "it is ending")
        assert await this.answer("/livez") == (200, "ok")
        assert this.code is None  # requests are in flight
        work.flown.set()
    assert this.code == 0


class Asks(Work):
    """A process that sends a request."""

    def __init__(self, transport: Transport) -> None:
        super().__init__()
        self._transport = transport
        self.flown.set()

    async def run(self) -> None:
        await self._transport.request("DELETE", "/api/v1/namespaces/none")
        self.listed.set()
        await super().run()


async def test_requests_of_the_process_and_of_its_elector_are_counted() -> None:
    async with connection() as server:
        settings = ComponentSettings(name="test", endpoints=LOCAL, lease=LEASE)
        component = Component(server, settings, lambda transport, *_: Asks(transport), clock=EagerClock())
        this = Running(component)
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(this.run)
            await this.until("/readyz", (200, "ok"))
            component.stop()

    def counted(resource: str, verb: str, code: str) -> float:
        return component.probe.value(REQUESTS, resource=resource, subresource="", verb=verb, code=code)

    assert counted("namespaces", "delete", "404") == 1
    assert counted("leases.coordination.k8s.io", "create", "201") == 1
    assert counted("leases.coordination.k8s.io", "update", "200") >= 1, "the release at least"


async def test_a_second_signal_ends_it_at_once() -> None:
    work = Work()
    async with connection() as server, running(server, work) as this:
        work.listed.set()
        await this.until("/readyz", (200, "ok"))
        this.component.stop()
        await work.draining.wait()
        this.component.stop()
    assert this.code == 1


async def test_requests_in_flight_are_abandoned_after_the_grace_time() -> None:
    work = Work()
    with structlog.testing.capture_logs() as lines:
        async with connection() as server, running(server, work, grace=0.0) as this:
            work.listed.set()
            await this.until("/readyz", (200, "ok"))
            this.component.stop()
    assert this.code == 0
    assert "requests are still in flight and are abandoned" in [line["event"] for line in lines]


async def test_it_is_not_live_without_progress() -> None:
    work = Work()
    async with connection() as server, running(server, work) as this:
        work.listed.set()
        await this.until("/readyz", (200, "ok"))
        work.busy = 61.0
        assert await this.answer("/livez") == (500, "no progress for 61 s")
        this.component.stop()
        work.flown.set()


class Writes(Work):
    """A process that writes what it knows, for the tests of signals."""

    def __init__(self) -> None:
        super().__init__()
        self.written: list[Path] = []

    async def dump(self, directory: Path) -> None:
        self.written.append(directory)


async def test_a_process_that_can_writes_what_it_knows(tmp_path: Path) -> None:
    work = Writes()
    work.listed.set()
    work.flown.set()
    async with connection() as server, running(server, work, dumps=tmp_path) as this:
        await this.until("/readyz", (200, "ok"))
        await this.component.dump()
        this.component.stop()
    assert work.written == [tmp_path]


async def test_a_leader_releases_its_lease_at_the_end() -> None:
    work = Work()
    work.listed.set()
    work.flown.set()
    async with connection() as server, running(server, work, lease=LEASE) as this:
        await this.until("/readyz", (200, "ok"))
        client = Client(HttpTransport(server))
        held = await client.get(kinds.LEASE, "test", "default")
        assert isinstance(held, Lease)
        assert held.spec["holderIdentity"] == LEASE.identity
        this.component.stop()
        while this.code is None:
            await anyio.lowlevel.checkpoint()
        released = await client.get(kinds.LEASE, "test", "default")
        assert isinstance(released, Lease)
        assert "holderIdentity" not in released.spec
        await client.transport.aclose()
    assert this.code == 0


async def test_a_lease_that_was_lost_ends_it_with_code_1() -> None:
    work = Work()
    work.listed.set()
    with structlog.testing.capture_logs() as lines:
        async with connection() as server, running(server, work, lease=LEASE) as this:
            await this.until("/readyz", (200, "ok"))
            client = Client(HttpTransport(server))
            stolen = {"spec": {"holderIdentity": "another", "renewTime": "2026-01-01T00:00:00.000000Z"}}
            await client.patch(kinds.LEASE, "test", stolen, "default")
            await client.transport.aclose()
    assert this.code == 1
    ended = [line for line in lines if line["event"] == "ending, because the lease was lost"]
    assert [line["because"] for line in ended] == ["another holds it"]


async def test_a_standby_is_ready_once_it_knows_the_leader() -> None:
    work, leader = Work(), Work()
    for each in (work, leader):
        each.listed.set()
        each.flown.set()
    other = replace(LEASE, identity="other")
    async with connection() as server, running(server, leader, lease=LEASE) as first:
        await first.until("/readyz", (200, "ok"))
        async with running(server, work, lease=other) as second:
            await second.until("/readyz", (200, "ok"))
            assert second.component.probe.value("volcanoio_leader", lease="test") == 0.0
            second.component.stop()
        first.component.stop()


def _failing(*, status: int) -> Faults:
    faults = Faults()
    for nth in (1, 2, 3):
        faults.add(Rule("GET", "^/version$", "status", nth=nth, code=status))
    return faults


REFUSED = "the credentials are not accepted (Unauthorized); give a kubeconfig or token that is valid"


@pytest.mark.parametrize(("status", "problem"), [(503, "it answers with HTTP 503"), (401, REFUSED)])
async def test_it_waits_for_the_api_server_and_logs_why_once(status: int, problem: str) -> None:
    work = Work()
    work.listed.set()
    work.flown.set()
    with structlog.testing.capture_logs() as lines:
        async with connection(_failing(status=status)) as server, running(server, work) as this:
            await this.until("/readyz", (200, "ok"))
            this.component.stop()
    waiting = [line["problem"] for line in lines if line["event"] == "waiting for the API server"]
    assert waiting == [problem]
