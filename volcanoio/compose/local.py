"""`LocalCluster`: API server, nodes, controllers, scheduler and admission in one process.

The components speak to the server in-process, by the same Protocol they use over HTTP; users speak HTTPS on loopback.
"""

from __future__ import annotations

import asyncio
import tempfile
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager
from dataclasses import replace
from functools import cache, partial
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Literal, Self

import anyio
from anyio.abc import TaskStatus

from volcanoio.bus.bus import EventBus
from volcanoio.compose.collector import collect_rarely
from volcanoio.compose.controllers import ControllerManager, ControllerSettings
from volcanoio.compose.crds import install_crds
from volcanoio.compose.options import LocalOptions, OptionError
from volcanoio.compose.scheduler import SchedulerProcess, SchedulerSettings
from volcanoio.engine.scheduling.configuration import ConfigurationError as SchedulerConfigurationError
from volcanoio.framework.events import Event
from volcanoio.framework.lifecycle import LifecyclePolicy
from volcanoio.kube.client import Client
from volcanoio.kube.errors import BadRequest
from volcanoio.kube.informers import InformerSet
from volcanoio.localcluster.apiserver import kubeconfig, routes
from volcanoio.localcluster.apiserver.clock import ServerClock
from volcanoio.localcluster.apiserver.datadir import DataDirectoryError, DirectoryLock
from volcanoio.localcluster.apiserver.faults import Faults
from volcanoio.localcluster.apiserver.http import PortBusy, serve
from volcanoio.localcluster.apiserver.identity import load_or_create
from volcanoio.localcluster.apiserver.inprocess import InProcessTransport
from volcanoio.localcluster.apiserver.server import ApiServer
from volcanoio.localcluster.clock import RunningClock
from volcanoio.localcluster.controllers.frame.host import ControllerHost
from volcanoio.localcluster.controllers.roster import controllers
from volcanoio.localcluster.jumping import JumpingClock
from volcanoio.localcluster.nodes.fleet import NodeFleet
from volcanoio.localcluster.nodes.logs import ContainerLogs, SimulatedLogs
from volcanoio.localcluster.nodes.runtime import SIMULATED
from volcanoio.localcluster.nodes.shapes import NodeResourcesError, NodeShape, parse_node_resources, uniform_fleet
from volcanoio.localcluster.timekeeping import clock_for, noted
from volcanoio.model import kinds, names
from volcanoio.model.base import Manifest
from volcanoio.model.kinds import Kind
from volcanoio.runtime.admission import InProcessAdmission
from volcanoio.runtime.controller_conf import ConfigurationError
from volcanoio.runtime.endpoints import NetworkEndpoints
from volcanoio.runtime.loading import PluginError, Registry, discover
from volcanoio.runtime.metrics import PrometheusProbe
from volcanoio.runtime.mounted import MountError

if TYPE_CHECKING:
    from volcanoio.localcluster.processes.runtime import ProcessRuntime

_UNUSABLE = (
    DataDirectoryError,
    PortBusy,
    NodeResourcesError,
    PluginError,
    MountError,
    OptionError,
)
"""What is wrong with what was asked for, as each room says it."""


