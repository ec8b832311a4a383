"""The scheduler's process: one bus, its informers, the actor, the binder and the writer of statuses."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

import anyio
import msgspec
import structlog

from volcanoio.bus.event_bus import EventBus
from volcanoio.compose.journals.recording import (
    AGENT_SCHEDULERS,
    DEFAULT_QUEUE,
    FEATURE_GATES,
    SCHEDULER_NAMES,
    SCOPE,
    SINGLE_POD_SCHEDULERS,
    ConfigurationRecorder,
    JournalHeader,
    open_journal,
)
from volcanoio.compose.sharing import OverlapReporter, Share
from volcanoio.engine.scheduling.cluster.jobs import JobInfo
from volcanoio.engine.scheduling.cluster.state import ClusterState, StateOptions
from volcanoio.engine.scheduling.config.configuration import default_text
from volcanoio.engine.scheduling.config.metric_section import without_password
from volcanoio.framework import entrypoints
from volcanoio.framework.effects import LocalEffect
from volcanoio.framework.probe import NoProbe, Probe
from volcanoio.kube.binder import Binder, BinderOptions
from volcanoio.kube.client import Client
from volcanoio.kube.clock import Clock, WallClock
from volcanoio.kube.effect_executor import EffectExecutor, EffectSinks
from volcanoio.kube.event_recorder import BUDGETS, EventRecorder, RecorderOptions
from volcanoio.kube.evictor import Evictor
from volcanoio.kube.informer import InformerSet
from volcanoio.kube.leader_election import Leadership
from volcanoio.kube.prebinder import AnyPodGroup, PreBinder
from volcanoio.kube.sender import Sender
from volcanoio.kube.transport import Transport
from volcanoio.model import kinds, names
from volcanoio.model.base import ObjectReference
from volcanoio.model.kinds import object_reference
from volcanoio.runtime.loading.configmap_source import ConfigMapKey, from_config_map
from volcanoio.runtime.loading.registry import Registry
from volcanoio.runtime.loading.reloading import ConfigurationSource, WatchedConfiguration
from volcanoio.runtime.metric_catalogue import Component, begin_at_zero
from volcanoio.runtime.scheduler.answers import Answers, Reply
from volcanoio.runtime.scheduler.cache_dump import write_dump
from volcanoio.runtime.scheduler.dispatcher import BindReporter, Writers
from volcanoio.runtime.scheduler.node_metrics import node_metrics
from volcanoio.runtime.scheduler.plugin_io import QuestionHost, SourceHost
from volcanoio.runtime.scheduler.scheduler import BUDGET, DEBOUNCE, PERIOD, Scheduler, SchedulerOptions
from volcanoio.runtime.scheduler.setup import PluginCatalog, SchedulerReloader, Setup

_LOG = structlog.get_logger(__name__)
CONFIGURATION_FILE = "volcano-scheduler.conf"
"""Name of the configuration in journals."""


@dataclass(frozen=True, kw_only=True)
class SchedulerSettings:
    """Settings of the scheduler's process; times in seconds. `configuration` None takes the default.

    The configuration is reloaded from `configuration_file`, or from the key `configuration_map` of a ConfigMap, and
    plugins from `plugins_dirs` when these change. Without `configuration`, what is there at the start is read by `run`,
    and the default is in force while it cannot be used; with `require_configuration`, `run` raises ConfigurationError,
    PluginError or MountError then. With `ignore_unavailable`, plugins and actions of Volcano that
    are not available yet are skipped with a warning. `state` selects the objects that the scheduler acts on.
    `pod_metrics` adds a series for each pod.
    Other schedulers that take some of these too, by their Leases beside `lease` (namespace, name), are reported.
    """

    registry: Registry
    configuration: str | None = None
    configuration_file: Path | None = None
    configuration_map: ConfigMapKey | None = None
    require_configuration: bool = False
    plugins_dirs: tuple[Path, ...] = ()
    ignore_unavailable: bool = False
    debounce: float = DEBOUNCE
    period: float = PERIOD
    budget: float = BUDGET
    pod_metrics: bool = False
    state: StateOptions = field(default_factory=StateOptions)
    journal: Path | None = None
    seed: int = 0
    lease: tuple[str, str] | None = None

    @property
    def share(self) -> Share:
        """What the scheduler takes of a cluster."""
        scope = self.state.scope
        return Share(frozenset(self.state.scheduler_names), frozenset(scope.node_selector if scope else ()))

    @property
    def reads_configuration(self) -> bool:
        """Whether the first configuration is read by `run`."""
        source = self.configuration_map or (self.configuration_file if self.configuration is None else None)
        return source is not None


class SchedulerProcess:
    """One scheduler on one transport. `run` until cancelled; `synced` returns once everything is listed.

    With `leadership` it keeps its state current and writes nothing until it leads and has seen all earlier writes.
    Raises ConfigurationError at once for a configuration that cannot take effect.
    """

    def __init__(
        self,
        transport: Transport,
        *,
        clock: Clock,
        settings: SchedulerSettings,
        probe: Probe | None = None,
        leadership: Leadership | None = None,
    ) -> None:
        self._probe = probe or NoProbe()
        begin_at_zero(self._probe, Component.SCHEDULER)
        self._clock = clock
        if leadership is not None:
            transport = leadership.guard(transport)
        self._transport = transport
        self._leadership = leadership
        self._fence = leadership.is_leading if leadership is not None else None
        self._settings = settings
        self._draining = False
        self._sinks: tuple[Binder | Evictor | EffectExecutor, ...] = ()
        """What carries out decisions, once it runs."""
        self._begun = anyio.Event()
        """Set once the first configuration is known."""
        text = default_text() if settings.configuration is None else settings.configuration
        registry = settings.registry
        source = from_config_map(
            ConfigurationSource(path=settings.configuration_file, default=text, plugins_dirs=settings.plugins_dirs),
            settings.configuration_map,
            transport,
            clock,
        )
        self._watched = WatchedConfiguration(source, source.look()._replace(text=text))
        self._known = PluginCatalog.of(registry, ignore_unavailable=settings.ignore_unavailable)
        setup = Setup.make(text, self._known)
        if not settings.reads_configuration:
            setup.warn(settings.configuration_file or "default")
        self.bus = EventBus(clock.now)
        self.informers = InformerSet(transport, self.bus.publish, clock=clock, seed=settings.seed, probe=self._probe)
        self.scheduler = Scheduler(
            bus=self.bus, informers=self.informers, clock=clock, known=self._known, options=self._options(setup)
        )
        self._answers = Answers(self.scheduler, self.informers, clock)
        self._configured = _journal_configurations(settings, text)
        self._in_use = {
            group: registry.origins(group) for group in (entrypoints.SCHEDULER_PLUGINS, entrypoints.ACTIONS)
        }

    def _options(self, setup: Setup) -> SchedulerOptions:
        settings = self._settings
        return SchedulerOptions(
            configuration=setup,
            state=ClusterState(replace(settings.state, native_groups=True)),
            debounce=settings.debounce,
            schedule_period=settings.period,
            pod_metrics=settings.pod_metrics,
            budget=settings.budget,
            seed=settings.seed,
            probe=self._probe,
            leading=lambda: not self._draining and (self._fence is None or self._fence()),
            is_standby=self._fence is not None,
            sources=SourceHost(
                self.bus.publish, clock=self._clock, probe=self._probe, node_metrics=node_metrics(self._transport)
            ),
        )

    async def run(self) -> None:
        """Watch, decide and bind until cancelled."""
        reloader = self._reloader()
        if self._settings.reads_configuration:
            await reloader.begin(required=self._settings.require_configuration)
            self._configured[CONFIGURATION_FILE] = without_password(reloader.in_force)
        self._begun.set()
        clock, probe, fence = self._clock, self._probe, self._fence
        sender = Sender(self._transport, clock=clock, fence=fence, seed=self._settings.seed)
        prebinder = PreBinder(sender, clock=clock)
        binder = self._binder(prebinder)
        recorder = self._recorder(binder)
        reporter = BindReporter(recorder, clock=clock, reference_of=self._group_reference)
        executor = EffectExecutor(
            sender,
            EffectSinks(publish=self.bus.publish, own=self.informers, local=_no_local_effects),
            recorder=recorder,
            probe=probe,
        )
        evictor = Evictor(sender, self.bus.publish, clock=clock, scheduler=names.SCHEDULER_NAME)
        asker = QuestionHost(self.bus.publish, probe=probe)
        writers = Writers(binder, evictor, executor, Client(self._transport), asker)
        header = JournalHeader(process="scheduler", configured=self._configured, plugins=self._in_use)
        async with (
            open_journal(self._settings.journal, header, self.bus, clock, probe) as journal,
            executor,
            binder,
            evictor,
            asker,
            anyio.create_task_group() as tasks,
        ):
            self._sinks = binder, evictor, executor
            if self._settings.lease is not None:
                tasks.start_soon(self._report_overlaps, *self._settings.lease)
            tasks.start_soon(recorder.run)
            tasks.start_soon(reporter.run)
            tasks.start_soon(reloader.run)
            unsubscribe = self.bus.subscribe(reporter)
            unhear = self.bus.subscribe(prebinder.seen)
            if journal is not None:
                self.bus.subscribe(ConfigurationRecorder(journal, CONFIGURATION_FILE))
            if self._leadership is not None:
                tasks.start_soon(self._take_over, self._leadership)
            try:
                await self.scheduler.run(writers)
            finally:
                unhear()
                unsubscribe()

    def _binder(self, prebinder: PreBinder) -> Binder:
        options = BinderOptions(
            probe=self._probe,
            prebinder=prebinder,
            group_of=self._pod_group,
            may_use=self._may_use(),
            prebound=self.scheduler.prebound,
        )
        return Binder(self._transport, self.bus.publish, clock=self._clock, fence=self._fence, options=options)

    def _recorder(self, binder: Binder) -> EventRecorder:
        """Return the recorder of Events, which go after binds."""
        options = RecorderOptions(fence=self._fence, budgets=BUDGETS, busy=lambda: binder.is_busy)
        return EventRecorder(
            self._transport, component=names.SCHEDULER_NAME, clock=self._clock, probe=self._probe, options=options
        )

    def _job_with_group(self, key: str) -> JobInfo | None:
        job = self.scheduler.state.ledger.jobs.get(key)
        return job if job is not None and job.has_group else None

    def _pod_group(self, key: str) -> AnyPodGroup | None:
        """Return the PodGroup of a job as the scheduler knows it; None if there is none any more."""
        job = self._job_with_group(key)
        return None if job is None else job.native or job.group

    def _group_reference(self, key: str) -> ObjectReference | None:
        job = self._job_with_group(key)
        return None if job is None else object_reference(job.group_kind, job.group)

    async def _take_over(self, leadership: Leadership) -> None:
        await leadership.acquired()
        await self.informers.catch_up()
        self.scheduler.take_charge()

    def _may_use(self) -> Callable[[str], bool] | None:
        """Return whether a node may be bound to, by its name; None without zones, where every node may."""
        state = self.scheduler.state
        return None if state.handover is None else lambda node: node in state.ledger.columns.rows

    def _reloader(self) -> SchedulerReloader:
        """Return the reloader that passes changes of the configuration and of mounted plugins to the scheduler."""
        return SchedulerReloader(
            self._watched, self._known, adopt=self.scheduler.adopt, clock=WallClock(), probe=self._probe
        )

    async def _report_overlaps(self, namespace: str, lease: str) -> None:
        """Report other schedulers that take our pods or nodes, once the nodes are listed."""
        await self.synced()
        if self._leadership is None:  # then also the holder of that Lease is another scheduler
            lease = ""
        nodes = self.informers.informer(kinds.NODE).objects
        reporter = OverlapReporter(
            self._transport, self._settings.share, namespace=namespace, lease=lease, nodes=nodes.values
        )
        await reporter.run(self._clock)

    async def dump(self, directory: Path) -> None:
        """Write the caches to a file in the directory, and log the number of objects of each kind."""
        counts = {informer.kind.plural: len(informer.objects) for informer in self.informers}
        try:
            path = await write_dump(self.informers, directory, now=self._clock.now())
        except OSError as error:
            _LOG.error("the cache cannot be written; name a directory with --cache-dump-dir", error=str(error))
            return
        _LOG.info("wrote the cache", file=str(path), **counts)

    async def respond(self, path: str, query: Mapping[str, str]) -> Reply:
        """Answer a question about what waits, or for a snapshot (`runtime.scheduler.answers`)."""
        return await self._answers.respond(path, query)

    async def drain(self) -> None:
        """Open no further cycle, and return once every bind and eviction has its outcome and no write is in flight."""
        self._draining = True
        await self.scheduler.cycle_closed()
        for sink in self._sinks:
            await sink.drain()

    def busy_for(self) -> float:
        """Return the seconds since the last checkpoint of an open cycle; 0 between cycles."""
        return self.scheduler.busy_for()

    async def synced(self) -> None:
        """Return once every watched kind is listed."""
        await self._begun.wait()
        await self.informers.synced()


def _journal_configurations(settings: SchedulerSettings, text: str) -> dict[str, str]:
    """Return the configurations with which a journal begins."""
    state = settings.state
    return {
        CONFIGURATION_FILE: without_password(text),
        SCHEDULER_NAMES: "\n".join(sorted(state.scheduler_names)),
        SINGLE_POD_SCHEDULERS: "\n".join(sorted(state.single_pod_schedulers)),
        AGENT_SCHEDULERS: "\n".join(sorted(state.agent_schedulers)),
        DEFAULT_QUEUE: state.default_queue,
        FEATURE_GATES: "\n".join(sorted(state.feature_gates)),
        SCOPE: msgspec.json.encode(state.scope).decode(),
    }


def _no_local_effects(controller: str, key: str, effect: LocalEffect) -> None:
    raise AssertionError(f"{controller} {key}: the scheduler has no timers or questions, but asked for {effect}")
