"""Plugin task-topology: tasks of a job that communicate share nodes (Volcano: plugins/task-topology).

Annotations `volcano.sh/task-topology-affinity` and `-anti-affinity` of the PodGroup contain groups of task names, such
as `ps,worker;chief`: the names of a group attract (or repel) each other, a single name itself. `-task-order` lists
names, first to last. Tasks that should share a node are in one bucket (manager.go).

score = (tasks of the bucket on the node − the job's tasks there that repel it + how many tasks of the bucket still fit)
× weight × 100 / size of the largest bucket.
"""

from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from volcanoio.framework.arguments import convert
from volcanoio.framework.scheduling.sessionview import SessionView, Table
from volcanoio.framework.scheduling.views import Nodes, Shape, Task, TaskStatus
from volcanoio.model.resources import MEMORY, add

AFFINITY = "volcano.sh/task-topology-affinity"
ANTI_AFFINITY = "volcano.sh/task-topology-anti-affinity"
TASK_ORDER = "volcano.sh/task-topology-task-order"

_SELF_ANTI, _INTER, _SELF, _INTER_ANTI = 4, 3, 2, 1
"""Rank of a task's strongest relation in the task order."""


class Affinities:
    """The affinities between task names. `rank` orders names with any: larger is first."""

    def __init__(
        self, attracted: Iterable[Collection[str]], repelled: Iterable[Collection[str]], order: Collection[str]
    ) -> None:
        self._attract: set[tuple[str, str]] = set()
        self._repel: set[tuple[str, str]] = set()
        self._strength: dict[str, int] = {}
        self._order = {name: len(order) - at for at, name in enumerate(order)}
        for group in attracted:
            self._bind(group, self._attract, _SELF, _INTER)
        for group in repelled:
            self._bind(group, self._repel, _SELF_ANTI, _INTER_ANTI)

    def __contains__(self, name: str) -> bool:
        return name in self._strength

    def rank(self, name: str) -> tuple[int, int]:
        """Return the rank: by the given order, then by the strongest relation."""
        return self._order.get(name, 0), self._strength[name]

    def pull(self, name: str, others: Mapping[str, int], *, only_repelled: bool = False) -> int:
        """Return how many of the others (counts by name) attract a task of that name, less how many repel it."""
        total = 0
        for other, count in others.items():
            if not only_repelled and (name, other) in self._attract:
                total += count
            if (name, other) in self._repel:
                total -= count
        return total

    def _bind(self, group: Collection[str], bonds: set[tuple[str, str]], alone: int, together: int) -> None:
        strength = alone if len(group) == 1 else together
        for name in group:
            bonds.update((name, other) for other in group if other != name or len(group) == 1)
            self._strength[name] = max(self._strength.get(name, 0), strength)


def affinities_of(annotations: Mapping[str, str], roles: Collection[str]) -> Affinities | None:
    """Parse the annotations; `roles` are the job's task names.

    None if there are none, or if a group names an unknown task or one twice.
    """
    if not annotations.keys() & {AFFINITY, ANTI_AFFINITY, TASK_ORDER}:
        return None
    attracted, repelled = _groups(annotations.get(AFFINITY, "")), _groups(annotations.get(ANTI_AFFINITY, ""))
    order = _names(annotations.get(TASK_ORDER, ""))
    for group in (*attracted, *repelled, order):
        if len(set(group)) != len(group) or not set(group) <= set(roles):
            return None
    return Affinities(attracted, repelled, order)


def _groups(text: str) -> list[list[str]]:
    return [group for part in text.split(";") if (group := _names(part))]


def _names(text: str) -> list[str]:
    return [name for part in text.split(",") if (name := part.strip())]


_FINISHED = (TaskStatus.SUCCEEDED, TaskStatus.FAILED)
_MIB = 1 << 20


