"""One scheduling cycle as a generator: open, each action, close."""

from __future__ import annotations

from collections.abc import Generator
from dataclasses import dataclass, field
from typing import cast

from volcanoio.engine.scheduling.closing import close
from volcanoio.engine.scheduling.cluster import ClusterState
from volcanoio.engine.scheduling.profile import Profile
from volcanoio.engine.scheduling.session import Budget, CycleSession, CycleStats, Unlimited
from volcanoio.framework.scheduling.session import Session
from volcanoio.framework.scheduling_effects import SchedulerEffect
from volcanoio.framework.scheduling_events import CycleOpened

__all__ = ["Budget", "Checkpoint", "CycleResult", "CycleStats", "Unlimited", "run_cycle"]

PLACEMENTS_BETWEEN = 256
"""After how many placements a cycle lets other work run."""
STEPS_BETWEEN = 256
"""After how many steps of an action (jobs looked at) it does."""


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """A place where other work may run. `decisions` were committed since the last one: send them at once."""

    action: str
    decisions: tuple[SchedulerEffect, ...]


@dataclass(frozen=True, slots=True)
class CycleResult:
    """The end of a cycle. Every decision appears once: in a Checkpoint, or here when it came after the last one.

    `where` is the action at whose gang boundary the budget cut the cycle, "" when it ran to its end.
    """

    decisions: tuple[SchedulerEffect, ...]
    where: str = ""
    stats: CycleStats = field(default_factory=CycleStats)


def run_cycle(
    state: ClusterState, profile: Profile, opening: CycleOpened, *, budget: Budget | None = None, period: float = 1.0
) -> Generator[Checkpoint, None, CycleResult]:
    """Run one cycle on the state's columns; the caller folds no event before it has ended.

    Requires `state.ready`. `period` (seconds) is the schedule period: what Volcano does once per session is done at
    most once per period and object. Closing the generator early undoes what was not committed.
    """
    if not state.ready:
        msg = f"no cycle before these are listed: {', '.join(state.missing)}; fold their Synced events first"
        raise RuntimeError(msg)
    session = CycleSession(state, profile, opening, budget or Unlimited())
    where = ""
    try:
        for action in profile.actions:
            steps = placed = 0
            for _ in action.run(cast("Session", session)):  # its jobs and queues are the engine's own
                steps += 1
                if session.stats.placed - placed >= PLACEMENTS_BETWEEN or steps >= STEPS_BETWEEN:
                    steps, placed = 0, session.stats.placed
                    yield Checkpoint(action.name, session.outbox.take())
            if session.cut:
                where = action.name
                break
            yield Checkpoint(action.name, session.outbox.take())
        close(session, period)
    finally:
        session.undo()
    return CycleResult(session.outbox.take(), where, session.stats)
