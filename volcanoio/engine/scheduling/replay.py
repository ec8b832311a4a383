"""Replay: a journal's events through the same fold and cycle, to the same decisions.

A journal says with each CycleOpened which events were folded before it, what time it was and how ties were broken, and
with each CycleClosed where the budget cut. So a replay needs no clock and no network, and one changed event shows in
the decisions.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import msgspec

from volcanoio.engine.scheduling.cluster import ClusterState
from volcanoio.engine.scheduling.cycle import run_cycle
from volcanoio.engine.scheduling.profile import Profile
from volcanoio.framework.events import Event
from volcanoio.framework.scheduling_effects import SchedulerEffect
from volcanoio.framework.scheduling_events import ConfigurationChanged, CycleClosed, CycleOpened, Decided

OWN = (CycleOpened, Decided, CycleClosed, ConfigurationChanged)
"""Events that the scheduler writes about itself: they say what happened and are not folded."""


class CutAt:
    """A budget that ends at a counted gang boundary; 0 never ends."""

    def __init__(self, boundary: int) -> None:
        self._boundary = boundary
        self._asked = 0

    def exhausted(self) -> bool:
        """Whether that boundary has come."""
        self._asked += 1
        return 0 < self._boundary <= self._asked


@dataclass(slots=True)
class ReplayedCycle:
    """One cycle: what the journal says was decided, what the replay decided, and what raised in each.

    `closing` is None where the journal does not hold the cycle's end.
    """

    opening: CycleOpened
    closing: CycleClosed | None
    recorded: tuple[SchedulerEffect, ...]
    decided: tuple[SchedulerEffect, ...] = ()
    fault: str = ""

    @property
    def cycle(self) -> int:
        """The number of the cycle."""
        return self.opening.cycle

    @property
    def recorded_fault(self) -> str:
        """What ended the cycle when it ran."""
        return "" if self.closing is None else self.closing.fault

    @property
    def same(self) -> bool:
        """Whether both decided alike, apart from the numbers that the host gives effects."""
        return self.fault == self.recorded_fault and (
            list(map(_content, self.recorded)) == list(map(_content, self.decided))
        )


@dataclass(slots=True)
class _Journal:
    """What is read ahead: how each cycle ended and what it decided."""

    closings: dict[int, CycleClosed] = field(default_factory=dict)
    decisions: dict[int, list[SchedulerEffect]] = field(default_factory=dict)

    @classmethod
    def of(cls, events: Iterable[Event]) -> _Journal:
        journal = cls()
        for event in events:
            if isinstance(event, CycleClosed):
                journal.closings[event.cycle] = event
            elif isinstance(event, Decided):
                journal.decisions.setdefault(event.cycle, []).extend(event.decisions)
        return journal


def replay(
    events: Sequence[Event],
    state: ClusterState,
    profile_of: Callable[[ConfigurationChanged], Profile],
    *,
    upto: int = 0,
) -> Iterator[ReplayedCycle]:
    """Run every cycle of a journal again, on a state as it was before the first event.

    `events` are in the order of seq, from the first on; `profile_of` builds the profile of a configuration. A
    cycle that the journal cuts off (no CycleClosed) is the last one: what it decided beyond what was written is left
    out. After the last cycle the events up to `upto` are folded; the state is what it was live when these were.
    Raises ValueError for a cycle before any configuration.
    """
    journal = _Journal.of(events)
    waiting: list[Event] = []
    profile: Profile | None = None
    for event in events:
        if isinstance(event, ConfigurationChanged):
            profile = profile_of(event)
        elif isinstance(event, CycleOpened):
            if profile is None:
                msg = f"cycle {event.cycle} opens before any ConfigurationChanged; replay the journal from its start"
                raise ValueError(msg)
            _fold(state, waiting, event.upto)
            yield _run(state, profile, event, journal)
        elif not isinstance(event, OWN):
            waiting.append(event)
    _fold(state, waiting, upto)


def _fold(state: ClusterState, waiting: list[Event], upto: int) -> None:
    """Fold what had been folded when the cycle opened; the rest waits for the next."""
    folded: Any = [event for event in waiting if event.seq <= upto]
    waiting[:] = [event for event in waiting if event.seq > upto]
    for event in folded:
        state.fold(event)
    for _ in state.finish():
        pass


def _run(state: ClusterState, profile: Profile, opening: CycleOpened, journal: _Journal) -> ReplayedCycle:
    closing = journal.closings.get(opening.cycle)
    recorded = tuple(journal.decisions.get(opening.cycle, ()))
    result = ReplayedCycle(opening, closing, recorded)
    budget = CutAt(0 if closing is None else closing.boundaries)
    points = itertools.count(1)
    decided: list[SchedulerEffect] = []
    cycle = run_cycle(state, profile, opening, budget=budget, period=opening.period)
    try:
        while True:
            decided.extend(next(cycle).decisions)
            if closing is not None and next(points) == closing.stopped:
                break
    except StopIteration as stop:
        decided.extend(stop.value.decisions)
    except Exception as error:  # what a plugin raised live, it raises here
        result.fault = f"{type(error).__name__}: {error}"
    finally:
        cycle.close()
    result.decided = tuple(decided)
    if closing is None:
        result.decided, result.fault = result.decided[: len(recorded)], ""
    return result


def _content(effect: SchedulerEffect) -> bytes:
    """An effect in a form that is the same before and after a journal."""
    return msgspec.json.encode(msgspec.structs.replace(effect, id=0), order="deterministic")
