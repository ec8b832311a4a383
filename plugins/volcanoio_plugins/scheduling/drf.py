"""Plugin drf: jobs with the smaller dominant share first (Volcano: pkg/scheduler/plugins/drf).

With `enableHierarchy` queues are ordered too, by their shares in the tree of `volcano.sh/hierarchy`, and reclaim from
each other. A queue's annotations contain its path from the root ("root/science/physics") and the weight of each step
("1/2/3"). Jobs are leaves. A leaf is saturated when it has all it requests of some resource, or requests one that is
exhausted in the whole cluster: it cannot grow evenly any more. An inner node counts its saturated children fully, and
the others scaled down to the smallest share among them, because the rest is lent. Its share is the largest fraction of
any resource in that sum.

Sources: Volcano pkg/scheduler/plugins/drf; Bhattacharya et al.: Hierarchical Scheduling for Diverse Datacenter
Workloads (H-DRF), SoCC 2013. Unlike in Volcano, a queue without a hierarchy is a child of the root, with weight 1.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from volcanoio.framework.arguments import NoArguments, convert
from volcanoio.framework.probe import Probe
from volcanoio.framework.scheduling.points import Checkpoints, SortKey
from volcanoio.framework.scheduling.sessionview import SessionView, Table
from volcanoio.framework.scheduling.views import Amounts, Job, QueueView, Shape, Task, TaskStatus
from volcanoio.model.names import HIERARCHY, HIERARCHY_WEIGHTS, ROOT_QUEUE
from volcanoio.model.resources import add
from volcanoio_plugins.scheduling.queues.attributes import BATCH_SIZE

Vector: TypeAlias = NDArray[np.float64]
HierarchicalShare: TypeAlias = tuple[tuple[bool, float], ...]
"""At each step from the root: whether it is saturated, and its share over its weight. Smaller is first."""

_DIGITS = 9
"""Shares are rounded to this many digits: rounding errors of the scaling must not order them."""


def allocated_to(job: Job) -> Amounts:
    """Return the amounts allocated to a job, pipelined tasks included."""
    if not job.count(TaskStatus.PIPELINED):
        return job.allocated
    allocated = dict(job.allocated)
    for task in job.tasks:
        if task.status is TaskStatus.PIPELINED:
            for name, amount in task.shape.requests.items():
                allocated[name] = allocated.get(name, 0) + amount
    return allocated


def hierarchy_of(queue: QueueView) -> list[tuple[str, float]]:
    """Return the steps from the root to a queue, each with its weight (at least 1)."""
    annotations = queue.object.metadata.annotations
    names = [name for name in annotations.get(HIERARCHY, "").split("/") if name]
    if len(names) < 2 or names[0] != ROOT_QUEUE:
        return [(queue.name, 1.0)]
    weights = annotations.get(HIERARCHY_WEIGHTS, "").split("/")
    weights += ["1"] * (len(names) - len(weights))
    return [(name, _weight(text)) for name, text in zip(names[1:], weights[1:], strict=False)]


class Branch:
    """A node of the tree: its child nodes, and the jobs of a queue."""

    def __init__(self, parent: Branch | None, weight: float) -> None:
        self.parent = parent
        self.weight = weight
        self.children: dict[str, Branch] = {}
        self.leaves: Leaves | None = None
        self.allocated: Vector
        self.share = 0.0
        self.saturated = False

    def update(self, total: Vector, exhausted: NDArray[np.bool_]) -> None:
        """Compute allocation, share and saturation from its parts."""
        allocated = [child.allocated for child in self.children.values()]
        share = [child.share for child in self.children.values()]
        saturated = [child.saturated for child in self.children.values()]
        everything = np.array(allocated).reshape(-1, len(total))
        shares, saturated_mask = np.array(share), np.array(saturated, dtype=bool)
        if self.leaves is not None:
            everything = np.concatenate((everything, self.leaves.allocated))
            shares = np.concatenate((shares, _shares(self.leaves.allocated, total)))
            saturated_mask = np.concatenate((saturated_mask, self.leaves.saturated(exhausted)))
        growing = ~saturated_mask & (shares > 0)
        scale = np.where(growing, 1.0, (shares > 0).astype(np.float64))
        if growing.any():
            scale[growing] = min(1.0, float(shares[growing].min())) / shares[growing]
        self.allocated = (everything * scale[:, None]).sum(axis=0)
        self.share = float(_shares(self.allocated[None, :], total)[0])
        self.saturated = bool(saturated_mask.all())


class Leaves:
    """The jobs of one queue with pending tasks, one row each; the other jobs are one saturated row."""

    def __init__(self, queue: QueueView, names: Sequence[str], moves: Table, others: Table) -> None:
        self._names = names
        self._moves = moves
        self._others_delta = others
        growing = [job for job in queue.jobs if job.count(TaskStatus.PENDING)]
        self._jobs = {job.key: (row, job) for row, job in enumerate(growing, 1)}
        allocated = np.array([[allocated_to(job).get(name, 0) for name in names] for job in growing], dtype=np.float64)
        allocated = allocated.reshape(-1, len(names))
        self._others = self._vector(queue.allocated) - allocated.sum(axis=0)
        self.allocated = np.concatenate((self._others[None, :], allocated))
        wanted = np.array([[job.requested.get(name, 0) for name in names] for job in growing], dtype=np.float64)
        self._wanted = np.concatenate((np.zeros((1, len(names))), wanted.reshape(-1, len(names))))
        self._seen = 0, 0
        self._recent: dict[str, int] = {}

    def count_tasks(self, job: Job, requests: Mapping[str, int], count: int) -> None:
        """Count placed or released tasks; undone ones are seen by the tables' versions."""
        if job.key in self._jobs:
            self._moves.add(job.key, count)
            self._recent.setdefault(job.key, 0)
        else:
            for name, amount in requests.items():
                self._others_delta.add(name, amount * count)

    def update(self) -> bool:
        """Apply the counted and undone tasks; return whether there were any."""
        seen = self._moves.version, self._others_delta.version
        if seen == self._seen:
            return False
        self._seen = seen
        for key, known in self._recent.items():
            if (changed := self._moves.get(key)) != known:
                row, job = self._jobs[key]
                self._recent[key] = changed
                self.allocated[row] = self._vector(allocated_to(job))
        self.allocated[0] = self._others + [self._others_delta.get(name) for name in self._names]
        return True

    def add_hypothetical(self, job: Job, requests: Vector) -> None:
        """Add to a job's allocation."""
        row = self._jobs[job.key][0] if job.key in self._jobs else 0
        self.allocated[row] += requests

    def saturated(self, exhausted: NDArray[np.bool_]) -> NDArray[np.bool_]:
        """Return which rows cannot grow evenly any more."""
        asked = self._wanted > 0
        reached = asked & (self.allocated > 0) & (self.allocated >= self._wanted)
        saturated_mask: NDArray[np.bool_] = np.array((reached | (asked & exhausted)).any(axis=1), dtype=bool)
        saturated_mask[0] = True
        return saturated_mask

    def _vector(self, amounts: Amounts) -> Vector:
        return np.array([amounts.get(name, 0) for name in self._names], dtype=np.float64)


