"""The state of the queue model from a session of the scheduler: what runs where, what waits, and in which order."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np

from volcanoio.engine.estimates.queue_model import QueueModel, QueueShare, RunningGroup, WaitingGroup
from volcanoio.engine.estimates.run_times import Floats, RunTime, age_of
from volcanoio.engine.scheduling.cluster.jobs import JobInfo, TaskInfo
from volcanoio.engine.scheduling.cluster.loads import Quantity
from volcanoio.engine.scheduling.session.session import CycleSession
from volcanoio.framework.scheduling.views import Shape, TaskStatus
from volcanoio.model.scheduling import PodGroupPhase
from volcanoio.model.times import epoch_or_none

_ON_NODES = (TaskStatus.RUNNING, TaskStatus.BOUND, TaskStatus.BINDING, TaskStatus.ALLOCATED, TaskStatus.RELEASING)
_BEFORE_PODS = ("", PodGroupPhase.PENDING, PodGroupPhase.INQUEUE)
RunTimeOf = Callable[[JobInfo], RunTime]


@dataclass(frozen=True, slots=True)
class Observation:
    """A queue model, the jobs that wait in it, in the order of its groups, and the names of its rows and columns."""

    model: QueueModel
    jobs: tuple[str, ...]
    resources: tuple[str, ...]
    nodes: tuple[str, ...]


def observe(session: CycleSession, run_time_of: RunTimeOf) -> Observation:
    """Return the state of a session that has closed and is not undone yet: what it placed runs, the rest waits."""
    return _Reader(session, run_time_of).read()


class _Reader:
    def __init__(self, session: CycleSession, run_time_of: RunTimeOf) -> None:
        self._session = session
        self._run_time_of = run_time_of
        self._columns = session.state.ledger.columns
        self._resources = tuple(self._columns.resources)

    def read(self) -> Observation:
        ledger, size = self._session.state.ledger, len(self._columns)
        rows = [self._columns.resource(name) for name in self._resources]
        free = self._columns.block[Quantity.IDLE][rows][:, :size].astype(np.float64)
        jobs = list(ledger.jobs.values())
        running = [group for job in jobs for group in self._running(job)]
        waiting = [job for job in jobs if job.has_group and job.schedulable and self._waits(job)]
        ordered = sorted(waiting, key=self._session.job_key)
        groups = [self._waiting(job, place) for place, job in enumerate(ordered)]
        total = self._columns.block[Quantity.ALLOCATABLE][rows][:, :size].sum(axis=1).astype(np.float64)
        model = QueueModel(free=np.maximum(free, 0), running=running, waiting=groups, queues=self._queues(total))
        return Observation(model, tuple(job.key for job in ordered), self._resources, tuple(self._columns.names[:size]))

    def _waits(self, job: JobInfo) -> bool:
        """Return whether pods of a job are pending that may be scheduled, or do not exist yet."""
        pending, queue = self._pending(job), job.queue_info
        if queue is not None and not queue.is_open:  # most plugins of queues then allocate nothing more
            return bool(pending) and self._session.rules.allocatable(queue, pending[0].shape, 1) > 0
        if pending:
            return True
        return not job.members and bool(job.min_resources) and job.phase in _BEFORE_PODS

    def _pending(self, job: JobInfo) -> list[TaskInfo]:
        """Return the pending pods of a job without those that wait until another program removes a gate."""
        gates = self._session.state.queue_gates
        tasks = job.pending.values()
        return [task for task in tasks if not task.is_gated or (gates.is_enabled and gates.waits_for_queue(task))]

    def _amounts(self, shape: Shape) -> Floats:
        return self._vector(shape.requests)

    def _vector(self, amounts: Mapping[str, int] | None) -> Floats:
        return np.array([(amounts or {}).get(name, 0) for name in self._resources], np.float64)

    def _running(self, job: JobInfo) -> list[RunningGroup]:
        """Return the pods of a job on nodes, one group for each shape."""
        by_shape: dict[int, list[TaskInfo]] = {}
        for task in job.members.values():
            if task.status in _ON_NODES and task.node in self._columns.rows:
                by_shape.setdefault(task.shape.id, []).append(task)
        seconds = self._run_time_of(job).seconds if by_shape else np.zeros(0)
        return [
            RunningGroup(
                queue=job.queue,
                request=self._amounts(tasks[0].shape),
                rows=np.array([self._columns.rows[task.node] for task in tasks], np.intp),
                ages=age_of(np.array([self._started(task) for task in tasks]), self._session.now),
                seconds=seconds,
            )
            for tasks in by_shape.values()
        ]

    def _started(self, task: TaskInfo) -> float:
        """Return when a pod started, now if it has not."""
        return epoch_or_none(task.pod.status.start_time) or self._session.now

    def _waiting(self, job: JobInfo, place: int) -> WaitingGroup:
        """Return the pending pods of a job; those of several shapes count as the largest one of each resource."""
        tasks = self._pending(job)
        shapes = {task.shape.id: task.shape for task in tasks}
        if tasks:
            request = np.max([self._amounts(shape) for shape in shapes.values()], axis=0)
        else:  # its pods do not exist yet
            request = self._vector(job.min_resources) / max(job.min_available, 1)
        return WaitingGroup(
            key=job.key,
            queue=job.queue,
            request=request,
            minimum=max(job.min_available - job.ready_count, 0),
            pods=len(tasks) or max(job.min_available, 1),
            seconds=self._run_time_of(job).seconds,
            rank=(float(place),),
            nodes=self._possible(tasks[0].shape) if tasks else None,
        )

    def _possible(self, shape: Shape) -> np.ndarray | None:
        """Return the nodes that no filter excludes, room aside; None for all."""
        possible = np.ones(len(self._columns), np.bool_)
        for _, excluded in self._session.state.placer.rejections(shape):
            possible &= ~excluded
        return None if possible.all() else possible

    def _queues(self, total: Floats) -> dict[str, QueueShare]:
        found = self._session.state.ledger.existing_queues
        weights = sum(max(queue.weight, 1) for queue in found.values()) or 1
        return {
            name: QueueShare(
                deserved=self._vector(queue.deserved) if queue.deserved else total * max(queue.weight, 1) / weights,
                capability=np.array([queue.capability.get(each, np.inf) for each in self._resources]),
                allocated=self._vector(queue.allocated),
            )
            for name, queue in found.items()
        }
