"""Fold of pods into tasks.

A task stays Binding until its own watch event contains nodeName; an event without nodeName never ends Binding.
Terminating pods count on their node until they are deleted.
"""

from typing import NamedTuple

from volcanoio.engine.scheduling.cluster.jobs import TaskInfo
from volcanoio.engine.scheduling.cluster.ledger import Ledger
from volcanoio.engine.scheduling.cluster.nominations import Nominations
from volcanoio.engine.scheduling.cluster.pod_fields import claim_names, job_key, observed_status, single_key
from volcanoio.engine.scheduling.cluster.queue_gates import QueueGates
from volcanoio.engine.scheduling.podindex.terms import has_terms
from volcanoio.framework.scheduling.views import TaskStatus
from volcanoio.model.core import Pod
from volcanoio.model.names import GROUP_NAME


class SinglePodSchedulers(NamedTuple):
    """Schedulers whose pods become jobs of one pod; those of `agents` among them are latency-bound."""

    names: frozenset[str]
    agents: frozenset[str]


class PodFold:
    """Folds pods into the ledger; pods of `single_pod_schedulers` become jobs of one pod."""

    def __init__(
        self,
        ledger: Ledger,
        nominations: Nominations,
        queue_gates: QueueGates,
        scheduler_names: frozenset[str],
        single_pod_schedulers: SinglePodSchedulers,
    ) -> None:
        self._ledger = ledger
        self._nominations = nominations
        self._queue_gates = queue_gates
        self._scheduler_names = scheduler_names
        self._single_pod_schedulers = single_pod_schedulers
        self.arrived_agent_pods: set[str] = set()
        """Keys of the jobs of latency-bound pods that a cycle tries before all other work."""
        self.evicting: set[str] = set()
        """Uids of pods that we evicted and whose object does not show it yet."""
        self.tasks_with_condition: dict[str, TaskInfo] = {}
        """Tasks for which a condition was written, by `namespace/name`."""

    def observe(self, pod: Pod) -> bool:
        """Add or update a pod; return whether that could alter a decision."""
        if (task := self._ledger.tasks.get(pod.metadata.uid)) is None:
            return self._add(pod)
        if pod.metadata.revision < task.pod.metadata.revision:
            return False
        if pod.metadata.annotations.get(GROUP_NAME) != task.pod.metadata.annotations.get(GROUP_NAME):
            self._change_group(task, pod)
        changed = self._ledger.update_pod(task, pod)
        if self._queue_gates.is_enabled:
            self._queue_gates.observe(task)
        status, node = self._next_state(task, pod)
        if status is task.status and node == task.node:
            return changed
        if status is TaskStatus.BOUND:
            task.bind_refusals, task.retry_at, task.bind_refusal, task.last_refusal = 0, 0.0, "", ""
        could_affect = self._can_affect_decisions(task)
        if status is not TaskStatus.PENDING:
            self.arrived_agent_pods.discard(task.job)
        self._ledger.transition(task, status, node)
        return changed or could_affect or self._can_affect_decisions(task)

    def can_join_cycle(self, pod: Pod) -> bool:
        """Return whether a new latency-bound pod may be folded while a cycle is open.

        It must change nothing that the cycle has read: it has no gates, no claims and no terms about other pods, and is
        not the first pod with its spec, so that no shape and no resource is new.
        """
        spec, ledger = pod.spec, self._ledger
        if spec.node_name or spec.scheduler_name not in self._single_pod_schedulers.agents:
            return False
        if spec.scheduling_gates or claim_names(pod) or pod.metadata.uid in ledger.tasks:
            return False
        shape = ledger.shapes.existing(pod)
        return shape is not None and not shape.has_device_claims and not has_terms(pod, shape)

    def retry_agent_pod(self, task: TaskInfo) -> None:
        """Have a pending pod tried before all other work once it is due, if it is latency-bound."""
        job = task.job_info
        if job is not None and job.is_single_pod and task.pod.spec.scheduler_name in self._single_pod_schedulers.agents:
            self.arrived_agent_pods.add(job.key)

    def _can_affect_decisions(self, task: TaskInfo) -> bool:
        """Return whether a change of a task can alter a decision: it is ours, uses claims, or is on a node of ours."""
        return bool(task.job or task.claim_names) or task.node in self._ledger.columns.rows

    def remove(self, pod: Pod) -> bool:
        """Remove a pod; return whether that could alter a decision."""
        self.evicting.discard(pod.metadata.uid)
        if (task := self._ledger.tasks.get(pod.metadata.uid)) is None:
            return False
        if self.tasks_with_condition.get(pod.metadata.key) is task:
            del self.tasks_with_condition[pod.metadata.key]
        affects = self._can_affect_decisions(task)
        self.arrived_agent_pods.discard(task.job)
        self._ledger.remove_task(task)
        self._queue_gates.remove(task)
        return affects

    def eviction_refused(self, uid: str) -> bool:
        """Restore the status of a pod whose eviction was refused."""
        if (task := self._ledger.tasks.get(uid)) is None or uid not in self.evicting:
            return False
        self.evicting.discard(uid)
        self._ledger.transition(task, observed_status(task.pod), task.pod.spec.node_name)
        return True

    def condition_failed(self, key: str) -> None:
        """Forget the condition of a pod whose write failed, so that it is written again."""
        if (task := self.tasks_with_condition.get(key)) is not None:
            task.condition = None
            if task.job_info is not None:
                self._ledger.note_missing_group(task.job_info)

    def _add(self, pod: Pod) -> bool:
        node, scheduler, job = pod.spec.node_name, pod.spec.scheduler_name, ""
        if scheduler in self._scheduler_names:
            job = job_key(pod)
        elif not node:
            if scheduler not in self._single_pod_schedulers.names:
                return False
            job = single_key(pod)
        task = TaskInfo(pod, self._ledger.shapes.of(pod), job)
        self._ledger.add_task(task, observed_status(pod), node)
        self.retry_agent_pod(task)
        if task.nominated_node and task.status is TaskStatus.PENDING:  # nominated by an earlier process
            self._nominations.nominate(task, task.nominated_node)
        if self._queue_gates.is_enabled:
            self._queue_gates.observe(task)
        return self._can_affect_decisions(task)

    def _change_group(self, task: TaskInfo, pod: Pod) -> None:
        """Move a pod to another PodGroup; most pods get their PodGroup after creation."""
        if pod.spec.scheduler_name not in self._scheduler_names:
            return
        self._ledger.remove_task(task)
        task.job, task.job_info = job_key(pod), None
        self._ledger.add_task(task, task.status, task.node)

    def _next_state(self, task: TaskInfo, pod: Pod) -> tuple[TaskStatus, str]:
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
