"""Plugin task-topology: tasks of a job that talk to each other share nodes (Volcano: plugins/task-topology).

score = (tasks of the bucket on the node − the job's tasks there that repel it + how many tasks of the bucket still fit)
× weight × 100 / size of the largest bucket.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from volcanoio.framework.arguments import convert
from volcanoio.framework.scheduling.sessionview import SessionView, Table
from volcanoio.framework.scheduling.views import Nodes, Task
from volcanoio.model.resources import add
from volcanoio_plugins.scheduling.parts.affinities import affinities_of
from volcanoio_plugins.scheduling.parts.buckets import Bucket, Buckets

MAX_SCORE = 100
_OUTSIDE = (1, 0, 0, 0, 0)


class TaskTopologyArguments(msgspec.Struct, frozen=True):
    """The weight of the score."""

    weight: int = msgspec.field(default=1, name="task-topology.weight")


class TaskTopology:
    """Puts a job's tasks in buckets, places bucket after bucket, and keeps each on few nodes."""

    name = "task-topology"

    def __init__(self, arguments: Mapping[str, Any]) -> None:
        self._weight = convert(arguments, TaskTopologyArguments, self.name).weight
        self._session: SessionView | None = None
        self._placed: Table | None = None
        self._buckets: dict[str, Buckets | None] = {}
        self._nodes: dict[str, set[str]] = {}
        self._rows: dict[str, int] = {}

    def open(self, session: SessionView) -> None:
        """Buckets are made when a job's tasks are first asked about."""
        self._session = session
        self._placed = session.table(self.name, "placed")
        self._buckets, self._nodes, self._rows = {}, {}, {}

    def task_key(self, task: Task) -> tuple[int, int, int, int, int]:
        """Tasks in buckets first; the larger bucket, then the older; in it by the order of names."""
        buckets = self._of(task)
        bucket = buckets.of.get(task.uid) if buckets is not None else None
        if buckets is None or bucket is None:
            return _OUTSIDE
        order, strength = buckets.affinities.rank(task.role)
        return 0, -len(bucket), bucket.number, -order, -strength

    def scores_task(self, task: Task) -> bool:
        """Whether it is in a bucket."""
        buckets = self._of(task)
        return buckets is not None and task.uid in buckets.of

    def score_task(self, task: Task, nodes: Nodes) -> NDArray[np.float64]:
        """The score of all nodes."""
        buckets = self._of(task)
        bucket = buckets.of.get(task.uid) if buckets is not None else None
        if buckets is None or bucket is None:
            return np.zeros(len(nodes))
        score = self._fitting(task, bucket, nodes)
        for node in self._nodes[task.job]:
            row = self._row(node, nodes)
            if row is not None:
                score[row] += self._count(task.job, node, bucket) + self._repelled(task, node, buckets)
        fits = np.ones(len(nodes), np.bool_)
        for name, amount in task.shape.requests.items():
            fits &= nodes.future_idle(name) >= amount
        return np.where(fits, score * (self._weight * MAX_SCORE / buckets.largest), 0.0)

    def task_placed(self, task: Task) -> None:
        """It counts on its node from now on."""
        assert self._placed is not None
        buckets = self._buckets.get(task.job)
        if buckets is not None and (bucket := buckets.of.get(task.uid)) is not None:
            self._nodes[task.job].add(task.node)
            self._placed.set(task.uid, 1)
            self._placed.add(f"{task.job}#{bucket.number} {task.node}", 1)
            self._placed.add(f"{task.job}@{task.role} {task.node}", 1)

    def _of(self, task: Task) -> Buckets | None:
        """The buckets of the task's job, None when it says nothing about its tasks."""
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
        """How many tasks of a bucket are on a node."""
        assert self._placed is not None
        return bucket.on_node[node] + self._placed.get(f"{job}#{bucket.number} {node}")

    def _repelled(self, task: Task, node: str, buckets: Buckets) -> int:
        """How many tasks of the job on a node repel it, as a number below 0."""
        assert self._placed is not None
        there: Mapping[str, int] = buckets.roles_on.get(node, {})
        roles = {role for bucket in buckets.all for role in bucket.roles}
        counts = {role: there.get(role, 0) + self._placed.get(f"{task.job}@{role} {node}") for role in roles}
        return min(buckets.affinities.pull(task.role, counts, only_repelled=True), 0)

    def _fitting(self, task: Task, bucket: Bucket, nodes: Nodes) -> NDArray[np.float64]:
        """How many of the bucket's waiting tasks, this one among them, a node has room for, leaving out one by one."""
        assert self._placed is not None
        waiting = [each for each in bucket.waiting if not self._placed.get(each.uid)]
        others = [each for each in waiting if each.uid != task.uid]
        rest: dict[str, int] = {}
        for each in waiting:
            add(rest, each.shape.requests)
        left_out = np.zeros(len(nodes), np.int64)
        for name, whole in rest.items():
            steps = np.cumsum([0, *(each.shape.requests.get(name, 0) for each in others)])[:-1]
            wanted = whole - steps  # what is asked for after leaving out 0, 1, 2 … others: never more than before
            enough = np.searchsorted(-wanted, -nodes.future_idle(name), side="left")
            left_out = np.maximum(left_out, enough)
        return (len(waiting) - left_out).astype(np.float64)

    def _row(self, node: str, nodes: Nodes) -> int | None:
        if not self._rows:
            self._rows = {name: row for row, name in enumerate(nodes.names)}
        return self._rows.get(node)
