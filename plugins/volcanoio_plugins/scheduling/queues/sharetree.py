"""Hierarchical dominant resource fairness: shares of queues in the tree of `volcano.sh/hierarchy`.

A queue's annotations name its way from the root ("root/science/physics") and the weight of each step ("1/2/3"). Jobs
are leaves. A leaf is saturated when it has all it asks for of some resource, or asks for one that is used up in the
whole cluster: it cannot grow evenly any more. An inner node counts its saturated children as they are, and the others
scaled down to the smallest share among them, as what they hold beyond that is lent. Its share is the largest part of
any resource in that sum.

Sources: Volcano pkg/scheduler/plugins/drf; Bhattacharya et al.: Hierarchical Scheduling for Diverse Datacenter
Workloads (H-DRF), SoCC 2013. Unlike in Volcano, a queue without a hierarchy is a child of the root, with weight 1.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from volcanoio.framework.scheduling.sessionview import SessionView, Table
from volcanoio.framework.scheduling.views import Amounts, Job, QueueView, TaskStatus
from volcanoio.model.names import HIERARCHY, HIERARCHY_WEIGHTS, ROOT_QUEUE

Vector: TypeAlias = NDArray[np.float64]
Standing: TypeAlias = tuple[tuple[bool, float], ...]
"""At each step from the root: whether it is saturated, and its share over its weight. Smaller goes first."""

_DIGITS = 9
"""Shares that agree so far are equal: what was scaled down must not decide between them."""


def held_by(job: Job) -> Amounts:
    """What is allocated to a job, reservations included."""
    if not job.count(TaskStatus.PIPELINED):
        return job.allocated
    held = dict(job.allocated)
    for task in job.tasks:
        if task.status is TaskStatus.PIPELINED:
            for name, amount in task.shape.requests.items():
                held[name] = held.get(name, 0) + amount
    return held


def way_of(queue: QueueView) -> list[tuple[str, float]]:
    """The steps from the root to a queue, each with its weight (at least 1)."""
    annotations = queue.object.metadata.annotations
    names = [name for name in annotations.get(HIERARCHY, "").split("/") if name]
    if len(names) < 2 or names[0] != ROOT_QUEUE:
        return [(queue.name, 1.0)]
    weights = annotations.get(HIERARCHY_WEIGHTS, "").split("/")
    weights += ["1"] * (len(names) - len(weights))
    return [(name, _weight(text)) for name, text in zip(names[1:], weights[1:], strict=False)]


class Branch:
    """A node of the tree: its parts that are nodes, and those that are jobs of a queue."""

    def __init__(self, parent: Branch | None, weight: float) -> None:
        self.parent = parent
        self.weight = weight
        self.children: dict[str, Branch] = {}
        self.leaves: Leaves | None = None
        self.held: Vector
        self.share = 0.0
        self.saturated = False

    def update(self, total: Vector, exhausted: NDArray[np.bool_]) -> None:
        """Follow its parts."""
        held = [child.held for child in self.children.values()]
        share = [child.share for child in self.children.values()]
        saturated = [child.saturated for child in self.children.values()]
        everything = np.array(held).reshape(-1, len(total))
        shares, full = np.array(share), np.array(saturated, dtype=bool)
        if self.leaves is not None:
            everything = np.concatenate((everything, self.leaves.held))
            shares = np.concatenate((shares, _shares(self.leaves.held, total)))
            full = np.concatenate((full, self.leaves.saturated(exhausted)))
        growing = ~full & (shares > 0)
        lent = np.where(growing, 1.0, (shares > 0).astype(np.float64))
        if growing.any():
            lent[growing] = min(1.0, float(shares[growing].min())) / shares[growing]
        self.held = (everything * lent[:, None]).sum(axis=0)
        self.share = float(_shares(self.held[None, :], total)[0])
        self.saturated = bool(full.all())


class Leaves:
    """The jobs of one queue that have pending tasks, a row each, and the others as one row that is saturated."""

    def __init__(self, queue: QueueView, names: Sequence[str], moves: Table, settled: Table) -> None:
        self._names = names
        self._moves = moves
        self._settled = settled
        growing = [job for job in queue.jobs if job.count(TaskStatus.PENDING)]
        self._jobs = {job.key: (row, job) for row, job in enumerate(growing, 1)}
        held = np.array([[held_by(job).get(name, 0) for name in names] for job in growing], dtype=np.float64)
        held = held.reshape(-1, len(names))
        self._others = self._vector(queue.allocated) - held.sum(axis=0)
        self.held = np.concatenate((self._others[None, :], held))
        wanted = np.array([[job.requested.get(name, 0) for name in names] for job in growing], dtype=np.float64)
        self._wanted = np.concatenate((np.zeros((1, len(names))), wanted.reshape(-1, len(names))))
        self._seen = 0, 0
        self._recent: dict[str, int] = {}

    def tell(self, job: Job, requests: Mapping[str, int], count: int) -> None:
        """Tasks of a job were placed or released: an undoing is seen by the tables."""
        if job.key in self._jobs:
            self._moves.add(job.key, count)
            self._recent.setdefault(job.key, 0)
        else:
            for name, amount in requests.items():
                self._settled.add(name, amount * count)

    def follow(self) -> bool:
        """Take over what was told and undone; whether there was any."""
        seen = self._moves.version, self._settled.version
        if seen == self._seen:
            return False
        self._seen = seen
        for key, known in self._recent.items():
            moved = self._moves.get(key)
            if moved != known:
                row, job = self._jobs[key]
                self._recent[key] = moved
                self.held[row] = self._vector(held_by(job))
        self.held[0] = self._others + [self._settled.get(name) for name in self._names]
        return True

    def suppose(self, job: Job, requests: Vector) -> None:
        """Add what a job would hold more (or less)."""
        row = self._jobs[job.key][0] if job.key in self._jobs else 0
        self.held[row] += requests

    def saturated(self, exhausted: NDArray[np.bool_]) -> NDArray[np.bool_]:
        """Which rows cannot grow evenly any more."""
        asked = self._wanted > 0
        reached = asked & (self.held > 0) & (self.held >= self._wanted)
        full: NDArray[np.bool_] = np.array((reached | (asked & exhausted)).any(axis=1), dtype=bool)
        full[0] = True
        return full

    def _vector(self, amounts: Amounts) -> Vector:
        return np.array([amounts.get(name, 0) for name in self._names], dtype=np.float64)


class ShareTree:
    """The tree of one session. `version` is another number after every change of what jobs hold."""

    def __init__(self, session: SessionView, owner: str) -> None:
        self._names = sorted(name for name, amount in session.total.items() if amount > 0)
        self._total = np.array([session.total[name] for name in self._names], dtype=np.float64)
        self._used = session.table(owner, "used")
        self._followed = self._used.version
        self._held = np.zeros(len(self._names))
        self._supposed = np.zeros(len(self._names))
        self._root = Branch(None, 1.0)
        self._at: dict[str, list[Branch]] = {}
        """The way from below the root to each queue."""
        for name in sorted(session.queues):
            queue = session.queues[name]
            if queue.jobs:
                self._grow(session, owner, queue)
        self._exhausted = self._used_up()
        self._update(self._every(self._root))

    @property
    def version(self) -> int:
        """Another number after every change."""
        return self._used.version

    def tell(self, job: Job, requests: Mapping[str, int], count: int) -> None:
        """`count` tasks of a job were placed (released when negative)."""
        leaves = self._leaves(job)
        if leaves is not None:
            leaves.tell(job, requests, count)
            for name, amount in requests.items():
                self._used.add(name, amount * count)

    def standing(self, queue: str) -> Standing:
        """Where a queue stands now; nowhere when it has no jobs."""
        self._follow()
        return self.shares(queue)

    def shares(self, queue: str) -> Standing:
        """Where a queue stands by what is worked out, suppositions included."""
        way = self._at.get(queue, ())
        return tuple([(branch.saturated, round(branch.share / branch.weight, _DIGITS)) for branch in way])

    @contextmanager
    def supposing(self) -> Iterator[Supposition]:
        """What would be if jobs held more or less; all of it is taken back at the end."""
        self._follow()
        supposition = Supposition(self)
        try:
            yield supposition
        finally:
            supposition.take_back()

    def suppose(self, job: Job, requests: Mapping[str, int], sign: int) -> None:
        """Work out shares as if a job held so much more; called again with the other sign it is taken back."""
        leaves = self._leaves(job)
        if leaves is None:
            return
        vector = sign * np.array([requests.get(name, 0) for name in self._names], dtype=np.float64)
        leaves.suppose(job, vector)
        self._supposed += vector
        self._refresh([self._at[job.queue][-1]])

    def _leaves(self, job: Job) -> Leaves | None:
        way = self._at.get(job.queue)
        return way[-1].leaves if way else None

    def _grow(self, session: SessionView, owner: str, queue: QueueView) -> None:
        branch, way = self._root, []
        for name, weight in way_of(queue):
            branch = branch.children.setdefault(name, Branch(branch, weight))
            way.append(branch)
        moves, settled = (session.table(owner, f"{table}/{queue.name}") for table in ("moves", "settled"))
        branch = way[-1]
        if branch.leaves is not None:  # two queues say they are at the same place
            branch = branch.children.setdefault(f"/{queue.name}", Branch(branch, 1.0))
            way.append(branch)
        branch.leaves = Leaves(queue, self._names, moves, settled)
        self._at[queue.name] = way
        self._held += branch.leaves.held.sum(axis=0)

    def _used_up(self) -> NDArray[np.bool_]:
        used = self._held + self._supposed + [self._used.get(name) for name in self._names]
        return used >= self._total

    def _follow(self) -> None:
        if self._followed == self._used.version:
            return
        self._followed = self._used.version
        changed = [way[-1] for way in self._at.values() if (leaves := way[-1].leaves) is not None and leaves.follow()]
        if changed:
            self._refresh(changed)

    def _refresh(self, changed: list[Branch]) -> None:
        """Work out anew what depends on these; everything, where a resource was used up or freed."""
        exhausted = self._used_up()
        if (exhausted != self._exhausted).any():
            self._exhausted = exhausted
            self._update(self._every(self._root))
            return
        for start in changed:
            branch: Branch | None = start
            while branch is not None:
                branch.update(self._total, exhausted)
                branch = branch.parent

    def _update(self, branches: Iterable[Branch]) -> None:
        for branch in branches:
            branch.update(self._total, self._exhausted)

    def _every(self, branch: Branch) -> Iterator[Branch]:
        """The nodes below one and itself, children first."""
        for child in branch.children.values():
            yield from self._every(child)
        yield branch


class Supposition:
    """Changes that are supposed, in their order."""

    def __init__(self, tree: ShareTree) -> None:
        self._tree = tree
        self._made: list[tuple[Job, Mapping[str, int], int]] = []

    def change(self, job: Job, requests: Mapping[str, int], sign: int) -> None:
        """A job holds so much more, or less."""
        self._tree.suppose(job, requests, sign)
        self._made.append((job, requests, sign))

    def take_back(self, count: int | None = None) -> None:
        """Take back the last changes; all where no number is given."""
        for _ in range(len(self._made) if count is None else count):
            job, requests, sign = self._made.pop()
            self._tree.suppose(job, requests, -sign)


def _shares(held: Vector, total: Vector) -> Vector:
    """The dominant share of each row."""
    shares: Vector = (held / total).max(axis=1, initial=0.0)
    return shares


def _weight(text: str) -> float:
    try:
        return max(float(text), 1.0)
    except ValueError:
        return 1.0
