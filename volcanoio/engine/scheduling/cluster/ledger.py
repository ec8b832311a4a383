"""Ledger of task transitions: the only place where a task changes its status or node.

Each transition updates the job, its queue, the node columns, the pod index and the volumes at once, so that they always
agree. `JobChanges` records which jobs changed since the last call of each reader.
"""

import weakref
from collections.abc import Iterable, Mapping, Sequence

from volcanoio.engine.scheduling.claims.device_claims import DeviceClaims
from volcanoio.engine.scheduling.claims.volumes import VolumeIndex
from volcanoio.engine.scheduling.cluster.attempts import QUEUE_NOT_FOUND
from volcanoio.engine.scheduling.cluster.inputs import Inputs
from volcanoio.engine.scheduling.cluster.jobs import EVICTABLE, NO_ANNOTATIONS, JobInfo, TaskInfo
from volcanoio.engine.scheduling.cluster.loads import LOADS, Load
from volcanoio.engine.scheduling.cluster.node_columns import NodeColumns
from volcanoio.engine.scheduling.cluster.queues import QueueInfo
from volcanoio.engine.scheduling.cluster.shapes import Shapes, may_request
from volcanoio.engine.scheduling.podindex.index import PodIndex
from volcanoio.engine.scheduling.topology.tree import HyperNodeCache
from volcanoio.framework.scheduling.views import TaskStatus
from volcanoio.model.core import Node, Pod
from volcanoio.model.resources import add_nonzero
from volcanoio.model.scheduling import PodGroupPhase

MAX_PENDING_CHANGES = 20_000
"""Changes kept for a reader beyond the initial ones; a reader further behind starts with all jobs."""


_UNSEEN = frozenset({TaskStatus.ALLOCATED, TaskStatus.PIPELINED, TaskStatus.BINDING})
"""Statuses of tasks whose pods do not show their node and annotations yet."""


class _Reader:
    """Changed jobs that one reader has not read yet; dropped when there are more than `limit`."""

    __slots__ = ("changed", "limit", "remaining")

    def __init__(self, everything: Mapping[str, JobInfo]) -> None:
        self.changed = dict(everything)
        self.remaining: list[JobInfo] = []
        """Jobs to return before `changed`, in reverse order."""
        self.limit = MAX_PENDING_CHANGES + len(everything)

    def take(self, limit: int | None) -> list[JobInfo]:
        """Return and remove up to this many jobs, all for None."""
        remaining = self.remaining
        if limit is None:
            limit = len(remaining) + len(self.changed)
        taken: list[JobInfo] = []
        while len(taken) < limit:
            if not remaining:
                if not self.changed:
                    break
                remaining.extend(self.changed.values())
                remaining.reverse()
                self.changed.clear()
            at = max(len(remaining) - limit + len(taken), 0)
            taken += remaining[: at - 1 : -1] if at else remaining[::-1]
            del remaining[at:]
        return taken


class JobChanges:
    """Sets of changed jobs, one for each reader; dropped together with the reader."""

    def __init__(self) -> None:
        self._readers: list[_Reader] = []
        self._by_owner: weakref.WeakKeyDictionary[object, _Reader] = weakref.WeakKeyDictionary()

    def mark(self, job: JobInfo) -> None:
        """Record that a job was created, changed or deleted."""
        key = job.key
        for reader in self._readers:
            changed = reader.changed
            changed[key] = job
            if len(changed) > reader.limit:
                self._forget(reader)

    def since(self, owner: object, everything: Mapping[str, JobInfo], limit: int | None = None) -> list[JobInfo]:
        """Return up to `limit` jobs that changed since the owner's last call; at its first call all jobs."""
        if (reader := self._by_owner.get(owner)) is None:
            reader = self._by_owner[owner] = _Reader(everything)
            self._readers.append(reader)
            weakref.finalize(owner, self._forget, reader)
        return reader.take(limit)

    def _forget(self, reader: _Reader) -> None:
        self._readers = [one for one in self._readers if one is not reader]
        for owner, its_reader in list(self._by_owner.items()):
            if its_reader is reader:
                del self._by_owner[owner]


