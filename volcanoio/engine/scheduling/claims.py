"""Claims: room that preemptors are about to get, kept for them across cycles while their victims terminate.

A placement that evictions pay for cannot be carried out at once. Until it is, its room counts as reserved for whoever
else looks at the node, its job goes before others, and no more victims are taken for it. What survives a restart is
the pod's `status.nominatedNodeName`: a pending pod that has one claims that node.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from volcanoio.engine.scheduling.holds import Hold, Holds
from volcanoio.engine.scheduling.jobs import JobInfo
from volcanoio.engine.scheduling.ledger import Ledger
from volcanoio.engine.scheduling.loads import Load
from volcanoio.engine.scheduling.tasks import TaskInfo
from volcanoio.framework.scheduling.views import TaskStatus

CHUNK = 64
"""How many claims are looked at in one step."""


@dataclass(slots=True)
class Claim:
    """One task's claim on a node. `until` (epoch seconds) it lasts after the last of its victims is gone.

    `victims` are the uids of those that were evicted for it and the others of its statement, which share the set. None
    where another process evicted: then they are those that terminate on the node when a session first sees the claim.
    """

    task: TaskInfo
    node: str
    victims: set[str] | None
    until: float | None = None


class Claims:
    """The claims by the task's uid."""

    def __init__(self, ledger: Ledger, holds: Holds, seconds: float) -> None:
        self._ledger = ledger
        self._holds = holds
        self._seconds = seconds
        self.by_task: dict[str, Claim] = {}
        self.jobs: dict[str, JobInfo] = {}
        """The jobs that have claims, while a session is open."""

    def make(self, task: TaskInfo, node: str, victims: set[str] | None = None) -> None:
        """A task is to have room on a node, once its victims are gone."""
        self.by_task[task.uid] = Claim(task, node, victims)

    def drop(self, task: TaskInfo) -> None:
        """The task has no claim any more."""
        self.by_task.pop(task.uid, None)

    def open(self, now: float) -> Iterator[None]:
        """A session opens: forget claims that are settled or over, reserve the room of the others, some at a time."""
        looked_at: set[int] = set()
        kept: list[tuple[str, Hold]] = []
        for number, (uid, claim) in enumerate(list(self.by_task.items())):
            if number % CHUNK == CHUNK - 1:
                self._holds.add_all(kept)
                kept.clear()
                yield
            task, row = claim.task, self._ledger.columns.rows.get(claim.node)
            pending = self._ledger.tasks.get(uid) is task and task.status is TaskStatus.PENDING
            if row is None or not pending or task.owner is None:
                del self.by_task[uid]
                continue
            if claim.victims is None:
                claim.victims = set(self._ledger.on_node.get(claim.node, ()))
                if not self._holds_good(task, claim.node, row):
                    del self.by_task[uid]
                    continue
            if id(claim.victims) not in looked_at:
                looked_at.add(id(claim.victims))
                claim.victims -= {victim for victim in claim.victims if not self._terminates(victim)}
            if claim.until is None or claim.victims:
                claim.until = now + self._seconds
            elif now >= claim.until:
                del self.by_task[uid]
                continue
            self.jobs[task.owner.key] = task.owner
            kept.append((task.owner.key, Hold(claim.node, task.shape, Load.RESERVES)))
        self._holds.add_all(kept)

    def _holds_good(self, task: TaskInfo, node: str, row: int) -> bool:
        """Whether what another process promised can come true: the node has or gets room for the task, or pods of lower
        priority end there as they were preempted (Volcano: PodEligibleToPreemptOthers).
        """
        room = self._ledger.columns.future_idle
        if all(room(name)[row] >= amount for name, amount in task.shape.requests.items()):
            return True
        return any(
            other.status is TaskStatus.RELEASING and other.priority < task.priority and _preempted(other)
            for other in self._ledger.on_node.get(node, {}).values()
        )

    def _terminates(self, uid: str) -> bool:
        task = self._ledger.tasks.get(uid)
        return task is not None and task.status is TaskStatus.RELEASING

    def close(self) -> Iterator[None]:
        """The session is over: nothing is reserved on the columns between sessions. Job by job."""
        while self.jobs:
            job, _ = self.jobs.popitem()
            self._holds.lift_reservations(job)
            yield

    def node_of(self, task: TaskInfo) -> str:
        """The node a task claims, else the one its pod is nominated for, "" when there is none."""
        claim = self.by_task.get(task.uid)
        return task.nominated if claim is None else claim.node


def _preempted(task: TaskInfo) -> bool:
    """Whether a pod ends because a scheduler preempted it."""
    return any(
        each.type == "DisruptionTarget" and each.status == "True" and each.reason == "PreemptionByScheduler"
        for each in task.pod.status.conditions
    )
