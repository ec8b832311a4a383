"""One scheduling cycle as a generator: open, each action, close."""

from __future__ import annotations

from collections.abc import Generator
from dataclasses import dataclass, field
from typing import Protocol

from volcanoio.engine.scheduling.cluster import ClusterState
from volcanoio.engine.scheduling.profile import Profile
from volcanoio.framework.scheduling_effects import SchedulerEffect
from volcanoio.framework.scheduling_events import CycleOpened


class Budget(Protocol):
    """Decides when a cycle has taken long enough; the runtime reads a clock, a replay counts gangs."""

    def exhausted(self) -> bool:
        """Asked at every gang boundary."""
        ...


class Unlimited:
    """A budget without end."""

    def exhausted(self) -> bool:
        """Never."""
        return False


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """A place where other work may run. `decisions` were committed since the last one: send them at once."""

    action: str
    decisions: tuple[SchedulerEffect, ...]


@dataclass(slots=True)
class CycleStats:
    """Figures of a cycle: tasks placed and bound, gangs committed and boundaries passed, jobs enqueued."""

    placed: int = 0
    bound: int = 0
    gangs: int = 0
    boundaries: int = 0
    enqueued: int = 0


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
    raise NotImplementedError  # the cycle lands with the session
    yield
