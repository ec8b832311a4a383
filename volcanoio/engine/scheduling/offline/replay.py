"""Replay: a journal's events through the same state and cycle, to the same decisions.

A journal records with each CycleOpened which events were folded before it, its time and its seed, and with each
CycleClosed where the budget cut it. So a replay needs no clock and no network, and one changed event shows in the
decisions.
"""

from __future__ import annotations

import itertools
from collections import deque
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import msgspec

from volcanoio.engine.scheduling.cluster.state import ClusterState, effect_key
from volcanoio.engine.scheduling.config.profile import Profile
from volcanoio.engine.scheduling.session.context import Budget
from volcanoio.engine.scheduling.session.cycle import run_cycle
from volcanoio.framework.effects import Patch
from volcanoio.framework.events import EffectFailed, Event, Observed
from volcanoio.framework.scheduling.views import TaskStatus
from volcanoio.framework.scheduling_effects import BindBatch, Evict, SchedulerEffect
from volcanoio.framework.scheduling_events import (
    ArrivalsFolded,
    ConfigurationChanged,
    CycleClosed,
    CycleOpened,
    Decided,
)
from volcanoio.model import kinds

OWN_EVENTS = (CycleOpened, ArrivalsFolded, Decided, CycleClosed, ConfigurationChanged)
"""Events that the scheduler writes about itself; they are not folded."""


class CutAt(Budget):
    """A budget that ends at a counted gang boundary, 0 never."""

    def __init__(self, boundary: int, arrivals: Callable[[int], Sequence[Observed]] = lambda _boundary: ()) -> None:
        super().__init__(arrivals)
        self._boundary = boundary
        self._calls = 0

    def check(self) -> bool:
        """Return whether that boundary is reached."""
        self._calls += 1
        return 0 < self._boundary <= self._calls


@dataclass(slots=True)
class ReplayedCycle:
    """One cycle: the recorded decisions, those of the replay, and the exception in each.

    `closing` is None if the journal does not contain the cycle's end.
    """

    opening: CycleOpened
    closing: CycleClosed | None
    recorded: tuple[SchedulerEffect, ...]
    decided: tuple[SchedulerEffect, ...] = ()
    fault: str = ""
    arrivals: dict[int, tuple[int, ...]] = field(default_factory=dict)
    """Seqs of the events that were folded within the cycle, by gang boundary."""

    @property
    def cycle(self) -> int:
        """The number of the cycle."""
        return self.opening.cycle

    @property
    def recorded_fault(self) -> str:
        """The exception that ended the recorded cycle."""
        return "" if self.closing is None else self.closing.fault

    @property
    def is_same(self) -> bool:
        """Whether both decisions are equal, apart from the ids of effects."""
        return self.fault == self.recorded_fault and (
            self.recorded == self.decided or list(map(_content, self.recorded)) == list(map(_content, self.decided))
        )


def replay(
    events: Iterable[Event],
    state: ClusterState,
    profile_of: Callable[[ConfigurationChanged], Profile],
    *,
    upto: int = 0,
) -> Iterator[ReplayedCycle]:
    """Run every cycle of a journal again, on the state before the first event.

    `events` are in the order of seq, from the first on; each cycle is run once its end was read, so that no more events
    are kept than one cycle took. `profile_of` builds the profile of a configuration. A cycle without CycleClosed is the
    last one: decisions that were not recorded are omitted. After the last cycle the events up to `upto` are folded.
    Raises ValueError for a cycle before any configuration.
    """
    unfolded: deque[Any] = deque()
    profile: Profile | None = None
    for item in recorded_cycles(events):
        if isinstance(item, ConfigurationChanged):
            profile = profile_of(item)
        elif not isinstance(item, ReplayedCycle):
            unfolded.append(item)
        elif profile is None:
            msg = f"cycle {item.cycle} opens before any ConfigurationChanged; replay the journal from its start"
            raise ValueError(msg)
        else:
            fold(state, unfolded, item.opening.upto)
            item.decided, item.fault = decide(state, profile, item, unfolded)
            if item.closing is None:
                item.decided, item.fault = item.decided[: len(item.recorded)], ""
            yield item
    fold(state, unfolded, upto)


