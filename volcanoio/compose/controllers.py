"""The controllers' process: one bus, shared informers, one executor, and the controllers with their policies."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import anyio
import msgspec
from msgspec.structs import replace

from volcanoio.bus.bus import EventBus
from volcanoio.bus.journal_codec import Codec
from volcanoio.compose.journals import INDEXES, RUNNING, SOURCE, RecordingExecutor, journalled
from volcanoio.framework import groups
from volcanoio.framework.controller import Controller, ControllerContext
from volcanoio.framework.lifecycle import LifecyclePolicy
from volcanoio.framework.probe import NoProbe, Probe
from volcanoio.kube.client import Client
from volcanoio.kube.clock import Clock, WallClock
from volcanoio.kube.effects import EffectExecutor
from volcanoio.kube.informers import InformerSet
from volcanoio.kube.recorder import EventRecorder
from volcanoio.kube.sending import Gate, Sender
from volcanoio.kube.transport import Transport
from volcanoio.model import kinds, names
from volcanoio.runtime import controller_conf
from volcanoio.runtime.controller_setup import DEFAULT, known_kinds, make_controllers, selected
from volcanoio.runtime.controllers import ControllerHost
from volcanoio.runtime.endpoints import Endpoints
from volcanoio.runtime.loading import Registry
from volcanoio.runtime.policy_reload import PolicyReloader
from volcanoio.runtime.policy_sets import PolicySet
from volcanoio.runtime.reloading import Watched
from volcanoio.runtime.startfiles import StartFiles


@dataclass(frozen=True, kw_only=True)
class ControllerSettings:
    """What the controllers' process is asked to do; `policies` None takes the configuration's.

    The configuration is reloaded from `configuration_file` and policies from `policies_dirs`, as these change; that
    what `controllers_dirs` and `plugins_dirs` (job plugins) hold is another than in the registry is told.
    `controllers` is Volcano's list of what runs; see `runtime.controller_setup`. `scheduler_names` are the schedulers
    whose pods are given PodGroups. `endpoints` None is the network.
    """

    registry: Registry
    configuration: str = ""
    configuration_file: Path | None = None
    policies_dirs: tuple[Path, ...] = ()
    controllers_dirs: tuple[Path, ...] = ()
    plugins_dirs: tuple[Path, ...] = ()
    controllers: tuple[str, ...] = DEFAULT
    scheduler_names: tuple[str, ...] = (names.SCHEDULER_NAME,)
    inherit_owner_annotations: bool = True
    policies: tuple[LifecyclePolicy, ...] | None = None
    policy_limit: float = 10.0
    journal: Path | None = None
    seed: int = 0
    endpoints: Endpoints | None = None


class Running(msgspec.Struct, frozen=True, kw_only=True):
    """Which controllers run and how they were asked to behave: what a journal must say for them to be made again."""

    controllers: tuple[str, ...]
    scheduler_names: tuple[str, ...] = (names.SCHEDULER_NAME,)
    inherit_owner_annotations: bool = True

    @classmethod
    def of(cls, settings: ControllerSettings) -> Running:
        """What settings ask for; raises PluginError."""
        return cls(
            controllers=selected(settings.controllers, settings.registry.names(groups.CONTROLLERS)),
            scheduler_names=settings.scheduler_names,
            inherit_owner_annotations=settings.inherit_owner_annotations,
        )

    def make(self, registry: Registry) -> tuple[Controller[Any], ...]:
        """The controllers; one that cannot be made is left out and logged. Raises PluginError."""
        context = ControllerContext(
            scheduler_names=self.scheduler_names, inherit_owner_annotations=self.inherit_owner_annotations
        )
        return make_controllers(registry, self.controllers, context)


def controllers(registry: Registry) -> tuple[Controller[Any], ...]:
    """Every controller, as it runs when nothing is said."""
    return Running.of(ControllerSettings(registry=registry)).make(registry)


class ControllerManager:
    """Runs all controllers over one transport. `run` until cancelled; `synced` once everything was listed.

    Raises ConfigurationError or PluginError at once for a configuration that cannot take effect.
    """

    def __init__(
        self,
        transport: Transport,
        *,
        clock: Clock,
        settings: ControllerSettings,
        probe: Probe | None = None,
        gate: Gate | None = None,
    ) -> None:
        probe = probe or NoProbe()
        registry = settings.registry
        self._settings = settings
        self._watched = Watched(
            path=settings.configuration_file, default=settings.configuration, plugins_dirs=settings.policies_dirs
        )
        self._first = self._watched.look()._replace(text=settings.configuration)
        self._start_files = StartFiles(settings.controllers_dirs, settings.plugins_dirs, clock=WallClock(), probe=probe)
        policies = _policies(settings)
        running = Running.of(settings)
        made = running.make(registry)
        self.bus = EventBus(clock.now)
        self.informers = InformerSet(transport, self.bus.publish, clock=clock, seed=settings.seed, probe=probe)
        self.host = ControllerHost(
            made,
            bus=self.bus,
            informers=self.informers,
            clock=clock,
            policies=policies,
            policy_limit=settings.policy_limit,
            probe=probe,
            lister=Client(transport),
            endpoints=settings.endpoints,
        )
        self._clock, self._probe, self._journal = clock, probe, settings.journal
        self._codec = Codec(known_kinds(made))
        self._in_use = {
            groups.CONTROLLERS: registry.origins(groups.CONTROLLERS),
            groups.JOB_PLUGINS: registry.origins(groups.JOB_PLUGINS),
            groups.LIFECYCLE_POLICIES: policies.origins(),
        }
        self._configured = {
            controller_conf.FILE: settings.configuration,
            RUNNING: msgspec.json.encode(replace(running, controllers=self.host.host.controllers)).decode(),
            **{SOURCE + file: text for file, text in registry.sources(groups.CONTROLLERS).items()},
            INDEXES: "\n".join(kind.resource for kind in policies.indexes if kind not in kinds.POLLED),
        }
        self._recorder = EventRecorder(
            transport, component=names.CONTROLLER_COMPONENT, clock=clock, gate=gate, probe=probe
        )
        self.executor = EffectExecutor(
            Sender(transport, clock=clock, gate=gate, seed=settings.seed),
            publish=self.bus.publish,
            own=self.informers,
            local=self.host.local,
            recorder=self._recorder,
            known=known_kinds(made),
            probe=probe,
        )

    async def run(self) -> None:
        """Watch, reduce and act until cancelled."""
        async with (
            journalled(
                self._journal,
                "controllers",
                self.bus,
                self._clock,
                self._probe,
                configured=self._configured,
                plugins=self._in_use,
                codec=self._codec,
            ) as journal,
            self.executor,
            anyio.create_task_group() as tasks,
        ):
            tasks.start_soon(self._recorder.run)
            tasks.start_soon(self._start_files.run)
            if self._settings.policies is None:
                tasks.start_soon(self._reloader().run)
            await self.host.run(RecordingExecutor(self.executor, journal) if journal else self.executor)

    def _reloader(self) -> PolicyReloader:
        """What hands changes of the configuration and of mounted policies to the host."""
        return PolicyReloader(
            self._watched,
            self._settings.registry,
            self._first,
            adopt=self.host.adopt,
            named=lambda: dict(self.host.policies.desk.members),
            clock=WallClock(),
            probe=self._probe,
        )

    async def synced(self) -> None:
        """Return once every input and reference was listed; one of somebody else's kind may not be served yet."""
        for informer in self.informers:
            await (informer.synced() if informer.kind.resource in kinds.BY_RESOURCE else informer.answered())


def _policies(settings: ControllerSettings) -> PolicySet:
    """The policies in force at the start. Imports take place here, each within a limit: before anything runs."""
    if settings.policies is not None:
        return PolicySet.of(settings.policies)
    known = settings.registry.names(groups.LIFECYCLE_POLICIES)
    return PolicySet.load(controller_conf.parse(settings.configuration, known), settings.registry, strict=False)
