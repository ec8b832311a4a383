"""What another configuration would have decided in each cycle of a journal.

Each cycle is decided twice on the same recorded state. Where the decisions differ the recorded ones are assumed, as the
events after them are their outcomes: so every difference is one of that cycle alone, and what would have followed from
it is a question for `volcanoio simulate`. A cycle whose end was not recorded is not compared.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import msgspec
from msgspec.structs import replace

from volcanoio.bus.journal import RunStream, stream_runs
from volcanoio.compose.journals.replay import new_state, profiles
from volcanoio.engine.scheduling.cluster.state import ClusterState
from volcanoio.engine.scheduling.config.profile import Profile
from volcanoio.engine.scheduling.offline.replay import (
    ReplayedCycle,
    assume_decisions,
    decide,
    fold,
    recorded_cycles,
    undo_decisions,
)
from volcanoio.framework.effects import Patch
from volcanoio.framework.events import Event, Synced
from volcanoio.framework.scheduling_effects import BindBatch, Evict, SchedulerEffect
from volcanoio.framework.scheduling_events import ConfigurationChanged
from volcanoio.model import kinds
from volcanoio.runtime.loading.registry import Registry

SHOWN = 10
"""Decisions of a cycle that a difference contains."""


class CycleDifference(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """Decisions that only one of the two configurations made in a cycle, as text, and how many more there are."""

    cycle: int
    seq: int
    at: float
    recorded: tuple[str, ...]
    other: tuple[str, ...]
    more: int = 0


class QueueCounts(msgspec.Struct, kw_only=True, rename="camel"):
    """Pods of a queue that were bound and evicted, and those that the other configuration would; each counted once."""

    bound: int = 0
    other_bound: int = 0
    evicted: int = 0
    other_evicted: int = 0


class Comparison(msgspec.Struct, kw_only=True, rename="camel"):
    """The result over all cycles. `first` is the first that differs, `unseen` are resources missing in the journal."""

    cycles: int = 0
    same: int = 0
    first: CycleDifference | None = None
    queues: dict[str, QueueCounts] = {}
    unseen: tuple[str, ...] = ()


def compare_configuration(directory: Path, registry: Registry, text: str, *, until: int | None = None) -> Comparison:
    """Decide every cycle in the directory of a scheduler's journal with another configuration.

    Raises JournalError, and ConfigurationError, MountError and PluginError for the configuration.
    """
    comparing = _Comparing(registry, text)
    for run in stream_runs(directory):
        comparing.run(run, until)
    return comparing.result()


class _Comparing:
    def __init__(self, registry: Registry, text: str) -> None:
        self._build, self._text = profiles(registry), text
        self._result = Comparison(queues={})
        self._unseen: set[str] = set()
        self._pods: dict[str, tuple[set[str], ...]] = {}
        """Uids of pods by queue: bound and evicted as recorded, bound and evicted otherwise."""

    def run(self, run: RunStream, until: int | None) -> None:
        state, unfolded = new_state(run), deque[Any]()
        profile: Profile | None = None
        for item in recorded_cycles(_events(run, until)):
            if isinstance(item, ConfigurationChanged):
                profile = profile or self._build(replace(item, text=self._text))
            elif not isinstance(item, ReplayedCycle):
                unfolded.append(item)
            elif profile is not None:
                fold(state, unfolded, item.opening.upto)
                if item.closing is not None:
                    self._cycle(state, profile, item, unfolded)
                else:  # the scheduler still ran, or was killed: decisions are missing
                    assume_decisions(state, item.recorded)

    def _cycle(self, state: ClusterState, profile: Profile, cycle: ReplayedCycle, unfolded: deque[Any]) -> None:
        state.require_resources(profile.watches)
        for resource in state.missing:  # the recorded configuration did not read it
            self._unseen.add(resource)
            state.fold(Synced(resource=resource))
        nominated = set(state.nominations.by_task)
        cycle.decided, cycle.fault = decide(state, profile, cycle, unfolded)
        self._count(state, cycle.recorded, 0)
        self._count(state, cycle.decided, 2)
        self._result.cycles += 1
        if cycle.is_same:
            self._result.same += 1
            return
        recorded, other = _texts(cycle.recorded, cycle.recorded_fault), _texts(cycle.decided, cycle.fault)
        if recorded == other:  # they differ in messages only
            self._result.same += 1
        elif self._result.first is None:
            self._result.first = _difference(cycle, recorded, other)
        undo_decisions(state, cycle.decided, nominated)
        assume_decisions(state, cycle.recorded)

    def _count(self, state: ClusterState, decisions: Iterable[SchedulerEffect], first: int) -> None:
        for effect in decisions:
            if isinstance(effect, BindBatch | Evict):
                job = state.ledger.jobs.get(effect.group)
                name = job.queue if job is not None else ""
                sets = self._pods.setdefault(name, (set(), set(), set(), set()))
                if isinstance(effect, Evict):
                    sets[first + 1].add(effect.uid)
                else:
                    sets[first].update(bind.uid for bind in effect.binds)

    def result(self) -> Comparison:
        for name, (bound, evicted, other_bound, other_evicted) in sorted(self._pods.items()):
            self._result.queues[name] = QueueCounts(
                bound=len(bound),
                evicted=len(evicted),
                other_bound=len(other_bound),
                other_evicted=len(other_evicted),
            )
        self._result.unseen = tuple(sorted(self._unseen))
        return self._result


def _events(run: RunStream, until: int | None) -> Iterable[Event]:
    for record in run.records():
        if isinstance(record, Event) and (until is None or record.seq <= until):
            yield record


def _difference(cycle: ReplayedCycle, recorded: Sequence[str], other: Sequence[str]) -> CycleDifference:
    only = [text for text in recorded if text not in set(other)]
    instead = [text for text in other if text not in set(recorded)]
    return CycleDifference(
        cycle=cycle.cycle,
        seq=cycle.opening.seq,
        at=cycle.opening.at,
        recorded=tuple(only[:SHOWN]),
        other=tuple(instead[:SHOWN]),
        more=max(len(only) - SHOWN, 0) + max(len(instead) - SHOWN, 0),
    )


def _texts(decisions: Iterable[SchedulerEffect], fault: str) -> list[str]:
    """Return binds, evictions, admissions and the fault as text; messages and counts are omitted."""
    found = [f"fault {fault}"] if fault else []
    for effect in decisions:
        match effect:
            case BindBatch():
                found += [f"bind {bind.namespace}/{bind.name} to {bind.node}" for bind in effect.binds]
            case Evict():
                found.append(f"evict {effect.namespace}/{effect.name} by {effect.reason}")
            case Patch(resource=kinds.POD_GROUP.resource, patch=patch):
                if phase := (patch.get("status") or {}).get("phase"):
                    found.append(f"PodGroup {effect.namespace}/{effect.name} {phase}")
            case Patch(resource=kinds.POD.resource, patch=dict() as patch):
                if node := (patch.get("status") or {}).get("nominatedNodeName"):
                    found.append(f"nominate {effect.namespace}/{effect.name} on {node}")
            case _:
                pass
    return found
