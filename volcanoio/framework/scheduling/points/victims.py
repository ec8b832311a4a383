"""Points about victims: who may be evicted, for whom, and in which order."""

from __future__ import annotations

from collections.abc import Sequence
from enum import StrEnum
from typing import Protocol, runtime_checkable

from volcanoio.framework.scheduling.points.orders import SortKey
from volcanoio.framework.scheduling.views import Job, QueueView, Task


@runtime_checkable
class Preemptable(Protocol):
    """Names the tasks a preemptor of the same queue may evict; None abstains. Tiers intersect."""

    def preemptable(self, preemptor: Task, candidates: Sequence[Task]) -> Sequence[Task] | None:
        """The permitted victims, in the given order."""
        ...


@runtime_checkable
class Reclaimable(Protocol):
    """Names the tasks a job of another queue may evict; None abstains. Tiers intersect."""

    def reclaimable(self, reclaimer: Task, candidates: Sequence[Task]) -> Sequence[Task] | None:
        """The permitted victims, in the given order."""
        ...


@runtime_checkable
class Preemptive(Protocol):
    """Says whether a queue may take back from other queues for these tasks; all plugins must agree."""

    def preemptive(self, queue: QueueView, tasks: Sequence[Task]) -> bool:
        """Whether the queue, holding what it holds now and these tasks, would still be within what it may have."""
        ...


@runtime_checkable
class VictimOrder(Protocol):
    """Orders queues by which of them loses its tasks first to a taker's queue.

    Volcano: VictimQueueOrder; it has no switch. Fallback: the queue that is last by `QueueOrder` loses first.
    """

    def victim_key(self, queue: QueueView, taker: QueueView) -> SortKey:
        """Smaller loses first."""
        ...


class Purpose(StrEnum):
    """What tasks are evicted for."""

    PREEMPT = "preempt"
    """For a job of the same queue."""
    RECLAIM = "reclaim"
    """For a job of another queue."""


@runtime_checkable
class Evictable(Protocol):
    """Names the tasks that a job may have evicted by the gang actions; None abstains. Tiers intersect, no switch.

    Candidates come in the order in which they go, and those that go first may be asked about without the others: what
    is said of them must not depend on these. Volcano: UnifiedEvictable.
    """

    def evictable(self, job: Job, purpose: Purpose, candidates: Sequence[Task]) -> Sequence[Task] | None:
        """The permitted victims, in the given order."""
        ...


@runtime_checkable
class VictimTasks(Protocol):
    """Names running tasks to end for their own sake (action shuffle): a tier's are united, the first tier that names
    any decides.
    """

    def victims(self, candidates: Sequence[Task]) -> Sequence[Task]:
        """Those of the candidates (all running tasks) that are to be evicted."""
        ...


@runtime_checkable
class VictimGuard(Protocol):
    """Has the last word on tasks that others named to be ended for their own sake; all plugins must permit."""

    def permitted(self, victims: Sequence[Task]) -> Sequence[Task]:
        """Those of the named victims that may be evicted, in the given order."""
        ...
