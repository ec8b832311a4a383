"""The scheduler's process: one bus, its informers, the actor, the binder and the writer of statuses."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import anyio

from volcanoio.bus.bus import EventBus
from volcanoio.compose.journals import FEATURE_GATES, SCHEDULER_NAMES, SINGLES, InForce, journalled
from volcanoio.engine.scheduling.cluster import ClusterState
from volcanoio.engine.scheduling.configuration import default_text
from volcanoio.engine.scheduling.metricsection import without_password
from volcanoio.framework import groups
from volcanoio.framework.effects import LocalEffect
from volcanoio.framework.probe import NoProbe, Probe
from volcanoio.framework.scheduling.featuregates import FeatureGate
from volcanoio.kube.binder import Binder
from volcanoio.kube.client import Client
from volcanoio.kube.clock import Clock, WallClock
from volcanoio.kube.effects import EffectExecutor
from volcanoio.kube.evictor import Evictor
from volcanoio.kube.informers import InformerSet
from volcanoio.kube.prebinding import PreBinder
from volcanoio.kube.recorder import EventRecorder
from volcanoio.kube.sending import Gate, Sender
from volcanoio.kube.transport import Transport
from volcanoio.model import names
from volcanoio.runtime.asks import AskHost
from volcanoio.runtime.loading import Registry
from volcanoio.runtime.nodemetrics.poll import node_metrics
from volcanoio.runtime.reload import Reloader
from volcanoio.runtime.reloading import Watched
from volcanoio.runtime.scheduler import BUDGET, DEBOUNCE, PERIOD, Scheduler
from volcanoio.runtime.scheduler_events import BindReporter
from volcanoio.runtime.scheduler_outlets import Outlets
from volcanoio.runtime.scheduler_setup import Known, Setup
from volcanoio.runtime.sources import SourceHost

CONFIGURATION_FILE = "volcano-scheduler.conf"
"""The name under which a journal holds the configuration."""


@dataclass(frozen=True, kw_only=True)
class SchedulerSettings:
    """What the scheduler's process is asked to do; times in seconds. `configuration` None takes the default.

    The configuration is reloaded from `configuration_file` and plugins from `plugins_dirs`, as these change.
    With `ignore_unavailable`, plugins and actions of Volcano that are not available yet are left out with a warning.
    `scheduler_names` are the schedulers it is; `singles` are others whose pods are bound too, without gangs, where
    there is no kube-scheduler. `feature_gates` are those that are on.
    """

    registry: Registry
    configuration: str | None = None
    configuration_file: Path | None = None
    plugins_dirs: tuple[Path, ...] = ()
    ignore_unavailable: bool = False
    debounce: float = DEBOUNCE
    period: float = PERIOD
    budget: float = BUDGET
    scheduler_names: tuple[str, ...] = (names.SCHEDULER_NAME,)
    singles: tuple[str, ...] = ()
    feature_gates: frozenset[FeatureGate] = frozenset()
    journal: Path | None = None
    seed: int = 0


class SchedulerProcess:
    """Runs one scheduler over one transport. `run` until cancelled; `synced` once everything was listed.

    Raises ConfigurationError at once for a configuration that cannot take effect.
    """

    def __init__(
        self,
        transport: Transport,
        *,
        clock: Clock,
        settings: SchedulerSettings,
        probe: Probe | None = None,
        gate: Gate | None = None,
    ) -> None:
        self._probe = probe or NoProbe()
        self._clock = clock
        self._transport = transport
        self._gate = gate
        self._settings = settings
        text = default_text() if settings.configuration is None else settings.configuration
        registry = settings.registry
        self._watched = Watched(path=settings.configuration_file, default=text, plugins_dirs=settings.plugins_dirs)
        self._first = self._watched.look()._replace(text=text)
        self._known = Known.of(registry, ignore_unavailable=settings.ignore_unavailable)
        setup = Setup.make(text, self._known)
        setup.warn(settings.configuration_file or "default")
        self.bus = EventBus(clock.now)
        self.informers = InformerSet(transport, self.bus.publish, clock=clock, seed=settings.seed, probe=self._probe)
        self.scheduler = Scheduler(
            bus=self.bus,
            informers=self.informers,
            clock=clock,
            known=self._known,
            state=ClusterState(
                scheduler_names=frozenset(settings.scheduler_names),
                single_names=frozenset(settings.singles),
                feature_gates=frozenset(settings.feature_gates),
            ),
            configuration=setup,
            debounce=settings.debounce,
            schedule_period=settings.period,
            budget=settings.budget,
            seed=settings.seed,
            probe=self._probe,
            leading=gate or (lambda: True),
            sources=SourceHost(self.bus.publish, clock=clock, probe=self._probe, node_metrics=node_metrics(transport)),
        )
        self._configured = {
            CONFIGURATION_FILE: without_password(text),
            SCHEDULER_NAMES: "\n".join(settings.scheduler_names),
            SINGLES: "\n".join(settings.singles),
            FEATURE_GATES: "\n".join(sorted(settings.feature_gates)),
        }
        self._in_use = {group: registry.origins(group) for group in (groups.SCHEDULER_PLUGINS, groups.ACTIONS)}

    async def run(self) -> None:
        """Watch, decide and bind until cancelled."""
        clock, probe, gate = self._clock, self._probe, self._gate
        recorder = EventRecorder(self._transport, component=names.SCHEDULER_NAME, clock=clock, gate=gate, probe=probe)
        sender = Sender(self._transport, clock=clock, gate=gate, seed=self._settings.seed)
        executor = EffectExecutor(
            sender,
            publish=self.bus.publish,
            own=self.informers,
            local=_no_local_effects,
            recorder=recorder,
            probe=probe,
        )
        prebinder = PreBinder(sender, clock=clock)
        binder = Binder(self._transport, self.bus.publish, clock=clock, gate=gate, probe=probe, prebinder=prebinder)
        evictor = Evictor(sender, self.bus.publish, clock=clock, scheduler=names.SCHEDULER_NAME)
        asker = AskHost(self.bus.publish, probe=probe)
        outlets = Outlets(binder, evictor, executor, Client(self._transport), asker)
        async with (
            journalled(
                self._settings.journal,
                "scheduler",
                self.bus,
                clock,
                probe,
                configured=self._configured,
                plugins=self._in_use,
            ) as journal,
            executor,
            binder,
            asker,
            anyio.create_task_group() as tasks,
        ):
            tasks.start_soon(recorder.run)
            tasks.start_soon(self._reloader().run)
            unsubscribe = self.bus.subscribe(BindReporter(recorder.record))
            unhear = self.bus.subscribe(prebinder.seen)
            if journal is not None:
                self.bus.subscribe(InForce(journal, CONFIGURATION_FILE))
            try:
                await self.scheduler.run(outlets)
            finally:
                unhear()
                unsubscribe()

    def _reloader(self) -> Reloader:
        """What hands changes of the configuration and of mounted plugins to the scheduler."""
        return Reloader(
            self._watched,
            self._known,
            self._first,
            adopt=self.scheduler.adopt,
            clock=WallClock(),
            probe=self._probe,
        )

    async def synced(self) -> None:
        """Return once every kind it watches was listed."""
        await self.informers.synced()


def _no_local_effects(controller: str, key: str, effect: LocalEffect) -> None:
    msg = f"{controller} {key}: the scheduler has no timers or questions, but asked for {effect}"
    raise AssertionError(msg)
