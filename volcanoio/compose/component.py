"""A component as a process of a cluster: connection, endpoints, leader election, signals and exit code.

`run_until_signal` runs a scheduler or the controllers. SIGTERM and SIGINT end it gracefully:
it is no longer ready, decides nothing more, waits for the requests in flight, and exits with 0. A second signal ends it
at once. While the API server cannot be reached it waits and logs why.
"""

from __future__ import annotations

import math
import os
import signal
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Protocol, runtime_checkable

import anyio
import structlog

from volcanoio.kube.clock import Clock, WallClock
from volcanoio.kube.http_transport import HttpTransport
from volcanoio.kube.kubeconfig import ConfigError, Connection, load
from volcanoio.kube.leader_election import LeaderElector, Leadership, LeaseSettings
from volcanoio.kube.transport import RateLimitedTransport, Transport, TransportError
from volcanoio.runtime.api_metrics import CountingTransport
from volcanoio.runtime.endpoints import Handler, Health, Profiles, TlsFiles, metrics_handler, serving
from volcanoio.runtime.garbage_collection import tune_garbage_collector
from volcanoio.runtime.metrics import SERIES_LIMIT, PrometheusProbe
from volcanoio.runtime.scheduler import answers
from volcanoio.runtime.scheduler.answers import Reply

STUCK_AFTER = 60.0
"""Seconds without progress in a step of the component after which /livez fails."""
_FIRST_RETRY, _LAST_RETRY = 1.0, 10.0
"""Seconds between attempts to reach the API server."""
_log = structlog.get_logger(__name__)


class Process(Protocol):
    """What a component runs: a SchedulerProcess or a ControllerManager."""

    async def run(self) -> None:
        """Work until cancelled."""
        ...

    async def synced(self) -> None:
        """Return once everything is listed."""
        ...

    async def drain(self) -> None:
        """Decide nothing more, and return once no request is in flight."""
        ...

    def busy_for(self) -> float:
        """Return the seconds since the last progress of the current step; 0 between steps."""
        ...


@runtime_checkable
class Dumpable(Protocol):
    """A process that can write what it knows to a file."""

    async def dump(self, directory: Path) -> None:
        """Write a file in the directory; errors are logged."""
        ...


@runtime_checkable
class Answering(Protocol):
    """A process that answers questions."""

    async def respond(self, path: str, query: Mapping[str, str]) -> Reply:
        """Answer a GET request."""
        ...


Build = Callable[[Transport, PrometheusProbe, Leadership | None], Process]


@dataclass(frozen=True, kw_only=True)
class ConnectionSettings:
    """Address of the API server: a kubeconfig, $KUBECONFIG, ~/.kube/config or the pod's account; `master` overrides."""

    kubeconfig: Path | None = None
    master: str = ""

    async def load(self) -> Connection:
        """Load the connection. Raises ConfigError."""
        try:
            connection = await load(self.kubeconfig)
        except ConfigError:
            if not self.master or self.kubeconfig is not None or os.environ.get("KUBECONFIG"):
                raise
            return Connection(self.master)
        return replace(connection, server=self.master) if self.master else connection


@dataclass(frozen=True, kw_only=True)
class EndpointSettings:
    """Addresses (host, port) of the endpoints, None for none."""

    health: tuple[str, int] | None = None
    metrics: tuple[str, int] | None = None
    profile: tuple[str, int] | None = None
    answers: tuple[str, int] | None = None
    """A loopback address: who may reach it may ask."""
    tls: TlsFiles | None = None


@dataclass(frozen=True, kw_only=True)
class ComponentSettings:
    """Settings of a component's process; without `lease` it always leads.

    `qps` limits its requests per second, but not those for the lease, and `burst` those at once; 0 is no limit.
    `grace` is the longest time in seconds for requests in flight at its end, `series_limit` the maximum of series of a
    metric that has one for each job or pod.
    With `dumps`, SIGUSR1 and SIGUSR2 have the process write what it knows to a file in that directory.
    """

    name: str
    endpoints: EndpointSettings = EndpointSettings()
    lease: LeaseSettings | None = None
    series_limit: int = SERIES_LIMIT
    qps: float = 0.0
    burst: int = 0
    grace: float = 20.0
    dumps: Path | None = None


