"""Plugin task-topology: related tasks of a job are put in buckets, placed in order, and kept on few nodes."""

from __future__ import annotations

from tests.oracle.cluster import Job, Node, Task
from tests.oracle.plugins.plugin import Plugin

AFFINITY, ANTI, ORDER = (f"volcano.sh/task-topology-{name}" for name in ("affinity", "anti-affinity", "task-order"))
FINISHED = ("succeeded", "failed")


class Bonds:
    """Affinity, anti-affinity and order between roles, from the annotations of a PodGroup."""

    def __init__(self, job: Job) -> None:
        self.attracted, self.repelled = (_groups(job.annotations.get(name, "")) for name in (AFFINITY, ANTI))
        order = _names(job.annotations.get(ORDER, ""))
        self.order = {name: len(order) - at for at, name in enumerate(order)}
        roles = {task.role for task in job.tasks}
        self.usable = {AFFINITY, ANTI, ORDER} & job.annotations.keys() != set() and all(
            len(set(group)) == len(group) and set(group) <= roles for group in (*self.attracted, *self.repelled, order)
        )

    def rank(self, role: str) -> tuple[int, int]:
        """Return the user's order and the strongest bond: self-anti 4, inter 3, self 2, inter-anti 1, none 0."""
        strengths = [2 if len(group) == 1 else 3 for group in self.attracted if role in group]
        strengths += [4 if len(group) == 1 else 1 for group in self.repelled if role in group]
        return self.order.get(role, 0), max(strengths, default=0)

    def pull(self, role: str, others: list[str]) -> int:
        return sum(_bound(self.attracted, role, other) for other in others) + self.push(role, others)

    def push(self, role: str, others: list[str]) -> int:
        return -sum(_bound(self.repelled, role, other) for other in others)


class TaskTopology(Plugin):
    def open(self) -> None:
        self.bonds: dict[str, Bonds] = {}
        self.buckets: dict[str, list[list[Task]]] = {}
        self.waiting = {task.uid for task in self.session.cluster.tasks if not task.node}
        for job in self.session.cluster.jobs:
            bonds = Bonds(job)
            if bonds.usable:
                self.bonds[job.uid], self.buckets[job.uid] = bonds, _fill(job, bonds)

    def _bucket(self, task: Task) -> tuple[int, list[Task]] | None:
        buckets = self.buckets.get(task.job.uid, []) if task.job is not None else []
        return next(((at, bucket) for at, bucket in enumerate(buckets) if task in bucket), None)

    def task_key(self, task: Task) -> tuple[int, ...]:
        """Order tasks in buckets first, by size of the bucket, then its age, then by rank."""
        found = self._bucket(task)
        if found is None or task.job is None:
            return 1, 0, 0, 0, 0
        order, strength = self.bonds[task.job.uid].rank(task.role)
        return 0, -len(found[1]), found[0], -order, -strength

    def own_score(self, task: Task, node: Node) -> float:
        """Score (tasks of the bucket there - tasks that repel it + tasks that still fit) over the largest bucket."""
        found = self._bucket(task)
        if found is None or task.job is None:
            return 0.0
        if any(node.future(name) < amount for name, amount in task.requests.items()):
            return 0.0
        _, bucket = found
        bonds = self.bonds[task.job.uid]
        there = [t for each in self.buckets[task.job.uid] for t in each if t.node == node.name]
        total = sum(t in bucket for t in there) + min(bonds.push(task.role, [t.role for t in there]), 0)
        largest = max(map(len, self.buckets[task.job.uid]))
        return float(total + self._fitting(task, bucket, node)) * float(
            self.arguments.get("task-topology.weight", 1) * 100 / largest
        )

    def _fitting(self, task: Task, bucket: list[Task], node: Node) -> int:
        """Count the waiting tasks that fit together, after leaving out one after another, but never the task itself."""
        waiting = [each for each in bucket if each.uid in self.waiting and not each.node]
        others = [each for each in waiting if each is not task]
        while others or waiting:
            names = {name for each in waiting for name in each.requests}
            if all(node.future(name) >= sum(t.requests.get(name, 0) for t in waiting) for name in names):
                return len(waiting)
            if not others:
                return 0
            waiting.remove(others.pop(0))
        return 0


def _fill(job: Job, bonds: Bonds) -> list[list[Task]]:
    """Put each task in the bucket with the strongest affinity, of equal ones the lightest, or in a new one."""
    tasks = [task for task in job.tasks if bonds.rank(task.role)[1] and task.state not in FINISHED]
    tasks.sort(key=lambda t: (not t.node, t.node, *[-part for part in bonds.rank(t.role)], t.name))
    buckets: list[list[Task]] = []
    for task in tasks:
        if task.node:
            pulls = [(0, 0.0, at) for at, bucket in enumerate(buckets) if bucket[0].node == task.node]
        else:
            pulls = [
                (-pull, _weight(bucket), at)
                for at, bucket in enumerate(buckets)
                if (pull := bonds.pull(task.role, [each.role for each in bucket])) >= 0
            ]
        if pulls:
            buckets[min(pulls)[2]].append(task)
        else:
            buckets.append([task])
    return buckets


def _weight(bucket: list[Task]) -> float:
    """Sum the requests of waiting tasks; a core, a GiB and a unit of any other resource are about equal."""
    return sum(
        amount / (1 << 20) if name == "memory" else amount
        for task in bucket
        if not task.node
        for name, amount in task.requests.items()
    )


def _bound(groups: list[list[str]], one: str, other: str) -> bool:
    return any(one in group and other in group and (one != other or len(group) == 1) for group in groups)


def _groups(text: str) -> list[list[str]]:
    return [group for part in text.split(";") if (group := _names(part))]


def _names(text: str) -> list[str]:
    return [name.strip() for name in text.split(",") if name.strip()]
