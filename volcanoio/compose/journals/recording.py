"""Journals of a process: every event as it was received, and every decision, for replay and comparison.

Each start of the process is a separate run in the same directory, after the existing ones.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

import anyio.to_thread

from volcanoio.bus.event_bus import Batch, EventBus
from volcanoio.bus.journal import Journal, JournalOptions
from volcanoio.bus.records import Codec
from volcanoio.framework import entrypoints
from volcanoio.framework.effects import Stages
from volcanoio.framework.probe import Probe
from volcanoio.framework.scheduling_events import ConfigurationChanged
from volcanoio.kube.clock import Clock
from volcanoio.kube.effect_executor import EffectExecutor

POLICY_INDEXES = "policy indexes"
"""Configuration with the resources that policies read, one a line: no decision is made before these are listed."""
LISTED_KINDS = "listed kinds"
"""Configuration with the resources that controllers list, one a line; older journals do not have it."""
RUNNING_CONTROLLERS = "controllers"
"""Configuration with the controllers that run and their arguments, in JSON."""
CONTROLLER_SOURCE_PREFIX = "controllers/"
"""Prefix of configurations that contain a mounted file of controllers."""
SCHEDULER_NAMES = "scheduler names"
"""Configuration with the names of this scheduler, one a line."""
SINGLE_POD_SCHEDULERS = "schedulers without gangs"
"""Configuration with the other schedulers whose pods are bound too, one a line."""
AGENT_SCHEDULERS = "agent schedulers"
"""Configuration with those whose pods go before all other work, one a line."""
DEFAULT_QUEUE = "default queue"
"""Configuration with the queue of PodGroups without one."""
SCOPE = "scope"
"""Configuration with the part of the cluster that the scheduler acts on, in JSON."""
FEATURE_GATES = "feature gates"
"""Configuration with the enabled feature gates, one a line."""


@dataclass(frozen=True, slots=True, kw_only=True)
class JournalHeader:
    """Records of a journal that precede the first event.

    `configured` are the configurations in force, name to text; `plugins` the origins of those in use, by group and
    name. `codec` has the kinds that events may contain.
    """

    process: str
    configured: Mapping[str, str]
    plugins: Mapping[str, Mapping[str, str]]
    codec: Codec | None = None


@asynccontextmanager
async def open_journal(
    directory: Path | None, header: JournalHeader, bus: EventBus, clock: Clock, probe: Probe
) -> AsyncIterator[Journal | None]:
    """Record the bus' events in `directory` while open; None records nothing. Enter it before anyone subscribes."""
    if directory is None:
        yield None
        return
    options = JournalOptions(codec=header.codec or Codec(), probe=probe)
    journal = Journal(directory, process=header.process, now=clock.now, options=options)
    for name, text in header.configured.items():
        journal.configured(name, text)
    for group, origins in header.plugins.items():
        for name, origin in origins.items():
            journal.plugin(group, name, origin)
    unsubscribe = bus.subscribe(journal.events)
    try:
        yield journal
    finally:
        unsubscribe()
        with anyio.CancelScope(shield=True):
            await anyio.to_thread.run_sync(journal.close)


class ConfigurationRecorder:
    """Subscriber that records changes of the scheduler's configuration and plugins in the journal.

    Later segments thus begin with those in force. `name` is the configuration's name in the journal.
    """

    def __init__(self, journal: Journal, name: str) -> None:
        self._journal = journal
        self._name = name
        self._known: ConfigurationChanged | None = None

    def __call__(self, batch: Batch) -> None:
        """Handle published events; the first one contains the configuration with which the journal began."""
        for event in batch:
            if not isinstance(event, ConfigurationChanged):
                continue
            known, self._known = self._known, event
            if known is None:
                continue
            if known.text != event.text:
                self._journal.configured(self._name, event.text)
            for plugin, origin in event.plugins.items():
                if known.plugins.get(plugin) != origin:
                    self._journal.plugin(entrypoints.SCHEDULER_PLUGINS, plugin, origin)


class RecordingExecutor:
    """Executor that records each step of a controller before it is carried out."""

    def __init__(self, executor: EffectExecutor, journal: Journal) -> None:
        self._executor = executor
        self._journal = journal

    def submit(self, controller: str, key: str, stages: Stages, cause: int = 0) -> None:
        """Start the stages of one step, without waiting."""
        self._journal.decided(controller, key, cause, stages)
        self._executor.submit(controller, key, stages, cause)
