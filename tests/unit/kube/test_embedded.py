"""The edge against the embedded API server, in-process and over HTTP: real conflicts, real watches, injected faults."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import anyio
import pytest

from volcanoio.bus.event_bus import EventBus
from volcanoio.framework.effects import Create, Delete, Patch, PatchType
from volcanoio.framework.events import Change, EffectFailed, EffectSucceeded, Event, Observed
from volcanoio.framework.scheduling_effects import BindBatch, BindRequest, Evict
from volcanoio.framework.scheduling_events import BindDone, BindRefused, BindUnknown, EvictDone
from volcanoio.kube.binder import Binder, BinderOptions
from volcanoio.kube.client import Client
from volcanoio.kube.clock import WallClock
from volcanoio.kube.credentials.sources import StaticCredentials
from volcanoio.kube.effect_executor import EffectExecutor, EffectSinks
from volcanoio.kube.errors import AlreadyExists, Conflict, Invalid, NotFound
from volcanoio.kube.evictor import Evictor
from volcanoio.kube.http_transport import HttpTransport
from volcanoio.kube.informer import InformerSet
from volcanoio.kube.kubeconfig import Connection
from volcanoio.kube.requests import DeleteOptions, PatchOptions
from volcanoio.kube.sender import Sender
from volcanoio.kube.transport import Transport
from volcanoio.localcluster.apiserver.http.faults import Action, Faults, Rule, When
from volcanoio.localcluster.apiserver.http.listener import serve
from volcanoio.localcluster.apiserver.inprocess import InProcessTransport
from volcanoio.localcluster.apiserver.server import ApiServer
from volcanoio.model.base import Manifest
from volcanoio.model.core import Pod
from volcanoio.model.kinds import CONFIG_MAP, NODE, POD

WAYS = pytest.mark.parametrize("way", ["in-process", "http"])


class EagerClock(WallClock):
    """The wall clock, whose waits between tries are over at once."""

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(0)


@asynccontextmanager
async def server(way: str, faults: Faults | None = None) -> AsyncIterator[Transport]:
    api = ApiServer.open(None, faults=faults)
    async with api.running():
        if way == "in-process":
            yield InProcessTransport(api)
            return
        async with serve(api) as bound:
            transport = HttpTransport(Connection(bound.url, credentials=StaticCredentials(f"Bearer {bound.token}")))
            try:
                yield transport
            finally:
                await transport.aclose()


def pod(name: str) -> Manifest:
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": "default"},
        "spec": {"containers": [{"name": "c", "image": "busybox"}]},
    }


async def eventually(condition: Callable[[], object]) -> None:
    """Let the loop and its sockets turn until `condition` holds; the test's own time limit ends it otherwise."""
    while not condition():  # noqa: ASYNC110 - what is waited for has no event of its own
        await asyncio.sleep(0.001)


@WAYS
async def test_generic_verbs(way: str) -> None:
    async with server(way) as transport:
        client = Client(transport)
        created = await client.create(POD, pod("a"))
        uid = created["metadata"]["uid"]
        assert (await client.get(POD, "a", "default")).metadata.uid == uid
        assert (await client.get_raw(POD, "a", "default"))["spec"]["containers"][0]["image"] == "busybox"
        with pytest.raises(AlreadyExists):
            await client.create(POD, pod("a"))
        with pytest.raises(Invalid):
            await client.create(POD, {**pod("b"), "spec": {"containers": []}})
        labels = {"metadata": {"labels": {"x": "y"}}}
        patched = await client.patch(POD, "a", labels, "default", PatchOptions(uid=uid))
        assert patched["metadata"]["labels"] == {"x": "y"}
        options = PatchOptions(resource_version=created["metadata"]["resourceVersion"])
        with pytest.raises(Conflict):
            await client.patch(POD, "a", labels, "default", options)
        for number in range(5):
            await client.create(POD, pod(f"p{number}"))
        assert len(await client.list(POD, "default", limit=2)) == 6
        assert len(await client.list_raw(POD, limit=4)) == 6
        assert [one["metadata"]["name"] async for one in client.scan(POD, field_selector="metadata.name=p1")] == ["p1"]
        assert [found.metadata.name for found in await client.list(POD, label_selector="x=y")] == ["a"]
        version = patched["metadata"]["resourceVersion"]
        async with client.watch(POD, "default", resource_version=version) as changes:
            assert (await anext(changes)).object.metadata.name == "p0"
        with pytest.raises(Conflict):
            await client.delete(POD, "a", "default", DeleteOptions(uid="another"))
        await client.delete(POD, "a", "default", DeleteOptions(uid=uid, grace=0))
        with pytest.raises(NotFound):
            await client.get(POD, "a", "default")


class Process:
    """A bus with informers on it, which checks that observations of one object never go backwards."""

    def __init__(self, transport: Transport) -> None:
        self.clock = EagerClock()
        self.bus = EventBus(self.clock.now)
        self.events: list[Event] = []
        self.alive: dict[str, str] = {}
        self.versions: dict[str, int] = {}
        self.bus.subscribe(self.events.extend)
        self.bus.subscribe(self.check)
        self.informers = InformerSet(transport, self.bus.publish, clock=self.clock)

    def check(self, batch: tuple[Event, ...]) -> None:
        for event in batch:
            if not isinstance(event, Observed):
                continue
            meta = event.obj.metadata
            assert (meta.key in self.alive) is (event.change is not Change.APPEARED)
            assert meta.revision >= self.versions.get(meta.uid, 0)
            self.versions[meta.uid] = meta.revision
            if event.change is Change.GONE:
                del self.alive[meta.key]
            else:
                self.alive[meta.key] = meta.uid

    def outcomes(self) -> dict[int, str]:
        return {
            event.effect_id: "done" if isinstance(event, EffectSucceeded) else f"{event.code} {event.reason}"
            for event in self.events
            if isinstance(event, EffectSucceeded | EffectFailed)
        }


