"""Nominations: nodes on which preemptors get room once their victims have terminated, kept across cycles.

Until then the room counts as used for all other jobs, the job goes before others, and no more victims are evicted for
it. After a restart, nominations are restored from `status.nominatedNodeName` of pending pods.
"""

from collections.abc import Iterator
from dataclasses import dataclass

from volcanoio.engine.scheduling.cluster.jobs import JobInfo, TaskInfo
from volcanoio.engine.scheduling.cluster.loads import Load
from volcanoio.engine.scheduling.cluster.task_transitions import Ledger
from volcanoio.engine.scheduling.nominations.reservations import Reservation, Reservations
from volcanoio.framework.scheduling.views import TaskStatus

NOMINATIONS_PER_STEP = 64
"""Nominations processed before other work may run."""


@dataclass(slots=True)
class Nomination:
    """Nomination of a task for a node; it expires at `expires_at` (epoch seconds), counted from the last victim's end.

    `victims` are the uids of the pods evicted for the statement, in one set shared by its tasks. None where another
    process evicted: then they are the tasks on the node when a session first reads the nomination.
    """

    task: TaskInfo
    node: str
    victims: set[str] | None
    expires_at: float | None = None


class Nominations:
    """Nominations by task uid."""

    def __init__(self, ledger: Ledger, reservations: Reservations, seconds: float) -> None:
        self._ledger = ledger
        self._reservations = reservations
        self._seconds = seconds
        self.by_task: dict[str, Nomination] = {}
        self.jobs: dict[str, JobInfo] = {}
        """Jobs with nominations while a session is open."""

    def nominate(self, task: TaskInfo, node: str, victims: set[str] | None = None) -> None:
        """Nominate a node for a task."""
        self.by_task[task.uid] = Nomination(task, node, victims)

    def remove(self, task: TaskInfo) -> None:
        """Remove the nomination of a task."""
        self.by_task.pop(task.uid, None)

    def open(self, now: float) -> Iterator[None]:
        """Drop nominations that are fulfilled or expired and reserve the room of the others, in steps."""
        checked: set[int] = set()
        reserved: list[tuple[str, Reservation]] = []
        for number, (uid, nomination) in enumerate(list(self.by_task.items())):
            if number % NOMINATIONS_PER_STEP == NOMINATIONS_PER_STEP - 1:
                self._reservations.add_all(reserved)
                reserved.clear()
                yield
            task, row = nomination.task, self._ledger.columns.rows.get(nomination.node)
            pending = self._ledger.tasks.get(uid) is task and task.status is TaskStatus.PENDING
            if row is None or not pending or task.job_info is None:
                del self.by_task[uid]
                continue
            if nomination.victims is None:
                nomination.victims = set(self._ledger.tasks_by_node.get(nomination.node, ()))
                if not self._can_come_true(task, nomination.node, row):
                    del self.by_task[uid]
                    continue
            if id(nomination.victims) not in checked:
                checked.add(id(nomination.victims))
                nomination.victims -= {victim for victim in nomination.victims if not self._is_terminating(victim)}
            if nomination.expires_at is None or nomination.victims:
                nomination.expires_at = now + self._seconds
            elif now >= nomination.expires_at:
                del self.by_task[uid]
                continue
            self.jobs[task.job_info.key] = task.job_info
            reserved.append((task.job_info.key, Reservation(nomination.node, task.shape, Load.RESERVES)))
        self._reservations.add_all(reserved)

    def _can_come_true(self, task: TaskInfo, node: str, row: int) -> bool:
        """Return whether a nomination by another process can come true.

        The node has or gets room for the task, or preempted pods of lower priority terminate there (Volcano:
        PodEligibleToPreemptOthers).
        """
        room = self._ledger.columns.future_idle
        if all(room(name)[row] >= amount for name, amount in task.shape.requests.items()):
            return True
        return any(
            other.status is TaskStatus.RELEASING and other.priority < task.priority and _was_preempted(other)
            for other in self._ledger.tasks_by_node.get(node, {}).values()
        )

    def _is_terminating(self, uid: str) -> bool:
        return (task := self._ledger.tasks.get(uid)) is not None and task.status is TaskStatus.RELEASING

    def close(self) -> Iterator[None]:
        """Release all reserved room at the end of a session, job by job."""
        while self.jobs:
            job, _ = self.jobs.popitem()
            self._reservations.release_future(job)
            yield

    def nominated_node(self, task: TaskInfo) -> str:
        """Return the nominated node of a task, also that of its status, "" for none."""
        return task.nominated_node if (nomination := self.by_task.get(task.uid)) is None else nomination.node


def _was_preempted(task: TaskInfo) -> bool:
    return any(
        each.type == "DisruptionTarget" and each.status == "True" and each.reason == "PreemptionByScheduler"
        for each in task.pod.status.conditions
    )
