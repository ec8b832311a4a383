"""The scheduling gate of queue admission (Volcano's feature SchedulingGatesQueueAdmission).

A pod whose only scheduling gate is `scheduling.volcano.sh/queue-allocation-gate`, and whose annotation of that name is
"true", waits for its queue alone, so that autoscalers do not take it for one that lacks nodes. Action allocate opens
the gate once the queue may take the pod, and places it in a later cycle. Until then the queue keeps that room for it:
which pods have it is read from the pods (annotated, without gates, without node), also by a scheduler that starts anew.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from volcanoio.engine.scheduling.jobs import JobInfo
from volcanoio.engine.scheduling.tasks import TaskInfo
from volcanoio.framework.effects import Patch
from volcanoio.framework.scheduling.views import Shape, TaskStatus
from volcanoio.model import kinds
from volcanoio.model.names import QUEUE_ALLOCATION_GATE

if TYPE_CHECKING:
    from volcanoio.engine.scheduling.session import CycleSession

_BETWEEN = 64
"""Gates opened in one go."""
_OWNER = "queue gates"


class QueueGates:
    """Which tasks have their gate opened and no node yet, over cycles; nothing where the feature is off."""

    def __init__(self, *, enabled: bool) -> None:
        self.enabled = enabled
        self._opened: dict[str, TaskInfo] = {}
        """By uid, those without gate."""
        self._asked: dict[str, TaskInfo] = {}
        """By `namespace/name`, those whose gate was taken away by a patch that was not seen yet."""

    def observe(self, task: TaskInfo) -> None:
        """A task appeared, or its pod changed."""
        if task.gated or task.status is not TaskStatus.PENDING or not _annotated(task):
            return
        self._asked.pop(_key(task), None)
        self._opened[task.uid] = task

    def gone(self, task: TaskInfo) -> None:
        """A task is gone."""
        self._asked.pop(_key(task), None)
        self._opened.pop(task.uid, None)

    def failed(self, key: str, code: int) -> bool:
        """The patch of a pod failed, so that its gate may be opened again; whether that is worth trying at once."""
        return self._asked.pop(key, None) is not None and code == 409

    def waits(self, task: TaskInfo) -> bool:
        """Whether a task waits for its queue alone."""
        return (
            task.gated
            and _annotated(task)
            and all(gate.name == QUEUE_ALLOCATION_GATE for gate in task.pod.spec.scheduling_gates)
            and _key(task) not in self._asked
        )

    def ask(self, task: TaskInfo) -> Patch:
        """The patch that takes a task's gate away; it fails where the pod is another by then."""
        self._asked[_key(task)] = task
        return Patch(
            resource=kinds.POD.resource,
            namespace=task.namespace,
            name=task.name,
            uid=task.uid,
            resource_version=task.pod.metadata.resource_version,
            patch={"spec": {"schedulingGates": None}},
        )

    def promised(self) -> list[TaskInfo]:
        """The tasks for which room is kept."""
        for task in [task for task in self._opened.values() if task.pod.spec.node_name]:
            del self._opened[task.uid]
        return [task for task in (*self._asked.values(), *self._opened.values()) if task.status is TaskStatus.PENDING]


class Promises:
    """The room that queues keep within a session for tasks whose gates are open; a discard gives back what was used."""

    def __init__(self, session: CycleSession) -> None:
        self._session = session
        self._gates = session.state.queue_gates
        self._counts = session.tables.get(_OWNER, "promised")

    def open(self) -> None:
        """Tell plugins of promises of earlier cycles."""
        for task in self._gates.promised():
            if task.owner is not None and task.owner.queue_info is not None:
                self._add(task.owner, task.shape, 1)

    def let_in(self, job: JobInfo) -> Iterator[None]:
        """Open the gates of a job's tasks, in their order, as far as its queue may take them."""
        session = self._session
        if not job.gated_count or job.queue_info is None or not session.job_valid(job):
            return
        waiting = [task for task in job.waiting.values() if self._gates.waits(task)]
        waiting.sort(key=lambda task: (session.rules.task_key(task), task.key))
        for at, task in enumerate(waiting):
            if session.rules.allocatable(job.queue_info, task.shape, 1):
                session.outbox.put(self._gates.ask(task))
                self._add(job, task.shape, 1)
            if at % _BETWEEN == _BETWEEN - 1:
                yield

    def allocatable(self, job: JobInfo, shape: Shape, count: int) -> int:
        """How many of `count` tasks the job's queue may take, the room that is kept for these being theirs."""
        assert job.queue_info is not None
        own = min(self._counts.get(_kind(job, shape)), count)
        if own:
            self._add(job, shape, -own)
        allowed = self._session.rules.allocatable(job.queue_info, shape, count)
        if own:
            self._add(job, shape, own)
        return allowed

    def used(self, job: JobInfo, shape: Shape, count: int) -> None:
        """Tasks of a job were placed."""
        if own := min(self._counts.get(_kind(job, shape)), count):
            self._add(job, shape, -own)

    def _add(self, job: JobInfo, shape: Shape, count: int) -> None:
        self._counts.add(_kind(job, shape), count)
        for tell in self._session.rules.promising:
            tell(job, shape, count)


def _kind(job: JobInfo, shape: Shape) -> str:
    """Tasks of a job that ask for the same amounts stand for each other."""
    return f"{job.key} {sorted(shape.requests.items())}"


def _annotated(task: TaskInfo) -> bool:
    return task.pod.metadata.annotations.get(QUEUE_ALLOCATION_GATE) == "true"


def _key(task: TaskInfo) -> str:
    return f"{task.namespace}/{task.name}"
