"""What the queue controller knows about one queue, and how it learns it."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from volcanoio.framework.events import Change, EffectSucceeded, Observed
from volcanoio.model import names
from volcanoio.model.command import Command
from volcanoio.model.scheduling import PodGroup, PodGroupPhase, Queue

COUNTS: Mapping[str, str] = {
    "": "pending",
    PodGroupPhase.PENDING: "pending",
    PodGroupPhase.INQUEUE: "inqueue",
    PodGroupPhase.RUNNING: "running",
    PodGroupPhase.UNKNOWN: "unknown",
    PodGroupPhase.COMPLETED: "completed",
}
"""The status field that counts a PodGroup of a phase; a PodGroup nobody looked at yet is pending."""
FIELDS = ("pending", "inqueue", "running", "unknown", "completed")


class Backoff(msgspec.Struct, frozen=True):
    """Writes are held back until `due` (epoch seconds), or until a newer version than `revision` is seen, if given."""

    due: float
    revision: int | None = None


class QueueState(msgspec.Struct, frozen=True):
    """One queue: its object, its PodGroups by status field, and the Commands that wait, oldest first.

    `counting_at` is when changed counts are written (0: no change waits), `failures` counts writes refused in a row,
    `sent` is the version the last write was computed from.
    """

    queue: Queue | None = None
    counts: dict[str, int] = {}
    commands: tuple[Command, ...] = ()
    counting_at: float = 0.0
    backoff: Backoff | None = None
    failures: int = 0
    sent: int = 0

    @property
    def empty(self) -> bool:
        """Whether no PodGroup is in the queue; completed ones count."""
        return not any(self.counts.values())

    @property
    def forgettable(self) -> bool:
        """Whether nothing is left to remember."""
        return self.queue is None and self.empty and not self.commands

    def count(self, field: str) -> int:
        """How many PodGroups a status field counts."""
        return self.counts.get(field, 0)


def queue_of(group: PodGroup) -> str:
    """The queue a PodGroup is in."""
    return group.spec.queue or names.DEFAULT_QUEUE


def observed(state: QueueState, event: Observed, key: str) -> QueueState:
    """Fold an observation; what is no business of this queue changes nothing."""
    match event.object:
        case Queue() as queue if queue.metadata.name == key:
            if event.change is Change.GONE:
                return QueueState(counts=state.counts, commands=state.commands)
            return msgspec.structs.replace(state, queue=queue)
        case PodGroup():
            return msgspec.structs.replace(state, counts=_recounted(state.counts, event, key))
        case Command() as command:
            others = tuple(known for known in state.commands if known.metadata.uid != command.metadata.uid)
            if event.change is not Change.GONE:
                others = tuple(sorted((*others, command), key=_age))
            return msgspec.structs.replace(state, commands=others)
        case _:
            return state


def succeeded(state: QueueState, event: EffectSucceeded) -> QueueState:
    """Fold the queue in the response to our own write, if it is newer than what we know."""
    written = event.obj
    if state.queue is None or not isinstance(written, Queue):
        return state
    same = written.metadata.uid == state.queue.metadata.uid
    if same and written.metadata.revision > state.queue.metadata.revision:
        return msgspec.structs.replace(state, queue=written)
    return state


def _recounted(counts: dict[str, int], event: Observed, key: str) -> dict[str, int]:
    """The counts after a PodGroup came, went, or changed phase or queue."""
    before = event.previous if event.change is not Change.APPEARED else None
    if before is None and event.change is Change.GONE:
        before = event.object
    after = None if event.change is Change.GONE else event.object
    result = dict(counts)
    for group, step in ((before, -1), (after, +1)):
        if isinstance(group, PodGroup) and queue_of(group) == key:
            field = COUNTS.get(group.status.phase, "unknown")
            result[field] = result.get(field, 0) + step
    return result


def _age(command: Command) -> tuple[str, int, str]:
    meta = command.metadata
    return (meta.creation_timestamp or "", meta.revision, meta.name)
