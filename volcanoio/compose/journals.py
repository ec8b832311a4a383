"""Journals of a process: every event as it was taken in, and every decision, to be replayed and compared.

Each start of the process is a run of its own in the same directory, after those that are there.
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
"""The configuration that names, one a line, the resources the policies read: nothing is decided before these are
listed."""
RUNNING_CONTROLLERS = "controllers"
"""The configuration that says, in JSON, which controllers run and how they were asked to behave."""
CONTROLLER_SOURCE_PREFIX = "controllers/"
"""What the name of a configuration begins with that is a mounted file of controllers; its text is the file's."""
SCHEDULER_NAMES = "scheduler names"
"""The configuration that names, one a line, the schedulers that this one is."""
SINGLE_POD_SCHEDULERS = "schedulers without gangs"
"""The configuration that names, one a line, the other schedulers whose pods are bound too."""
DEFAULT_QUEUE = "default queue"
"""The configuration that names the queue of PodGroups that name none."""
SCOPE = "scope"
"""The configuration that says, in JSON, which part of the cluster the scheduler acts on."""
FEATURE_GATES = "feature gates"
"""The configuration that names, one a line, the feature gates that are on."""


@dataclass(frozen=True, slots=True, kw_only=True)
class JournalHeader:
    """What a journal records of its process before the first event.

    `configured` are the configurations in force, name to text; `plugins` where those in use come from, by group and
    name. `codec` has the kinds that events may hold.
    """

    process: str
    configured: Mapping[str, str]
    plugins: Mapping[str, Mapping[str, str]]
    codec: Codec | None = None


@asynccontextmanager
async def open_journal(
    directory: Path | None, header: JournalHeader, bus: EventBus, clock: Clock, probe: Probe
) -> AsyncIterator[Journal | None]:
    """Within it the bus' events are recorded in `directory`; None records nothing. Enter before anyone subscribes."""
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
    """A subscriber that keeps the scheduler's configuration and plugins up to date in the journal as they are reloaded.

    So later segments begin with those in force. `name` is the configuration's in the journal.
    """

    def __init__(self, journal: Journal, name: str) -> None:
        self._journal = journal
        self._name = name
        self._known: ConfigurationChanged | None = None

    def __call__(self, batch: Batch) -> None:
        """Look for changes; the first event says what the journal began with."""
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
    """Records each step of a controller before it is carried out."""

    def __init__(self, executor: EffectExecutor, journal: Journal) -> None:
        self._executor = executor
        self._journal = journal

    def submit(self, controller: str, key: str, stages: Stages, cause: int = 0) -> None:
        """Carry out the stages of one step, from now on and without waiting."""
        self._journal.decided(controller, key, cause, stages)
        self._executor.submit(controller, key, stages, cause)
