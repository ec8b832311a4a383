"""Quota that queues reserve for tasks whose scheduling gate was removed and that have no node yet."""

from collections.abc import Iterator

from volcanoio.engine.scheduling.cluster.jobs import JobInfo
from volcanoio.engine.scheduling.session.context import SessionContext
from volcanoio.framework.scheduling.views import Shape

_GATES_PER_STEP = 64
"""Gates opened between two points where other work may run."""
_OWNER = "queue gates"


class QuotaReservations:
    """Quota reserved in a session for tasks without gate; a discarded statement restores what it consumed."""

    def __init__(self, session: SessionContext) -> None:
        self._session = session
        self._gates = session.state.queue_gates
        self._counts = session.tables.get(_OWNER, "reserved")

    def open(self) -> None:
        """Notify plugins of the reservations of earlier cycles."""
        for task in self._gates.reserved_tasks():
            if task.job_info is not None and task.job_info.queue_info is not None:
                self._add(task.job_info, task.shape, 1)

    def open_queue_gates(self, job: JobInfo) -> Iterator[None]:
        """Remove the gates of a job's tasks in order, as many as its queue may allocate."""
        session = self._session
        if not job.gated_count or job.queue_info is None or not session.job_valid(job):
            return
        waiting = [task for task in job.pending.values() if self._gates.waits_for_queue(task)]
        waiting.sort(key=lambda task: (session.rules.task_key(task), task.key))
        for at, task in enumerate(waiting):
            if session.rules.allocatable(job.queue_info, task.shape, 1):
                session.outbox.put(self._gates.open_gate(task))
                self._add(job, task.shape, 1)
            if at % _GATES_PER_STEP == _GATES_PER_STEP - 1:
                yield

    def allocatable(self, job: JobInfo, shape: Shape, count: int) -> int:
        """Return how many of `count` tasks the job's queue may allocate, their own reservations included."""
        assert job.queue_info is not None
        if own := min(self._counts.get(_kind(job, shape)), count):
            self._add(job, shape, -own)
        allowed = self._session.rules.allocatable(job.queue_info, shape, count)
        if own:
            self._add(job, shape, own)
        return allowed

    def consume(self, job: JobInfo, shape: Shape, count: int) -> None:
        """Reduce the reservations of a job by tasks that were allocated."""
        if own := min(self._counts.get(_kind(job, shape)), count):
            self._add(job, shape, -own)

    def _add(self, job: JobInfo, shape: Shape, count: int) -> None:
        self._counts.add(_kind(job, shape), count)
        for notify in self._session.rules.reservation_accounting:
            notify(job, shape, count)


def _kind(job: JobInfo, shape: Shape) -> str:
    """Return the key of a reservation: tasks of a job with equal requests share one."""
    return f"{job.key} {sorted(shape.requests.items())}"
