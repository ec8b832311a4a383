"""Candidates for one lease in virtual time: processes that stop, clocks that differ, and a network with faults."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine, Mapping
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from itertools import groupby
from typing import Any, Unpack

import msgspec

from tests.localcluster.apiserver.api import running
from volcanoio.kube.leader_election import Candidate, CandidateHost, LeaseSettings, Stage
from volcanoio.kube.sender import FencedTransport
from volcanoio.kube.transport import NotSent, RequestOptions, Response, Transport, TransportError
from volcanoio.localcluster.apiserver.inprocess import InProcessTransport
from volcanoio.localcluster.apiserver.server import ApiServer
from volcanoio.localcluster.clock import VirtualClock
from volcanoio.model.base import Manifest

LEASE = "/apis/coordination.k8s.io/v1/namespaces/volcano-system/leases/volcano"
WRITTEN = "/api/v1/namespaces/default/configmaps/decisions"


@dataclass
class Network:
    """What happens to the requests of one process; times in seconds."""

    delay: float = 0.0
    """From sending to the server's work."""
    back: float = 0.0
    """From the server's work to the answer."""
    status: int = 0
    """The status that the server answers without doing anything."""
    is_down: bool = False
    loses_answers: bool = False


class MachineClock:
    """The clock of one machine: its time of day differs, and a stopped process wakes from no sleep."""

    rate = 1.0

    def __init__(self, clock: VirtualClock, skew: float) -> None:
        self._clock = clock
        self._skew = skew
        self.running = asyncio.Event()
        self.running.set()

    def now(self) -> float:
        return self._clock.now() + self._skew

    def monotonic(self) -> float:
        return self._clock.monotonic() + 1000 * self._skew

    async def sleep(self, seconds: float) -> None:
        await self._clock.sleep(seconds)
        await self.running.wait()

    idle = sleep


class FaultyTransport:
    """The transport of one process. A server carries out a write only before the write's own timeout has passed."""

    def __init__(self, transport: Transport, clock: VirtualClock, machine: MachineClock) -> None:
        self._transport = transport
        self._clock = clock
        self._machine = machine
        self.network = Network()
        self.carried_out: list[tuple[str, str]] = []
        self.sending: Callable[[str, str], object] = lambda method, path: None
        """Called when the bytes of a request leave the process."""
        self.arrived: Callable[[str, str], object] = lambda method, path: None
        """Called when the server has carried a request out."""

    async def request(self, method: str, path: str, **options: Unpack[RequestOptions]) -> Response:
        await self._machine.running.wait()
        if (fence := options.get("fence")) is not None and not fence():
            raise NotSent(method, path)
        self.sending(method, path)
        try:
            return await self._deliver(method, path, options)
        finally:
            await self._machine.running.wait()

    async def _deliver(self, method: str, path: str, options: RequestOptions) -> Response:
        network, limit = self.network, options.get("timeout") or 30.0
        if network.is_down:
            raise TransportError(f"{method} {path}: connection refused")
        if network.delay >= limit:
            await self._clock.sleep(limit)
            raise TransportError(f"{method} {path}: no answer in time")
        await self._clock.sleep(network.delay)
        if network.status:
            status = {"kind": "Status", "status": "Failure", "code": network.status, "message": "no"}
            return Response(network.status, msgspec.json.encode(status))
        options.pop("fence", None)
        response = await self._transport.request(method, path, **options)
        self.carried_out.append((method, path))
        self.arrived(method, path)
        if network.loses_answers or network.delay + network.back >= limit:
            await self._clock.sleep(limit - network.delay)
            raise TransportError(f"{method} {path}: no answer in time")
        await self._clock.sleep(network.back)
        return response

    @asynccontextmanager
    async def stream(
        self, path: str, *, query: Mapping[str, str] | None = None
    ) -> AsyncIterator[AsyncIterator[list[bytes]]]:
        await self._machine.running.wait()
        async with self._transport.stream(path, query=query) as batches:
            yield self._received(batches)

    async def _received(self, batches: AsyncIterator[list[bytes]]) -> AsyncIterator[list[bytes]]:
        async for batch in batches:
            await self._machine.running.wait()
            yield batch

    async def aclose(self) -> None:
        pass


class Led:
    """The `Leadership` that a candidate of the test gives to a component."""

    def __init__(self, candidate: Candidate, clock: MachineClock) -> None:
        self._candidate = candidate
        self._clock = clock
        self.begun = asyncio.Event()
        self.guards: list[FencedTransport] = []

    def is_leading(self) -> bool:
        return self._candidate.is_leading()

    async def acquired(self) -> None:
        await self.begun.wait()

    def guard(self, transport: Transport) -> FencedTransport:
        self.guards.append(FencedTransport(transport, self.is_leading, self._clock))
        return self.guards[-1]