def recorded_cycles(events: Iterable[Event]) -> Iterator[Event | ReplayedCycle]:
    """Yield each cycle as it was recorded, once its end was read, and all other events in their order.

    An event that was published during a cycle comes before it, a configuration after it.
    """
    cycle: ReplayedCycle | None = None
    later: list[Event] = []
    for event in events:
        if isinstance(event, Decided):
            if cycle is not None:
                cycle.recorded += event.decisions
            continue
        if isinstance(event, ArrivalsFolded):
            if cycle is not None:
                cycle.arrivals[event.boundary] = event.arrivals
            continue
        if isinstance(event, CycleOpened | CycleClosed):
            if cycle is not None:
                cycle.closing = event if isinstance(event, CycleClosed) else None
                yield cycle
                yield from later
                later.clear()
            cycle = ReplayedCycle(event, None, ()) if isinstance(event, CycleOpened) else None
        elif cycle is not None and isinstance(event, ConfigurationChanged):
            later.append(event)
        else:
            yield event
    if cycle is not None:
        yield cycle


def fold(state: ClusterState, unfolded: deque[Any], upto: int) -> None:
    """Fold the events that were folded when the cycle opened; keep the rest for the next."""
    while unfolded and unfolded[0].seq <= upto:
        state.fold(unfolded.popleft())
    for _ in state.finish_fold():
        pass


def decide(
    state: ClusterState, profile: Profile, recorded: ReplayedCycle, unfolded: Collection[Any]
) -> tuple[tuple[SchedulerEffect, ...], str]:
    """Run one cycle, cut or stopped where the recorded one was; return its decisions and its fault, "" if none.

    What joined it is among the events that are not folded yet.
    """
    closing = recorded.closing

    def arrivals(boundary: int) -> list[Observed]:
        seqs = recorded.arrivals.get(boundary, ())
        return [event for event in unfolded if event.seq in seqs] if seqs else []

    budget = CutAt(0 if closing is None else closing.boundaries, arrivals)
    points = itertools.count(1)
    decided: list[SchedulerEffect] = []
    fault = ""
    cycle = run_cycle(state, profile, recorded.opening, budget=budget)
    try:
        while True:
            decided.extend(next(cycle).decisions)
            if closing is not None and next(points) == closing.stopped:
                break
    except StopIteration:
        pass
    except Exception as error:  # an exception of a plugin is part of the result
        fault = f"{type(error).__name__}: {error}"
    finally:
        cycle.close()
    return tuple(decided), fault


def undo_decisions(state: ClusterState, decisions: Iterable[SchedulerEffect], nominated: Collection[str]) -> None:
    """Undo the decisions of a cycle as if none was carried out.

    `nominated` are the uids of the tasks that were nominated before it.
    """
    ledger, tasks = state.ledger, state.ledger.tasks
    for uid in state.nominations.by_task.keys() - nominated:
        state.nominations.remove(tasks[uid])
    for effect in decisions:
        if isinstance(effect, BindBatch):
            for bind in effect.binds:
                if (task := tasks.get(bind.uid)) is not None and task.status is TaskStatus.BINDING:
                    ledger.transition(task, TaskStatus.PENDING, "")
        elif isinstance(effect, Evict):
            state.pods.eviction_refused(effect.uid)
        elif isinstance(effect, Patch):
            key = effect_key(effect.resource, effect.namespace, effect.name)
            state.fold(EffectFailed(controller="", key=key, effect_id=0, code=0))


def assume_decisions(state: ClusterState, decisions: Iterable[SchedulerEffect]) -> None:
    """Assume recorded binds, evictions and phases, whose outcomes are yet to be folded."""
    ledger, tasks = state.ledger, state.ledger.tasks
    for effect in decisions:
        if isinstance(effect, BindBatch):
            for bind in effect.binds:
                if (task := tasks.get(bind.uid)) is not None and task.status is TaskStatus.PENDING:
                    ledger.transition(task, TaskStatus.BINDING, bind.node)
        elif isinstance(effect, Evict):
            if (task := tasks.get(effect.uid)) is not None and task.node:
                state.pods.evicting.add(effect.uid)
                ledger.transition(task, TaskStatus.RELEASING, task.node)
        elif isinstance(effect, Patch) and effect.resource == kinds.POD_GROUP.resource:
            job, status = ledger.jobs.get(f"{effect.namespace}/{effect.name}"), effect.patch.get("status") or {}
            if job is not None and (phase := status.get("phase")):
                ledger.set_phase(job, phase)


def _content(effect: SchedulerEffect) -> bytes:
    """Encode an effect in a form that is the same before and after a journal."""
    return msgspec.json.encode(msgspec.structs.replace(effect, id=0), order="deterministic")
