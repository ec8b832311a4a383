"""The ledger: every change of a task's status and node goes through here, so that all totals agree."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from volcanoio.engine.scheduling.amounts import add_amounts
from volcanoio.engine.scheduling.changes import Changes
from volcanoio.engine.scheduling.columns import Columns
from volcanoio.engine.scheduling.explanation import QUEUE_NOT_FOUND
from volcanoio.engine.scheduling.inputs import Inputs
from volcanoio.engine.scheduling.jobs import JobInfo
from volcanoio.engine.scheduling.loads import LOADS, Load
from volcanoio.engine.scheduling.podindex import PodIndex
from volcanoio.engine.scheduling.queues import QueueInfo
from volcanoio.engine.scheduling.shapes import Shapes
from volcanoio.engine.scheduling.tasks import TAKABLE, TaskInfo
from volcanoio.engine.scheduling.volumes import VolumeIndex
from volcanoio.framework.scheduling.views import TaskStatus
from volcanoio.model.core import Node, Pod
from volcanoio.model.scheduling import PodGroupPhase


class Ledger:
    """Nodes, tasks, jobs and queues with totals that are kept incrementally."""

    def __init__(self) -> None:
        self.columns = Columns()
        self.shapes = Shapes()
        self.tasks: dict[str, TaskInfo] = {}
        self.pods = PodIndex(self.shapes, self.tasks)
        self.inputs = Inputs()
        self.volumes = VolumeIndex(self.inputs)
        self.on_node: dict[str, dict[str, TaskInfo]] = {}
        """Tasks that weigh on a node, by its name; also where the node itself is not known."""
        self.jobs: dict[str, JobInfo] = {}
        self.queues: dict[str, QueueInfo] = {}
        self.listed: dict[str, JobInfo] = {}
        """Jobs whose PodGroup and queue exist: those that are scheduled."""
        self.orphans: dict[str, JobInfo] = {}
        """Jobs whose PodGroup exists and whose queue does not."""
        self.strays: dict[str, JobInfo] = {}
        """Jobs whose pods wait and whose PodGroup does not exist, while there is anything to tell them."""
        self.known_queues: dict[str, QueueInfo] = {}
        self.backlog: dict[str, JobInfo] = {}
        """Jobs with pending tasks."""
        self.singles: dict[str, JobInfo] = {}
        """As `backlog`, of jobs that are a pod by themselves."""
        self.phases: dict[str, dict[str, JobInfo]] = {}
        """Listed jobs by phase."""
        self.dirty: dict[str, JobInfo] = {}
        """Jobs that changed since the last cycle looked at them."""
        self.put_off: dict[str, JobInfo] = {}
        """Those of which cycles that were cut knew nothing new: their turn is still to come."""
        self.changes = Changes()
        self._sorted: dict[str, list[JobInfo]] = {}
        self.settled: set[str] = set()
        """Nodes that weigh as much as before, but tasks there can be evicted now that could not, or the reverse."""
        self._within = False
        """Whether what is freed just now was or may yet be taken back: room appears at a commit."""

    def move(self, task: TaskInfo, status: TaskStatus, node: str) -> None:
        """Give a task another status and node."""
        before, old_node = task.status, task.node
        load, old_load = LOADS[status], LOADS[before]
        if self.pods.active:
            self.pods.move(task, status, node)
        if load is not old_load or node != old_node:
            if old_load and old_node:
                self._weigh(task, old_node, old_load, -1)
            if load and node:
                self._weigh(task, node, load, 1)
        elif load and (status in TAKABLE) != (before in TAKABLE):
            self.settled.add(node)
        task.status, task.node = status, node
        job = task.owner
        if job is not None and status is not before:
            job.recount(task, before, status)
            self.dirty[job.key] = job
            self.changes.mark(job)
            if before is TaskStatus.PENDING or status is TaskStatus.PENDING:
                self._backlog(job)

    def seat(self, task: TaskInfo, status: TaskStatus, row: int) -> None:
        """Put a Pending task on a row as Allocated or Pipelined."""
        self.columns.apply(row, task.shape, LOADS[status], 1)
        node, tasks = self.columns.names[row], (task,)
        there = self.on_node.get(node)
        if there is None:
            there = self.on_node[node] = {}
        there[task.uid] = task
        task.status, task.node = status, node
        if task.claims:
            self.volumes.weigh(task, node, 1)
        if self.pods.active:
            self.pods.seated(tasks)
        if task.owner is not None:
            task.owner.seated(tasks, status)

    def seated_one(self, task: TaskInfo, row: int) -> None:
        """Follow one task that was allocated on a row; the columns count it already."""
        node = self.columns.name(row)
        there = self.on_node.get(node)
        if there is None:
            there = self.on_node[node] = {}
        there[task.uid] = task
        task.status = TaskStatus.ALLOCATED
        task.node = node
        if task.claims:
            self.volumes.weigh(task, node, 1)
        if self.pods.active:
            self.pods.seated((task,))
        if task.owner is not None:
            task.owner.seated((task,), TaskStatus.ALLOCATED)

    def seated(self, tasks: Sequence[TaskInfo], status: TaskStatus, rows: Sequence[int]) -> None:
        """Follow alike tasks of one job that were put on rows; the columns count them already."""
        names, on_node = self.columns.names, self.on_node
        for task, row in zip(tasks, rows):  # noqa: B905 - asked after every gang; there is a row for each
            node = names[row]
            there = on_node.get(node)
            if there is None:
                there = on_node[node] = {}
            there[task.uid] = task
            task.status = status
            task.node = node
            if task.claims:
                self.volumes.weigh(task, node, 1)
        if self.pods.active:
            self.pods.seated(tasks)
        job = tasks[0].owner
        if job is not None:
            job.seated(tasks, status)

    def evict(self, task: TaskInfo) -> None:
        """Make a task Releasing in this session, which counts it among the pods of its node no longer.

        Room that others may use appears when that is committed, not yet.
        """
        before, row = task.status, self.columns.rows.get(task.node)
        if row is None or self.pods.active or task.claims or LOADS[before] is not Load.OCCUPIES:
            self._within = True
            self.move(task, TaskStatus.RELEASING, task.node)
            self._within = False
            if self.pods.active:
                self.pods.evicted(task)
            if task.claims:
                self.volumes.evicted(task)
            return
        self.columns.release(row, task.shape)
        task.status = TaskStatus.RELEASING
        job = task.owner
        if job is not None:
            job.evicted(task, before)
            self.dirty[job.key] = job
            self.changes.mark(job)

    def unseat(self, task: TaskInfo, status: TaskStatus, node: str) -> None:
        """Take a change of this session back: `move` that leaves no trace."""
        key = task.job
        clean = key not in self.dirty
        self._within = True
        self.move(task, status, node)
        self._within = False
        if clean:
            self.dirty.pop(key, None)

    def unseat_all(self, tasks: Sequence[TaskInfo]) -> None:
        """`unseat` of tasks of one job that this session made Allocated or Pipelined: they are Pending again."""
        first = tasks[0]
        job, status, role, like = first.owner, first.status, first.role, first.shape.like
        rows = self.columns.rows
        alike = all(
            task.status is status
            and task.role == role
            and task.shape.like == like
            and task.node in rows
            and not task.claims
            for task in tasks
        )
        if job is None or self.pods.active or not alike:
            for task in tasks:
                self.unseat(task, TaskStatus.PENDING, "")
            return
        counts: dict[int, int] = {}
        for task in tasks:
            row, there = rows[task.node], self.on_node[task.node]
            counts[row] = counts.get(row, 0) + 1
            del there[task.uid]
            if not there:
                del self.on_node[task.node]
            task.status, task.node = TaskStatus.PENDING, ""
        self.columns.apply_all(counts, first.shape, LOADS[status], sign=-1)
        job.unseated(tasks, status)
        self.changes.mark(job)
        self._backlog(job)

    def bind(self, job: JobInfo, tasks: Sequence[TaskInfo]) -> None:
        """Make Allocated tasks of a job Binding, and catch up on what the hot loop left out."""
        for task in tasks:
            task.status = TaskStatus.BINDING
        job.bound(tasks)
        self.dirty[job.key] = job
        self.changes.mark(job)
        if not job.waiting:  # else it stands there
            self._backlog(job)

    def looked_at(self, jobs: Iterable[JobInfo], *, all_known: bool) -> None:
        """These jobs are as they were last looked at, and all others of which nothing new is known are put off."""
        dirty, put_off = self.dirty, self.put_off
        if all_known:
            dirty.clear()
            put_off.clear()
            return
        for job in jobs:
            dirty.pop(job.key, None)
            put_off.pop(job.key, None)
        few, many = sorted((dirty, put_off), key=len)
        many.update(few)
        self.dirty, self.put_off = {}, many

    def changed(self, job: JobInfo) -> bool:
        """Whether a job changed since it was looked at."""
        return job.key in self.dirty or job.key in self.put_off

    def in_phase(self, phase: str) -> list[JobInfo]:
        """Listed jobs of a phase, sorted by key; the list is kept until one enters or leaves."""
        known = self._sorted.get(phase)
        if known is None:
            members = self.phases.get(phase, {})
            known = self._sorted[phase] = [members[key] for key in sorted(members)]
        return known

    def add(self, task: TaskInfo, status: TaskStatus, node: str) -> None:
        """Take in a new task."""
        for name in task.shape.requests:
            self.columns.resource(name)
        self.tasks[task.uid] = task
        if task.claims:
            self.volumes.add(task)
        task.status, task.node = status, node
        self.pods.add(task)
        load = LOADS[status]
        if load and node:
            self._weigh(task, node, load, 1)
        if task.job:
            job = self.job(task.job)
            task.owner, task.job = job, job.key  # the one text for all of them
            job.members[task.uid] = task
            job.recount(task, None, status)
            self.dirty[job.key] = job
            self.changes.mark(job)
            self._backlog(job)
            if not job.known:
                self.astray(job)

    def astray(self, job: JobInfo) -> None:
        """There is something to tell the pods of a job that has no PodGroup, where any waits."""
        if job.waiting and not job.known and not job.single:
            self.strays[job.key] = job

    def remove(self, task: TaskInfo) -> None:
        """Forget a task."""
        del self.tasks[task.uid]
        if self.pods.active:
            self.pods.remove(task)
        load = LOADS[task.status]
        if load and task.node:
            self._weigh(task, task.node, load, -1)
        if task.claims:
            self.volumes.remove(task)
        job = task.owner
        if job is not None:
            job.recount(task, task.status, None)
            del job.members[task.uid]
            job.attempts.fit_errors.pop(task.uid, None)
            job.attempts.outcomes.pop(task.uid, None)
            self.dirty[job.key] = job
            self.changes.mark(job)
            self._backlog(job)
            self._forget_if_empty(job)

    def respecify(self, task: TaskInfo, pod: Pod) -> bool:
        """Take over a newer pod's shape, role and the like; whether anything scheduling reads has changed."""
        old = task.pod
        same = pod.spec == old.spec  # as at most changes: only the status is another
        shape = task.plain if same else self.shapes.of(pod)
        if (
            shape is task.plain
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
            task.nominated = pod.status.nominated_node_name
            return False
        status, node = task.status, task.node
        self.remove(task)
        task.update(pod, shape)
        self.add(task, status, node)
        return True

    def job(self, key: str) -> JobInfo:
        """The job of that key, made when it is new."""
        job = self.jobs.get(key)
        if job is None:
            job = self.jobs[key] = JobInfo(key)
        return job

    def queue(self, name: str) -> QueueInfo:
        """The queue of that name, made when it is new."""
        queue = self.queues.get(name)
        if queue is None:
            queue = self.queues[name] = QueueInfo(name)
        return queue

    def enlist(self, job: JobInfo, queue: QueueInfo | None) -> None:
        """Place a job in a queue, or in none; amounts move along."""
        old = job.queue_info
        if old is not queue:
            if job.held:
                for moved in (old, queue):
                    if moved is not None:
                        moved.by_namespace = None
            if old is not None:
                add_amounts(old.held, job.held, -1)
                add_amounts(old.wanted, job.wanted, -1)
                del old.members[job.key]
                if not old.known and not old.members:
                    del self.queues[old.name]
            if queue is not None:
                add_amounts(queue.held, job.held, 1)
                add_amounts(queue.wanted, job.wanted, 1)
                queue.members[job.key] = job
            job.queue_info, job.standing = queue, None
            rows = self.columns.rows
            self.columns.touch(rows[task.node] for task in job.members.values() if task.node in rows)
        self.relist(job)

    def relist(self, job: JobInfo) -> None:
        """Follow whether the job's PodGroup and queue exist."""
        self._sorted.pop(job.phase, None)
        self.changes.mark(job)
        self.orphans.pop(job.key, None)
        self.strays.pop(job.key, None)
        if job.schedulable:
            if job.attempts.reason.code == QUEUE_NOT_FOUND:
                job.attempts.clear()
            self.listed[job.key] = job
            self.phases.setdefault(job.phase, {})[job.key] = job
            self.dirty[job.key] = job
        else:
            job.place = None
            self.listed.pop(job.key, None)
            self.phases.get(job.phase, {}).pop(job.key, None)
            self.dirty.pop(job.key, None)
            self.put_off.pop(job.key, None)
            if job.known:
                self.orphans[job.key] = job
            else:
                self.astray(job)
        self._forget_if_empty(job)

    def set_phase(self, job: JobInfo, phase: str) -> None:
        """Move a job to another phase; "" counts as Pending."""
        phase = phase or PodGroupPhase.PENDING
        if phase != job.phase:
            self.phases.get(job.phase, {}).pop(job.key, None)
            self._sorted.pop(job.phase, None)
            self._sorted.pop(phase, None)
            self.changes.mark(job)
            job.phase, job.standing = phase, None
            if job.key in self.listed:
                self.phases.setdefault(phase, {})[job.key] = job
                self.dirty[job.key] = job

    def put_node(self, node: Node) -> None:
        """Take in a node; tasks that were known to be on it before weigh on it from now on."""
        name = node.metadata.name
        new = name not in self.columns.rows
        row = self.columns.put(node)
        if new:
            for task in self.on_node.get(name, {}).values():
                self.columns.apply(row, task.shape, LOADS[task.status], 1)

    def _weigh(self, task: TaskInfo, node: str, load: Load, sign: int) -> None:
        row = self.columns.rows.get(node)
        if row is not None:
            self.columns.apply(row, task.shape, load, sign)
            if sign < 0 and not self._within:
                self.columns.free(row)
        if task.claims:
            self.volumes.weigh(task, node, sign)
        there = self.on_node.get(node)
        if sign > 0:
            if there is None:
                there = self.on_node[node] = {}
            there[task.uid] = task
        elif there is not None:
            del there[task.uid]
            if not there:
                del self.on_node[node]

    def _backlog(self, job: JobInfo) -> None:
        table = self.singles if job.single else self.backlog
        if job.waiting:
            table[job.key] = job
        else:
            table.pop(job.key, None)

    def _forget_if_empty(self, job: JobInfo) -> None:
        if not job.known and not job.members:
            self.jobs.pop(job.key, None)
            self.strays.pop(job.key, None)
            self.dirty.pop(job.key, None)
            self.put_off.pop(job.key, None)
            self.backlog.pop(job.key, None)
            self.singles.pop(job.key, None)
