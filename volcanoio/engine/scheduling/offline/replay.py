"""Replay: a journal's events through the same state and cycle, to the same decisions.

A journal records with each CycleOpened which events were folded before it, its time and its seed, and with each
CycleClosed where the budget cut it. So a replay needs no clock and no network, and one changed event shows in the
decisions.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import msgspec

from volcanoio.engine.scheduling.cluster.state import ClusterState
from volcanoio.engine.scheduling.config.profile import Profile
from volcanoio.engine.scheduling.session.cycle import run_cycle
from volcanoio.framework.events import Event
from volcanoio.framework.scheduling_effects import SchedulerEffect
from volcanoio.framework.scheduling_events import ConfigurationChanged, CycleClosed, CycleOpened, Decided

OWN_EVENTS = (CycleOpened, Decided, CycleClosed, ConfigurationChanged)
"""Events that the scheduler writes about itself; they are not folded."""


class CutAt:
    """A budget that ends at a counted gang boundary; 0 never ends."""

    def __init__(self, boundary: int) -> None:
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
            list(map(_content, self.recorded)) == list(map(_content, self.decided))
        )


@dataclass(slots=True)
class _Journal:
    """The end and the decisions of each cycle, read ahead."""

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
    """Run every cycle of a journal again, on the state before the first event.

    `events` are in the order of seq, from the first on; `profile_of` builds the profile of a configuration. A cycle
    without CycleClosed is the last one: decisions that were not recorded are omitted. After the last cycle the events
    up to `upto` are folded. Raises ValueError for a cycle before any configuration.
    """
    journal = _Journal.of(events)
    unfolded: list[Event] = []
    profile: Profile | None = None
    for event in events:
        if isinstance(event, ConfigurationChanged):
            profile = profile_of(event)
        elif isinstance(event, CycleOpened):
            if profile is None:
                msg = f"cycle {event.cycle} opens before any ConfigurationChanged; replay the journal from its start"
                raise ValueError(msg)
            _fold(state, unfolded, event.upto)
            yield _run(state, profile, event, journal)
        elif not isinstance(event, OWN_EVENTS):
            unfolded.append(event)
    _fold(state, unfolded, upto)


def _fold(state: ClusterState, unfolded: list[Event], upto: int) -> None:
    """Fold the events that were folded when the cycle opened; keep the rest for the next."""
    folded: Any = [event for event in unfolded if event.seq <= upto]
    unfolded[:] = [event for event in unfolded if event.seq > upto]
    for event in folded:
        state.fold(event)
    for _ in state.finish_fold():
        pass


def _run(state: ClusterState, profile: Profile, opening: CycleOpened, journal: _Journal) -> ReplayedCycle:
    closing = journal.closings.get(opening.cycle)
    recorded = tuple(journal.decisions.get(opening.cycle, ()))
    result = ReplayedCycle(opening, closing, recorded)
    budget = CutAt(0 if closing is None else closing.boundaries)
    points = itertools.count(1)
    decided: list[SchedulerEffect] = []
    cycle = run_cycle(state, profile, opening, budget=budget)
    try:
        while True:
            decided.extend(next(cycle).decisions)
            if closing is not None and next(points) == closing.stopped:
                break
    except StopIteration:
        pass
    except Exception as error:  # an exception of a plugin is part of the result
        result.fault = f"{type(error).__name__}: {error}"
    finally:
        cycle.close()
    result.decided = tuple(decided)
    if closing is None:
        result.decided, result.fault = result.decided[: len(recorded)], ""
    return result


def _content(effect: SchedulerEffect) -> bytes:
    """Encode an effect in a form that is the same before and after a journal."""
    return msgspec.json.encode(msgspec.structs.replace(effect, id=0), order="deterministic")
