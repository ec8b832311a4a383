"""Scheduling gate of queue admission (Volcano's feature SchedulingGatesQueueAdmission).

A pod with annotation `scheduling.volcano.sh/queue-allocation-gate: "true"` and the scheduling gate of that name as its
only gate waits for quota of its queue, so that cluster autoscalers do not treat it as unschedulable. Action allocate
removes the gate once the queue has room for the pod, and places the pod in a later cycle. Until then the queue reserves
that room. Pods with a reservation are recognised by their annotation without gate and node, also after a restart.
"""

from volcanoio.engine.scheduling.cluster.jobs import TaskInfo
from volcanoio.framework.effects import Patch
from volcanoio.framework.scheduling.views import TaskStatus
from volcanoio.model import kinds
from volcanoio.model.names import QUEUE_ALLOCATION_GATE


class QueueGates:
    """Tasks whose gate was removed and that have no node yet, across cycles."""

    def __init__(self, *, enabled: bool) -> None:
        self.is_enabled = enabled
        self._opened: dict[str, TaskInfo] = {}
        """Tasks without gate, by uid."""
        self._patched: dict[str, TaskInfo] = {}
        """Tasks whose gate was removed by a patch that is not observed yet, by `namespace/name`."""

    def observe(self, task: TaskInfo) -> None:
        """Add or update a task."""
        if task.is_gated or task.status is not TaskStatus.PENDING or not _annotated(task):
            return
        self._patched.pop(_key(task), None)
        self._opened[task.uid] = task

    def remove(self, task: TaskInfo) -> None:
        """Remove a task."""
        self._patched.pop(_key(task), None)
        self._opened.pop(task.uid, None)

    def patch_failed(self, key: str, code: int) -> bool:
        """Forget the failed patch of a pod; return whether to retry at once."""
        return self._patched.pop(key, None) is not None and code == 409

    def waits_for_queue(self, task: TaskInfo) -> bool:
        """Return whether a task waits only for quota of its queue."""
        return (
            task.is_gated
            and _annotated(task)
            and all(gate.name == QUEUE_ALLOCATION_GATE for gate in task.pod.spec.scheduling_gates)
            and _key(task) not in self._patched
        )

    def open_gate(self, task: TaskInfo) -> Patch:
        """Return the patch that removes a task's gate; it fails if the pod has changed."""
        self._patched[_key(task)] = task
        return Patch.of(kinds.POD.resource, task.pod, {"spec": {"schedulingGates": None}}, at_version=True)

    def reserved_tasks(self) -> list[TaskInfo]:
        """Return the tasks for which quota is reserved."""
        for task in [task for task in self._opened.values() if task.pod.spec.node_name]:
            del self._opened[task.uid]
        return [task for task in (*self._patched.values(), *self._opened.values()) if task.status is TaskStatus.PENDING]


def _annotated(task: TaskInfo) -> bool:
    return task.pod.metadata.annotations.get(QUEUE_ALLOCATION_GATE) == "true"


def _key(task: TaskInfo) -> str:
    return f"{task.namespace}/{task.name}"
