"""A `JobsWorld` of all controllers with a faulty network, where every stored version and every cause is checked."""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from contextlib import suppress
from functools import cache
from typing import Any

import msgspec

from tests.soak import virtual_loop
from tests.soak.virtual_loop import VirtualTimeLoop
from tests.stateful import invariants
from tests.stateful.chains import Chains
from tests.stateful.faulty_network import FaultyNetwork
from tests.stateful.histories import Histories
from tests.stateful.jobs_world import NAMESPACE, JobsWorld, LoopClock, ServerTime, plugins
from volcanoio.compose.controllers import ControllerManager, ControllerSettings
from volcanoio.compose.local import install_crds
from volcanoio.engine.jobs.state.job_state import JobState
from volcanoio.engine.queues.controller import QueueState
from volcanoio.framework.lifecycle import LifecyclePolicy
from volcanoio.framework.probe import NoProbe
from volcanoio.kube.client import Client
from volcanoio.kube.errors import ApiError, error_of
from volcanoio.kube.requests import PatchOptions
from volcanoio.kube.transport import Transport
from volcanoio.localcluster.apiserver.apimachinery.objects import Ref, Stored
from volcanoio.localcluster.apiserver.core import Core
from volcanoio.localcluster.apiserver.inprocess import InProcessTransport
from volcanoio.localcluster.apiserver.server import ApiServer
from volcanoio.localcluster.apiserver.storage.store import Store
from volcanoio.model import kinds
from volcanoio.model.base import Manifest
from volcanoio.model.kinds import Kind

REST, MOMENT, PATIENCE = 0.5, 0.001, 400
"""Virtual seconds after which it is looked again whether something moves, the least time, and how often."""


_DEFAULT = {
    "apiVersion": kinds.QUEUE.api_version,
    "kind": "Queue",
    "metadata": {"name": "default"},
    "spec": {"weight": 1},
}


class Probe(NoProbe):
    """Keeps counters, for the one that counts reducers that raised."""

    def __init__(self) -> None:
        self.counts: Counter[str] = Counter()

    def count(self, name: str, amount: float = 1.0, **labels: str) -> None:
        """Add to a counter."""
        del labels
        self.counts[name] += int(amount)


class LifecycleWorld(JobsWorld):
    """See above. `seen` counts what was looked at."""

    def __init__(self, server: ApiServer, *, policies: tuple[LifecyclePolicy, ...], controllers: tuple[str, ...]):
        super().__init__(server, policies=policies, controllers=controllers)
        self.network = FaultyNetwork(self._transport)
        self.line = self.network
        self.histories = Histories(server.store)
        self.chains: list[Chains] = []
        self.probe = Probe()
        self.settings: dict[str, Any] = {}
        """Further ControllerSettings of processes to come."""
        self.absent = False
        """Whether a process that ended gets no successor."""

    def _manager(self, life: Transport) -> ControllerManager:
        settings = ControllerSettings(
            registry=plugins(), policies=self._policies, controllers=self._controllers, **self.settings
        )
        manager = ControllerManager(life, clock=LoopClock(), settings=settings, probe=self.probe)
        chains = Chains()
        manager.bus.subscribe(chains)
        self.chains.append(chains)
        return manager

    @property
    def now(self) -> float:
        """Epoch seconds."""
        return LoopClock().now()

    async def user(self, kind: Kind, manifest: Manifest) -> None:
        """Create an object as a user; a refusal by the server is ignored."""
        with suppress(ApiError):
            await self._create(kind, manifest)

    @property
    def alive(self) -> bool:
        """Whether a process runs."""
        return self._process is not None and not self.lives[-1].died.is_set()

    async def revive(self) -> None:
        """There is a process again, if none was; it need not get to read anything."""
        if not self.alive:
            await self.kill()
            await self.start(waiting=False)

    async def live(self, seconds: float) -> None:
        """Time passes; one who died is succeeded, unless the world is to go on without."""
        end = self.now + seconds
        while self.now < end:
            await asyncio.sleep(min(REST, end - self.now))
            if not self.absent:
                await self.revive()

    async def manifest(self, kind: Kind, name: str) -> Manifest:
        """Return an object as it is stored."""
        response = await self._transport.request("GET", f"{kind.path(NAMESPACE)}/{name}")
        if not response.ok:
            raise error_of(response, now=self.now)
        found: Manifest = msgspec.json.decode(response.body)
        return found

    async def command_queue(self, action: str, queue: str) -> None:
        """Issue a Command for a queue."""
        target = {"apiVersion": kinds.QUEUE.api_version, "kind": "Queue", "name": queue, "uid": ""}
        target["uid"] = (await self.client.get(kinds.QUEUE, queue)).metadata.uid
        await self._create(
            kinds.COMMAND, {"metadata": {"generateName": f"{queue}-"}, "action": action, "target": target}
        )

    async def restart_containers(self, pod: str, restarts: int) -> None:
        """Write the number of restarts of a container, as the kubelet does."""
        status = {"name": "c", "image": "i", "imageID": "", "ready": True, "restartCount": restarts, "state": {}}
        patch = {"status": {"phase": "Running", "containerStatuses": [status]}}
        await self.client.patch(kinds.POD, pod, patch, namespace=NAMESPACE, options=PatchOptions(subresource="status"))

    async def rest(self) -> None:
        """Repair the network, restart killed processes, and run until nothing changes."""
        self.network.clear()
        moving = ""
        for _ in range(PATIENCE):
            if self.lives and self.lives[-1].died.is_set():
                await self.kill()
            if self._process is None:
                await self.start()
            before = self._server.store.revision
            await asyncio.sleep(REST)
            await asyncio.sleep(MOMENT)  # whatever is due at the very same time has its turn first
            died = self.lives[-1].died.is_set()
            moving = self._moving()
            if self._server.store.revision == before and not died and not moving:
                return
        msg = f"the world does not come to rest: {moving}; last written: {self.writes[-8:]}"
        raise AssertionError(msg)

    def _moving(self) -> str:
        """Describe work in progress or waiting for a back-off; "" for none."""
        assert self.manager is not None
        if self.manager.executor.steps_under_way:
            return f"{self.manager.executor.steps_under_way} steps"
        informers = list(self.manager.informers)
        if not all(each.is_synced for each in informers):
            return "lists"
        if not self.network.delivers(each.kind.path("") for each in informers):
            return "watches"
        host = self.manager.host.host
        for name in host.controllers:
            keyed = host[name]
            if not keyed.synced:
                return f"{name} is not synced"
            for key in keyed.keys:
                if keyed.in_flight(key) or _waits(keyed.state(key), self.now):
                    return f"{name} {key}: {keyed.in_flight(key)} {keyed.state(key)}"
        return ""

    def look(self) -> None:
        """Check the invariants that hold at any time."""
        self.histories.check()
        for chains in self.chains:
            chains.check()
        assert not self.probe.counts["volcanoio_controller_faults_total"], "a reducer raised"

    async def look_at_rest(self) -> None:
        """Check the invariants that hold when nothing changes."""
        await self.rest()
        self.look()
        found = invariants.faults(await self.observed())
        assert not found, "\n".join(found)

    async def observed(self) -> invariants.Observed:
        """Return everything that is stored."""

        async def of(*wanted: Kind) -> list[Any]:
            return [
                obj for kind in wanted for obj in await self.client.list(kind, NAMESPACE if kind.namespaced else "")
            ]

        return invariants.Observed(
            now=self.now,
            jobs=await of(kinds.JOB),
            pods=await of(kinds.POD),
            groups=await of(kinds.POD_GROUP),
            queues=await of(kinds.QUEUE),
            commands=await of(kinds.COMMAND),
            supports=await of(*invariants.SUPPORTS),
        )