class LocalCluster:
    """An async context manager: inside it the cluster is ready. Raises OptionError for what cannot be used.

    `faults` are injected into the API server; `policies` replace the configured lifecycle policies (tests).
    """

    def __init__(
        self,
        options: LocalOptions,
        *,
        faults: Faults | None = None,
        policies: tuple[LifecyclePolicy, ...] | None = None,
    ) -> None:
        self.options = options
        self.probe = PrometheusProbe()
        self.clock: RunningClock | JumpingClock = RunningClock()
        self._faults = faults
        self._policies = policies
        self._stack = AsyncExitStack()
        self._scopes: dict[str, anyio.CancelScope] = {}
        self.server = ""
        """The URL of the API server."""
        self.kubeconfig = Path()
        """The kubeconfig that was written."""

    async def __aenter__(self) -> Self:
        """Start everything; ready when every component has listed what it needs."""
        try:
            async with AsyncExitStack() as stack:
                await self._start(stack)
                self._stack = stack.pop_all()
        except BaseException as error:
            problem = _sole(error)
            if isinstance(problem, _UNUSABLE):
                raise OptionError(_told(problem)) from None
            if isinstance(problem, OSError) and problem.filename:  # a directory or file that an option named
                msg = f"{problem.filename}: {problem.strerror}; choose another path, or change what it allows"
                raise OptionError(msg) from None
            raise
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Stop everything, what was started last first; an error of the block comes out as it was raised."""
        try:
            await self._stack.__aexit__(kind, error, trace)
        except BaseExceptionGroup as group:
            if _sole(group) is not error:
                raise

    async def _start(self, stack: AsyncExitStack) -> None:
        collect_rarely()
        options = self.options
        shapes = uniform_fleet(options.nodes, parse_node_resources(options.node_resources))
        registry = discover(
            plugins_dirs=options.plugins_dir,
            policies_dirs=options.policies_dir,
            controllers_dirs=options.controllers_dir,
        )
        if options.journal:
            for process in ("controllers", "scheduler"):  # what cannot be made is told now
                (options.journal / process).mkdir(parents=True, exist_ok=True)
        directory = options.data or Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="volcanoio-")))
        if options.memory and options.data:
            stack.enter_context(DirectoryLock(directory))  # it holds a kubeconfig, and may hold only one
        note = None if options.memory else directory / "clock"
        self.clock = clock = clock_for(options.speed, note)
        await stack.enter_async_context(noted(clock, note))
        if isinstance(clock, JumpingClock):
            stack.enter_context(clock.within(asyncio.get_running_loop()))
        identify = cache(partial(load_or_create, directory))  # made or read when the directory is ours
        stored = None if options.memory else directory
        api = ApiServer.open(stored, clock=ServerClock(clock), faults=self._faults, identity=identify)
        api.core.volumes = directory.absolute() / "volumes"
        await stack.enter_async_context(api.running())
        self.transport = InProcessTransport(api)
        runtimes: dict[str, ProcessRuntime] = {}
        if options.run:
            from volcanoio.compose.processes import process_runtimes  # noqa: PLC0415 - most clusters run nothing

            runtimes = await process_runtimes(stack, options, api, self.transport, clock, directory)
        logs = ContainerLogs(SimulatedLogs(self.transport, clock), runtimes)
        routes.install(api, logs=logs, figures=self.probe.render)
        await install_crds(self.transport)
        await self._components(stack, registry, api, shapes, runtimes)
        bound = await stack.enter_async_context(
            serve(api, port=options.port, identity=identify(), account=api.tokens.user, traffic=api.traffic)
        )
        self.server = bound.url
        for runtime in runtimes.values():
            runtime.serve_api_at(bound.host, bound.port)
        if isinstance(clock, JumpingClock):
            clock.clients = bound.connections
            clock.holds += [lambda: api.in_flight, lambda: self.fleet.executions.active, self._policies_think]
        self.kubeconfig = kubeconfig.write(
            directory / "kubeconfig", bound.url, token=bound.token, ca_pem=bound.ca_pem, certificate=identify().admin
        )

    def _policies_think(self) -> bool:
        """Whether a lifecycle policy is at work on its thread, or a webhook is being called."""
        return self.controllers.host.busy

    async def _components(
        self,
        stack: AsyncExitStack,
        registry: Registry,
        api: ApiServer,
        shapes: Sequence[NodeShape],
        runtimes: Mapping[str, ProcessRuntime],
    ) -> None:
        """Nodes, controllers and scheduler, each a task of its own; returns when each has listed what it needs."""
        options = self.options
        self.fleet = NodeFleet(
            self.transport, shapes, self.clock, kubelet_lag=options.kubelet_lag,
            runtimes=runtimes, default_runtime=next(iter(runtimes), SIMULATED),
        )  # fmt: skip
        self._controller_settings = ControllerSettings(
            registry=registry,
            configuration_file=options.controller_conf,
            policies_dirs=options.policies_dir,
            controllers_dirs=options.controllers_dir,
            plugins_dirs=options.plugins_dir,
            controllers=tuple(name for entry in options.controllers for name in entry.split(",")),
            scheduler_names=options.scheduler_name,
            inherit_owner_annotations=options.inherit_owner_annotations,
            policies=self._policies,
            journal=options.journal and options.journal / "controllers",
            endpoints=self.fleet.endpoints(NetworkEndpoints()),
        )
        self._scheduler_settings = SchedulerSettings(
            registry=registry,
            configuration_file=options.scheduler_conf,
            plugins_dirs=options.plugins_dir,
            ignore_unavailable=options.ignore_unavailable_plugins,
            debounce=options.debounce,
            period=options.schedule_period,
            scheduler_names=options.scheduler_name,
            singles=() if names.DEFAULT_SCHEDULER in options.scheduler_name else (names.DEFAULT_SCHEDULER,),
            journal=options.journal and options.journal / "scheduler",
        )
        self.workloads = ControllerHost(self.transport, self.clock, controllers(), probe=self.probe)
        api.core.admission.append(
            InProcessAdmission(
                self.transport,
                registry,
                strict=options.strict_admission,
                scheduler_name=options.scheduler_name[0],
                schedulers=(*options.scheduler_name, names.DEFAULT_SCHEDULER),
            )
        )
        self._tasks = await stack.enter_async_context(anyio.create_task_group())
        stack.callback(self._tasks.cancel_scope.cancel)
        self._tasks.start_soon(self.fleet.run)
        self._tasks.start_soon(self.workloads.run)
        await self.start_controllers()
        await self.start_scheduler()
        await self.fleet.registered.wait()
        await self.workloads.synced()

    async def start_controllers(self) -> None:
        """Start the controllers' process; returns when it has listed what it needs."""
        with _naming(self.options.controller_conf):
            settings = replace(self._controller_settings, configuration=_text(self.options.controller_conf) or "")
            self.controllers = ControllerManager(self.transport, clock=self.clock, probe=self.probe, settings=settings)
        self._scopes["controllers"] = await self._tasks.start(_cancellable, self.controllers.run)
        await self.controllers.synced()

    async def start_scheduler(self) -> None:
        """Start the scheduler's process; returns when it has listed what it needs."""
        with _naming(self.options.scheduler_conf):
            settings = replace(self._scheduler_settings, configuration=_text(self.options.scheduler_conf))
            self.scheduler = SchedulerProcess(self.transport, clock=self.clock, probe=self.probe, settings=settings)
        self._scopes["scheduler"] = await self._tasks.start(_cancellable, self.scheduler.run)
        await self.scheduler.synced()

    def stop(self, component: Literal["controllers", "scheduler"]) -> None:
        """End a component at once, wherever it is: what it had in flight is what it left."""
        self._scopes.pop(component).cancel()

    async def submit(self, manifest: Manifest) -> Manifest:
        """Create an object of a kind we know, in its namespace or `default`; raises ApiError."""
        kind = kinds.named(manifest["apiVersion"], manifest["kind"])
        if kind is None:
            msg = f"{manifest['kind']} of {manifest['apiVersion']} is not known here; create it with kubectl"
            raise BadRequest(400, "BadRequest", msg)
        namespace = manifest.get("metadata", {}).get("namespace", "default") if kind.namespaced else ""
        return await Client(self.transport).create(kind, manifest, namespace=namespace)

    @asynccontextmanager
    async def observing(
        self, watched: Iterable[Kind], fold: Callable[[tuple[Event, ...]], None]
    ) -> AsyncIterator[None]:
        """Within it, `fold` sees every change of the kinds, beginning with what is there."""
        bus = EventBus(self.clock.now)
        bus.subscribe(fold)
        informers = InformerSet(self.transport, bus.publish, clock=self.clock)
        for kind in watched:
            informers.informer(kind)
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(informers.run)
            await informers.synced()
            yield
            tasks.cancel_scope.cancel()


