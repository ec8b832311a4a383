"""The ports of a UFM server, listed over HTTP from a small server, as objects for the HyperNode controller."""

from __future__ import annotations

import base64
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any, cast

import anyio
import pytest
import structlog
from aiohttp import web
from msgspec.structs import replace

from tests.unit.runtime.metrics_server import server
from tests.unit.runtime.virtual_time import VirtualClock
from volcanoio.framework.events import Change, Event, Observed, Synced
from volcanoio.framework.probe import NoProbe
from volcanoio.kube.client import Client
from volcanoio.kube.errors import NotFound
from volcanoio.model import kinds
from volcanoio.model.core import Secret
from volcanoio.model.kinds import Kind
from volcanoio.model.nodes import (
    DiscoveryConfiguration,
    DiscoverySource,
    Fabric,
    SecretReference,
)
from volcanoio.runtime.controllers import topology_sources
from volcanoio.runtime.controllers.topology_sources import TopologySources

PATIENCE = 20.0
PORT = {"description": "Computer IB Port", "system_name": "n0", "peer_node_name": "leaf-a"}
_USER = {"username": "admin", "password": "geheim-ü"}
Answer = Callable[[web.Request], Awaitable[web.Response]]


class Secrets:
    """A client that has one Secret, `s` in the namespace `ns`."""

    def __init__(self, **values: str) -> None:
        self.data = {key: base64.b64encode(value.encode()).decode() for key, value in values.items()}

    async def get(self, kind: Kind, name: str, namespace: str = "") -> Secret:
        if (kind, namespace, name) != (kinds.SECRET, "ns", "s"):
            raise NotFound(404, "NotFound", "no such secret")
        return Secret(data=self.data)


class Counts(NoProbe):
    """Counts requests by result, and wakes who waits for one."""

    def __init__(self) -> None:
        self.results: list[str] = []
        self.changed = anyio.Event()

    def count(self, name: str, amount: float = 1.0, **labels: str) -> None:
        del name, amount
        self.results.append(labels["result"])
        self.changed.set()
        self.changed = anyio.Event()


class Sources:
    """Sources under test: what they published, and the clock between two requests."""

    def __init__(self, secrets: Secrets) -> None:
        self.events: list[Event] = []
        self.clock = VirtualClock()
        self.probe = Counts()
        self.changed = anyio.Event()
        self.sources = TopologySources(
            self._publish, client=cast("Client", secrets), clock=self.clock, probe=self.probe
        )

    def _publish(self, event: Event) -> None:
        self.events.append(event)
        self.changed.set()
        self.changed = anyio.Event()

    def objects(self, kind: Kind) -> list[Any]:
        return [each.object for each in self._changes(kind) if each.change is not Change.GONE]

    def gone(self, kind: Kind) -> list[Any]:
        return [each.object for each in self._changes(kind) if each.change is Change.GONE]

    def _changes(self, kind: Kind) -> list[Observed]:
        return [each for each in self.events if isinstance(each, Observed) and each.resource == kind.resource]

    async def fabrics(self, count: int) -> list[Fabric]:
        """Return what was listed, once it was listed so often."""
        with anyio.fail_after(PATIENCE):
            while len(self.objects(kinds.FABRIC)) < count:
                await self.changed.wait()
        return self.objects(kinds.FABRIC)

    async def requests(self, result: str, count: int) -> None:
        """Return once so many requests had this result."""
        with anyio.fail_after(PATIENCE):
            while self.probe.results.count(result) < count:
                await self.probe.changed.wait()


@asynccontextmanager
async def running(*sources: DiscoverySource, **secret: str) -> AsyncIterator[Sources]:
    made = Sources(Secrets(**(secret or _USER)))
    made.sources.configure(sources)
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(made.sources.run)
        yield made
        tasks.cancel_scope.cancel()


def ufm(endpoint: str, **fields: Any) -> DiscoverySource:
    return DiscoverySource(
        **{
            "source": "ufm", "enabled": True, "interval": 60.0, "endpoint": endpoint,
            "secret": SecretReference(namespace="ns", name="s"), **fields,
        }
    )  # fmt: skip


async def test_the_configuration_is_published_before_anything_is_decided() -> None:
    source = DiscoverySource(source="label", enabled=True)
    async with running(source) as made:
        with anyio.fail_after(PATIENCE):
            while len(made.events) < 3:
                await made.changed.wait()
        first = made.events[0]
        assert isinstance(first, Observed)
        assert first.object == DiscoveryConfiguration(metadata=first.obj.metadata, sources=(source,))
        assert made.events[1:] == [Synced(resource=kind.resource) for kind in kinds.LOCAL]
        made.sources.configure((source,))
        assert len(made.events) == 3
        made.sources.configure(())
        last = made.events[-1]
        assert isinstance(last, Observed)
        assert (last.change, last.object.sources, last.previous) == (Change.CHANGED, (), first.object)