class Bucket:
    """Tasks that attract each other: the `waiting` ones, and counts of the others by node at creation.

    `number` is the bucket's index. `weight` compares the requests of its waiting tasks: a core, a GiB and one of
    anything else count about the same.
    """

    def __init__(self, number: int) -> None:
        self.number = number
        self.waiting: list[Task] = []
        self.on_node: Counter[str] = Counter()
        self.roles: Counter[str] = Counter()
        self.weight = 0.0

    def __len__(self) -> int:
        return len(self.waiting) + self.on_node.total()

    def add(self, task: Task) -> None:
        """Add a task."""
        self.roles[task.role] += 1
        if task.node:
            self.on_node[task.node] += 1
        else:
            self.waiting.append(task)
            self.weight += _weight(task.shape)


class Buckets:
    """The buckets of a job; tasks whose name has no affinity are in none."""

    def __init__(self, tasks: Iterable[Task], affinities: Affinities) -> None:
        self.affinities = affinities
        self.all: list[Bucket] = []
        self.of: dict[str, Bucket] = {}
        """By the uid of a task."""
        self.roles_on: dict[str, Counter[str]] = {}
        """By node, the job's tasks there, by name."""
        by_node: dict[str, Bucket] = {}
        bound = [task for task in tasks if task.role in affinities and task.status not in _FINISHED]
        for task in sorted(bound, key=self._rank):
            bucket = by_node.get(task.node) if task.node else self._best_bucket(task)
            if bucket is None:
                bucket = Bucket(len(self.all))
                self.all.append(bucket)
                if task.node:
                    by_node[task.node] = bucket
            bucket.add(task)
            self.of[task.uid] = bucket
            if task.node:
                self.roles_on.setdefault(task.node, Counter())[task.role] += 1
        self.largest = max(map(len, self.all), default=0)

    def _rank(self, task: Task) -> tuple[bool, str, int, int, str]:
        """Order tasks on nodes first, then by the order of names, then by the task's name."""
        order, strength = self.affinities.rank(task.role)
        return not task.node, task.node, -order, -strength, task.name

    def _best_bucket(self, task: Task) -> Bucket | None:
        """Return the bucket that attracts a task most, the lightest of equals; None when all repel it."""
        best, most = None, 0
        for bucket in self.all:
            if (pull := self.affinities.pull(task.role, bucket.roles)) < 0:
                continue
            if best is None or pull > most or (pull == most and bucket.weight < best.weight):
                best, most = bucket, pull
        return best


def _weight(shape: Shape) -> float:
    return sum(amount / _MIB if name == MEMORY else amount for name, amount in shape.requests.items())


MAX_SCORE = 100
_OUTSIDE = (1, 0, 0, 0, 0)


class TaskTopologyArguments(msgspec.Struct, frozen=True):
    """The weight of the score."""

    weight: int = msgspec.field(default=1, name="task-topology.weight")


