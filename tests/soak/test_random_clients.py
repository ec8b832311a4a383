"""Random clients and faults, virtual time: no event is lost, doubled or out of order, no acknowledged write is lost.

`make soak` runs 24 virtual hours, CI half of one.
"""

from __future__ import annotations

import asyncio
import json
import os
import random
from contextlib import suppress
from datetime import UTC, datetime, timedelta

import pytest

from tests.localcluster.apiserver.api import CONFIG_MAPS, DEFINITIONS, WIDGETS, Api, widget, widget_definition
from tests.soak import virtual_loop
from tests.soak.clients import Client
from tests.soak.faults import RandomFaults
from tests.soak.ledger import Ledger
from tests.soak.watchers import LONG_AWAY_SECONDS, Watcher
from volcanoio.kube.informer import Informer, Selection, WatchContext
from volcanoio.kube.transport import Transport
from volcanoio.localcluster.apiserver.core import Core
from volcanoio.localcluster.apiserver.inprocess import InProcessTransport
from volcanoio.localcluster.apiserver.server import ApiServer
from volcanoio.localcluster.apiserver.storage.store import Store
from volcanoio.model.kinds import CONFIG_MAP

HOURS = float(os.environ.get("VOLCANOIO_SOAK_HOURS", "0.5"))
SEEDS = range(int(os.environ.get("VOLCANOIO_SOAK_SEEDS", "2")))
FAULT_RATE = 0.01
WINDOW = 300
"""Changes the server remembers: few, so that those who were away too long have to list again."""
PAUSE = 1.5
"""Seconds between two writes of a client."""
RESOURCES = {
    "configmaps": (CONFIG_MAPS, {"apiVersion": "v1", "kind": "ConfigMap", "data": {"text": "x" * 50}}),
    "widgets.example.com": (WIDGETS, widget()),
}
EVENTS = "/api/v1/namespaces/default/events"


class LoopTime:
    """The server's time of day, and the informers' clock: the loop's."""

    rate = 1.0

    def now(self) -> float:
        return asyncio.get_running_loop().time()

    monotonic = now

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(seconds)

    idle = sleep


class TimeOfDay:
    """The same as a date."""

    def now(self) -> datetime:
        return datetime(2030, 1, 1, tzinfo=UTC) + timedelta(seconds=asyncio.get_running_loop().time())

    async def idle(self, seconds: float) -> None:
        await asyncio.sleep(seconds)


@pytest.mark.timeout(3600)
@pytest.mark.parametrize("seed", SEEDS)
def test_watchers_see_what_happened_and_nothing_acknowledged_is_lost(seed: int) -> None:
    virtual_loop.run(_soak(random.Random(seed)))


async def _soak(rng: random.Random) -> None:
    faults = RandomFaults(0, rng)
    server = ApiServer(Core(Store(window=WINDOW), TimeOfDay()), faults)
    async with server.running(), asyncio.TaskGroup() as tasks:
        ledger, transport = Ledger(server.store), InProcessTransport(server)
        await Api(server).made(DEFINITIONS, widget_definition())
        watchers = [
            Watcher(resource, path, ledger, transport, random.Random(rng.random()), marked=marked)
            for resource, (path, _) in RESOURCES.items()
            for marked in (False, True)
            for _ in range(2)
        ]
        clients = [
            Client(number, path, body, transport, random.Random(rng.random()))
            for path, body in RESOURCES.values()
            for number in range(3)
        ]
        context = WatchContext(transport=transport, publish=lambda _: None, clock=LoopTime())
        informer = Informer(CONFIG_MAP, context, Selection(namespace="default"), page=10)
        gate = asyncio.Event()
        running = [tasks.create_task(client.run(gate, PAUSE)) for client in clients]
        running += [tasks.create_task(watcher.run()) for watcher in watchers]
        running += [tasks.create_task(informer.run()), tasks.create_task(_report(transport, rng))]
        end = asyncio.get_running_loop().time() + HOURS * 3600
        while asyncio.get_running_loop().time() < end:
            faults.rate = FAULT_RATE
            gate.set()
            await asyncio.sleep(min(3600, HOURS * 1800))
            gate.clear()
            faults.rate = 0  # what is under way comes to an end, and what broke comes back
            await asyncio.sleep(LONG_AWAY_SECONDS + 120)
            await _compare(server, clients, watchers, informer)
            ledger.forget(server.store.revision)
        for task in running:
            task.cancel()
    _was_worth_it(faults, clients, watchers)


async def _compare(server: ApiServer, clients: list[Client], watchers: list[Watcher], informer: Informer) -> None:
    """Without writes in progress, every client's view equals the store."""
    for client in clients:
        await client.check()
    for watcher in watchers:
        objects = server.store.collection(watcher.resource).objects
        stored = {f"{namespace}/{name}": one for (namespace, name), one in objects.items()}
        expected = {key: one.revision for key, one in stored.items() if watcher.selects(one.labels)}
        expected = {key: revision for key, revision in expected.items() if key.startswith("default/")}
        assert watcher.view == expected
    objects = server.store.collection("configmaps").objects
    stored_versions = {name: str(one.revision) for (namespace, name), one in objects.items() if namespace == "default"}
    assert {one.metadata.name: one.metadata.resource_version for one in informer.objects.values()} == stored_versions
    oldest = TimeOfDay().now() - timedelta(hours=1, minutes=1, seconds=1)
    for one in server.store.collection("events").objects.values():
        assert datetime.fromisoformat(one.decode()["firstTimestamp"]) > oldest


async def _report(transport: Transport, rng: random.Random) -> None:
    """A client writes Events, which no client deletes."""
    while True:
        metadata = {"generateName": "soak-"}
        event = {"metadata": metadata, "firstTimestamp": TimeOfDay().now().isoformat().replace("+00:00", "Z")}
        event["involvedObject"] = {"namespace": "default"}
        with suppress(Exception):
            await transport.request("POST", EVENTS, body=json.dumps(event).encode())
        await asyncio.sleep(rng.expovariate(1 / 30))


def _was_worth_it(faults: RandomFaults, clients: list[Client], watchers: list[Watcher]) -> None:
    """Everything that can happen has happened: otherwise the test says nothing."""
    assert len(faults.happened) >= 8, faults.happened
    done = set().union(*(client.done for client in clients))
    assert done >= {"create", "replace", "patch", "delete", "nothing", "create, unknown to us", "patch, unknown to us"}
    for watcher in watchers:
        assert watcher.seen > 100
        assert watcher.lists >= 1
        assert watcher.resumed >= 3
    if HOURS >= 1:
        assert any(watcher.lists > 1 for watcher in watchers), "no client was ever disconnected too long"
