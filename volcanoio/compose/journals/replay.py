"""Replay: the events of a journal run through the engine again, and all decisions must be equal.

A journal's directory contains one process' runs (`DIR/controllers`, `DIR/scheduler`). No API server, clock or policy is
needed: their results are in the events.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Generic, TypeVar

import msgspec

from volcanoio.bus.journal import Difference, Run, compare_decisions, read_runs
from volcanoio.bus.records import Codec, Decided
from volcanoio.compose.controllers import ControllerSelection, default_controllers
from volcanoio.compose.journals.recording import (
    CONTROLLER_SOURCE_PREFIX,
    DEFAULT_QUEUE,
    FEATURE_GATES,
    POLICY_INDEXES,
    RUNNING_CONTROLLERS,
    SCHEDULER_NAMES,
    SCOPE,
    SINGLE_POD_SCHEDULERS,
)
from volcanoio.engine.hosting.host import Host
from volcanoio.engine.scheduling.cluster.scope import Scope
from volcanoio.engine.scheduling.cluster.state import ClusterState, StateOptions
from volcanoio.engine.scheduling.config.profile import Profile
from volcanoio.engine.scheduling.offline.replay import ReplayedCycle, replay
from volcanoio.framework import entrypoints
from volcanoio.framework.controller import Controller
from volcanoio.framework.scheduling.settings import FeatureGate
from volcanoio.framework.scheduling_effects import SchedulerEffect
from volcanoio.framework.scheduling_events import ConfigurationChanged
from volcanoio.model import names
from volcanoio.model.kinds import Kind
from volcanoio.runtime.controllers.controller_host import CONTROLLER_EVENTS
from volcanoio.runtime.controllers.setup import known_kinds
from volcanoio.runtime.loading.registry import Registry
from volcanoio.runtime.scheduler.setup import PluginCatalog, Setup

State = TypeVar("State", Host, ClusterState)


@dataclass(frozen=True)
class Replay(Generic[State]):
    """A replayed run: the first decision that differs, and the state after its events."""

    difference: Difference | None
    state: State


def replay_controllers(directory: Path, registry: Registry) -> Difference | None:
    """Return the first decision of the controllers that differs in the replay; None if all are equal.

    Every run in the directory is replayed, with the controllers and job plugins of this volcanoio. Raises JournalError
    for a journal that cannot be read.
    """
    known = {kind.resource: kind for run in read_runs(directory, Codec(lenient=True)) for kind in _kinds(run, registry)}
    runs = read_runs(directory, Codec(known.values()))  # needs the kinds of the journal's controllers
    return _first(rerun_controllers(run, registry).difference for run in runs)


def replay_scheduler(directory: Path, registry: Registry) -> Difference | None:
    """Return the first decision of the scheduler that differs in the replay; None if all are equal.

    Raises JournalError, and ConfigurationError for a configuration that cannot take effect with these plugins.
    """
    return _first(rerun_scheduler(run, registry).difference for run in read_runs(directory))


def rerun_controllers(run: Run, registry: Registry, *, upto: int | None = None) -> Replay[Host]:
    """Replay one run of the controllers.

    `upto` is the seq of the last event that was handled live. If it is unknown, decisions that are missing because the
    run ended before they were recorded are no difference.
    """
    made = _controllers(run, registry)
    codec, decided = Codec(known_kinds(made)), list[Decided]()
    host = Host(made, extra_resources=run.configured.get(POLICY_INDEXES, "").split())
    for event in run.events:
        if isinstance(event, CONTROLLER_EVENTS) and (upto is None or event.seq <= upto):
            decided += [
                codec.decided(step.controller, step.key, step.cause, step.stages) for step in host.handle(event)
            ]
    if upto is None:
        decided = _without_unrecorded(run, decided)
    return Replay(compare_decisions(run.decided, decided, run.by_seq), host)


def rerun_scheduler(run: Run, registry: Registry, *, upto: int = 0) -> Replay[ClusterState]:
    """Replay one run of the scheduler; after its last cycle the events up to `upto` are folded."""
    state, codec = (
        ClusterState(
            StateOptions(
                scheduler_names=frozenset(run.configured.get(SCHEDULER_NAMES, names.SCHEDULER_NAME).split()),
                single_pod_schedulers=frozenset(run.configured.get(SINGLE_POD_SCHEDULERS, "").split()),
                default_queue=run.configured.get(DEFAULT_QUEUE, names.DEFAULT_QUEUE),
                feature_gates=frozenset(map(FeatureGate, run.configured.get(FEATURE_GATES, "").split())),
                scope=msgspec.json.decode(run.configured.get(SCOPE, "null"), type=Scope | None),
            )
        ),
        Codec(),
    )
    cycles = list(replay(run.events, state, profiles(registry), upto=upto))
    recorded = [_cycle(codec, cycle, cycle.recorded, cycle.recorded_fault) for cycle in cycles]
    replayed = [_cycle(codec, cycle, cycle.decided, cycle.fault) for cycle in cycles]
    return Replay(compare_decisions(recorded, replayed, run.by_seq), state)


def profiles(registry: Registry) -> Callable[[ConfigurationChanged], Profile]:
    """Build the profile of a configuration, with its own mounted plugins.

    Raises ConfigurationError, and MountError and PluginError for plugins.
    """

    def build(event: ConfigurationChanged) -> Profile:
        known = registry.with_sources(event.sources, entrypoints.SCHEDULER_PLUGINS, entrypoints.ACTIONS)
        return Setup.make(event.text, PluginCatalog.of(known, ignore_unavailable=event.ignore_unavailable)).profile

    return build


def _controllers(run: Run, registry: Registry) -> tuple[Controller[Any], ...]:
    """Return the controllers that ran, with their own mounted files."""
    sources = {
        name.removeprefix(CONTROLLER_SOURCE_PREFIX): text
        for name, text in run.configured.items()
        if name.startswith(CONTROLLER_SOURCE_PREFIX)
    }
    known = registry.with_sources(sources, entrypoints.CONTROLLERS)
    running = run.configured.get(RUNNING_CONTROLLERS)
    return msgspec.json.decode(running, type=ControllerSelection).make(known) if running else default_controllers(known)


def _kinds(run: Run, registry: Registry) -> list[Kind]:
    return known_kinds(_controllers(run, registry))


def _cycle(codec: Codec, cycle: ReplayedCycle, decisions: Sequence[SchedulerEffect], fault: str) -> Decided:
    """Return the decisions of a cycle and the error that ended it as one decision."""
    content: dict[str, Any] = {"decisions": decisions, "fault": fault}
    return codec.decided("scheduler", f"cycle {cycle.cycle}", cycle.opening.seq, content)


def _without_unrecorded(run: Run, decided: list[Decided]) -> list[Decided]:
    """Return differences without decisions that were not recorded because the run ended."""
    extra = decided[len(run.decided) :]
    return decided[: len(run.decided)] if all(each.cause > run.complete_until for each in extra) else decided


def _first(differences: Iterable[Difference | None]) -> Difference | None:
    return next((difference for difference in differences if difference is not None), None)
