"""The fold of pods into tasks.

A task is Binding until its own watch event says nodeName; a pod seen without nodeName never leads it out of Binding.
Terminating pods count on their node until they are gone.
"""

from __future__ import annotations

from volcanoio.engine.scheduling.claims import Claims
from volcanoio.engine.scheduling.ledger import Ledger
from volcanoio.engine.scheduling.queuegates import QueueGates
from volcanoio.engine.scheduling.tasks import TaskInfo, job_key, observed_status, single_key
from volcanoio.framework.scheduling.views import TaskStatus
from volcanoio.model.core import Pod
from volcanoio.model.names import GROUP_NAME


class PodFold:
    """Takes pods into the ledger. Those of `single_names` are bound without gang, each a job by itself."""

    def __init__(
        self,
        ledger: Ledger,
        claims: Claims,
        queue_gates: QueueGates,
        scheduler_names: frozenset[str],
        single_names: frozenset[str],
    ) -> None:
        self._ledger = ledger
        self._claims = claims
        self._queue_gates = queue_gates
        self._scheduler_names = scheduler_names
        self._single_names = single_names
        self.evicting: set[str] = set()
        """Uids of pods whose eviction we asked for and whose object does not show it yet."""
        self.told: dict[str, TaskInfo] = {}
        """Tasks for which a condition was written, by `namespace/name`."""

    def observe(self, pod: Pod) -> bool:
        """A pod appeared or changed; whether that could alter a decision."""
        task = self._ledger.tasks.get(pod.metadata.uid)
        if task is None:
            return self._appear(pod)
        if pod.metadata.revision < task.pod.metadata.revision:
            return False
        if pod.metadata.annotations.get(GROUP_NAME) != task.pod.metadata.annotations.get(GROUP_NAME):
            self._regroup(task, pod)
        changed = self._ledger.respecify(task, pod)
        if self._queue_gates.enabled:
            self._queue_gates.observe(task)
        status, node = self._next(task, pod)
        if status is task.status and node == task.node:
            return changed
        if status is TaskStatus.BOUND:
            task.refusals, task.retry_at, task.refusal = 0, 0.0, ""
        self._ledger.move(task, status, node)
        return True

    def gone(self, pod: Pod) -> bool:
        """A pod is gone."""
        self.evicting.discard(pod.metadata.uid)
        task = self._ledger.tasks.get(pod.metadata.uid)
        if task is None:
            return False
        if self.told.get(pod.metadata.key) is task:
            del self.told[pod.metadata.key]
        self._ledger.remove(task)
        self._queue_gates.gone(task)
        return True

    def unevict(self, uid: str) -> bool:
        """The eviction was refused: the task is what its pod says."""
        task = self._ledger.tasks.get(uid)
        if task is None or uid not in self.evicting:
            return False
        self.evicting.discard(uid)
        self._ledger.move(task, observed_status(task.pod), task.pod.spec.node_name)
        return True

    def condition_failed(self, key: str) -> None:
        """A pod's condition could not be written: it is written again when it still applies."""
        task = self.told.get(key)
        if task is not None:
            task.condition = None
            if task.owner is not None:
                self._ledger.astray(task.owner)

    def _appear(self, pod: Pod) -> bool:
        node, scheduler, job = pod.spec.node_name, pod.spec.scheduler_name, ""
        if scheduler in self._scheduler_names:
            job = job_key(pod)
        elif not node:
            if scheduler not in self._single_names:
                return False
            job = single_key(pod)
        task = TaskInfo(pod, self._ledger.shapes.of(pod), job)
        self._ledger.add(task, observed_status(pod), node)
        if task.nominated and task.status is TaskStatus.PENDING:  # what a process before us promised it
            self._claims.make(task, task.nominated)
        if self._queue_gates.enabled:
            self._queue_gates.observe(task)
        return True

    def _regroup(self, task: TaskInfo, pod: Pod) -> None:
        """A pod is in a PodGroup from now on, or in another: most are told after they were made."""
        if pod.spec.scheduler_name not in self._scheduler_names:
            return
        self._ledger.remove(task)
        task.job, task.owner = job_key(pod), None
        self._ledger.add(task, task.status, task.node)

    def _next(self, task: TaskInfo, pod: Pod) -> tuple[TaskStatus, str]:
        """The status and node a known task has from now on."""
        status, node = observed_status(pod), pod.spec.node_name
        if not node and task.status is TaskStatus.BINDING:
            if status is TaskStatus.PENDING:
                return TaskStatus.BINDING, task.node
            node = task.node
        elif not node and task.status is TaskStatus.RELEASING:
            node = task.node
        if pod.metadata.uid in self.evicting:
            if status in (TaskStatus.BOUND, TaskStatus.RUNNING):
                return TaskStatus.RELEASING, node
            self.evicting.discard(pod.metadata.uid)
        return status, node
