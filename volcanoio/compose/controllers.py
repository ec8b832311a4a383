"""The controllers' process: one bus, shared informers, one executor, and the controllers with their policies.

`WorkloadControllers` runs those of a local cluster, which need neither policies nor a journal.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import anyio
import anyio.lowlevel
import msgspec
from msgspec.structs import replace

from volcanoio.bus.event_bus import EventBus
from volcanoio.bus.records import Codec
from volcanoio.compose.journals.recording import (
    CONTROLLER_SOURCE_PREFIX,
    LISTED_KINDS,
    POLICY_INDEXES,
    RUNNING_CONTROLLERS,
    JournalHeader,
    RecordingExecutor,
    open_journal,
)
from volcanoio.engine.hosting.host import Host
from volcanoio.engine.jobs.controller import NAME as JOBS
from volcanoio.framework import entrypoints
from volcanoio.framework.controller import Controller, ControllerContext, ShardingSettings
from volcanoio.framework.lifecycle import LifecyclePolicy
from volcanoio.framework.objects import Objects
from volcanoio.framework.probe import NoProbe, Probe
from volcanoio.framework.reconciler import Reconciler
from volcanoio.kube.client import Client
from volcanoio.kube.clock import Clock, WallClock
from volcanoio.kube.effect_executor import EffectExecutor, EffectSinks
from volcanoio.kube.event_recorder import BUDGETS, EventRecorder, RecorderOptions
from volcanoio.kube.informer import InformerSet
from volcanoio.kube.leader_election import Leadership
from volcanoio.kube.object_writer import Writable
from volcanoio.kube.sender import Sender, SendLimits
from volcanoio.kube.transport import Transport
from volcanoio.model import kinds, names
from volcanoio.runtime.accounting.history_recorder import HistoryRecorder, HistorySettings
from volcanoio.runtime.accounting.history_store import Limits
from volcanoio.runtime.controllers.controller_host import ControllerHost, HostOptions
from volcanoio.runtime.controllers.http_effects import Endpoints
from volcanoio.runtime.controllers.job_figures import JobFigures
from volcanoio.runtime.controllers.setup import (
    DEFAULT_CONTROLLERS,
    kinds_of,
    known_kinds,
    make_controllers,
    select_controllers,
)
from volcanoio.runtime.loading.configmap_source import ConfigMapKey, from_config_map
from volcanoio.runtime.loading.registry import Registry
from volcanoio.runtime.loading.reloading import ConfigurationSource, StartupFiles, WatchedConfiguration
from volcanoio.runtime.metric_catalogue import Component, begin_at_zero
from volcanoio.runtime.policies.configuration import CONTROLLER_CONFIGURATION, parse
from volcanoio.runtime.policies.instances import PolicyReloader
from volcanoio.runtime.policies.policy_set import PolicySet


@dataclass(frozen=True, kw_only=True)
class ControllerSettings:
    """Settings of the controllers' process; `policies` None takes those of the configuration.

    The configuration is reloaded from `configuration_file`, or from the key `configuration_map` of a ConfigMap, and
    policies from `policies_dirs` when these change. A ConfigMap is first read by `run`: while it cannot be used,
    `configuration` is in force; with `require_configuration`, `run` raises ConfigurationError, PluginError or
    MountError then; one that `may_be_missing` counts as empty until it is created. Changes in `controllers_dirs` and
    `plugins_dirs` (job plugins) are only logged. `controllers` is Volcano's list of controllers to run; see
    `runtime.controllers.setup`. `scheduler_names` are the schedulers whose pods get PodGroups. `history` is the file of
    finished jobs, None for none. `endpoints` None is the network.
    """

    registry: Registry
    configuration: str = ""
    configuration_file: Path | None = None
    configuration_map: ConfigMapKey | None = None
    require_configuration: bool = False
    may_be_missing: bool = False
    policies_dirs: tuple[Path, ...] = ()
    controllers_dirs: tuple[Path, ...] = ()
    plugins_dirs: tuple[Path, ...] = ()
    controllers: tuple[str, ...] = DEFAULT_CONTROLLERS
    scheduler_names: tuple[str, ...] = (names.SCHEDULER_NAME,)
    inherit_owner_annotations: bool = True
    sharding: ShardingSettings = field(default_factory=ShardingSettings)
    policies: tuple[LifecyclePolicy, ...] | None = None
    policy_limit: float = 10.0
    journal: Path | None = None
    history: HistorySettings | None = None
    seed: int = 0
    endpoints: Endpoints | None = None


def history_settings(path: Path | None, rows: int, age: float) -> HistorySettings | None:
    """Return the settings of the history from the flags; `age` is in seconds, `path` None means none."""
    return None if path is None else HistorySettings(path=path, limits=Limits(rows=rows, age=age))


class ControllerSelection(msgspec.Struct, frozen=True, kw_only=True):
    """Selected controllers and their arguments: the part of a journal from which they are constructed again."""

    controllers: tuple[str, ...]
    scheduler_names: tuple[str, ...] = (names.SCHEDULER_NAME,)
    inherit_owner_annotations: bool = True
    sharding: ShardingSettings = ShardingSettings()

    @classmethod
    def of(cls, settings: ControllerSettings) -> ControllerSelection:
        """Return the selection that settings describe; raises PluginError."""
        return cls(
            controllers=select_controllers(settings.controllers, settings.registry.names(entrypoints.CONTROLLERS)),
            scheduler_names=settings.scheduler_names,
            inherit_owner_annotations=settings.inherit_owner_annotations,
            sharding=settings.sharding,
        )

    def make(self, registry: Registry) -> tuple[Controller[Any], ...]:
        """Construct the controllers; one whose constructor fails is logged and skipped. Raises PluginError."""
        context = ControllerContext(
            scheduler_names=self.scheduler_names,
            inherit_owner_annotations=self.inherit_owner_annotations,
            sharding=self.sharding,
        )
        return make_controllers(registry, self.controllers, context)


def default_controllers(registry: Registry) -> tuple[Controller[Any], ...]:
    """Return the controllers that run by default, with their default arguments."""
    return ControllerSelection.of(ControllerSettings(registry=registry)).make(registry)


def installed_controllers(registry: Registry) -> tuple[Controller[Any], ...]:
    """Return every controller with its default arguments, also those that do not run by default."""
    return ControllerSelection.of(ControllerSettings(registry=registry, controllers=("*",))).make(registry)


class ControllerManager:
    """All controllers on one transport. `run` until cancelled; `synced` returns once everything is listed.

    With `leadership` only the caches are kept current until this process leads and has seen all earlier writes.
    Raises ConfigurationError or PluginError at once for a configuration that cannot take effect.
    """

    def __init__(
        self,
        transport: Transport,
        *,
        clock: Clock,
        settings: ControllerSettings,
        probe: Probe | None = None,
        leadership: Leadership | None = None,
    ) -> None:
        probe = probe or NoProbe()
        begin_at_zero(probe, Component.CONTROLLERS)
        if leadership is not None:
            transport = leadership.guard(transport)
        fence = leadership.is_leading if leadership is not None else None
        self._settings, self._leadership = settings, leadership
        self._watched = _watched_configuration(settings, transport, clock)
        self._begun = anyio.Event()
        """Set when the host is about to watch."""
        self._start_files = StartupFiles(
            settings.controllers_dirs, settings.plugins_dirs, clock=WallClock(), probe=probe
        )
        policies = _policies(settings)
        running = ControllerSelection.of(settings)
        made = running.make(settings.registry)
        self.bus = EventBus(clock.now)
        self.informers = InformerSet(transport, self.bus.publish, clock=clock, seed=settings.seed, probe=probe)
        if leadership is not None:
            self.informers.silence()
        options = _host_options(settings, policies, Client(transport), probe)
        self.host = ControllerHost(made, bus=self.bus, informers=self.informers, clock=clock, options=options)
        self._history, self._job_figures = _reports(settings, self.host.host, Client(transport), clock, probe)
        self._clock, self._probe = clock, probe
        running = replace(running, controllers=self.host.host.controllers)
        self._journal_header = _journal_header(settings, running, policies, made)
        recording = RecorderOptions(fence=fence, budgets=BUDGETS)
        component = names.CONTROLLER_COMPONENT
        self._recorder = EventRecorder(transport, component=component, clock=clock, probe=probe, options=recording)
        self.executor = EffectExecutor(
            Sender(transport, clock=clock, fence=fence, seed=settings.seed),
            EffectSinks(publish=self.bus.publish, own=self.informers, local=self.host.local),
            recorder=self._recorder,
            writable=Writable(known=known_kinds(made)),
            probe=probe,
        )

    async def run(self) -> None:
        """Watch, reduce and act until cancelled."""
        async with (
            open_journal(self._settings.journal, self._journal_header, self.bus, self._clock, self._probe) as journal,
            self.executor,
            self._history.recording(self.bus) if self._history is not None else nullcontext(),
            anyio.create_task_group() as tasks,
        ):
            if self._settings.policies is None:
                reloader = self._reloader()
                if self._settings.configuration_map is not None:
                    await reloader.begin(required=self._settings.require_configuration)
                    if journal is not None:
                        journal.configured(CONTROLLER_CONFIGURATION, reloader.in_force)
                tasks.start_soon(reloader.run)
            tasks.start_soon(self._recorder.run)
            tasks.start_soon(self._start_files.run)
            tasks.start_soon(self._job_figures.run)
            self._begun.set()  # the host has its informers before any waiting task continues
            executor = RecordingExecutor(self.executor, journal) if journal else self.executor
            await self.host.run(
                executor, None if self._leadership is None else partial(self._stand_by, self._leadership)
            )

    async def _stand_by(self, leadership: Leadership) -> None:
        await leadership.acquired()
        await self.informers.catch_up()

    def _reloader(self) -> PolicyReloader:
        """Return the reloader that passes changes of the configuration and of mounted policies to the host."""
        return PolicyReloader(
            self._watched, self._settings.registry, host=self.host, clock=WallClock(), probe=self._probe
        )

    async def drain(self) -> None:
        """Decide nothing more, and return once no write is in flight."""
        await self.executor.drain()

    def busy_for(self) -> float:
        """Return 0: a step of the controllers ends within one turn of the event loop."""
        return 0.0

    async def synced(self) -> None:
        """Return once every input and reference is listed; a custom kind may not be served yet."""
        await self._begun.wait()
        for informer in self.informers:
            await (informer.synced() if informer.kind.resource in kinds.BY_RESOURCE else informer.answered())


class WorkloadControllers:
    """Runs controllers over one transport, `run` until cancelled. Times are the cluster's (`clock`).

    Responses to our own writes are in the cache before the key is reconciled again, so a late watch never causes a
    second creation.
    """

    def __init__(
        self, transport: Transport, clock: Clock, controllers: Sequence[Reconciler], *, probe: Probe | None = None
    ) -> None:
        bus = EventBus(clock.now)
        self._informers = InformerSet(transport, bus.publish, clock=clock, probe=probe)
        self._host = ControllerHost(
            controllers, bus=bus, informers=self._informers, clock=clock, options=HostOptions(probe=probe or NoProbe())
        )
        self.objects = Objects(self._host.host.cache)
        self.wake = self._host.wake
        self._recorder = EventRecorder(transport, component="kube-controller-manager", clock=clock, probe=probe)
        self._executor = EffectExecutor(
            Sender(transport, clock=clock, limits=SendLimits(patience=10.0)),
            EffectSinks(publish=bus.publish, own=self._informers, local=self._host.local),
            recorder=self._recorder,
            writable=Writable(known=known_kinds(controllers)),
            probe=probe,
        )
        self._started = anyio.Event()

    async def run(self) -> None:
        """Watch and act until cancelled."""
        async with self._executor, anyio.create_task_group() as tasks:
            tasks.start_soon(self._recorder.run)
            tasks.start_soon(self._host.run, self._executor)
            await anyio.lowlevel.checkpoint()  # the host has its informers
            self._started.set()

    async def synced(self) -> None:
        """Return once the primary kinds were listed."""
        await self._started.wait()
        await self._informers.synced()


def _reports(
    settings: ControllerSettings, host: Host, client: Client, clock: Clock, probe: Probe
) -> tuple[HistoryRecorder | None, JobFigures]:
    """Return the recorder of finished jobs, None without a file or a job controller, and the metrics of jobs."""
    recorder = None
    if settings.history is not None and JOBS in host.controllers:
        jobs = host[JOBS]
        recorder = HistoryRecorder(
            settings.history, lambda key: jobs.objects(key, kinds.POD.resource), clock=clock, probe=probe
        )
    listener = None if recorder is None else recorder.add_usage
    return recorder, JobFigures(host, client, probe=probe, clock=clock, listener=listener)


def _journal_header(
    settings: ControllerSettings, running: ControllerSelection, policies: PolicySet, made: Sequence[Controller[Any]]
) -> JournalHeader:
    registry = settings.registry
    sources = registry.sources(entrypoints.CONTROLLERS)
    return JournalHeader(
        process="controllers",
        configured={
            CONTROLLER_CONFIGURATION: settings.configuration,
            LISTED_KINDS: "\n".join(sorted(kind.resource for kind in kinds_of(*made))),
            RUNNING_CONTROLLERS: msgspec.json.encode(running).decode(),
            **{CONTROLLER_SOURCE_PREFIX + file: text for file, text in sources.items()},
            POLICY_INDEXES: "\n".join(kind.resource for kind in policies.indexes if kind not in kinds.POLLED),
        },
        plugins={
            entrypoints.CONTROLLERS: registry.origins(entrypoints.CONTROLLERS),
            entrypoints.JOB_PLUGINS: registry.origins(entrypoints.JOB_PLUGINS),
            entrypoints.LIFECYCLE_POLICIES: policies.origins(),
        },
        codec=Codec(known_kinds(made)),
    )


def _watched_configuration(settings: ControllerSettings, transport: Transport, clock: Clock) -> WatchedConfiguration:
    """Return what is watched for changes, starting with the configuration in force."""
    source = ConfigurationSource(
        path=settings.configuration_file, default=settings.configuration, plugins_dirs=settings.policies_dirs
    )
    source = from_config_map(source, settings.configuration_map, transport, clock, is_optional=settings.may_be_missing)
    return WatchedConfiguration(source, source.look()._replace(text=settings.configuration))


def _host_options(settings: ControllerSettings, policies: PolicySet, client: Client, probe: Probe) -> HostOptions:
    return HostOptions(
        policies=policies,
        policy_limit=settings.policy_limit,
        probe=probe,
        lister=client,
        endpoints=settings.endpoints,
        discovery=parse(settings.configuration, settings.registry.names(entrypoints.LIFECYCLE_POLICIES)).discovery,
    )


def _policies(settings: ControllerSettings) -> PolicySet:
    """Load the policies in force at the start. Imports run here, each within its limit, before anything else runs."""
    if settings.policies is not None:
        return PolicySet.of(settings.policies)
    known = settings.registry.names(entrypoints.LIFECYCLE_POLICIES)
    return PolicySet.load(parse(settings.configuration, known), settings.registry, strict=False)
