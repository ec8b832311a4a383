"""Replay: what a process recorded goes again through the engine it is built of, and both must decide the same.

A journal's directory holds one process' runs (`DIR/controllers`, `DIR/scheduler`). No API server, clock or policy is
asked: what they said is in the events.
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
from volcanoio.compose.journals import (
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
    """A run, replayed: the first decision that differs, and the state that its events were folded into."""

    difference: Difference | None
    state: State


def replay_controllers(directory: Path, registry: Registry) -> Difference | None:
    """The first decision of the controllers that a replay does not make alike; None when it makes all of them.

    Every run in the directory is replayed, with the controllers and job plugins of this volcanoio. Raises JournalError
    for a journal that cannot be read.
    """
    known = {kind.resource: kind for run in read_runs(directory, Codec(lenient=True)) for kind in _kinds(run, registry)}
    runs = read_runs(directory, Codec(known.values()))  # only now is it known which kinds its controllers brought
    return _first(rerun_controllers(run, registry).difference for run in runs)


def replay_scheduler(directory: Path, registry: Registry) -> Difference | None:
    """The first decision of the controllers that a replay does not make alike; None when it makes all of them, for the
    scheduler; also raises ConfigurationError for a configuration that cannot take effect with these plugins.
    """
    return _first(rerun_scheduler(run, registry).difference for run in read_runs(directory))


def rerun_controllers(run: Run, registry: Registry, *, upto: int | None = None) -> Replay[Host]:
    """One run of the controllers.

    `upto` is the seq of the last event that was handled live; where it is not known, decisions that are missing because
    the run ended before they were written down are no difference.
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
    """One run of the scheduler; after its last cycle the events up to `upto` are folded."""
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
    """Builds the profile of a configuration, with its own mounted plugins.

    That raises ConfigurationError, and MountError and PluginError for plugins.
    """

    def build(event: ConfigurationChanged) -> Profile:
        known = registry.with_sources(event.sources, entrypoints.SCHEDULER_PLUGINS, entrypoints.ACTIONS)
        return Setup.make(event.text, PluginCatalog.of(known, ignore_unavailable=event.ignore_unavailable)).profile

    return build


def _controllers(run: Run, registry: Registry) -> tuple[Controller[Any], ...]:
    """The controllers that ran, with their own mounted files."""
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
    """What a cycle decided, and what ended it, as one decision."""
    content: dict[str, Any] = {"decisions": decisions, "fault": fault}
    return codec.decided("scheduler", f"cycle {cycle.cycle}", cycle.opening.seq, content)


def _without_unrecorded(run: Run, decided: list[Decided]) -> list[Decided]:
    """Without what the end of the run kept from being written down."""
    extra = decided[len(run.decided) :]
    return decided[: len(run.decided)] if all(each.cause > run.complete_until for each in extra) else decided


def _first(differences: Iterable[Difference | None]) -> Difference | None:
    return next((difference for difference in differences if difference is not None), None)