async def test_ports_are_listed_at_the_interval_with_the_credentials_of_the_secret() -> None:
    seen: list[tuple[str, str]] = []

    async def answer(request: web.Request) -> web.Response:
        seen.append((request.path, request.headers["Authorization"]))
        return web.json_response([{**PORT, "system_name": f"n{len(seen)}"}])

    async with server(answer) as address, running(ufm(address + "/")) as made:
        first, *_ = await made.fabrics(1)
        assert (first.metadata.name, first.links) == ("ufm", (("n1", "leaf-a"),))
        await made.clock.advance(59)
        assert len(seen) == 1
        await made.clock.advance(1)
        assert (await made.fabrics(2))[1].links == (("n2", "leaf-a"),)
        login = "Basic YWRtaW46Z2VoZWltLcO8"
        assert seen == [("/ufmRest/resources/ports", login)] * 2


async def test_a_change_of_the_configuration_asks_at_once() -> None:
    async def answer(request: web.Request) -> web.Response:
        return web.json_response([PORT])

    async with server(answer) as address, running(ufm(address)) as made:
        await made.fabrics(1)
        made.sources.configure((ufm(address, interval=5.0),))
        await made.fabrics(2)
        await made.clock.advance(5)
        await made.fabrics(3)
        made.sources.configure((ufm(address, enabled=False),))
        await made.clock.advance(600)
        assert len(made.objects(kinds.FABRIC)) == 3


async def test_the_fabric_of_a_server_is_removed_when_that_is_no_longer_a_source() -> None:
    async def answer(request: web.Request) -> web.Response:
        return web.json_response([PORT])

    async with server(answer) as address, running(ufm(address)) as made:
        (first,) = await made.fabrics(1)
        made.sources.configure((ufm(address, enabled=False),))
        assert made.gone(kinds.FABRIC) == [first]
        made.sources.configure((ufm(address),))
        await made.fabrics(2)
        made.sources.configure((ufm(address, interval=5.0),))
        assert made.gone(kinds.FABRIC) == [first]
        made.sources.configure((ufm("http://127.0.0.1:1"),))
        assert len(made.gone(kinds.FABRIC)) == 2


async def _not_found(_: web.Request) -> web.Response:
    return web.Response(status=404)


async def _denied(_: web.Request) -> web.Response:
    return web.Response(status=401)


async def _elsewhere(_: web.Request) -> web.Response:
    return web.Response(status=302, headers={"Location": "http://example.com"})


async def _page(_: web.Request) -> web.Response:
    return web.Response(text="<html>")


async def _no_host(_: web.Request) -> web.Response:
    return web.json_response([{**PORT, "description": "Switch IB Port"}])


async def _long(_: web.Request) -> web.Response:
    return web.Response(text="[" + " " * 2000 + "]")


@pytest.mark.parametrize(
    ("answer", "secret", "problem"),
    [
        (_not_found, _USER, "it answered 404 Not Found: check config.endpoint"),
        (_denied, _USER, "it answered 401: check username and password in the Secret"),
        (_elsewhere, _USER, "it answered 302 Found: check config.endpoint"),
        (_page, _USER, "the list of ports is not as UFM writes it: "),
        (_no_host, _USER, 'no port has "Computer" in its description, so no host is known'),
        (_long, _USER, "the list of ports is larger than"),
        (_page, {"username": "a"}, 'Secret ns/s has no key "password"; add it'),
    ],
)
async def test_a_failure_is_logged_and_tried_again_sooner(
    answer: Answer, secret: dict[str, str], problem: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(topology_sources, "LARGEST_LIST", 1000)
    with structlog.testing.capture_logs() as logs:
        async with server(cast("Any", answer)) as address, running(ufm(address), **secret) as made:
            await made.requests("failed", 1)
            await made.clock.advance(10)
            await made.requests("failed", 2)
            assert made.objects(kinds.FABRIC) == []
    failed = [each for each in logs if each["log_level"] == "error"]
    assert [each["retry_in"] for each in failed[:2]] == ["10s", "20s"]
    assert problem in failed[0]["problem"]


@pytest.mark.parametrize(
    ("source", "problem"),
    [
        (ufm("http://127.0.0.1:1"), "check config.endpoint and the network"),
        (replace(ufm("x"), secret=SecretReference(namespace="ns", name="t")),
         "Secret ns/t does not exist; create it with: kubectl create secret generic t -n ns --from-literal=username="),
    ],
)  # fmt: skip
async def test_what_cannot_be_reached_is_named(source: DiscoverySource, problem: str) -> None:
    with structlog.testing.capture_logs() as logs:
        async with running(source) as made:
            await made.requests("failed", 1)
    assert any(problem in each.get("problem", "") for each in logs), logs