class Component:
    """A component in its process. `run` returns the exit code; `stop` ends it gracefully, a second call at once."""

    def __init__(
        self, connection: Connection, settings: ComponentSettings, build: Build, *, clock: Clock | None = None
    ) -> None:
        self._settings = settings
        self._build = build
        self._clock = clock or WallClock()
        self.probe = PrometheusProbe(series_limit=settings.series_limit)
        self.transport = HttpTransport(connection)
        lease = settings.lease
        self._elector = (
            LeaderElector(connection, lease, probe=self.probe, wrap=CountingTransport) if lease is not None else None
        )
        self._server = connection.server
        self._process: Process | None = None
        self._unready = "the API server has not answered yet"
        self._stopping = False
        self._code = 0
        self._scope = anyio.CancelScope()
        self._stop = anyio.Event()
        self.ports: dict[str, int] = {}
        """Port of each address with endpoints, by the name of its first path."""

    async def run(self) -> int:
        """Run until `stop`; returns the exit code. Raises EndpointError, and what `build` raises."""
        tune_garbage_collector()
        async with AsyncExitStack() as stack:
            stack.push_async_callback(self.transport.aclose)
            await stack.enter_async_context(self._endpoints())
            with self._scope:
                async with anyio.create_task_group() as tasks:
                    tasks.start_soon(self._end)
                    await self._reach_server()
                    if self._elector is not None:
                        tasks.start_soon(self._elector.run)
                        tasks.start_soon(self._end_when_lost, self._elector)
                    transport = self._limited(CountingTransport(self.transport, self.probe, self._clock))
                    self._process = self._build(transport, self.probe, self._elector)
                    tasks.start_soon(self._process.run)
                    await self._begin(self._process)
        _log.info("ended", component=self._settings.name, code=self._code)
        return self._code

    @property
    def can_dump(self) -> bool:
        """Whether signals that write a file are handled."""
        return self._settings.dumps is not None

    def stop(self, reason: str = "") -> None:
        """End gracefully; a second call ends at once with code 1."""
        if self._stopping:
            _log.warning("ending at once", component=self._settings.name, reason=reason)
            self._code = 1
            self._scope.cancel()
            return
        _log.info("ending", component=self._settings.name, reason=reason)
        self._stopping = True
        self._unready = "it is ending"
        self._stop.set()

    def _limited(self, transport: Transport) -> Transport:
        qps, burst = self._settings.qps, self._settings.burst
        if not qps:
            return transport
        return RateLimitedTransport(transport, qps=qps, burst=burst or max(1, math.ceil(qps)), clock=self._clock)

    async def dump(self) -> None:
        """Have the process write what it knows to a file, if it runs and can."""
        if self._settings.dumps is not None and isinstance(self._process, Dumpable):
            await self._process.dump(self._settings.dumps)

    async def _respond(self, path: str, query: Mapping[str, str]) -> Reply:
        """Have the process answer, if it runs and can."""
        if isinstance(self._process, Answering):
            return await self._process.respond(path, query)
        return Reply(503, b'{"error": "the scheduler is still starting; ask again later"}')

    async def _begin(self, process: Process) -> None:
        """Become ready once everything is listed."""
        self._unready = "not everything is listed yet"
        await process.synced()
        if not self._stopping:
            self._unready = ""
            _log.info("ready", component=self._settings.name, server=self._server)

    async def _end(self) -> None:
        """Wait for `stop`, then for the requests in flight; then end everything."""
        await self._stop.wait()
        if self._process is not None:
            with anyio.move_on_after(self._settings.grace) as limit:
                await self._process.drain()
                if self._elector is not None:
                    await self._elector.release()
            if limit.cancelled_caught:
                _log.warning(
                    "requests are still in flight and are abandoned", component=self._settings.name,
                    seconds=self._settings.grace,
                )  # fmt: skip
        self._scope.cancel()

    async def _end_when_lost(self, elector: LeaderElector) -> None:
        """End at once with code 1 when the lease was lost: another process may lead already."""
        await elector.lost()
        _log.error("ending, because the lease was lost", component=self._settings.name, because=elector.lost_because)
        self._code = 1
        self._scope.cancel()

    async def _reach_server(self) -> None:
        """Return once the API server answers; logs every change of why it does not."""
        wait, said = _FIRST_RETRY, ""
        while problem := await self._problem_of_server():
            if problem != said:
                _log.warning("waiting for the API server", server=self._server, problem=problem)
            said, wait = problem, min(wait * 2, _LAST_RETRY)
            await self._clock.sleep(wait)

    async def _problem_of_server(self) -> str:
        try:
            response = await self.transport.request("GET", "/version")
        except TransportError as error:
            return str(error)
        if response.status == 401:
            return "the credentials are not accepted (Unauthorized); give a kubeconfig or token that is valid"
        return f"it answers with HTTP {response.status}" if response.status >= 500 else ""

    def _not_ready(self) -> str:
        """Return why the component is not ready; a standby is ready once it has observed a leader."""
        if self._unready or self._elector is None or self._elector.holder:
            return self._unready
        return "no leader is known yet"

    def _stuck(self) -> str:
        busy = 0.0 if self._process is None else self._process.busy_for()
        return f"no progress for {busy:.0f} s" if busy > STUCK_AFTER else ""

    @asynccontextmanager
    async def _endpoints(self) -> AsyncIterator[None]:
        """Serve the endpoints; those with one address share a server."""
        given = self._settings.endpoints
        wanted: list[tuple[tuple[str, int], dict[str, Handler]]] = []
        if given.health is not None:
            wanted.append((given.health, Health(self._stuck, self._not_ready).handlers()))
        if given.metrics is not None:
            wanted.append((given.metrics, {"/metrics": metrics_handler(self.probe.render)}))
        if given.profile is not None:
            wanted.append((given.profile, {"/debug/profile": Profiles().answer}))
        addresses: dict[tuple[str, int], dict[str, Handler]] = {}
        for address, handlers in wanted:
            addresses.setdefault(address, {}).update(handlers)
        tls = given.tls and given.tls.context()
        async with AsyncExitStack() as stack:
            for (host, port), handlers in addresses.items():
                bound = await stack.enter_async_context(serving(host, port, handlers, tls=tls))
                self.ports |= dict.fromkeys(handlers, bound)
                _log.info("endpoints", paths=sorted(handlers), port=bound, https=tls is not None)
            if given.answers is not None:
                asked = answers.handlers(self._respond)
                bound = await stack.enter_async_context(serving(*given.answers, asked))
                self.ports |= dict.fromkeys(asked, bound)
                _log.info("answers", paths=sorted(asked), port=bound)
            yield


async def run_until_signal(component: Component) -> int:
    """Run a component until SIGTERM or SIGINT; returns the exit code."""
    code = 0
    dumping = (signal.SIGUSR1, signal.SIGUSR2) if component.can_dump else ()
    with anyio.open_signal_receiver(signal.SIGINT, signal.SIGTERM, *dumping) as signals:
        async with anyio.create_task_group() as tasks:

            async def work() -> None:
                nonlocal code
                code = await component.run()
                tasks.cancel_scope.cancel()

            tasks.start_soon(work)
            async for number in signals:
                if number in dumping:
                    tasks.start_soon(component.dump)
                else:
                    component.stop(signal.Signals(number).name)
    return code
