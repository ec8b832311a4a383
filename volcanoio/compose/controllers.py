"""The controllers' process: one bus, shared informers, one executor, and the controllers with their policies."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import anyio

from volcanoio.bus.bus import EventBus
from volcanoio.compose.journals import INDEXES, RecordingExecutor, journalled
from volcanoio.engine.jobs.controller import JobController
from volcanoio.engine.queues.controller import QueueController
from volcanoio.framework import groups
from volcanoio.framework.controller import Controller
from volcanoio.framework.lifecycle import LifecyclePolicy
from volcanoio.framework.probe import NoProbe, Probe
from volcanoio.kube.clock import Clock
from volcanoio.kube.effects import EffectExecutor
from volcanoio.kube.informers import InformerSet
from volcanoio.kube.recorder import EventRecorder
from volcanoio.kube.sending import Gate, Sender
from volcanoio.kube.transport import Transport
from volcanoio.model import names
from volcanoio.runtime import controller_conf
from volcanoio.runtime.controllers import ControllerHost
from volcanoio.runtime.loading import Registry
from volcanoio.runtime.policy_setup import indexes_of, make_policies


@dataclass(frozen=True, kw_only=True)
class ControllerSettings:
    """What the controllers' process is asked to do; `policies` None takes the configuration's."""

    registry: Registry
    configuration: str = ""
    policies: tuple[LifecyclePolicy, ...] | None = None
    policy_limit: float = 10.0
    journal: Path | None = None
    seed: int = 0


def controllers(registry: Registry) -> tuple[Controller[Any], ...]:
    """Every controller that ships; a new one is added here."""
    return (JobController(registry.factories(groups.JOB_PLUGINS)), QueueController())


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
        configuration = controller_conf.parse(settings.configuration, registry.names(groups.LIFECYCLE_POLICIES))
        policies = make_policies(configuration, registry) if settings.policies is None else settings.policies
        self.bus = EventBus(clock.now)
        self.informers = InformerSet(transport, self.bus.publish, clock=clock, seed=settings.seed, probe=probe)
        self.host = ControllerHost(
            controllers(registry),
            bus=self.bus,
            informers=self.informers,
            clock=clock,
            policies=policies,
            policy_limit=settings.policy_limit,
            probe=probe,
        )
        self._clock, self._probe, self._journal = clock, probe, settings.journal
        origins = registry.origins(groups.LIFECYCLE_POLICIES)
        self._in_use = {
            groups.JOB_PLUGINS: registry.origins(groups.JOB_PLUGINS),
            groups.LIFECYCLE_POLICIES: {
                policy.name: origins.get(policy.name, type(policy).__module__) for policy in policies
            },
        }
        self._configured = {
            controller_conf.FILE: settings.configuration,
            INDEXES: "\n".join(kind.resource for kind in indexes_of(policies)),
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
            ) as journal,
            self.executor,
            anyio.create_task_group() as tasks,
        ):
            tasks.start_soon(self._recorder.run)
            await self.host.run(RecordingExecutor(self.executor, journal) if journal else self.executor)

    async def synced(self) -> None:
        """Return once every input and reference was listed."""
        await self.informers.synced()