class Ledger:
    """Nodes, tasks, jobs and queues with totals that are kept incrementally."""

    def __init__(self) -> None:
        self.columns = NodeColumns()
        self.shapes = Shapes()
        self.tasks: dict[str, TaskInfo] = {}
        self.pod_index = PodIndex(self.shapes, self.tasks)
        self.inputs = Inputs()
        self.hyper_nodes = HyperNodeCache(self.columns, self.inputs)
        self.volumes = VolumeIndex(self.inputs)
        self.device_claims = DeviceClaims(self.inputs, self.tasks)
        self.tasks_by_node: dict[str, dict[str, TaskInfo]] = {}
        """Tasks that count on a node, by its name, also for unknown nodes."""
        self.jobs: dict[str, JobInfo] = {}
        self.queues: dict[str, QueueInfo] = {}
        self.schedulable_jobs: dict[str, JobInfo] = {}
        """Jobs whose PodGroup and queue exist: those that are scheduled."""
        self.jobs_without_queue: dict[str, JobInfo] = {}
        """Jobs whose PodGroup exists and whose queue does not."""
        self.jobs_without_group: dict[str, JobInfo] = {}
        """Jobs with pending pods and without PodGroup, until their pods' conditions are written."""
        self.existing_queues: dict[str, QueueInfo] = {}
        self.pending_jobs: dict[str, JobInfo] = {}
        self.pending_single_pods: dict[str, JobInfo] = {}
        """Pending single pods (pods without PodGroup), by job key."""
        self.jobs_by_phase: dict[str, dict[str, JobInfo]] = {}
        self.dirty: dict[str, JobInfo] = {}
        """Jobs that changed since the last cycle checked them."""
        self.deferred: dict[str, JobInfo] = {}
        """Dirty jobs that were not reached by cycles that were cut short."""
        self.changes = JobChanges()
        self._sorted: dict[str, list[JobInfo]] = {}
        self.evictability_changed: set[str] = set()
        """Nodes with unchanged amounts on which tasks became evictable or ceased to be."""
        self.ignored_resources: frozenset[str] = frozenset()
        """Resources that plugins account for themselves (`points.IGNORED_RESOURCES`)."""
        self.per_device_resources: Mapping[str, str] = {}
        self._in_session = False
        """Whether room freed now may be taken again: it counts as freed only on commit."""

    def transition(self, task: TaskInfo, status: TaskStatus, node: str) -> None:
        """Set the status and node of a task."""
        before, old_node = task.status, task.node
        load, old_load = LOADS[status], LOADS[before]
        if self.pod_index.is_active:
            self.pod_index.move(task, status, node)
        if load is not old_load or node != old_node:
            if old_load and old_node:
                self._count_on_node(task, old_node, old_load, -1)
            if load and node:
                self._count_on_node(task, node, load, 1)
        elif load and (status in EVICTABLE) != (before in EVICTABLE):
            self.evictability_changed.add(node)
        task.status, task.node = status, node
        if task.bind_annotations and status not in _UNSEEN:
            task.bind_annotations = NO_ANNOTATIONS
        if (job := task.job_info) is not None and status is not before:
            job.recount(task, before, status)
            self.dirty[job.key] = job
            self.changes.mark(job)
            if before is TaskStatus.PENDING or status is TaskStatus.PENDING:
                self._update_pending(job)

    def assume(self, task: TaskInfo, status: TaskStatus, row: int) -> None:
        """Assume a Pending task on a row as Allocated or Pipelined."""
        self.columns.apply(row, task.shape, LOADS[status], 1)
        self.record_assumed((task,), status, (row,))

    def record_allocated(self, task: TaskInfo, row: int) -> None:
        """Record one task as Allocated on a row whose columns count it already."""
        node = self.columns.names[row]
        if (node_tasks := self.tasks_by_node.get(node)) is None:
            node_tasks = self.tasks_by_node[node] = {}
        node_tasks[task.uid] = task
        task.status = TaskStatus.ALLOCATED
        task.node = node
        if task.claim_names:
            self.volumes.count_on_node(task, node, 1)
        if self.pod_index.is_active:
            self.pod_index.count_assumed((task,))
        if task.job_info is not None:
            task.job_info.count_assumed((task,), TaskStatus.ALLOCATED)

    def record_assumed(self, tasks: Sequence[TaskInfo], status: TaskStatus, rows: Sequence[int]) -> None:
        """Record tasks of one job and shape on rows whose columns count them already."""
        names, tasks_by_node = self.columns.names, self.tasks_by_node
        for task, row in zip(tasks, rows):  # noqa: B905 - called for every gang; there is a row for each
            node = names[row]
            if (node_tasks := tasks_by_node.get(node)) is None:
                node_tasks = tasks_by_node[node] = {}
            node_tasks[task.uid] = task
            task.status = status
            task.node = node
            if task.claim_names:
                self.volumes.count_on_node(task, node, 1)
        if self.pod_index.is_active:
            self.pod_index.count_assumed(tasks)
        if (job := tasks[0].job_info) is not None:
            job.count_assumed(tasks, status)

    def evict(self, task: TaskInfo) -> None:
        """Make a task Releasing in this session, and stop counting it in the pod index.

        Its room counts as freed only when the eviction is committed.
        """
        before, row = task.status, self.columns.rows.get(task.node)
        if row is None or self.pod_index.is_active or task.claim_names or LOADS[before] is not Load.OCCUPIES:
            self._in_session = True
            self.transition(task, TaskStatus.RELEASING, task.node)
            self._in_session = False
            if self.pod_index.is_active:
                self.pod_index.count_evicted(task)
            if task.claim_names:
                self.volumes.count_evicted(task)
            return
        self.columns.begin_release(row, task.shape)
        task.status = TaskStatus.RELEASING
        if (job := task.job_info) is not None:
            job.count_evicted(task, before)
            self.dirty[job.key] = job
            self.changes.mark(job)

    def revert(self, task: TaskInfo, status: TaskStatus, node: str) -> None:
        """Undo a change of this session: `transition` without marking the job dirty or room as freed."""
        key = task.job
        was_clean = key not in self.dirty
        self._in_session = True
        self.transition(task, status, node)
        self._in_session = False
        if was_clean:
            self.dirty.pop(key, None)

    def forget(self, tasks: Sequence[TaskInfo]) -> None:
        """Make tasks of one job Pending again that this session assumed."""
        first = tasks[0]
        job, status, role, base_id = first.job_info, first.status, first.role, first.shape.base_id
        rows = self.columns.rows
        can_batch = all(
            task.status is status
            and task.role == role
            and task.shape.base_id == base_id
            and task.node in rows
            and not task.claim_names
            for task in tasks
        )
        if job is None or self.pod_index.is_active or not can_batch:
            for task in tasks:
                self.revert(task, TaskStatus.PENDING, "")
            return
        counts: dict[int, int] = {}
        for task in tasks:
            row, node_tasks = rows[task.node], self.tasks_by_node[task.node]
            counts[row] = counts.get(row, 0) + 1
            del node_tasks[task.uid]
            if not node_tasks:
                del self.tasks_by_node[task.node]
            task.status, task.node, task.bind_annotations = TaskStatus.PENDING, "", NO_ANNOTATIONS
        self.columns.apply_all(counts, first.shape, LOADS[status], sign=-1)
        job.count_forgotten(tasks, status)
        self.changes.mark(job)
        self._update_pending(job)

    def bind(self, job: JobInfo, tasks: Sequence[TaskInfo]) -> None:
        """Make Allocated tasks of a job Binding, and mark the job as changed."""
        for task in tasks:
            task.status = TaskStatus.BINDING
        job.count_bound(tasks)
        self.dirty[job.key] = job
        self.changes.mark(job)
        if not job.pending:  # otherwise it is in the index already
            self._update_pending(job)

    def mark_examined(self, jobs: Iterable[JobInfo], *, all_known: bool) -> None:
        """Mark jobs as examined; other dirty jobs are deferred unless `all_known`."""
        dirty, deferred = self.dirty, self.deferred
        if all_known:
            dirty.clear()
            deferred.clear()
            return
        for job in jobs:
            dirty.pop(job.key, None)
            deferred.pop(job.key, None)
        few, many = sorted((dirty, deferred), key=len)
        many.update(few)
        self.dirty, self.deferred = {}, many

    def is_dirty(self, job: JobInfo) -> bool:
        """Return whether a job changed since it was last examined."""
        return job.key in self.dirty or job.key in self.deferred

    def jobs_in_phase(self, phase: str) -> list[JobInfo]:
        """Return the schedulable jobs of a phase, sorted by key; cached until one enters or leaves."""
        if (jobs := self._sorted.get(phase)) is None:
            members = self.jobs_by_phase.get(phase, {})
            jobs = self._sorted[phase] = [members[key] for key in sorted(members)]
        return jobs

    def add_task(self, task: TaskInfo, status: TaskStatus, node: str) -> None:
        """Add a new task."""
        for name in task.shape.requests:
            self.columns.resource(name)
        self.tasks[task.uid] = task
        if task.claim_names:
            self.volumes.add(task)
        task.status, task.node = status, node
        self.pod_index.add(task)
        if (load := LOADS[status]) and node:
            self._count_on_node(task, node, load, 1)
        if task.job:
            job = self.get_or_create_job(task.job)
            task.job_info, task.job = job, job.key  # one shared string for all tasks
            job.members[task.uid] = task
            job.recount(task, None, status)
            self.dirty[job.key] = job
            self.changes.mark(job)
            self._update_pending(job)
            if not job.has_group:
                self.note_missing_group(job)

    def note_missing_group(self, job: JobInfo) -> None:
        """Record that pending pods of a job without PodGroup need a condition."""
        if job.pending and not job.has_group and not job.is_single_pod:
            self.jobs_without_group[job.key] = job

    def remove_task(self, task: TaskInfo) -> None:
        """Remove a task."""
        del self.tasks[task.uid]
        if self.pod_index.is_active:
            self.pod_index.remove(task)
        if (load := LOADS[task.status]) and task.node:
            self._count_on_node(task, task.node, load, -1)
        if task.claim_names:
            self.volumes.remove(task)
        if (job := task.job_info) is not None:
            job.recount(task, task.status, None)
            del job.members[task.uid]
            job.attempts.fit_errors.pop(task.uid, None)
            job.attempts.outcomes.pop(task.uid, None)
            self.dirty[job.key] = job
            self.changes.mark(job)
            self._update_pending(job)
            self._forget_if_empty(job)

    def update_pod(self, task: TaskInfo, pod: Pod) -> bool:
        """Update a task from a newer pod; return whether a field that scheduling reads has changed."""
        old = task.pod
        same = pod.spec == old.spec  # most updates change only the status
        shape = task.spec_shape if same else self.shapes.of(pod)
        if (
            shape is task.spec_shape
            and pod.metadata.annotations == old.metadata.annotations
            and pod.metadata.labels == old.metadata.labels
            and (
                same
                or (
                    pod.spec.affinity == old.spec.affinity
                    and pod.spec.topology_spread_constraints == old.spec.topology_spread_constraints
                    and pod.spec.scheduling_gates == old.spec.scheduling_gates
                    and pod.spec.priority == old.spec.priority
                )
            )
        ):
            task.pod = pod
            task.nominated_node = pod.status.nominated_node_name
            if pod.status.resource_claim_statuses == old.status.resource_claim_statuses:
                return False
            if (job := task.job_info) is not None:  # what was found about its tasks no longer holds
                self.dirty[job.key] = job
                self.changes.mark(job)
            return True
        status, node = task.status, task.node
        self.remove_task(task)
        task.update(pod, shape)
        self.add_task(task, status, node)
        return True

    def get_or_create_job(self, key: str) -> JobInfo:
        """Return the job of that key, created if missing."""
        if (job := self.jobs.get(key)) is None:
            job = self.jobs[key] = JobInfo(key, self.ignored_resources)
        return job

    def get_or_create_queue(self, name: str) -> QueueInfo:
        """Return the queue of that name, created if missing."""
        if (queue := self.queues.get(name)) is None:
            queue = self.queues[name] = QueueInfo(name)
        return queue

    def set_queue(self, job: JobInfo, queue: QueueInfo | None) -> None:
        """Move a job with its amounts to another queue, or to none."""
        if (old := job.queue_info) is not queue:
            if job.allocated:
                for moved in (old, queue):
                    if moved is not None:
                        moved.allocated_by_namespace = None
            if old is not None:
                add_nonzero(old.allocated, job.allocated, -1)
                add_nonzero(old.requested, job.requested, -1)
                del old.jobs_by_key[job.key]
                if not old.exists and not old.jobs_by_key:
                    del self.queues[old.name]
            if queue is not None:
                add_nonzero(queue.allocated, job.allocated, 1)
                add_nonzero(queue.requested, job.requested, 1)
                queue.jobs_by_key[job.key] = job
            job.queue_info, job.queue = queue, "" if queue is None else queue.name
            job.cached_order_key = None
            rows = self.columns.rows
            self.columns.mark_changed(rows[task.node] for task in job.members.values() if task.node in rows)
        self.update_schedulable(job)

    def update_schedulable(self, job: JobInfo) -> None:
        """Update the indexes that depend on whether the job's PodGroup and queue exist."""
        self._sorted.pop(job.phase, None)
        self.changes.mark(job)
        self.jobs_without_queue.pop(job.key, None)
        self.jobs_without_group.pop(job.key, None)
        if job.schedulable:
            if job.attempts.reason.code == QUEUE_NOT_FOUND:
                job.attempts.clear()
            self.schedulable_jobs[job.key] = job
            self.jobs_by_phase.setdefault(job.phase, {})[job.key] = job
            self.dirty[job.key] = job
        else:
            job.backlog_entry = None
            self.schedulable_jobs.pop(job.key, None)
            self.jobs_by_phase.get(job.phase, {}).pop(job.key, None)
            self.dirty.pop(job.key, None)
            self.deferred.pop(job.key, None)
            if job.has_group:
                self.jobs_without_queue[job.key] = job
            else:
                self.note_missing_group(job)
        self._forget_if_empty(job)

    def set_phase(self, job: JobInfo, phase: str) -> None:
        """Move a job to another phase; "" counts as Pending."""
        phase = phase or PodGroupPhase.PENDING
        if phase != job.phase:
            self.jobs_by_phase.get(job.phase, {}).pop(job.key, None)
            self._sorted.pop(job.phase, None)
            self._sorted.pop(phase, None)
            self.changes.mark(job)
            job.phase, job.cached_order_key = phase, None
            if job.key in self.schedulable_jobs:
                self.jobs_by_phase.setdefault(phase, {})[job.key] = job
                self.dirty[job.key] = job

    def set_resource_rules(
        self, ignored: frozenset[str], claimed: frozenset[str], per_device: Mapping[str, str]
    ) -> None:
        """Follow what plugins declare about resources from now on, and no longer what they declared before.

        `ignored` ones are left out of requests, of what nodes have and of minResources; devices are claimed for those
        in `claimed`. `per_device` ones are multiplied in requests (`points.PER_DEVICE_RESOURCES`).
        """
        changed = per_device.items() ^ self.per_device_resources.items()
        affected = (ignored ^ self.ignored_resources).union(name for name, _ in changed)
        self.ignored_resources, self.per_device_resources = ignored, per_device
        self.columns.ignore_resources(ignored)
        self.shapes.set_resource_rules(ignored, claimed, per_device)
        for task in [task for task in self.tasks.values() if may_request(task.shape, affected)]:
            status, node = task.status, task.node
            self.remove_task(task)
            task.update(task.pod, self.shapes.of(task.pod))
            self.add_task(task, status, node)
        for node_object in list(self.columns.objects):
            if not affected.isdisjoint(node_object.status.allocatable):
                self.put_node(node_object)
        for job in self.jobs.values():
            job.ignored_resources = ignored
            job.read_min_resources()
            self.changes.mark(job)

    def put_node(self, node: Node) -> None:
        """Add or update a node; tasks already known to be on a new node are counted on it."""
        name = node.metadata.name
        new = name not in self.columns.rows
        row = self.columns.put_node(node)
        if new:
            for task in self.tasks_by_node.get(name, {}).values():
                self.columns.apply(row, task.shape, LOADS[task.status], 1)

    def _count_on_node(self, task: TaskInfo, node: str, load: Load, sign: int) -> None:
        if (row := self.columns.rows.get(node)) is not None:
            self.columns.apply(row, task.shape, load, sign)
            if sign < 0 and not self._in_session:
                self.columns.mark_freed(row)
        if task.claim_names:
            self.volumes.count_on_node(task, node, sign)
        node_tasks = self.tasks_by_node.get(node)
        if sign > 0:
            if node_tasks is None:
                node_tasks = self.tasks_by_node[node] = {}
            node_tasks[task.uid] = task
        elif node_tasks is not None:
            del node_tasks[task.uid]
            if not node_tasks:
                del self.tasks_by_node[node]

    def _update_pending(self, job: JobInfo) -> None:
        table = self.pending_single_pods if job.is_single_pod else self.pending_jobs
        if job.pending:
            table[job.key] = job
        else:
            table.pop(job.key, None)

    def _forget_if_empty(self, job: JobInfo) -> None:
        if not job.has_group and not job.members:
            self.jobs.pop(job.key, None)
            self.jobs_without_group.pop(job.key, None)
            self.dirty.pop(job.key, None)
            self.deferred.pop(job.key, None)
            self.pending_jobs.pop(job.key, None)
            self.pending_single_pods.pop(job.key, None)
