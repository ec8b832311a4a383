"""`LocalCluster`: API server, nodes, controllers, scheduler and admission in one process.

The components use the server in-process through the same Protocol as over HTTP; users connect by HTTPS on loopback. The
CustomResourceDefinitions of config/crds are created first. `--run` adds a runtime of local processes, with exec and
attach.
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
from typing import Literal, NamedTuple, Self

import anyio
import msgspec
from anyio.abc import TaskStatus

from volcanoio.bus.event_bus import EventBus
from volcanoio.compose.controllers import ControllerManager, WorkloadControllers
from volcanoio.compose.definitions import crd_manifests
from volcanoio.compose.local_settings import admission_settings, controller_settings, scheduler_settings
from volcanoio.compose.options import LocalOptions, OptionError
from volcanoio.compose.scheduler import SchedulerProcess
from volcanoio.engine.scheduling.config.configuration import ConfigurationError as SchedulerConfigurationError
from volcanoio.framework.events import Event
from volcanoio.framework.lifecycle import LifecyclePolicy
from volcanoio.kube.client import Client
from volcanoio.kube.errors import BadRequest, check
from volcanoio.kube.informer import InformerSet
from volcanoio.kube.transport import ContentType, Transport
from volcanoio.localcluster.apiserver import server
from volcanoio.localcluster.apiserver.apimachinery.clock import ServerClock
from volcanoio.localcluster.apiserver.apimachinery.request import ApiRequest, ApiResponse
from volcanoio.localcluster.apiserver.authn import credentials
from volcanoio.localcluster.apiserver.authn.credentials import Identity, load_or_create
from volcanoio.localcluster.apiserver.http.faults import Faults
from volcanoio.localcluster.apiserver.http.listener import Address, Bound, PortBusy, serve
from volcanoio.localcluster.apiserver.inprocess import InProcessTransport
from volcanoio.localcluster.apiserver.server import ApiServer
from volcanoio.localcluster.apiserver.storage.datadir import DataDirectoryError, DirectoryLock
from volcanoio.localcluster.clock import JumpingClock, RunningClock, clock_for, keep_time
from volcanoio.localcluster.controllers.contract import ClusterController
from volcanoio.localcluster.controllers.daemonsets import DaemonSetController
from volcanoio.localcluster.controllers.deployments.controller import DeploymentController
from volcanoio.localcluster.controllers.devicetainteviction import DeviceTaintEvictionController
from volcanoio.localcluster.controllers.disruption import BudgetController
from volcanoio.localcluster.controllers.endpoints.controller import EndpointsController
from volcanoio.localcluster.controllers.groupprotection import GroupProtectionController
from volcanoio.localcluster.controllers.jobs.controller import JobController
from volcanoio.localcluster.controllers.nodelifecycle import NodeHealthController
from volcanoio.localcluster.controllers.objects import REPLICATION_CONTROLLER
from volcanoio.localcluster.controllers.podgc import PodCollector
from volcanoio.localcluster.controllers.replicasets import ReplicaSetController
from volcanoio.localcluster.controllers.resourceclaims import ClaimMaker, ClaimReleaser
from volcanoio.localcluster.controllers.statefulsets import StatefulSetController
from volcanoio.localcluster.controllers.tainteviction import TaintEvictionController
from volcanoio.localcluster.nodes.container_runtime import SIMULATED, ContainerLogs, SimulatedLogs
from volcanoio.localcluster.nodes.devices import parse_node_devices
from volcanoio.localcluster.nodes.fleet import FleetOptions, NodeFleet
from volcanoio.localcluster.nodes.hollow import NodeResourcesError, NodeShape, parse_node_resources, uniform_fleet
from volcanoio.localcluster.processes.container_spec import Images
from volcanoio.localcluster.processes.refresh import remove_stale_directories
from volcanoio.localcluster.processes.runtime import ProcessRuntime
from volcanoio.localcluster.processes.sessions import ProcessSessions
from volcanoio.model import kinds
from volcanoio.model.base import Manifest
from volcanoio.model.core import Node
from volcanoio.model.documents import read_text
from volcanoio.model.kinds import Kind
from volcanoio.runtime.admission import InProcessAdmission
from volcanoio.runtime.api_metrics import CountingTransport
from volcanoio.runtime.controllers.http_effects import NetworkEndpoints
from volcanoio.runtime.loading.mounted_files import MountError
from volcanoio.runtime.loading.registry import PluginError, Registry, discover
from volcanoio.runtime.metrics import PrometheusProbe
from volcanoio.runtime.policies.configuration import ConfigurationError
from volcanoio.runtime.scheduler import answers

_OPTION_ERRORS = (DataDirectoryError, PortBusy, NodeResourcesError, PluginError, MountError, OptionError)
"""Errors of packages below for invalid options."""


class LocalCluster:
    """A running cluster, used as a context manager: inside it the cluster is ready. Raises OptionError.

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
        self._parts: dict[str, _Component] = {}
        self.server = ""
        """The URL of the API server."""
        self.kubeconfig = Path()
        """The kubeconfig that was written for users."""

    async def __aenter__(self) -> Self:
        """Start all components; returns when every component has listed its resources."""
        try:
            async with AsyncExitStack() as stack:
                await self._start(stack)
                self._stack = stack.pop_all()
        except BaseException as error:
            problem = _single_error(error)
            if isinstance(problem, _OPTION_ERRORS):
                raise OptionError(_error_text(problem)) from None
            if isinstance(problem, OSError) and problem.filename:  # a directory or file that an option named
                msg = f"{problem.filename}: {problem.strerror}; choose another path, or change what it allows"
                raise OptionError(msg) from None
            raise
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Stop all components in reverse order; an error of the block is raised unchanged."""
        try:
            await self._stack.__aexit__(kind, error, trace)
        except BaseExceptionGroup as group:
            if _single_error(group) is not error:
                raise

    async def _start(self, stack: AsyncExitStack) -> None:
        options = self.options
        devices = parse_node_devices(options.node_devices)
        shapes = uniform_fleet(options.nodes, parse_node_resources(options.node_resources), devices, options.numa)
        registry = discover(
            plugins_dirs=options.plugins_dir,
            policies_dirs=options.policies_dir,
            controllers_dirs=options.controllers_dir,
        )
        if options.journal:
            for process in ("controllers", "scheduler"):  # configuration errors are reported now
                (options.journal / process).mkdir(parents=True, exist_ok=True)
        directory = options.data or Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="volcanoio-")))
        if options.memory and options.data:
            stack.enter_context(DirectoryLock(directory))  # it contains a kubeconfig, of which there may be one
        stored = None if options.memory else directory
        await self._start_clock(stack, stored)
        identify = cache(partial(load_or_create, directory))  # made or read when the directory is locked
        api = ApiServer.open(stored, clock=ServerClock(self.clock), faults=self._faults, identity=identify)
        api.core.volumes = directory.absolute() / "volumes"
        await stack.enter_async_context(api.running())
        self.transport = InProcessTransport(api)
        runtimes = await self._process_runtimes(stack, api, directory) if options.run else {}
        logs = ContainerLogs(SimulatedLogs(self.transport, self.clock), runtimes)
        server.install(api, logs=logs, figures=self.probe.render)
        api.pages.append(self._answer)
        await install_crds(self.transport)
        await self._components(stack, registry, api, shapes, runtimes)
        bound = await self._serve(stack, api, identify, directory / "kubeconfig")
        for runtime in runtimes.values():
            runtime.serve_api_at(bound.host, bound.port)

    async def _start_clock(self, stack: AsyncExitStack, stored: Path | None) -> None:
        """Start the cluster's time, which is stored in the directory if the cluster is."""
        note = stored and stored / "clock"
        self.clock = clock_for(self.options.speed, note)
        await stack.enter_async_context(keep_time(self.clock, note))
        if isinstance(self.clock, JumpingClock):
            stack.enter_context(self.clock.within(asyncio.get_running_loop()))

    async def _process_runtimes(
        self, stack: AsyncExitStack, api: ApiServer, directory: Path
    ) -> dict[str, ProcessRuntime]:
        """Start the process runtimes of the nodes, by name; they end with the stack."""
        if self.options.memory:
            stack.callback(remove_stale_directories, directory, frozenset())  # later servers do not know these pods
        runtime = ProcessRuntime(self.transport, self.clock, directory, Images.parse(self.options.run_image))
        await stack.enter_async_context(runtime.running())
        api.serve_streams(ProcessSessions(runtime))
        return {runtime.name: runtime}

    async def _serve(
        self, stack: AsyncExitStack, api: ApiServer, identify: Callable[[], Identity], kubeconfig: Path
    ) -> Bound:
        """Serve the API by HTTPS, and write its kubeconfig."""
        bound = await stack.enter_async_context(
            serve(
                api,
                Address(port=self.options.port, last_port=credentials.kubeconfig_port(kubeconfig)),
                identity=identify(),
                account=api.tokens.user,
                traffic=api.traffic,
                now=self.clock.now,
            )
        )
        self.server = bound.url
        if isinstance(self.clock, JumpingClock):
            self.clock.clients = bound.connections
            self.clock.holds += [lambda: api.in_flight, lambda: self.fleet.executions.active, self._policies_think]
        content = credentials.render_kubeconfig(
            bound.url, token=bound.token, ca_pem=bound.ca_pem, certificate=identify().admin
        )
        self.kubeconfig = credentials.write_kubeconfig(kubeconfig, content)
        return bound

    def _policies_think(self) -> bool:
        """Return whether a lifecycle policy is running on its thread, or a webhook is being called."""
        return self.controllers.host.busy

    async def _answer(self, request: ApiRequest) -> ApiResponse | None:
        """Answer questions to the scheduler at the API server; None for any other path."""
        if request.path not in (answers.WHY, answers.SNAPSHOT):
            return None
        query = {name: values[-1] for name, values in request.query.items() if values}
        reply = await self.scheduler.respond(request.path, query)
        parts = [] if reply.parts is None else [part async for part in reply.parts]
        return ApiResponse(reply.status, reply.body or b"".join(parts))

    def _unknown_node(self, name: str) -> None:
        """Return the node of a pod if it does not exist and belongs to no other fleet: such pods are collected."""
        if self.workloads.objects.get(kinds.NODE, name, Node) is None:
            self.workloads.wake(PodCollector.name)

    async def _components(
        self,
        stack: AsyncExitStack,
        registry: Registry,
        api: ApiServer,
        shapes: Sequence[NodeShape],
        runtimes: Mapping[str, ProcessRuntime],
    ) -> None:
        """Start nodes, controllers and scheduler as tasks; returns when each has listed its resources."""
        options = self.options
        self.fleet = NodeFleet(
            self.transport,
            shapes,
            self.clock,
            FleetOptions(
                kubelet_lag=options.kubelet_lag,
                runtimes=runtimes,
                default_runtime=next(iter(runtimes), SIMULATED),
                unknown_node=self._unknown_node,
            ),
        )
        endpoints = self.fleet.endpoints(NetworkEndpoints())
        self._controller_settings = controller_settings(options, registry, self._policies, endpoints)
        self._scheduler_settings = scheduler_settings(options, registry)
        self.workloads = WorkloadControllers(self.transport, self.clock, all_controllers(), probe=self.probe)
        api.core.admission.append(InProcessAdmission(self.transport, admission_settings(options, registry)))
        self._tasks = await stack.enter_async_context(anyio.create_task_group())
        stack.callback(self._tasks.cancel_scope.cancel)
        self._tasks.start_soon(self.fleet.run)
        self._tasks.start_soon(self.workloads.run)
        await self.start_controllers()
        await self.start_scheduler()
        await self.fleet.registered.wait()
        await self.workloads.synced()

    async def start_controllers(self) -> None:
        """Start the controllers' process; returns when it has listed its resources."""
        await self._ended("controllers")
        file = self._controller_settings.configuration_file
        with _name_file_in_errors(file):
            settings = replace(self._controller_settings, configuration=_read_configuration(file) or "")
            self.controllers = ControllerManager(self._counted(), clock=self.clock, probe=self.probe, settings=settings)
        self._parts["controllers"] = await self._tasks.start(_cancellable, self.controllers.run)
        await self.controllers.synced()

    async def start_scheduler(self) -> None:
        """Start the scheduler's process; returns when it has listed its resources and made the default queue."""
        await self._ended("scheduler")
        file = self._scheduler_settings.configuration_file
        with _name_file_in_errors(file):
            settings = replace(self._scheduler_settings, configuration=_read_configuration(file))
            self.scheduler = SchedulerProcess(self._counted(), clock=self.clock, probe=self.probe, settings=settings)
        self._parts["scheduler"] = await self._tasks.start(_cancellable, self.scheduler.run)
        await self.scheduler.synced()
        await self.scheduler.scheduler.queues_exist.wait()

    def _counted(self) -> Transport:
        """Return a transport whose requests are counted, as in the components' own processes."""
        return CountingTransport(self.transport, self.probe, self.clock)

    def stop(self, component: Literal["controllers", "scheduler"]) -> None:
        """Stop a component at once; requests in flight are abandoned."""
        self._parts[component].scope.cancel()

    async def _ended(self, component: str) -> None:
        """Return once the component's predecessor has ended: until then its binds may still be carried out."""
        if (before := self._parts.get(component)) is not None:
            await before.over.wait()

    async def submit(self, manifest: Manifest) -> Manifest:
        """Create an object of a known kind, in its namespace or `default`; raises ApiError."""
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
        """Call `fold` with every change of the kinds, beginning with the existing objects."""
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