def _waits(state: Any, now: float) -> bool:
    """Whether a key waits for an answer, the end of a back-off, or that of a rest from counting."""
    match state:
        case JobState():
            due = max(state.retry_at, state.recreate_at, state.stale_until)
            return bool(state.questions) or state.has_uncounted_changes or state.counts_due > 0 or due > now
        case QueueState(backoff=backoff, counts_due=counting):
            return backoff.until > now or counting > 0
        case _:
            return False


class Living:
    """A world on a loop of its own that stands still between calls of `do`: for callers that cannot await."""

    def __init__(self, *, policies: tuple[LifecyclePolicy, ...], controllers: tuple[str, ...], **settings: Any) -> None:
        """`settings` are further ones of processes, see ControllerSettings."""
        _beginning()
        self._loop = VirtualTimeLoop()
        self._ready: asyncio.Future[LifecycleWorld] = self._loop.create_future()
        self._over = asyncio.Event()
        self._life = self._loop.create_task(self._live(policies, controllers, settings))
        self._loop.run_until_complete(asyncio.wait((self._ready, self._life), return_when=asyncio.FIRST_COMPLETED))
        if self._life.done():
            self._life.result()
        self.world = self._ready.result()

    async def _live(
        self, policies: tuple[LifecyclePolicy, ...], controllers: tuple[str, ...], settings: dict[str, Any]
    ) -> None:
        server = ApiServer(Core(_begun(), ServerTime()))
        _predictable(server, 0)
        async with server.running():
            world = LifecycleWorld(server, policies=policies, controllers=controllers)
            world.settings = settings
            await world.start()
            self._ready.set_result(world)
            try:
                await self._over.wait()
            finally:
                await world.kill()

    def do(self, doing: Any) -> Any:
        """Let time run until something was done."""
        return self._loop.run_until_complete(doing)

    def close(self) -> None:
        """Stop the world."""
        self._over.set()
        try:
            self._loop.run_until_complete(self._life)
        finally:
            self._loop.run_until_complete(self._loop.shutdown_asyncgens())
            self._loop.close()


@cache
def _beginning() -> tuple[int, list[tuple[Ref, Stored]]]:
    """Return revision and objects of an unused cluster, made once."""

    async def made() -> tuple[int, list[tuple[Ref, Stored]]]:
        server = ApiServer(Core(Store(), ServerTime()))
        _predictable(server, -1)
        async with server.running():
            await install_crds(InProcessTransport(server))
            await Client(InProcessTransport(server)).create(kinds.QUEUE, _DEFAULT)
            collections = list(server.store.collections())
            found = [
                (Ref(resource, namespace, name), stored)
                for resource, collection in collections
                for (namespace, name), stored in collection.objects.items()
            ]
            return server.store.revision, found

    return virtual_loop.run(made())


def _begun() -> Store:
    """Return a store of an unused cluster."""
    revision, objects = _beginning()
    store = Store(revision)
    for ref, stored in objects:
        store.load(ref, stored)
    return store


def _predictable(server: ApiServer, seed: int) -> None:
    """Make uids and generated names equal in every run."""
    rng = random.Random(seed)
    server.core._random.seed(seed)
    server.core._entropy[:] = [f"{rng.getrandbits(128):032x}" for _ in range(4_000)]
