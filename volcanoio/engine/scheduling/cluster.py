"""The fold of the scheduler's events into columns, tasks, jobs and queues."""

from __future__ import annotations

from volcanoio.framework.scheduling_events import SchedulerEvent
from volcanoio.model import kinds
from volcanoio.model.names import DEFAULT_QUEUE, SCHEDULER_NAME

NEEDED = tuple(kind.resource for kind in (kinds.NODE, kinds.PRIORITY_CLASS, kinds.QUEUE, kinds.POD_GROUP, kinds.POD))
"""The resources of which every one must be listed before anything is decided."""


def effect_key(resource: str, namespace: str, name: str) -> str:
    """The `key` under which the outcome of a Patch or Create comes back in EffectSucceeded and EffectFailed."""
    return f"{resource}/{namespace}/{name}"


class ClusterState:
    """All the scheduler knows: a fold of SchedulerEvents. A cycle works on it directly and leaves it consistent."""

    def __init__(
        self,
        *,
        scheduler_names: frozenset[str] = frozenset({SCHEDULER_NAME}),
        default_queue: str = DEFAULT_QUEUE,
        needed: tuple[str, ...] = NEEDED,
        hold_seconds: float = 30.0,
    ) -> None:
        self.scheduler_names = scheduler_names
        self.default_queue = default_queue
        self.hold_seconds = hold_seconds
        self._needed = frozenset(needed)
        self._synced: set[str] = set()

    @property
    def ready(self) -> bool:
        """Whether all needed resources are listed and none is being relisted: the barrier before any decision."""
        return self._needed <= self._synced

    def fold(self, event: SchedulerEvent) -> bool:
        """Take in one event; True when it could alter a decision, so that a cycle is worth starting."""
        raise NotImplementedError(type(event).__name__)  # the fold lands next
