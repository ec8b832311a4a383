"""Reduction of a journal whose replay fails to few objects with which it still fails, by delta debugging.

A failure is one effect that the replay decides differently than it was recorded, or an exception. Objects, then single
events, are left out as long as the replay still decides exactly that. The objects that the effect is about stay, and
all other decisions are recorded again, so that the failure is the only difference of the new journal.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeAlias

import msgspec
from msgspec.structs import replace

from volcanoio.bus.journal import SUFFIX, Run, read_runs
from volcanoio.bus.records import Codec, Configured, Decided, EventRecord, PluginSource, Record, Snapshot
from volcanoio.compose.journals.replay import known_kinds_of, new_host, new_state, profiles
from volcanoio.engine.scheduling.offline.replay import ReplayedCycle, replay
from volcanoio.framework.effects import Patch
from volcanoio.framework.effects import Record as EventEffect
from volcanoio.framework.events import (
    Answered,
    EffectFailed,
    EffectSucceeded,
    Event,
    Observed,
    PoliciesLoaded,
    Synced,
    TimerFired,
)
from volcanoio.framework.scheduling_effects import BindBatch, Evict, SchedulerEffect
from volcanoio.framework.scheduling_events import (
    ArrivalsFolded,
    BindOutcome,
    ConfigurationChanged,
    CycleClosed,
    CycleOpened,
)
from volcanoio.framework.scheduling_events import Decided as CycleDecided
from volcanoio.model import kinds
from volcanoio.model.base import ApiObject
from volcanoio.model.core import Pod
from volcanoio.model.names import GROUP_NAME
from volcanoio.model.scheduling import PodGroup
from volcanoio.runtime.controllers.controller_host import CONTROLLER_EVENTS
from volcanoio.runtime.loading.registry import Registry

PARTS_OF_CYCLE = (CycleOpened, ArrivalsFolded, CycleClosed)
"""Events that are left out together, by cycle."""
MAX_TRIALS = 600
"""Replays of one reduction."""
MOST_OBJECTS = 20
"""Objects above which another value of the same effect is accepted, such as a third node for a pod."""
LARGEST_GANG = 12
"""Pods of a PodGroup up to which all of them stay, as it might not be placed without them."""
_ABSENT = "absent"

Identity: TypeAlias = tuple[str, str]
"""An object: its resource and its `namespace/name`."""
Effects: TypeAlias = dict[str, Any]
"""Effects of one decision as plain values, by what they are about."""


class ShrinkError(Exception):
    """The journal cannot be reduced; the message contains the reason."""


@dataclass(frozen=True, kw_only=True)
class Failure:
    """What a replay decides differently: the decision, the effect, and its value as recorded and in the replay.

    `error` is the type of an exception instead.
    """

    decision: str
    effect: str = ""
    recorded: Any = _ABSENT
    replayed: Any = _ABSENT
    error: str = ""

    def __str__(self) -> str:
        if self.error:
            return f"{self.decision} ends with {self.error}"
        return f"{self.decision}: {self.effect} was {_short(self.recorded)}, is {_short(self.replayed)}"


@dataclass(frozen=True)
class Shrunk:
    """The result: the failure, the numbers of objects and events before and after, and the replays that it took."""

    failure: Failure
    objects: tuple[int, int]
    events: tuple[int, int]
    trials: int


@dataclass
class Trial:
    """A replay of chosen events: the decisions by name, each as the effects that were recorded and those of now."""

    decisions: dict[str, tuple[Effects, Effects]] = field(default_factory=dict)
    errors: dict[str, str] = field(default_factory=dict)
    raw: list[Any] = field(default_factory=list)
    """Cycles, or pairs of an event and its dispatches."""

    def failures(self) -> Iterator[Failure]:
        """Yield what differs, binds and evictions of a decision first."""
        for name, error in self.errors.items():
            yield Failure(decision=name, error=error)
        for name, (recorded, replayed) in self.decisions.items():
            keys = [key for key in {**recorded, **replayed} if recorded.get(key, _ABSENT) != replayed.get(key, _ABSENT)]
            for key in sorted(keys, key=lambda key: (not key.startswith(("bind ", "evict ")), key)):
                yield Failure(
                    decision=name,
                    effect=key,
                    recorded=recorded.get(key, _ABSENT),
                    replayed=replayed.get(key, _ABSENT),
                )

    def shows(self, failure: Failure, *, exactly: bool) -> bool:
        """Return whether the replay decides as in the failure; if not `exactly`, any other value is accepted."""
        if failure.error:
            return failure.error in self.errors.values()
        value = self.decisions.get(failure.decision, ({}, {}))[1].get(failure.effect, _ABSENT)
        if exactly or _ABSENT in (value, failure.replayed):
            return bool(value == failure.replayed)
        return bool(value != failure.recorded)


def shrink(directory: Path, process: str, registry: Registry, into: Path) -> Shrunk:
    """Reduce the first run of a process that fails, and write the result to `into/process`.

    Raises ShrinkError if no run fails, or nothing that was tried fails in the same way.
    """
    subject: _Subject = _Scheduler(registry) if process == "scheduler" else _Controllers(registry, directory)
    for run in read_runs(directory, subject.codec):
        trial = subject.replay(run, [*run.events], run.decided)
        if (failure := next(trial.failures(), None)) is not None:
            return _Reduction(subject, run, failure).shrink(into / process)
    raise ShrinkError(f"{directory}: every decision is the same; there is nothing to reduce")


class _Scheduler:
    """Replays runs of the scheduler."""

    def __init__(self, registry: Registry) -> None:
        self._registry = registry
        self.codec = Codec()
        self._recorded: tuple[SchedulerEffect, ...] = ()
        """The decisions of the cycle that fails."""

    def replay(self, run: Run, events: Sequence[Event], _decided: Sequence[Decided], until: str = "") -> Trial:
        """Decide again until a decision, or until the first one that differs; recorded decisions are events."""
        trial = Trial()
        for cycle in replay(events, new_state(run), profiles(self._registry)):
            name = f"cycle {cycle.cycle}"
            if cycle.fault != cycle.recorded_fault and cycle.fault:
                trial.errors[name] = cycle.fault.partition(":")[0]
            elif not cycle.is_same or until:
                pair = _cycle_effects(cycle.recorded), _cycle_effects(cycle.decided)
                if until or pair[0] != pair[1]:
                    trial.decisions[name] = pair
            trial.raw.append(cycle)
            if name == until or (not until and (trial.errors or trial.decisions)):
                break
        return trial

    def is_fixed(self, event: Event, failure: Failure) -> bool:
        """Return whether an event must stay whatever is reduced."""
        number = int(failure.decision.rpartition(" ")[2])
        if isinstance(event, PARTS_OF_CYCLE):
            return event.cycle == number
        return isinstance(event, Synced | ConfigurationChanged)

    def bounds(self, event: Event) -> str:
        """Return which events are left out together with this one."""
        return f"cycle {event.cycle}" if isinstance(event, PARTS_OF_CYCLE) else ""

    def last(self, run: Run, failure: Failure) -> int:
        """Return the seq of the last event that matters."""
        number = int(failure.decision.rpartition(" ")[2])
        made = [event.decisions for event in run.events if isinstance(event, CycleDecided) and event.cycle == number]
        self._recorded = tuple(effect for decisions in made for effect in decisions)
        closings = [event.seq for event in run.events if isinstance(event, CycleClosed) and event.cycle == number]
        return closings[0] if closings else run.events[-1].seq

    def records(self, events: Sequence[Event], trial: Trial, failure: Failure, numbers: _Numbers) -> Iterator[Record]:
        """Yield the records of the reduced run: events, and the decisions of this replay apart from the failure."""
        cycles: dict[int, ReplayedCycle] = {cycle.cycle: cycle for cycle in trial.raw}
        for event in events:
            yield numbers.event(event)
            if isinstance(event, CycleOpened) and (cycle := cycles.get(event.cycle)) is not None:
                is_failure = failure.decision == f"cycle {event.cycle}"
                decisions = _as_recorded(cycle, self._recorded, failure) if is_failure else cycle.decided
                if decisions:
                    made = CycleDecided(cycle=event.cycle, decisions=decisions, at=event.at, cause=event.seq)
                    yield numbers.event(made)


class _Controllers:
    """Replays runs of controllers."""

    def __init__(self, registry: Registry, directory: Path) -> None:
        self._registry = registry
        self.codec = Codec(known_kinds_of(directory, registry))

    def replay(self, run: Run, events: Sequence[Event], decided: Sequence[Decided], until: str = "") -> Trial:
        """Decide again until a decision, or until the first one that differs from those in `decided`."""
        trial, host = Trial(), new_host(run, self._registry)
        recorded = {_step_name(each.actor, each.key, each.cause): each for each in decided}
        by_cause: dict[int, list[str]] = {}
        for name, each in recorded.items():
            by_cause.setdefault(each.cause, []).append(name)
        for event in events:
            if not isinstance(event, CONTROLLER_EVENTS):
                continue
            try:
                steps = host.handle(event)
            except Exception as error:  # whatever a controller raises is the failure
                trial.errors[f"event {event.seq}"] = type(error).__name__
                break
            trial.raw.append((event, steps))
            made = {_step_name(each.controller, each.key, each.cause): each for each in steps}
            for name in made if until else {**made, **dict.fromkeys(by_cause.get(event.seq, ()))}:
                before = _stage_effects(recorded[name].effects) if name in recorded else {}
                after = _stage_effects(_plain(self.codec.plain(made[name].stages)) if name in made else ())
                if until or (before != after and event.seq <= run.complete_until):
                    trial.decisions[name] = before, after
            if until in trial.decisions or (not until and trial.decisions):
                break
        return trial

    def is_fixed(self, event: Event, failure: Failure) -> bool:
        """Return whether an event must stay whatever is reduced."""
        return isinstance(event, Synced | PoliciesLoaded) or failure.decision.endswith(f" #{event.seq}")

    def bounds(self, _event: Event) -> str:
        """Return which events are left out together with this one."""
        return ""

    def last(self, _run: Run, failure: Failure) -> int:
        """Return the seq of the last event that matters."""
        return int(failure.decision.rpartition("#")[2]) if "#" in failure.decision else int(failure.decision.split()[1])

    def records(self, events: Sequence[Event], trial: Trial, failure: Failure, numbers: _Numbers) -> Iterator[Record]:
        """Yield the records of the reduced run: events, and the decisions of this replay apart from the failure."""
        steps = {event.seq: made for event, made in trial.raw}
        for event in events:
            yield numbers.event(event)
            for step in steps.get(event.seq, ()):
                effects = self.codec.plain(step.stages)
                if _step_name(step.controller, step.key, step.cause) == failure.decision:
                    effects = _stages_as_recorded(effects, failure)
                cause = numbers.of(step.cause)
                yield Decided(actor=step.controller, key=step.key, cause=cause, effects=effects)


_Subject: TypeAlias = _Scheduler | _Controllers


class _Numbers:
    """New numbers of events, without gaps."""

    def __init__(self) -> None:
        self._new: dict[int, int] = {}
        self._count = 0

    def of(self, seq: int) -> int:
        """Return the new number of the last event up to `seq`; 0 if all of them were left out."""
        return self._new.get(seq) or max((new for old, new in self._new.items() if old <= seq), default=0)

    def event(self, event: Event) -> EventRecord:
        """Return an event with its new number."""
        self._count += 1
        if event.seq:
            self._new[event.seq] = self._count
        changes: dict[str, Any] = {"seq": self._count, "cause": self._new.get(event.cause, 0)}
        if isinstance(event, CycleOpened):
            changes["upto"] = self.of(event.upto)
        elif isinstance(event, ArrivalsFolded):
            changes["arrivals"] = tuple(self._new[seq] for seq in event.arrivals if seq in self._new)
        return EventRecord(event=replace(event, **changes))


class _Reduction:
    """Delta debugging of one run."""

    def __init__(self, subject: _Subject, run: Run, failure: Failure) -> None:
        self._subject, self._run, self._failure = subject, run, failure
        self._trials, self._exactly = 0, True
        last = subject.last(run, failure)
        self._events = [event for event in run.events if event.seq <= last and not isinstance(event, CycleDecided)]
        self._owners = _owners(self._events)

    def shrink(self, into: Path) -> Shrunk:
        """Reduce and write."""
        events = self._events
        if not self._fails(events):
            msg = f"the failure does not depend on the events alone: {self._failure}"
            raise ShrinkError(msg)
        named, gang = self._named()
        events = self._least(named | gang if len(gang) <= LARGEST_GANG else named)
        if self._count(events) > MOST_OBJECTS:
            self._exactly, self._trials = False, 0
            self._events = _without_gangs(events)
            if not self._fails(self._events):
                self._events = events
            events = self._least(named)
        groups = self._removable(events)
        chosen = set(_minimal(list(groups), lambda some: self._fails(_without(events, groups, some))))
        events = _without(events, groups, chosen)
        self._write(events, into)
        return Shrunk(
            self._failure,
            (len(set(self._owners.values())), self._count(events)),
            (len(self._run.events), len(events)),
            self._trials,
        )

    def _least(self, locked: set[Identity]) -> list[Event]:
        """Return the events of fewest objects, with the locked ones."""
        present = dict.fromkeys(owner for event in self._events if (owner := self._owners.get(event.seq)))
        rest = [each for each in present if each not in locked]
        kept = _minimal(rest, lambda some: self._fails(self._with_objects({*some, *locked})))
        return self._with_objects({*kept, *locked})

    def _count(self, events: Iterable[Event]) -> int:
        return len({owner for event in events if (owner := self._owners.get(event.seq))})

    def _fails(self, events: Sequence[Event]) -> bool:
        if self._trials >= MAX_TRIALS:
            return False
        self._trials += 1
        try:
            trial = self._subject.replay(self._run, events, (), self._failure.decision)
        except Exception:  # events that cannot follow each other are no reduction
            return False
        return trial.shows(self._failure, exactly=self._exactly)

    def _with_objects(self, kept: Collection[Identity]) -> list[Event]:
        return [event for event in self._events if (owner := self._owners.get(event.seq)) is None or owner in kept]

    def _removable(self, events: Sequence[Event]) -> dict[str, set[int]]:
        """Return groups of events that may be left out together, by name."""
        groups: dict[str, set[int]] = {}
        for event in events:
            if not self._subject.is_fixed(event, self._failure):
                groups.setdefault(self._subject.bounds(event) or f"event {event.seq}", set()).add(event.seq)
        return groups

    def _named(self) -> tuple[set[Identity], set[Identity]]:
        """Return the objects that the failure is about, which must stay, and the other pods of their PodGroups."""
        about = self._failure
        words = _words(msgspec.json.encode([about.decision, about.effect, about.recorded, about.replayed]))
        known = set(self._owners.values())
        named = {owner for owner in known if owner[1].rpartition("/")[2].encode() in words}
        if (cause := self._subject.last(self._run, about)) in self._owners:
            named.add(self._owners[cause])
        pods = {
            (event.resource, event.obj.metadata.key): event.object
            for event in self._events
            if isinstance(event, Observed) and isinstance(event.object, Pod)
        }
        groups = {group for owner, pod in pods.items() if owner in named and (group := _group_of(pod))}
        named |= {(kinds.POD_GROUP.resource, group) for group in groups} & known
        return named, {owner for owner, pod in pods.items() if _group_of(pod) in groups}

    def _write(self, events: Sequence[Event], into: Path) -> None:
        trial = self._subject.replay(self._run, events, (), self._failure.decision)
        run, numbers = self._run, _Numbers()
        header: list[Record] = [replace(run.opened, starts=True)]
        header += [Configured(name=name, text=text) for name, text in run.configured.items()]
        header += [PluginSource(group=group, name=name, origin=origin) for (group, name), origin in run.plugins.items()]
        records = [*header, Snapshot(before=1), *self._subject.records(events, trial, self._failure, numbers)]
        into.mkdir(parents=True, exist_ok=True, mode=0o700)
        data = b"".join(self._subject.codec.encode(record) + b"\n" for record in records)
        (into / f"00000001{SUFFIX}").write_bytes(data)


def _minimal(items: Sequence[Any], fails: Callable[[Collection[Any]], bool]) -> list[Any]:
    """Return a subset that still fails and of which no part tried could be left out (Zeller: ddmin)."""
    items = list(items)
    parts = 2
    if items and fails(()):
        return []
    while len(items) >= 2:
        size = -(-len(items) // parts)
        chunks = [items[start : start + size] for start in range(0, len(items), size)]
        for chunk in chunks:
            left_out = set(map(id, chunk))
            rest = [item for item in items if id(item) not in left_out]
            if fails(rest):
                items, parts = rest, max(parts - 1, 2)
                break
        else:
            if parts >= len(items):
                break
            parts = min(2 * parts, len(items))
    return items


def _without(events: Sequence[Event], groups: Mapping[str, set[int]], kept: Collection[str]) -> list[Event]:
    dropped = {seq for name, seqs in groups.items() if name not in kept for seq in seqs}
    return [event for event in events if event.seq not in dropped]


def _without_gangs(events: Iterable[Event]) -> list[Event]:
    """Return events in which one pod is enough for each PodGroup."""
    result: list[Event] = []
    for event in events:
        if isinstance(event, Observed) and isinstance(group := event.object, PodGroup):
            spec = replace(group.spec, min_member=min(group.spec.min_member, 1), min_task_member={}, min_resources=None)
            event = replace(event, object=replace(group, spec=spec), previous=None)
        result.append(event)
    return result


def _owners(events: Iterable[Event]) -> dict[int, Identity]:
    """Return the object that an event is about, by seq; none for events about the process."""
    found: dict[int, Identity] = {}
    for event in events:
        match event:
            case Observed(resource=resource, object=ApiObject(metadata=meta)):
                found[event.seq] = resource, meta.key
            case BindOutcome(namespace=namespace, name=name):
                found[event.seq] = kinds.POD.resource, f"{namespace}/{name}"
            case EffectSucceeded(object=ApiObject() as obj):
                found[event.seq] = kinds.of(obj).resource, obj.metadata.key
            case EffectFailed(controller="", key=key):
                resource, _, name = key.partition("/")
                found[event.seq] = resource, name
            case Answered(key=key) | TimerFired(key=key) | EffectFailed(key=key) if (
                event.controller == "job-controller"
            ):
                found[event.seq] = kinds.JOB.resource, key
            case _:
                pass
    return found


def _words(text: bytes) -> set[bytes]:
    """Return the names in a text: what is between quotes, slashes and blanks."""
    for separator in b'"/ #,:[]{}':
        text = text.replace(bytes((separator,)), b" ")
    return set(text.split())


def _group_of(pod: Pod) -> str:
    group = pod.metadata.annotations.get(GROUP_NAME, "")
    return f"{pod.metadata.namespace}/{group}" if group else ""


def _cycle_effects(decisions: Iterable[SchedulerEffect]) -> Effects:
    """Return binds by pod, evictions by pod, and patches by object; Events are not compared."""
    found: Effects = {}
    for effect in decisions:
        if isinstance(effect, BindBatch):
            for bind in effect.binds:
                found[f"bind {bind.namespace}/{bind.name}"] = bind.node
        elif isinstance(effect, Evict):
            found[f"evict {effect.namespace}/{effect.name}"] = effect.reason
        elif isinstance(effect, Patch):
            found[f"patch {effect.resource} {effect.namespace}/{effect.name}"] = _plain(effect.patch)
        elif isinstance(effect, EventEffect):
            about = effect.regarding
            found[f"record {effect.reason} {about.namespace}/{about.name}"] = effect.message
    return found


def _plain(value: Any) -> Any:
    return msgspec.json.decode(msgspec.json.encode(value))


def _as_recorded(
    cycle: ReplayedCycle, recorded: Iterable[SchedulerEffect], failure: Failure
) -> tuple[SchedulerEffect, ...]:
    """Return the decisions of a replay with the failing effect as it was recorded."""
    if failure.error:
        return ()
    kind, _, name = failure.effect.partition(" ")
    made: list[SchedulerEffect] = []
    for effect in cycle.decided:
        if isinstance(effect, BindBatch) and kind == "bind":
            binds = tuple(bind for bind in effect.binds if f"{bind.namespace}/{bind.name}" != name)
            if binds:
                made.append(replace(effect, binds=binds))
        elif failure.effect not in _cycle_effects((effect,)):
            made.append(effect)
    for effect in recorded:
        if isinstance(effect, BindBatch) and kind == "bind":
            binds = tuple(bind for bind in effect.binds if f"{bind.namespace}/{bind.name}" == name)
            if binds:
                made.append(replace(effect, binds=binds))
        elif failure.effect in _cycle_effects((effect,)):
            made.append(effect)
    return tuple(made)


def _step_name(actor: str, key: str, cause: int) -> str:
    return f"{actor} {key} #{cause}"


def _stage_effects(stages: Iterable[Iterable[Any]]) -> Effects:
    """Return the effects of a controller by kind and object, without their numbers."""
    found: Effects = {}
    for stage in stages:
        for effect in stage:
            about = effect.get("name") or (effect.get("manifest") or {}).get("metadata", {}).get("name") or ""
            key = f"{effect['effect']} {effect.get('resource', '')} {about}"
            while key in found:
                key += "'"
            found[key] = {name: value for name, value in effect.items() if name != "id"}
    return found


def _stages_as_recorded(stages: Any, failure: Failure) -> Any:
    """Return stages with the failing effect as it was recorded."""
    kept = [[each for each in stage if failure.effect not in _stage_effects([[each]])] for stage in stages]
    if failure.recorded != _ABSENT:
        kept = [*kept, [failure.recorded]]
    return [stage for stage in kept if stage]


def _short(value: Any) -> str:
    text = value if isinstance(value, str) else msgspec.json.encode(value).decode()
    return text if len(text) <= 80 else f"{text[:77]}..."
