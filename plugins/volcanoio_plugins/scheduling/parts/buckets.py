"""A job's tasks in buckets: those of one bucket are better on one node (Volcano: plugins/task-topology, manager.go)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from volcanoio.framework.scheduling.views import Shape, Task, TaskStatus
from volcanoio.model.resources import MEMORY
from volcanoio_plugins.scheduling.parts.affinities import Affinities

_FINISHED = (TaskStatus.SUCCEEDED, TaskStatus.FAILED)
_MIB = 1 << 20


class Bucket:
    """Tasks that attract each other: `waiting` ones, and how many were on which node when it was made.

    `number` says how many buckets were made before it. `weight` compares what its waiting tasks request: a core, a
    GiB and a whole of anything else count about the same.
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
        """Put a task in."""
        self.roles[task.role] += 1
        if task.node:
            self.on_node[task.node] += 1
        else:
            self.waiting.append(task)
            self.weight += _weight(task.shape)


class Buckets:
    """The buckets of a job; tasks whose name has no bond are in none."""

    def __init__(self, tasks: Iterable[Task], affinities: Affinities) -> None:
        self.affinities = affinities
        self.all: list[Bucket] = []
        self.of: dict[str, Bucket] = {}
        """By the uid of a task."""
        self.roles_on: dict[str, Counter[str]] = {}
        """By node the job's tasks there, by name."""
        by_node: dict[str, Bucket] = {}
        bound = [task for task in tasks if task.role in affinities and task.status not in _FINISHED]
        for task in sorted(bound, key=self._rank):
            bucket = by_node.get(task.node) if task.node else self._attractive(task)
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
        """Tasks on nodes first, then by the names' order, then by the tasks' own."""
        order, strength = self.affinities.rank(task.role)
        return not task.node, task.node, -order, -strength, task.name

    def _attractive(self, task: Task) -> Bucket | None:
        """The bucket that pulls a task most, of equals the lightest; None when all push it away."""
        best, most = None, 0
        for bucket in self.all:
            pull = self.affinities.pull(task.role, bucket.roles)
            if pull < 0:
                continue
            if best is None or pull > most or (pull == most and bucket.weight < best.weight):
                best, most = bucket, pull
        return best


def _weight(shape: Shape) -> float:
    return sum(amount / _MIB if name == MEMORY else amount for name, amount in shape.requests.items())