@WAYS
async def test_own_writes_and_watch_events_end_in_the_state_of_the_server(way: str) -> None:
    faults = Faults(
        Rule("POST", "/configmaps$", "reset", "after", nth=3),
        Rule("POST", "/configmaps$", "status", "after", nth=7, code=500),
        Rule("DELETE", "/configmaps/", "reset", "after", nth=2),
    )
    async with server(way, faults) as transport, anyio.create_task_group() as tasks:
        process = Process(transport)
        informer = process.informers.informer(CONFIG_MAP)
        tasks.start_soon(process.informers.run)
        await process.informers.synced()
        executor = EffectExecutor(
            Sender(transport, clock=process.clock),
            EffectSinks(publish=process.bus.publish, own=process.informers, local=lambda *_: None),
        )
        async with executor:
            for number in range(12):
                manifest = {"metadata": {"name": f"m{number}", "namespace": "default"}, "data": {}}
                create = Create(id=number + 1, resource="configmaps", manifest=manifest)
                change = patch(100 + number, f"m{number}", {"data": {"n": str(number)}})
                executor.submit("c", str(number), ((create,), (change,)))
            await eventually(lambda: len(process.outcomes()) == 24)
            assert set(process.outcomes().values()) == {"done"}
            for number, obj in enumerate(sorted(informer.objects.values(), key=lambda obj: obj.metadata.name)[:4]):
                meta = obj.metadata
                delete = Delete(
                    id=200 + number, resource="configmaps", namespace="default", name=meta.name, uid=meta.uid
                )
                executor.submit("c", meta.name, ((delete,),))
            await eventually(lambda: len(process.outcomes()) == 28)
            assert set(process.outcomes().values()) == {"done"}
        held = await Client(transport).list(CONFIG_MAP, "default")
        here = {key: obj.metadata.revision for key, obj in informer.objects.items() if key.startswith("default/m")}
        assert here == {obj.metadata.key: obj.metadata.revision for obj in held if obj.metadata.name.startswith("m")}
        assert len(here) == 8
        tasks.cancel_scope.cancel()


def patch(id_: int, name: str, content: Any) -> Patch:
    return Patch(id=id_, resource="configmaps", namespace="default", name=name, patch=content, type=PatchType.MERGE)


@asynccontextmanager
async def gang(transport: Transport) -> AsyncIterator[tuple[Client, BindBatch]]:
    client = Client(transport)
    await client.create(NODE, {"metadata": {"name": "n1"}})
    binds = []
    for number in range(8):
        created = await client.create(POD, pod(f"p{number}"))
        name, uid = created["metadata"]["name"], created["metadata"]["uid"]
        binds.append(BindRequest(uid=uid, namespace="default", name=name, node="n1"))
    yield client, BindBatch(group="default/g", cycle=1, binds=tuple(binds))


@WAYS
@pytest.mark.parametrize(
    ("action", "when", "code", "unknown"),
    [
        ("status", "before", 429, False),
        ("status", "before", 500, True),
        ("status", "after", 500, True),
        ("status", "after", 409, False),
        ("reset", "before", 0, True),
        ("reset", "after", 0, True),
        ("hang", "before", 0, True),
        ("hang", "after", 0, True),
    ],
)
async def test_a_fault_on_the_third_of_eight_binds(
    way: str, action: Action, when: When, code: int, unknown: bool
) -> None:
    faults = Faults(Rule("POST", "/binding$", action, when, nth=3, code=code))
    async with server(way, faults) as transport, gang(transport) as (client, batch):
        events: list[Event] = []
        async with Binder(transport, events.extend, clock=EagerClock(), options=BinderOptions(timeout=0.2)) as binder:
            binder.submit(batch)
            await eventually(lambda: not binder.unfinished)
        assert sorted(event.name for event in events if isinstance(event, BindDone)) == [f"p{n}" for n in range(8)]
        assert any(isinstance(event, BindUnknown) for event in events) is unknown
        assert not any(isinstance(event, BindRefused) for event in events)
        bound = await client.list(POD, "default")
        assert all(isinstance(found, Pod) and found.spec.node_name == "n1" for found in bound)


@WAYS
async def test_a_pod_of_another_uid_is_not_bound_and_an_eviction_ends_the_right_one(way: str) -> None:
    async with server(way) as transport, gang(transport) as (client, batch):
        events: list[Event] = []
        wrong = BindRequest(uid="another", namespace="default", name="p0", node="n1")
        async with Binder(transport, events.extend, clock=EagerClock()) as binder:
            binder.submit(BindBatch(group="default/g", cycle=1, binds=(wrong, *batch.binds[1:2])))
            await eventually(lambda: not binder.unfinished)
        assert [type(event) for event in events] in ([BindRefused, BindDone], [BindDone, BindRefused])

        clock = EagerClock()
        evictor = Evictor(Sender(transport, clock=clock), events.extend, clock=clock, scheduler="volcano")
        victim = batch.binds[1]
        await evictor.evict(
            Evict(group="default/g", uid=victim.uid, namespace="default", name="p1", node="n1", reason="preempt")
        )
        assert isinstance(events[-1], EvictDone)
        ending = await client.get_raw(POD, "p1", "default")
        assert "deletionTimestamp" in ending["metadata"]
        conditions = {condition["type"]: condition for condition in ending["status"]["conditions"]}
        assert conditions["DisruptionTarget"]["reason"] == "PreemptionByScheduler"
