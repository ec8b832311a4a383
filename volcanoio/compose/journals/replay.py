"""Replay: the events of a journal run through the engine again, and all decisions must be equal.

A journal's directory contains one process' runs (`DIR/controllers`, `DIR/scheduler`). No API server, clock or policy is
needed: their results are in the events.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import zip_longest
from pathlib import Path
from typing import Any, Generic, TypeAlias, TypeVar

import msgspec
from msgspec.structs import replace

from volcanoio.bus.journal import (
    Causes,
    Difference,
    Run,
    RunHeader,
    RunStream,
    cause_chain,
    compare_decision,
    run_headers,
    stream_runs,
)
from volcanoio.bus.records import Codec, Decided
from volcanoio.compose.controllers import ControllerSelection, default_controllers
from volcanoio.compose.journals.recording import (
    AGENT_SCHEDULERS,
    CONTROLLER_SOURCE_PREFIX,
    DEFAULT_QUEUE,
    FEATURE_GATES,
    LISTED_KINDS,
    POLICY_INDEXES,
    RUNNING_CONTROLLERS,
    SCHEDULER_NAMES,
    SCOPE,
    SINGLE_POD_SCHEDULERS,
)
from volcanoio.engine.hosting.controller_host import Dispatch
from volcanoio.engine.hosting.host import Host
from volcanoio.engine.jobs.pods.plugins import CONTENT_ANNOTATION
from volcanoio.engine.scheduling.cluster.scope import Scope
from volcanoio.engine.scheduling.cluster.state import ClusterState, StateOptions
from volcanoio.engine.scheduling.config.profile import Profile
from volcanoio.engine.scheduling.diagnosis.answers import EvictionAnswer, about_evictions, parse_target
from volcanoio.engine.scheduling.offline.replay import ReplayedCycle, replay
from volcanoio.framework import entrypoints
from volcanoio.framework.controller import Controller
from volcanoio.framework.events import Event, Synced
from volcanoio.framework.scheduling.settings import FeatureGate
from volcanoio.framework.scheduling_effects import SchedulerEffect
from volcanoio.framework.scheduling_events import ConfigurationChanged
from volcanoio.model import names
from volcanoio.model.kinds import Kind
from volcanoio.runtime.controllers.controller_host import CONTROLLER_EVENTS
from volcanoio.runtime.controllers.setup import kinds_of, known_kinds
from volcanoio.runtime.loading.registry import Registry
from volcanoio.runtime.scheduler.setup import PluginCatalog, Setup

State = TypeVar("State", Host, ClusterState)
Pair: TypeAlias = tuple[Decided | None, Decided | None]
"""A recorded decision and that of the replay; None where one side has no more."""


FOLLOWING = 5
"""Differences after the first one that a report contains."""


@dataclass(frozen=True)
class Replay(Generic[State]):
    """A replayed run: the first decision that differs, and the state after its events."""

    difference: Difference | None
    state: State


@dataclass
class ReplayReport:
    """The result of a replay: how many decisions were compared, how many differ, and the first ones that do.

    `last` is the last decision that was recorded. `digests` are contents of Secrets that differ, as recorded and now.
    """

    decisions: int = 0
    different: int = 0
    differences: list[Difference] = field(default_factory=list)
    last: Decided | None = None
    digests: dict[str, str] = field(default_factory=dict)

    @property
    def first(self) -> Difference | None:
        """The first difference; None if every decision is the same."""
        return self.differences[0] if self.differences else None

    def compare(self, recorded: Decided | None, replayed: Decided | None) -> None:
        """Add a decision and what the replay decided instead."""
        self.last = recorded or self.last
        difference = compare_decision(self.decisions, recorded, replayed)
        self.decisions += 1
        if difference is not None:
            self.different += 1
            if difference.where.endswith(CONTENT_ANNOTATION):
                self.digests[difference.value(recorded)] = difference.value(replayed)
            if len(self.differences) <= FOLLOWING:
                self.differences.append(difference)


def replay_controllers(directory: Path, registry: Registry, *, until: int | None = None) -> ReplayReport:
    """Decide all runs of controllers in a directory again, up to event `until` of each.

    They run with the controllers and job plugins of this volcanoio. Raises JournalError for a journal that cannot be
    read.
    """
    report = ReplayReport()
    codec = Codec(known_kinds_of(directory, registry))
    for run in stream_runs(directory, codec):
        host = new_host(run, registry)
        chains = _Chains(report)
        for recorded, replayed in _controller_pairs(run, chains.watch(run.records(), until), host, None):
            report.compare(recorded, replayed)
        chains.complete(directory, codec, run)
    return report


def replay_scheduler(directory: Path, registry: Registry, *, until: int | None = None) -> ReplayReport:
    """Decide all runs of a scheduler in a directory again, up to event `until` of each.

    Raises JournalError, and ConfigurationError for a configuration that cannot take effect with these plugins.
    """
    report = ReplayReport()
    codec = Codec()
    for run in stream_runs(directory, codec):
        chains = _Chains(report)
        for recorded, replayed in _cycle_pairs(chains.watch(run.records(), until), new_state(run), registry, upto=0):
            report.compare(recorded, replayed)
        chains.complete(directory, codec, run)
    return report


def replayed_evictions(directory: Path, registry: Registry, target: str, namespace: str) -> tuple[EvictionAnswer, ...]:
    """Return who was evicted for whom, as the scheduler remembers it at the end of each run, the newest first.

    `target` is a job, PodGroup or pod, or `KIND/NAME`. Raises UnknownTargetError and what `replay_scheduler` raises.
    """
    kind, name = parse_target(target)
    found: list[EvictionAnswer] = []
    for run in stream_runs(directory):
        state = new_state(run)
        events = (record for record in run.records() if isinstance(record, Event))
        for _ in replay(events, state, profiles(registry)):
            pass
        found += about_evictions(state, kind, name, namespace)
    return tuple(sorted(found, key=lambda each: each.at, reverse=True))


def rerun_controllers(run: Run, registry: Registry, *, upto: int | None = None) -> Replay[Host]:
    """Replay one run of the controllers.

    `upto` is the seq of the last event that was handled live. If it is unknown, decisions that are missing because the
    run ended before they were recorded are no difference.
    """
    host = new_host(run, registry)
    return Replay(_first_difference(run, _controller_pairs(run, run.records(), host, upto)), host)


def rerun_scheduler(run: Run, registry: Registry, *, upto: int = 0) -> Replay[ClusterState]:
    """Replay one run of the scheduler; after its last cycle the events up to `upto` are folded."""
    state = new_state(run)
    return Replay(_first_difference(run, _cycle_pairs(run.records(), state, registry, upto=upto)), state)


def _first_difference(run: Run, pairs: Iterable[Pair]) -> Difference | None:
    """Return the first difference with the chain of its causes; all decisions are made again."""
    report = ReplayReport()
    for recorded, replayed in pairs:
        report.compare(recorded, replayed)
    first = report.first
    return first and replace(first, chain=cause_chain(first.cause, run.by_seq))


class _Chains:
    """Adds the chains of causes to the differences of a run, once it was replayed, by reading its journal again."""

    def __init__(self, report: ReplayReport) -> None:
        self._report = report
        self._before = len(report.differences)
        self._causes = Causes()

    def watch(self, records: Iterator[Event | Decided], until: int | None) -> Iterator[Event | Decided]:
        """Pass on records up to an event."""
        for record in records:
            seq = record.seq if isinstance(record, Event) else record.cause
            if until is None or seq <= until:
                if isinstance(record, Event):
                    self._causes.add(seq, record.cause)
                yield record

    def complete(self, directory: Path, codec: Codec, run: RunStream) -> None:
        """Add the chains of causes to the new differences."""
        new = self._report.differences[self._before :]
        if not new:
            return
        wanted = {seq for each in new for seq in self._causes.chain(each.cause)}
        same = next(again for again in stream_runs(directory, codec) if again.opened == run.opened)
        events = {event.seq: event for event in same.records() if isinstance(event, Event) and event.seq in wanted}
        chained = [replace(each, chain=cause_chain(each.cause, events)) for each in new]
        self._report.differences[self._before :] = chained


def _controller_pairs(
    run: RunHeader, records: Iterable[Event | Decided], host: Host, upto: int | None
) -> Iterator[Pair]:
    """Yield recorded decisions with those of the replay, in order."""
    codec = Codec()
    recorded: deque[Decided] = deque()
    replayed: deque[Dispatch] = deque()
    for record in records:
        if isinstance(record, Decided):
            recorded.append(record)
        elif isinstance(record, CONTROLLER_EVENTS) and (upto is None or record.seq <= upto):
            replayed += host.handle(record)
        while recorded and replayed:
            if recorded[0].cause < replayed[0].cause:
                yield recorded.popleft(), None
            elif recorded[0].cause > replayed[0].cause:
                yield None, _plain(codec, replayed.popleft())
            else:
                yield _step_pair(codec, recorded.popleft(), replayed.popleft())
    if upto is None and not recorded and all(step.cause > run.complete_until for step in replayed):
        return  # decisions that were not recorded because the run ended
    for left, right in zip_longest(recorded, replayed):
        yield left, None if right is None else _plain(codec, right)


def _step_pair(codec: Codec, recorded: Decided, step: Dispatch) -> Pair:
    """Return a recorded decision with that of the replay; the same object where they are equal, which is usual."""
    if (
        (recorded.actor, recorded.key, recorded.cause) == (step.controller, step.key, step.cause)
        and recorded.effects == msgspec.json.decode(msgspec.json.encode(step.stages))
    ):  # fmt: skip
        return recorded, recorded
    return recorded, _plain(codec, step)


def _plain(codec: Codec, step: Dispatch) -> Decided:
    return codec.decided(step.controller, step.key, step.cause, step.stages)


def _cycle_pairs(
    records: Iterable[Event | Decided], state: ClusterState, registry: Registry, *, upto: int
) -> Iterator[Pair]:
    """Yield the recorded decisions of each cycle with those of the replay."""
    codec = Codec()
    events = (record for record in records if isinstance(record, Event))
    for cycle in replay(events, state, profiles(registry), upto=upto):
        if cycle.recorded == cycle.decided and cycle.fault == cycle.recorded_fault:
            content = {"decisions": cycle.recorded, "fault": cycle.fault}
            same = Decided(actor="scheduler", key=f"cycle {cycle.cycle}", cause=cycle.opening.seq, effects=content)
            yield same, same  # most cycles; they need no plain values
        else:
            recorded = _cycle(codec, cycle, cycle.recorded, cycle.recorded_fault)
            yield recorded, _cycle(codec, cycle, cycle.decided, cycle.fault)


def new_state(run: RunHeader) -> ClusterState:
    """Return an empty state with the options of a run."""
    return ClusterState(
        StateOptions(
            scheduler_names=frozenset(run.configured.get(SCHEDULER_NAMES, names.SCHEDULER_NAME).split()),
            single_pod_schedulers=frozenset(run.configured.get(SINGLE_POD_SCHEDULERS, "").split()),
            agent_schedulers=frozenset(run.configured.get(AGENT_SCHEDULERS, "").split()),
            default_queue=run.configured.get(DEFAULT_QUEUE, names.DEFAULT_QUEUE),
            feature_gates=frozenset(map(FeatureGate, run.configured.get(FEATURE_GATES, "").split())),
            scope=msgspec.json.decode(run.configured.get(SCOPE, "null"), type=Scope | None),
        )
    )


def profiles(registry: Registry) -> Callable[[ConfigurationChanged], Profile]:
    """Build the profile of a configuration, with its own mounted plugins.

    Raises ConfigurationError, and MountError and PluginError for plugins.
    """

    def build(event: ConfigurationChanged) -> Profile:
        known = registry.with_sources(event.sources, entrypoints.SCHEDULER_PLUGINS, entrypoints.ACTIONS)
        return Setup.make(event.text, PluginCatalog.of(known, ignore_unavailable=event.ignore_unavailable)).profile

    return build


def new_host(run: RunHeader, registry: Registry) -> Host:
    """Return the host of the controllers that ran, without any event.

    Kinds that they list now and did not list then have no objects, so that they decide without these.
    """
    controllers = _controllers(run, registry)
    host = Host(controllers, extra_resources=run.configured.get(POLICY_INDEXES, "").split())
    listed = run.configured.get(LISTED_KINDS)
    for kind in kinds_of(*controllers):
        if kind.is_optional if listed is None else kind.resource not in listed.split():
            host.handle(Synced(resource=kind.resource))
    return host


def _controllers(run: RunHeader, registry: Registry) -> tuple[Controller[Any], ...]:
    """Return the controllers that ran, with their own mounted files."""
    sources = {
        name.removeprefix(CONTROLLER_SOURCE_PREFIX): text
        for name, text in run.configured.items()
        if name.startswith(CONTROLLER_SOURCE_PREFIX)
    }
    known = registry.with_sources(sources, entrypoints.CONTROLLERS)
    running = run.configured.get(RUNNING_CONTROLLERS)
    return msgspec.json.decode(running, type=ControllerSelection).make(known) if running else default_controllers(known)


def known_kinds_of(directory: Path, registry: Registry) -> list[Kind]:
    """Return the kinds of all controllers that ran; what they read cannot be decoded without these."""
    known: dict[str, Kind] = {}
    for header in run_headers(directory):
        known |= {kind.resource: kind for kind in known_kinds(_controllers(header, registry))}
    return list(known.values())


def _cycle(codec: Codec, cycle: ReplayedCycle, decisions: Sequence[SchedulerEffect], fault: str) -> Decided:
    """Return the decisions of a cycle and the error that ended it as one decision."""
    content: dict[str, Any] = {"decisions": decisions, "fault": fault}
    return codec.decided("scheduler", f"cycle {cycle.cycle}", cycle.opening.seq, content)