class _Component(NamedTuple):
    """A running component, with its cancel scope."""

    scope: anyio.CancelScope
    over: anyio.Event


async def _cancellable(
    run: Callable[[], Awaitable[None]], *, task_status: TaskStatus[_Component] = anyio.TASK_STATUS_IGNORED
) -> None:
    """Run in a scope of its own, which is passed to the starter."""
    over = anyio.Event()
    try:
        with anyio.CancelScope() as scope:
            task_status.started(_Component(scope, over))
            await run()
    finally:
        over.set()


def _single_error(error: BaseException) -> BaseException:
    """Return the only error inside groups; the group itself if there are several."""
    while isinstance(error, BaseExceptionGroup) and len(error.exceptions) == 1:
        error = error.exceptions[0]
    return error


def _error_text(problem: BaseException) -> str:
    """Return the error's text, without the number of an operating system's error."""
    return (isinstance(problem, OSError) and problem.strerror) or str(problem)


@contextmanager
def _name_file_in_errors(path: Path | None) -> Iterator[None]:
    """Add the file's name to configuration errors."""
    try:
        yield
    except (SchedulerConfigurationError, ConfigurationError) as error:
        lines = str(error).splitlines()
        raise OptionError("\n".join(f"{path}: {line}" for line in lines) if path else str(error)) from None


