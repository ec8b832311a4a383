"""Journals of a process: every event as it was taken in, and every decision, to be replayed and compared.

Each start of the process is a run of its own in the same directory, after those that are there.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path

import anyio.to_thread

from volcanoio.bus.bus import EventBus
from volcanoio.bus.journal import Journal
from volcanoio.framework.effects import Stages
from volcanoio.framework.probe import Probe
from volcanoio.kube.clock import Clock
from volcanoio.kube.effects import EffectExecutor

INDEXES = "policy indexes"
"""The configuration that names, one a line, the resources the policies read: nothing is decided before these are
listed."""
SINGLES = "schedulers without gangs"
"""The configuration that names, one a line, the other schedulers whose pods are bound too."""


@asynccontextmanager
async def journalled(
    directory: Path | None,
    process: str,
    bus: EventBus,
    clock: Clock,
    probe: Probe,
    *,
    configured: Mapping[str, str],
    plugins: Mapping[str, Mapping[str, str]],
) -> AsyncIterator[Journal | None]:
    """Within it the bus' events are recorded in `directory`; None records nothing. Enter before anyone subscribes.

    `configured` are the configurations in force, name to text; `plugins` where those in use come from, by group and
    name.
    """
    if directory is None:
        yield None
        return
    journal = Journal(directory, process=process, now=clock.now, probe=probe)
    for name, text in configured.items():
        journal.configured(name, text)
    for group, origins in plugins.items():
        for name, origin in origins.items():
            journal.plugin(group, name, origin)
    unsubscribe = bus.subscribe(journal.events)
    try:
        yield journal
    finally:
        unsubscribe()
        with anyio.CancelScope(shield=True):
            await anyio.to_thread.run_sync(journal.close)


class RecordingExecutor:
    """Records each step of a controller before it is carried out."""

    def __init__(self, executor: EffectExecutor, journal: Journal) -> None:
        self._executor = executor
        self._journal = journal

    def submit(self, controller: str, key: str, stages: Stages, cause: int = 0) -> None:
        """As `EffectExecutor.submit`."""
        self._journal.decided(controller, key, cause, stages)
        self._executor.submit(controller, key, stages, cause)