async def _cancellable(
    run: Callable[[], Awaitable[None]], *, task_status: TaskStatus[anyio.CancelScope] = anyio.TASK_STATUS_IGNORED
) -> None:
    """Run under a scope of its own, which is told to the starter."""
    with anyio.CancelScope() as scope:
        task_status.started(scope)
        await run()


def _sole(error: BaseException) -> BaseException:
    """The one error inside groups of one; the group itself when there are more."""
    while isinstance(error, BaseExceptionGroup) and len(error.exceptions) == 1:
        error = error.exceptions[0]
    return error


def _told(problem: BaseException) -> str:
    """Its text, without the number of an operating system's error."""
    return (isinstance(problem, OSError) and problem.strerror) or str(problem)


@contextmanager
def _naming(path: Path | None) -> Iterator[None]:
    """Errors of a configuration say which file it is."""
    try:
        yield
    except (SchedulerConfigurationError, ConfigurationError) as error:
        lines = str(error).splitlines()
        raise OptionError("\n".join(f"{path}: {line}" for line in lines) if path else str(error)) from None


def _text(path: Path | None) -> str | None:
    """A configuration file's text; None when none was given."""
    try:
        return None if path is None else path.read_text(encoding="utf-8")
    except UnicodeDecodeError:
        msg = f"{path}: not UTF-8 text; give a YAML file"
        raise OptionError(msg) from None
