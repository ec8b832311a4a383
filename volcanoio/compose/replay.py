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

from volcanoio.bus.journal_codec import Codec
from volcanoio.bus.records import Decided
from volcanoio.bus.replay import Difference, compare
from volcanoio.bus.runs import Run, read_runs
from volcanoio.compose.controllers import Running, controllers
from volcanoio.compose.journals import FEATURE_GATES, INDEXES, RUNNING, SCHEDULER_NAMES, SINGLES, SOURCE
from volcanoio.engine.hosting.host import Host
from volcanoio.engine.scheduling.cluster import ClusterState
from volcanoio.engine.scheduling.profile import Profile
from volcanoio.engine.scheduling.replay import ReplayedCycle, replay
from volcanoio.framework import groups
from volcanoio.framework.controller import Controller
from volcanoio.framework.scheduling.featuregates import FeatureGate
from volcanoio.framework.scheduling_effects import SchedulerEffect
from volcanoio.framework.scheduling_events import ConfigurationChanged
from volcanoio.model import names
from volcanoio.model.kinds import Kind
from volcanoio.runtime.controller_setup import known_kinds
from volcanoio.runtime.controllers import CONTROLLER_EVENTS
from volcanoio.runtime.loading import Registry
from volcanoio.runtime.scheduler_setup import Known, Setup

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
    return _first(controllers_again(run, registry).difference for run in runs)


def replay_scheduler(directory: Path, registry: Registry) -> Difference | None:
    """As `replay_controllers`, for the scheduler; also raises ConfigurationError for a configuration
    that cannot take effect with these plugins.
    """
    return _first(scheduler_again(run, registry).difference for run in read_runs(directory))


def controllers_again(run: Run, registry: Registry, *, upto: int | None = None) -> Replay[Host]:
    """One run of the controllers.

    `upto` is the seq of the last event that was handled live; where it is not known, decisions that are missing because
    the run ended before they were written down are no difference.
    """
    made = _controllers(run, registry)
    codec, decided = Codec(known_kinds(made)), list[Decided]()
    host = Host(made, also=run.configured.get(INDEXES, "").split())
    for event in run.events:
        if isinstance(event, CONTROLLER_EVENTS) and (upto is None or event.seq <= upto):
            decided += [
                codec.decided(step.controller, step.key, step.cause, step.stages) for step in host.handle(event)
            ]
    if upto is None:
        decided = _written(run, decided)
    return Replay(compare(run.decided, decided, run.by_seq), host)


def scheduler_again(run: Run, registry: Registry, *, upto: int = 0) -> Replay[ClusterState]:
    """One run of the scheduler; after its last cycle the events up to `upto` are folded."""
    state, codec = (
        ClusterState(
            scheduler_names=frozenset(run.configured.get(SCHEDULER_NAMES, names.SCHEDULER_NAME).split()),
            single_names=frozenset(run.configured.get(SINGLES, "").split()),
            feature_gates=frozenset(map(FeatureGate, run.configured.get(FEATURE_GATES, "").split())),
        ),
        Codec(),
    )
    cycles = list(replay(run.events, state, profiles(registry), upto=upto))
    recorded = [_cycle(codec, cycle, cycle.recorded, cycle.recorded_fault) for cycle in cycles]
    replayed = [_cycle(codec, cycle, cycle.decided, cycle.fault) for cycle in cycles]
    return Replay(compare(recorded, replayed, run.by_seq), state)


def profiles(registry: Registry) -> Callable[[ConfigurationChanged], Profile]:
    """Builds the profile of a configuration, with its own mounted plugins.

    That raises ConfigurationError, and MountError and PluginError for plugins.
    """

    def build(event: ConfigurationChanged) -> Profile:
        known = registry.with_sources(event.sources, groups.SCHEDULER_PLUGINS, groups.ACTIONS)
        return Setup.make(event.text, Known.of(known, ignore_unavailable=event.ignore_unavailable)).profile

    return build


def _controllers(run: Run, registry: Registry) -> tuple[Controller[Any], ...]:
    """The controllers that ran, with their own mounted files."""
    sources = {name.removeprefix(SOURCE): text for name, text in run.configured.items() if name.startswith(SOURCE)}
    known = registry.with_sources(sources, groups.CONTROLLERS)
    running = run.configured.get(RUNNING)
    return msgspec.json.decode(running, type=Running).make(known) if running else controllers(known)


def _kinds(run: Run, registry: Registry) -> list[Kind]:
    return known_kinds(_controllers(run, registry))


def _cycle(codec: Codec, cycle: ReplayedCycle, decisions: Sequence[SchedulerEffect], fault: str) -> Decided:
    """What a cycle decided, and what ended it, as one decision."""
    content: dict[str, Any] = {"decisions": decisions, "fault": fault}
    return codec.decided("scheduler", f"cycle {cycle.cycle}", cycle.opening.seq, content)


def _written(run: Run, decided: list[Decided]) -> list[Decided]:
    """Without what the end of the run kept from being written down."""
    extra = decided[len(run.decided) :]
    return decided[: len(run.decided)] if all(each.cause > run.settled for each in extra) else decided


def _first(differences: Iterable[Difference | None]) -> Difference | None:
    return next((difference for difference in differences if difference is not None), None)