def _read_configuration(path: Path | None) -> str | None:
    """Read a configuration file's text; None if none was given."""
    try:
        return None if path is None else read_text(path)
    except UnicodeDecodeError:
        raise OptionError(f"{path}: not UTF-8 text; give a YAML file") from None


_CRD_PATH = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"


@cache
def _crd_bodies() -> tuple[tuple[str, bytes, bytes], ...]:
    """Return name, JSON and patch of each definition, read once: a process may start many clusters."""
    encode = msgspec.json.encode
    return tuple((one["metadata"]["name"], encode(one), encode({"spec": one["spec"]})) for one in crd_manifests())


async def install_crds(transport: Transport) -> None:
    """Create our definitions; existing ones get our spec. Raises ApiError."""
    for name, whole, patch in _crd_bodies():
        response = await transport.request("POST", _CRD_PATH, body=whole)
        if response.status == 409:
            response = await transport.request(
                "PATCH", f"{_CRD_PATH}/{name}", body=patch, content_type=ContentType.MERGE_PATCH
            )
        check(response)


def all_controllers() -> tuple[ClusterController, ...]:
    """Return one of each controller of kube-controller-manager; add new ones here."""
    return (
        ReplicaSetController(),
        ReplicaSetController(REPLICATION_CONTROLLER, "replication-controller"),
        DeploymentController(),
        StatefulSetController(),
        DaemonSetController(),
        JobController(),
        BudgetController(),
        EndpointsController(),
        NodeHealthController(),
        TaintEvictionController(),
        DeviceTaintEvictionController(),
        PodCollector(),
        GroupProtectionController(),
        ClaimMaker(),
        ClaimReleaser(),
    )
