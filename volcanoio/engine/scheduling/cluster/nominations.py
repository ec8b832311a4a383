"""Room kept for a job, which counts as used for all others: reservations, and nominations of preemptors.

A gang whose bind was refused reserves the freed room. A preemptor is nominated for the nodes on which its victims
terminate: until then its job goes before others, and no more victims are evicted for it. Nominations are kept across
cycles; after a restart they are restored from `status.nominatedNodeName` of pending pods. `EvictionRecord` is what is
remembered of the evictions that made the room.
"""

from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from volcanoio.engine.scheduling.cluster.jobs import JobInfo, TaskInfo
from volcanoio.engine.scheduling.cluster.ledger import Ledger
from volcanoio.engine.scheduling.cluster.loads import Load
from volcanoio.engine.scheduling.cluster.node_columns import NodeColumns
from volcanoio.framework.scheduling.views import Shape, TaskStatus

EVICTIONS_KEPT = 2000
"""Most evictions that are remembered."""


class EvictionRecord(NamedTuple):
    """One eviction: the victim, the cycle (at epoch seconds) and action that decided it, and the job that profits.

    `by` is the key of that job, "" where pods are evicted for no other job; `nodes` are those of its nominated pods.
    The priorities are those of the jobs. `refusal` is the API server's message if the eviction was refused.
    """

    pod: str
    uid: str
    job: str
    queue: str
    priority: int
    node: str
    action: str
    cycle: int
    at: float
    by: str = ""
    by_queue: str = ""
    by_priority: int = 0
    nodes: tuple[str, ...] = ()
    refusal: str = ""


class Reservation(NamedTuple):
    """Room for one task of a shape on a node; load RESERVES is for room that is still being released."""

    node: str
    shape: Shape
    load: Load = Load.OCCUPIES


class Reservations:
    """Reservations of all jobs; each counts as used on its node until released."""

    def __init__(self, columns: NodeColumns) -> None:
        self._columns = columns
        self.by_job: dict[str, list[Reservation]] = {}

    def add(self, job: str, reservation: Reservation) -> None:
        """Reserve room for a job; ignored for an unknown node."""
        if (row := self._columns.rows.get(reservation.node)) is not None:
            self._columns.apply(row, reservation.shape, reservation.load, 1)
            self.by_job.setdefault(job, []).append(reservation)

    def add_all(self, reservations: Sequence[tuple[str, Reservation]]) -> None:
        """Add several reservations, each with its job."""
        rows = self._columns.rows
        counts_by_shape: dict[tuple[int, Load], tuple[Shape, dict[int, int]]] = {}
        for job, reservation in reservations:
            if (row := rows.get(reservation.node)) is not None:
                _, counts = counts_by_shape.setdefault(
                    (reservation.shape.base_id, reservation.load), (reservation.shape, {})
                )
                counts[row] = counts.get(row, 0) + 1
                self.by_job.setdefault(job, []).append(reservation)
        for (_, load), (shape, counts) in counts_by_shape.items():
            self._columns.apply_all(counts, shape, load)

    def release(self, job: str) -> list[Reservation]:
        """Release all reservations of a job and return them."""
        released = self.by_job.pop(job, [])
        for reservation in released:
            self._columns.apply(self._columns.rows[reservation.node], reservation.shape, reservation.load, -1)
            if reservation.load is Load.OCCUPIES:
                self._columns.mark_freed(self._columns.rows[reservation.node])
        return released

    def release_future(self, job: str) -> None:
        """Release the reservations of a job for room that is still being released."""
        for reservation in self.release(job):
            if reservation.load is Load.OCCUPIES:
                self.add(job, reservation)

    def reserve_again(self, job: str, released: list[Reservation], count: int) -> None:
        """Add up to `count` of these reservations again where there is still room."""
        for reservation in released:
            row = self._columns.rows.get(reservation.node)
            if count and row is not None and self._fits(row, reservation.shape):
                self.add(job, reservation)
                count -= 1

    def forget_node(self, node: str) -> None:
        """Drop the reservations on a node, before its row is removed."""
        for job in list(self.by_job):
            if remaining := [reservation for reservation in self.by_job[job] if reservation.node != node]:
                self.by_job[job] = remaining
            else:
                del self.by_job[job]

    def _fits(self, row: int, shape: Shape) -> bool:
        columns = self._columns
        return all(
            min(columns.idle(name).item(row), columns.future_idle(name).item(row)) >= amount
            for name, amount in shape.requests.items()
        )


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
    """Nominations by task uid, and the evictions that made room."""

    def __init__(self, ledger: Ledger, reservations: Reservations, seconds: float) -> None:
        self._ledger = ledger
        self._reservations = reservations
        self._seconds = seconds
        self.by_task: dict[str, Nomination] = {}
        self.jobs: dict[str, JobInfo] = {}
        """Jobs with nominations while a session is open."""
        self.evictions: deque[EvictionRecord] = deque(maxlen=EVICTIONS_KEPT)
        """The last evictions, the newest last."""

    def nominate(self, task: TaskInfo, node: str, victims: set[str] | None = None) -> None:
        """Nominate a node for a task."""
        self.by_task[task.uid] = Nomination(task, node, victims)

    def record_refusal(self, uid: str, why: str) -> None:
        """Record that the last eviction of a pod was refused."""
        for at in range(len(self.evictions) - 1, -1, -1):
            if self.evictions[at].uid == uid:
                self.evictions[at] = self.evictions[at]._replace(refusal=why)
                return

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
