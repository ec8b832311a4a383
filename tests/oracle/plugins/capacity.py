"""Plugin capacity: each queue deserves an amount, and is limited by its capability and the guarantees of others.

Queues are flat, or a tree by spec.parent (enableHierarchy). Unlike Volcano: an error in the tree disables only that
part of it; a root with a capability for some resources has no limit of the others; the guarantees of a queue's
ancestors are kept too.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from tests.oracle.cluster import ALLOCATED, Amounts, Job, Queue, Task, total
from tests.oracle.plugins.demand import admitted, elastic, minimum
from tests.oracle.plugins.plugin import Plugin
from tests.oracle.plugins.proportion import reachable

BOUNDLESS = 2**62


class Capacity(Plugin):
    def offers(self, method: str) -> bool:
        return super().offers(method) and (self.hierarchical or method != "victim_queue_key")

    def open(self) -> None:
        self.queues = self.session.cluster.queues
        self.level = max(int(self.arguments.get("ancestorReclaimLevel", 0)), 0)
        self.guarantee = {name: queue.guarantee for name, queue in self.queues.items()}
        self.deserved: dict[str, Amounts] = {}
        self.ceiling: dict[str, Amounts] = {}
        if self.hierarchical:
            self._grow()
        else:
            self._lay_out()
        self.inqueue = {name: [admitted(job) for job in queue.jobs] for name, queue in self.queues.items()}
        self.elastic = {name: total(elastic(job) for job in queue.jobs) for name, queue in self.queues.items()}

    def _lay_out(self) -> None:
        guaranteed = total(queue.guarantee for queue in self.queues.values())
        for name, queue in self.queues.items():
            if queue.jobs:
                ceiling = reachable(self.session.total, guaranteed, queue, queue.capability)
                deserved = {
                    resource: min(amount, ceiling.get(resource, amount)) for resource, amount in queue.deserved.items()
                }
                self.ceiling[name], self.deserved[name] = ceiling, larger(deserved, queue.guarantee)

    def _grow(self) -> None:
        capability: dict[str, Amounts] = {}
        for name in sorted(self.queues, key=lambda name: len(self.above(name))):
            queue = self.queues[name]
            if not self.sound(name):
                continue
            own = {r: amount for r, amount in queue.capability.items() if amount > 0 or r not in ("cpu", "memory")}
            children = [each for each in self.queues.values() if each.parent == name]
            if name == "root":
                everything = dict.fromkeys(["cpu", "memory", *self.session.total], BOUNDLESS)
                capability[name] = self.ceiling[name] = everything | own
                self.deserved[name] = total(larger(each.deserved, each.guarantee) for each in children)
                self.guarantee[name] = total(each.guarantee for each in children)
                continue
            siblings = total(each.guarantee for each in self.queues.values() if each.parent == queue.parent)
            capability[name] = capability[queue.parent] | own
            self.ceiling[name] = reachable(self.ceiling[queue.parent], siblings, queue, capability[name])
            self.deserved[name] = larger(queue.deserved, queue.guarantee)

    # The tree.

    def above(self, name: str) -> list[str]:
        """Return the ancestors of a queue up to a missing one or a cycle; without hierarchy there are none."""
        way: list[str] = []
        at = self.queues[name].parent if self.hierarchical else ""
        while at in self.queues and at not in way and at != name:
            way.append(at)
            at = self.queues[at].parent
        return way

    def sound(self, name: str) -> bool:
        """Return whether the root is an ancestor of the queue, or the queue itself."""
        return name == "root" or "root" in self.above(name)

    def usable(self, queue: Queue) -> bool:
        if not self.hierarchical:
            return True
        return self.sound(queue.name) and not any(each.parent == queue.name for each in self.queues.values())

    def near(self, name: str, level: int) -> list[str]:
        return [each for each in self.above(name)[:level] if each != "root"]

    def held(self, name: str) -> Amounts:
        """Return what a queue and its descendants hold."""
        return total(
            q.sum(*ALLOCATED, "pipelined") for q in self.queues.values() if name in (q.name, *self.above(q.name))
        )

    # Orders.

    def share(self, name: str) -> tuple[float, bool]:
        """Return held over deserved; a queue that deserves nothing has 1, and is ordered after others with 1."""
        deserved = {resource: amount for resource, amount in self.deserved[name].items() if amount >= 0.1}
        if not deserved:
            return 1.0, True
        held = self.held(name)
        return max(held.get(resource, 0) / amount for resource, amount in deserved.items()), False

    def queue_key(self, queue: Queue) -> tuple[object, ...]:
        """Order by priority, leaves before inner queues, then by the shares from the root down."""
        if queue.name not in self.deserved:
            return -queue.priority, True, ()
        if not self.hierarchical:
            return -queue.priority, False, self.share(queue.name)
        path = [queue.name, *self.above(queue.name)][::-1][1:]
        order = tuple((*self.share(name), (self.queues[name].created, name)) for name in path)
        return -queue.priority, any(each.parent == queue.name for each in self.queues.values()), order

    def victim_queue_key(self, queue: Queue, preemptor: Queue) -> int:
        if not {queue.name, preemptor.name} <= self.deserved.keys():
            return 0
        return -len({*self.above(queue.name)} & {*self.above(preemptor.name)})

    # Limits.

    def valid(self, job: Job) -> bool:
        return self.usable(self.queues[job.queue])

    def allocatable(self, queue: Queue, requests: Amounts) -> bool:
        return (
            queue.open
            and self.usable(queue)
            and all(self._below(name, requests, self.ceiling[name]) for name in (queue.name, *self.above(queue.name)))
        )

    def _below(self, name: str, requests: Amounts, limit: Mapping[str, int]) -> bool:
        held = self.held(name)
        return all(
            held.get(resource, 0) + amount <= limit.get(resource, 0)
            for resource, amount in requests.items()
            if amount > 0 and resource != "pods"
        )

    def preemptive(self, queue: Queue, requests: Amounts) -> bool:
        """Return whether the queue is within its limit, and it or a near ancestor within its deserved amount."""
        if not queue.open or not self.usable(queue):
            return False
        if not self._below(queue.name, requests, self.ceiling[queue.name]):
            return False
        for name in (queue.name, *self.near(queue.name, self.level)):
            held, deserved = self.held(name), self.deserved[name]
            if any(
                held.get(resource, 0) + amount <= deserved.get(resource, 0) >= 0.1
                for resource, amount in requests.items()
                if amount > 0 and resource != "pods"
            ):
                return True
        return False

    def enqueueable(self, job: Job) -> int:
        queue = self.queues[job.queue]
        if not queue.open or not self.usable(queue):
            return -1
        for name in (queue.name, *self.above(queue.name)):
            below = [q.name for q in self.queues.values() if name in (q.name, *self.above(q.name))]
            held, waiting = self.held(name), total(each for other in below for each in self.inqueue[other])
            spare = total(self.elastic[other] for other in below)
            for resource, amount in (job.minimum_resources or {}).items():
                demand = amount + held.get(resource, 0) + waiting.get(resource, 0) - spare.get(resource, 0)
                if amount > 0 and resource != "pods" and demand > self.ceiling[name].get(resource, 0):
                    return -1
        return 1

    def enqueued(self, job: Job) -> None:
        self.inqueue[job.queue].append(minimum(job))

    # Victims.

    def reclaimable(self, preemptor: Task, candidates: Sequence[Task]) -> list[Task]:
        assert preemptor.job is not None
        return self._losable(preemptor.job, preemptor.requests, self.level, candidates)

    def _losable(self, job: Job, wanted: Amounts | None, level: int, candidates: Sequence[Task]) -> list[Task]:
        mine = job.queue
        if mine not in self.deserved or not self.usable(self.queues[mine]):
            return []
        left = {name: self.held(name) for name in self.deserved}
        victims = []
        for task in candidates:
            if task.job is None or task.job.queue not in self.deserved:
                continue
            if self._may_lose(task, task.job.queue, wanted, mine, left, level):
                victims.append(task)
                for name in (task.job.queue, *self.above(task.job.queue)):
                    for resource, amount in task.requests.items():
                        left[name][resource] = left[name].get(resource, 0) - amount
        return victims

    def evictable(self, job: Job, action: str, candidates: Sequence[Task]) -> list[Task]:
        """Return all candidates for gangpreempt; for other actions, those that their queues can lose."""
        if action == "gangpreempt":
            return list(candidates)
        return self._losable(job, None, 0, candidates)

    def _may_lose(
        self, task: Task, queue: str, wanted: Amounts | None, mine: str, left: Mapping[str, Amounts], level: int
    ) -> bool:
        requests = {name: amount for name, amount in task.requests.items() if name != "pods"}
        if wanted is not None and not common(requests, wanted):
            return False
        shared = {mine, *self.above(mine)} & {queue, *self.above(queue)}
        for name in (queue, *self.above(queue)):  # ours: ancestors too, unless the preemptor is below them
            guarantee = self.guarantee[name]
            if name not in shared and any(
                left[name].get(resource, 0) - task.requests.get(resource, 0) < amount
                for resource, amount in guarantee.items()
            ):
                return False
        if not common(task.requests, self.deserved[queue]):
            if {*self.near(mine, level)} & {*self.near(queue, level)} and not common(wanted or {}, self.deserved[mine]):
                return False
        elif not exceeds(left[queue], self.deserved[queue], task.requests):
            return False
        others = self.above(mine)
        for step, name in enumerate(self.above(queue)[:level]):
            if name == "root" or (step < len(others) and others[step] == name):
                continue
            deserved = self.deserved[name]
            if common(task.requests, deserved) and not exceeds(left[name], deserved, task.requests):
                return False
        return True


def larger(left: Amounts, right: Amounts) -> Amounts:
    return {name: max(left.get(name, 0), right.get(name, 0)) for name in {**left, **right}}


def common(left: Amounts, right: Amounts) -> bool:
    return any(amount >= 0.1 and right.get(name, 0) >= 0.1 for name, amount in left.items())


def exceeds(held: Amounts, deserved: Amounts, requests: Amounts) -> bool:
    """Return whether more is held than deserved of a requested resource of which anything is deserved."""
    for name, amount in requests.items():
        if amount <= 0 or name == "pods":
            continue
        relevant = deserved.get(name, 0) >= 0.1 if name in ("cpu", "memory") else name in deserved
        if relevant and held.get(name, 0) > deserved[name]:
            return True
    return False
