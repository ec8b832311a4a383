"""The tree of queues of hierarchical drf, computed from what jobs hold.

Leaves are jobs. A leaf is saturated if it has all that it requests of a resource, or requests one that is exhausted. A
node is the sum of its saturated children and of the others, which are scaled down to the smallest share among them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from tests.oracle.cluster import ALLOCATED, Amounts, Job, Queue, Task

if TYPE_CHECKING:
    from tests.oracle.session import Session

OrderKey = tuple[tuple[bool, float], ...]


class Place:
    """A node of the tree, with its weight, its children and the jobs below it."""

    def __init__(self, weight: float = 1.0) -> None:
        self.weight = weight
        self.children: dict[str, Place] = {}
        self.jobs: list[Job] = []


class ShareTree:
    """The shares of all queues, with some tasks supposed to be placed or removed.

    `wanted` is what jobs held and requested when the session opened, by uid, without jobs that requested no more.
    `supposed` are tasks that count as placed (1) or not placed (-1).
    """

    def __init__(
        self, session: Session, wanted: Mapping[str, Amounts], supposed: Sequence[tuple[Task, int]] = ()
    ) -> None:
        self.wanted = wanted
        self.total = {name: amount for name, amount in session.total.items() if amount > 0}
        self.supposed = supposed
        self.root = Place()
        self.ways: dict[str, list[Place]] = {}
        queues = [queue for _, queue in sorted(session.cluster.queues.items()) if queue.jobs]
        taken: set[int] = set()
        for queue in queues:
            at, way = self.root, []
            for name, weight in self._steps(queue):
                at = at.children.setdefault(name, Place(weight))
                way.append(at)
            if id(at) in taken:  # ours: of two queues in one place the second is below it
                at = at.children.setdefault(f"/{queue.name}", Place())
                way.append(at)
            taken.add(id(at))
            at.jobs += queue.jobs
            self.ways[queue.name] = way
        used = {name: sum(self._held(job).get(name, 0) for q in queues for job in q.jobs) for name in self.total}
        self.exhausted = {name for name, amount in self.total.items() if used[name] >= amount}

    def order_key(self, queue: Queue) -> OrderKey:
        """Return, for each step from the root, whether it is saturated and its share over its weight."""
        result = []
        for place in self.ways.get(queue.name, []):
            held, saturated = self._sum(place)
            result.append((saturated, round(self._share(held) / place.weight, 9)))
        return tuple(result)

    @staticmethod
    def _steps(queue: Queue) -> list[tuple[str, float]]:
        """Return names and weights by annotations; unlike Volcano, a queue without them is a child of the root."""
        names = [name for name in queue.annotations.get("volcano.sh/hierarchy", "").split("/") if name]
        if len(names) < 2 or names[0] != "root":
            return [(queue.name, 1.0)]
        weights = queue.annotations.get("volcano.sh/hierarchy-weights", "").split("/")
        weights += ["1"] * (len(names) - len(weights))
        return [(name, max(float(weight), 1.0)) for name, weight in zip(names[1:], weights[1:], strict=False)]

    def _held(self, job: Job) -> Amounts:
        held = job.sum(*ALLOCATED, "pipelined")
        for task, sign in self.supposed:
            if task.job is job:
                for name, amount in task.requests.items():
                    held[name] = held.get(name, 0) + sign * amount
        return held

    def _share(self, held: dict[str, float] | Amounts) -> float:
        return max((held.get(name, 0) / amount for name, amount in self.total.items()), default=0.0)

    def _leaf(self, job: Job) -> tuple[dict[str, float], bool]:
        held = self._held(job)
        if job.uid not in self.wanted:
            return dict(held), True
        wanted = self.wanted[job.uid]
        full = any(
            amount > 0 and (held.get(name, 0) >= amount > 0 or name in self.exhausted)
            for name, amount in wanted.items()
            if name in self.total
        )
        return dict(held), full

    def _sum(self, place: Place) -> tuple[dict[str, float], bool]:
        parts = [self._sum(child) for child in place.children.values()] + [self._leaf(job) for job in place.jobs]
        growing = [self._share(held) for held, full in parts if not full and self._share(held) > 0]
        least = min([1.0, *growing])
        result: dict[str, float] = {}
        for held, full in parts:
            share = self._share(held)
            factor = 1.0 if full else (least / share if share > 0 else 0.0)
            for name, amount in held.items():
                result[name] = result.get(name, 0.0) + amount * factor
        return result, all(full for _, full in parts)