class ShareTree:
    """The tree of one session. `version` changes with every change of an allocation."""

    def __init__(self, session: SessionView, owner: str) -> None:
        self._names = sorted(name for name, amount in session.total.items() if amount > 0)
        self._total = np.array([session.total[name] for name in self._names], dtype=np.float64)
        self._used = session.table(owner, "used")
        self._version = self._used.version
        self._allocated = np.zeros(len(self._names))
        self._hypothetical = np.zeros(len(self._names))
        self._root = Branch(None, 1.0)
        self._at: dict[str, list[Branch]] = {}
        """The path from below the root to each queue."""
        for name in sorted(session.queues):
            queue = session.queues[name]
            if queue.jobs:
                self._add_queue(session, owner, queue)
        self._exhausted = self._find_exhausted()
        self._update(self._postorder(self._root))

    @property
    def version(self) -> int:
        """A number that changes with every change."""
        return self._used.version

    def count_tasks(self, job: Job, requests: Mapping[str, int], count: int) -> None:
        """Count `count` placed tasks of a job (released when negative)."""
        if (leaves := self._leaves(job)) is not None:
            leaves.count_tasks(job, requests, count)
            for name, amount in requests.items():
                self._used.add(name, amount * count)

    def current_shares(self, queue: str) -> HierarchicalShare:
        """Return a queue's shares now; empty if it has no jobs."""
        self._update_changed()
        return self.shares(queue)

    def shares(self, queue: str) -> HierarchicalShare:
        """Return a queue's shares as last computed, hypothetical changes included."""
        path = self._at.get(queue, ())
        return tuple([(branch.saturated, round(branch.share / branch.weight, _DIGITS)) for branch in path])

    @contextmanager
    def what_if(self) -> Iterator[HypotheticalChanges]:
        """Yield hypothetical changes of allocations, all of which are reverted at the end."""
        self._update_changed()
        changes = HypotheticalChanges(self)
        try:
            yield changes
        finally:
            changes.revert()

    def add_hypothetical(self, job: Job, requests: Mapping[str, int], sign: int) -> None:
        """Compute shares as if a job had so much more; calling it with the other sign reverts it."""
        if (leaves := self._leaves(job)) is None:
            return
        vector = sign * np.array([requests.get(name, 0) for name in self._names], dtype=np.float64)
        leaves.add_hypothetical(job, vector)
        self._hypothetical += vector
        self._refresh([self._at[job.queue][-1]])

    def _leaves(self, job: Job) -> Leaves | None:
        path = self._at.get(job.queue)
        return path[-1].leaves if path else None

    def _add_queue(self, session: SessionView, owner: str, queue: QueueView) -> None:
        branch, path = self._root, []
        for name, weight in hierarchy_of(queue):
            branch = branch.children.setdefault(name, Branch(branch, weight))
            path.append(branch)
        moves, others = (session.table(owner, f"{table}/{queue.name}") for table in ("moves", "others"))
        branch = path[-1]
        if branch.leaves is not None:  # two queues have the same path
            branch = branch.children.setdefault(f"/{queue.name}", Branch(branch, 1.0))
            path.append(branch)
        branch.leaves = Leaves(queue, self._names, moves, others)
        self._at[queue.name] = path
        self._allocated += branch.leaves.allocated.sum(axis=0)

    def _find_exhausted(self) -> NDArray[np.bool_]:
        used = self._allocated + self._hypothetical + [self._used.get(name) for name in self._names]
        return used >= self._total

    def _update_changed(self) -> None:
        if self._version == self._used.version:
            return
        self._version = self._used.version
        changed = [
            path[-1] for path in self._at.values() if (leaves := path[-1].leaves) is not None and leaves.update()
        ]
        if changed:
            self._refresh(changed)

    def _refresh(self, changed: list[Branch]) -> None:
        """Recompute what depends on these; everything, if a resource was exhausted or freed."""
        if ((exhausted := self._find_exhausted()) != self._exhausted).any():
            self._exhausted = exhausted
            self._update(self._postorder(self._root))
            return
        for start in changed:
            branch: Branch | None = start
            while branch is not None:
                branch.update(self._total, exhausted)
                branch = branch.parent

    def _update(self, branches: Iterable[Branch]) -> None:
        for branch in branches:
            branch.update(self._total, self._exhausted)

    def _postorder(self, branch: Branch) -> Iterator[Branch]:
        """Yield the nodes of a subtree, children first."""
        for child in branch.children.values():
            yield from self._postorder(child)
        yield branch


