"""What actions that evict ask: who may be evicted for whom, and whether a placement is worth it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Protocol, TypeAlias

from volcanoio.framework.scheduling.points import Purpose
from volcanoio.framework.scheduling.views import Job, Shape, Task

if TYPE_CHECKING:
    from volcanoio.framework.scheduling.session import Run


Eligible: TypeAlias = Callable[[Sequence[Task], Task], list[Task]]
"""Which of some tasks on a node may be evicted for another by an action's own rules, whatever plugins say; in their
order. Among those it is asked about may be some that are evicted already.
"""


class Hunt(Protocol):
    """The nodes on which room for alike tasks might be made: those that no filter rules out whatever is evicted, where
    what is free or being released and all that could be evicted is enough.
    """

    def best(self) -> str:
        """The node with the highest score that is left, "" when none is."""
        ...

    def spent(self, node: str) -> None:
        """Nothing can be had there any more."""
        ...

    def changed(self, node: str) -> None:
        """Something was evicted or placed there: score it anew."""
        ...

    def around(self) -> Sequence[str]:
        """All nodes that are left, from a seeded one on and round."""
        ...


class Slots(Protocol):
    """How many alike tasks there would be room for, on the nodes that no filter rules out whatever is evicted.

    What tasks do to each other counts for nothing: so many at most.
    """

    @property
    def now(self) -> int:
        """For how many there is room in what is free or being released."""
        ...

    @property
    def most(self) -> int:
        """For how many there was, when this was made, with all gone that could be evicted."""
        ...

    def possible(self, node: str) -> bool:
        """Whether the node is one of these."""
        ...

    def changed(self, node: str) -> None:
        """Something was evicted or placed there: count it anew."""
        ...


class Victims(Protocol):
    """A session's answers about victims. All are as of now: what a statement did meanwhile counts."""

    def prepare(self) -> Iterator[None]:
        """An action begins: count what could be evicted where; to be exhausted before its first `hunt`."""
        ...

    def failed(self, purpose: Purpose, job: Job, runs: Sequence[Run]) -> bool:
        """Whether not enough was found for a job alike before, by this action: evictions and placements since have only
        left less. Alike are jobs of one queue that want the same, with equal priorities and equal keys by those plugins
        that name victims.
        """
        ...

    def fail(self, purpose: Purpose, job: Job, runs: Sequence[Run]) -> None:
        """Not enough was found for the job, and its statement was discarded."""
        ...

    def rests(self, job: Job) -> bool:
        """Whether the action at work found not enough for the job in an earlier cycle, and nothing changed since."""
        ...

    def vain(self, purpose: Purpose, task: Task, node: str) -> None:
        """On a node nothing was found for a task; not to be said of what a discarded statement was in the way of."""
        ...

    def starving(self, job: Job) -> bool:
        """Whether a job may have others evicted (Volcano: JobStarving)."""
        ...

    def awaits(self, job: Job) -> bool:
        """Whether room is being made for a job already: no more is taken for it until that has ended."""
        ...

    def preemptive(self, job: Job, tasks: Sequence[Task]) -> bool:
        """Whether the job's queue may take back from others for these tasks."""
        ...

    def within_limits(self, job: Job, shape: Shape, count: int) -> int:
        """How many of `count` tasks of a shape the job's queue may take now."""
        ...

    def hunt(self, task: Task, purpose: Purpose, *, own: bool = False) -> Hunt:
        """Where to look for victims for tasks like this one, where alike ones did not look in vain.

        `own`: the victims are of its own job, for which others' luck means nothing.
        """
        ...

    def widens(self, purpose: Purpose) -> bool:
        """Whether evictions can make more tasks evictable: a tier that gives nobody any more leaves it to the next."""
        ...

    def row_by_row(self, task: Task) -> bool:
        """Whether room for a task that was looked for changes on a node only by what happens there."""
        ...

    def running(self) -> Sequence[Task]:
        """All Running tasks of all jobs, by job and then by their order in it."""
        ...

    def suffice(self, node: str, shape: Shape, victims: Iterable[Task]) -> bool:
        """Whether what is free or being released on a node, and what these hold, is enough for one task."""
        ...

    def permitted(self, purpose: Purpose, taker: Task, node: str, eligible: Eligible) -> list[Task]:
        """Those on a node that an action and plugins let a task have evicted, in the order in which they go.

        Volcano: Preemptable or Reclaimable, BuildVictimsPriorityQueue. Plugins are asked about them in that order too,
        so that where a job can lose some of its tasks only, those go that would go first.
        """
        ...

    def slots(self, task: Task, purpose: Purpose) -> Slots:
        """For how many tasks like this one there is room, or might be."""
        ...

    def evictable(self, job: Job, purpose: Purpose, candidates: Sequence[Task], *, partial: bool = False) -> list[Task]:
        """Those of the candidates that plugins let the gang actions evict for a job.

        `partial`: there are more candidates, which come after these. What a later tier says of some only because an
        earlier one says nothing of them is then no answer.
        """
        ...

    def ordered(self, tasks: Iterable[Task], taker: Job) -> list[Task]:
        """Tasks in the order in which they are evicted for a job, lowest first (Volcano: BuildVictimsPriorityQueue)."""
        ...

    def queue_ranks(self, queues: Iterable[str], taker: str) -> dict[str, int]:
        """By name where queues stand among those that lose tasks to the taker's queue, 0 loses first."""
        ...

    def shuffled(self, candidates: Sequence[Task]) -> list[Task]:
        """Those that plugins want ended for their own sake."""
        ...

    def fits(self, task: Task, node: str) -> bool:
        """Whether a task passes every filter on a node and fits what is free or being released there."""
        ...

    def keeps_guarantee(self, victim: Task) -> bool:
        """Whether the victim's queue holds its guarantee without it, as far as the victim uses those resources."""
        ...

    def would_return(self, purpose: Purpose, evicted: Sequence[Task], placed: Sequence[Task]) -> bool:
        """Whether any of the evicted could at once have any of the placed tasks evicted for itself."""
        ...

    def attempted(self, victims: int) -> None:
        """Count an attempt to make room on a node, and how many victims it found (Volcano's preemption metrics)."""
        ...