class TaskTopology:
    """Groups a job's tasks in buckets, places bucket after bucket, and keeps each on few nodes."""

    name = "task-topology"

    def __init__(self, arguments: Mapping[str, Any]) -> None:
        self._weight = convert(arguments, TaskTopologyArguments, self.name).weight
        self._session: SessionView | None = None
        self._placed: Table | None = None
        self._buckets: dict[str, Buckets | None] = {}
        self._nodes: dict[str, set[str]] = {}
        self._rows: dict[str, int] = {}

    def open(self, session: SessionView) -> None:
        """Reset the buckets, which are created when first needed."""
        self._session = session
        self._placed = session.table(self.name, "placed")
        self._buckets, self._nodes, self._rows = {}, {}, {}

    def task_key(self, task: Task) -> tuple[int, int, int, int, int]:
        """Order tasks in buckets first: by bucket size, then bucket number, then the order of names."""
        buckets = self._buckets_of(task)
        bucket = buckets.of.get(task.uid) if buckets is not None else None
        if buckets is None or bucket is None:
            return _OUTSIDE
        order, strength = buckets.affinities.rank(task.role)
        return 0, -len(bucket), bucket.number, -order, -strength

    def scores_task(self, task: Task) -> bool:
        """Return whether the task is in a bucket."""
        return (buckets := self._buckets_of(task)) is not None and task.uid in buckets.of

    def score_task(self, task: Task, nodes: Nodes) -> NDArray[np.float64]:
        """Score all nodes."""
        buckets = self._buckets_of(task)
        bucket = buckets.of.get(task.uid) if buckets is not None else None
        if buckets is None or bucket is None:
            return np.zeros(len(nodes))
        score = self._tasks_that_fit(task, bucket, nodes)
        for node in self._nodes[task.job]:
            if (row := self._row(node, nodes)) is not None:
                score[row] += self._count(task.job, node, bucket) + self._repulsion(task, node, buckets)
        fits = np.ones(len(nodes), np.bool_)
        for name, amount in task.shape.requests.items():
            fits &= nodes.future_idle(name) >= amount
        return np.where(fits, score * (self._weight * MAX_SCORE / buckets.largest), 0.0)

    def task_placed(self, task: Task) -> None:
        """Count the task on its node."""
        assert self._placed is not None
        if (buckets := self._buckets.get(task.job)) is not None and (bucket := buckets.of.get(task.uid)) is not None:
            self._nodes[task.job].add(task.node)
            self._placed.set(task.uid, 1)
            self._placed.add(f"{task.job}#{bucket.number} {task.node}", 1)
            self._placed.add(f"{task.job}@{task.role} {task.node}", 1)

    def _buckets_of(self, task: Task) -> Buckets | None:
        if task.job not in self._buckets:
            assert self._session is not None
            job = self._session.jobs.get(task.job)
            found = affinities_of(job.group.metadata.annotations, {each.role for each in job.tasks}) if job else None
            made = Buckets(job.tasks, found) if job and found else None
            self._buckets[task.job] = made
            if made is not None:
                self._nodes[task.job] = set(made.roles_on)
        return self._buckets[task.job]

    def _count(self, job: str, node: str, bucket: Bucket) -> int:
        assert self._placed is not None
        return bucket.on_node[node] + self._placed.get(f"{job}#{bucket.number} {node}")

    def _repulsion(self, task: Task, node: str, buckets: Buckets) -> int:
        """Return how many tasks of the job on a node repel it, as a negative number."""
        assert self._placed is not None
        there: Mapping[str, int] = buckets.roles_on.get(node, {})
        roles = {role for bucket in buckets.all for role in bucket.roles}
        counts = {role: there.get(role, 0) + self._placed.get(f"{task.job}@{role} {node}") for role in roles}
        return min(buckets.affinities.pull(task.role, counts, only_repelled=True), 0)

    def _tasks_that_fit(self, task: Task, bucket: Bucket, nodes: Nodes) -> NDArray[np.float64]:
        """Return how many of the bucket's waiting tasks, this one included, fit on a node.

        Tasks are left out one by one until the others fit.
        """
        assert self._placed is not None
        waiting = [each for each in bucket.waiting if not self._placed.get(each.uid)]
        others = [each for each in waiting if each.uid != task.uid]
        rest: dict[str, int] = {}
        for each in waiting:
            add(rest, each.shape.requests)
        left_out = np.zeros(len(nodes), np.int64)
        for name, whole in rest.items():
            steps = np.cumsum([0, *(each.shape.requests.get(name, 0) for each in others)])[:-1]
            wanted = whole - steps  # requests after leaving out 0, 1, 2 … others: non-increasing
            enough = np.searchsorted(-wanted, -nodes.future_idle(name), side="left")
            left_out = np.maximum(left_out, enough)
        return (len(waiting) - left_out).astype(np.float64)

    def _row(self, node: str, nodes: Nodes) -> int | None:
        if not self._rows:
            self._rows = {name: row for row, name in enumerate(nodes.names)}
        return self._rows.get(node)