class HypotheticalChanges:
    """Hypothetical changes, in their order."""

    def __init__(self, tree: ShareTree) -> None:
        self._tree = tree
        self._made: list[tuple[Job, Mapping[str, int], int]] = []

    def change(self, job: Job, requests: Mapping[str, int], sign: int) -> None:
        """Add to a job's allocation, or subtract from it."""
        self._tree.add_hypothetical(job, requests, sign)
        self._made.append((job, requests, sign))

    def revert(self, count: int | None = None) -> None:
        """Revert the last `count` changes; all by default."""
        for _ in range(len(self._made) if count is None else count):
            job, requests, sign = self._made.pop()
            self._tree.add_hypothetical(job, requests, -sign)


def _shares(allocated: Vector, total: Vector) -> Vector:
    shares: Vector = (allocated / total).max(axis=1, initial=0.0)
    return shares


def _weight(text: str) -> float:
    try:
        return max(float(text), 1.0)
    except ValueError:
        return 1.0


SHARE_TOLERANCE = 1e-6
"""Shares that differ by less are equal."""
REPORT_BATCH = 256
"""Number of values reported between two checkpoints."""


class Drf:
    """Orders jobs by dominant share: the largest fraction of any resource of the cluster that a job has allocated."""

    name = "drf"
    keeps_job_keys = True
    keeps_verdicts = True

    def __init__(self, arguments: Mapping[str, Any]) -> None:
        convert(arguments, NoArguments, self.name)
        self._total: Amounts = {}
        self._jobs: Mapping[str, Job] = {}
        self._hierarchical = False
        self._tree: ShareTree | None = None
        self._changed: dict[str, Job] = {}
        """Jobs that changed since the last report, by key."""

    def use_hierarchy(self, enabled: bool) -> None:
        """Set whether queues share by their hierarchy."""
        self._hierarchical = enabled

    def open(self, session: SessionView) -> None:
        """Read the cluster's total and the jobs; build the tree of queues."""
        self._total = {name: amount for name, amount in session.total.items() if amount > 0}
        self._jobs = session.jobs
        self._changed.update((job.key, job) for job in session.changed_jobs(self, BATCH_SIZE))
        self._tree = ShareTree(session, self.name) if self._hierarchical else None

    def queue_key(self, queue: QueueView) -> SortKey:
        """Order queues by the first differing step from the root: unsaturated first, then the smaller share."""
        return self._tree.current_shares(queue.name) if self._tree is not None else ()

    def queue_generation(self) -> int | None:
        """Return a number that changes with every placement, which may change the key of every queue."""
        return None if self._tree is None else self._tree.version

    def job_key(self, job: Job) -> float:
        """Order jobs by dominant share, smaller first."""
        if not job.ready_count and not job.count(TaskStatus.PIPELINED):
            return 0.0
        return self._share(allocated_to(job))

    def preemptable(self, preemptor: Task, candidates: Sequence[Task]) -> Sequence[Task]:
        """Return tasks whose job would still have a share of at least the preemptor's with its new task."""
        wanted = dict(allocated_to(self._jobs[preemptor.job]))
        add(wanted, preemptor.shape.requests)
        own = self._share(wanted)
        left: dict[str, dict[str, int]] = {}
        victims = []
        for task in candidates:
            if task.job not in self._jobs:
                continue
            allocated = left.setdefault(task.job, dict(allocated_to(self._jobs[task.job])))
            add(allocated, task.shape.requests, -1)
            other = self._share(allocated)
            if own < other or abs(own - other) <= SHARE_TOLERANCE:
                victims.append(task)
        return victims

    def reclaimable(self, reclaimer: Task, candidates: Sequence[Task]) -> Sequence[Task] | None:
        """Return tasks whose queues still come after the reclaimer's once the tasks are moved; abstain
        without a tree.
        """
        tree, job = self._tree, self._jobs.get(reclaimer.job)
        if tree is None or job is None:
            return None
        victims = []
        with tree.what_if() as changes:
            changes.change(job, reclaimer.shape.requests, 1)
            for task in candidates:
                if (other := self._jobs.get(task.job)) is None:
                    continue
                changes.change(other, task.shape.requests, -1)
                if tree.shares(job.queue) < tree.shares(other.queue):
                    victims.append(task)
                else:
                    changes.revert(1)
        return victims

    def allocated(self, job: Job, shape: Shape, count: int) -> None:
        """Count allocated and pipelined tasks."""
        if self._tree is not None:
            self._tree.count_tasks(job, shape.requests, count)

    def released(self, job: Job, shape: Shape, count: int) -> None:
        """Count released tasks."""
        if self._tree is not None:
            self._tree.count_tasks(job, shape.requests, -count)

    def report(self, probe: Probe) -> Checkpoints:
        """Report the shares of jobs that changed."""
        changed, self._changed = self._changed, {}
        for number, (key, job) in enumerate(changed.items(), 1):
            labels = {"job_ns": job.namespace, "job_id": key.partition("/")[2]}
            if key in self._jobs:
                probe.gauge("volcano_job_share", self._share(allocated_to(job)), **labels)
            else:
                probe.forget("volcano_job_share", **labels)
            if not number % REPORT_BATCH:
                yield

    def _share(self, allocated: Amounts) -> float:
        largest = 0.0
        for (
            name,
            total,
        ) in self._total.items():  # called for every job of a backlog: a generator would take twice as long
            part = allocated.get(name, 0) / total
            largest = max(largest, part)
        return largest