class Process:
    """One process with a candidate, which writes its name every `pace` seconds while it may."""

    def __init__(self, world: World, name: str, *, skew: float = 0.0, settings: LeaseSettings | None = None) -> None:
        self.world = world
        self.name = name
        self.clock = MachineClock(world.clock, skew)
        self.transport = FaultyTransport(InProcessTransport(world.server), world.clock, self.clock)
        self.transport.arrived = self._arrived
        self.is_alive = True
        host = CandidateHost(is_alive=lambda: self.is_alive, changed=self._changed)
        settings = settings or LeaseSettings(name="volcano", identity=name)
        self.candidate = Candidate(self.transport, settings, clock=self.clock, host=host)
        self.leadership = Led(self.candidate, self.clock)
        self.writes = self.leadership.guard(self.transport)
        self._tasks: list[asyncio.Task[Any]] = []

    def _changed(self) -> None:
        if self.candidate.may_write:
            self.leadership.begun.set()

    def _arrived(self, method: str, path: str) -> None:
        if method != "GET" and "/leases" not in path:
            self.world.writers.append(self.name)

    @property
    def leads(self) -> bool:
        return self.candidate.is_leading()

    def run(self, work: Coroutine[Any, Any, None]) -> None:
        """Run a part of the process until it is killed."""
        self._tasks.append(asyncio.create_task(work))

    def start(self, pace: float = 0.0) -> Process:
        self.run(self.candidate.run())
        if pace:
            self.run(self._write(pace))
        return self

    async def _write(self, pace: float) -> None:
        body = msgspec.json.encode({"data": {"by": self.name}})
        while True:
            with suppress(TransportError):
                await self.writes.request("PATCH", WRITTEN, body=body, content_type="application/merge-patch+json")
            await self.clock.sleep(pace)

    def stop(self) -> None:
        """Stop the whole process, as SIGSTOP does."""
        self.clock.running.clear()

    def resume(self) -> None:
        self.clock.running.set()

    async def kill(self) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def end(self) -> None:
        """End gracefully: no more writes, then the lease."""
        self.candidate.shut()
        for guard in self.leadership.guards:
            await guard.quiet()
        await self.candidate.release()


@dataclass
class World:
    """One server and its processes."""

    server: ApiServer
    clock: VirtualClock = field(default_factory=VirtualClock)
    processes: list[Process] = field(default_factory=list)
    writers: list[str] = field(default_factory=list)
    """The writer of each write that the server carried out, in its order."""

    def check(self) -> None:
        """Assert that one process writes at a time, and none again after another."""
        assert [process.name for process in self.processes if process.leads][1:] == []
        turns = [name for name, _ in groupby(self.writers)]
        assert len(turns) == len(set(turns)), turns

    def process(self, name: str, *, skew: float = 0.0, pace: float = 0.0) -> Process:
        process = Process(self, name, skew=skew)
        self.processes.append(process)
        return process.start(pace)

    async def until(self, condition: Any, limit: float = 60.0) -> float:
        """Advance until the condition holds; returns the seconds that took."""
        since = self.clock.now()
        while not condition():
            assert self.clock.now() - since < limit, "the condition does not come to hold"
            await self.clock.advance(0.1)
        return self.clock.now() - since

    async def until_done(self, work: Coroutine[Any, Any, None]) -> None:
        """Advance until the coroutine has ended."""
        task = asyncio.ensure_future(work)
        await self.until(task.done)
        await task

    async def until_leased(self) -> None:
        """Advance until the Lease exists, unless every process has lost it."""
        while any(process.candidate.stage is not Stage.ENDED for process in self.processes):
            response = await InProcessTransport(self.server).request("GET", LEASE)
            if response.ok:
                return
            await self.clock.advance(0.5)

    async def lease(self) -> Manifest:
        response = await InProcessTransport(self.server).request("GET", LEASE)
        assert response.ok, response.body
        return dict(msgspec.json.decode(response.body)["spec"])

    async def lease_metadata(self) -> Manifest:
        response = await InProcessTransport(self.server).request("GET", LEASE)
        return dict(msgspec.json.decode(response.body)["metadata"])

    async def edit(self, **change: Manifest) -> None:
        """Change the Lease by hand."""
        body = msgspec.json.encode(change)
        await InProcessTransport(self.server).request(
            "PATCH", LEASE, body=body, content_type="application/merge-patch+json"
        )

    async def delete(self) -> None:
        await InProcessTransport(self.server).request("DELETE", LEASE)

    async def close(self) -> None:
        for process in self.processes:
            process.resume()
            await process.kill()


@asynccontextmanager
async def a_world() -> AsyncIterator[World]:
    """A server with an object that processes write to."""
    async with running() as api:
        await api.made("/api/v1/namespaces/default/configmaps", {"metadata": {"name": "decisions"}})
        world = World(api.server)
        try:
            yield world
        finally:
            await world.close()
