"""The oracle: one session of Volcano's loop, turn by turn and node by node, in plain Python.

Actions enqueue, allocate and backfill with the default plugins' rules. Nothing is cached and nothing is vectorised:
every number is computed from the tasks as they are. What the queues deserve is taken from `waterfilling`, which has
tests of its own; all else is written anew from the reference.
"""

from __future__ import annotations

from collections.abc import Callable
from math import sqrt

from volcanoio_plugins.scheduling.waterfilling import Claim, fill, reachable

from tests.oracle.model import HOLDING, Amounts, OCluster, OJob, ONode, OQueue, OTask

Tie = Callable[[OTask, ONode], int]
"""Which of equal nodes is taken: the smallest."""
NOTHING: Amounts = {}


class Oracle:
    """Runs one session; afterwards `binds` are the tasks to bind, by name, with their nodes."""

    def __init__(self, cluster: OCluster, tie: Tie) -> None:
        self.cluster = cluster
        self.tie = tie
        self.binds: dict[str, str] = {}
        self.failed_roles: dict[str, set[str]] = {}
        self.queues = {queue.name: queue for queue in cluster.queues}
        self.total = cluster.total()
        with_jobs = [queue for queue in cluster.queues if any(job.queue == queue.name for job in cluster.jobs)]
        self.ceilings = {q.name: reachable(self.total, NOTHING, NOTHING, q.capability) for q in with_jobs}
        claims = [
            Claim(
                name=queue.name,
                weight=queue.weight,
                request=self.of_queue(queue.name, *HOLDING, "pending"),
                guarantee=NOTHING,
                ceiling=self.ceilings[queue.name],
            )
            for queue in sorted(with_jobs, key=lambda queue: queue.name)
        ]
        self.deserved = fill(self.total, claims)
        self.admitted: list[tuple[OJob, Amounts]] = [
            (job, self.outstanding(job)) for job in cluster.jobs if self.holds_back(job)
        ]
        self.admitted_overcommit: list[Amounts] = [
            job.minimum_resources or {} if job.phase == "Inqueue" else self.outstanding(job)
            for job in cluster.jobs
            if self.holds_back(job)
        ]
        self.elastic = {job.name: self.beyond_minimum(job) for job in cluster.jobs}
        self.idle = {
            name: amount * 1.2 - sum(node.used(name) for node in cluster.nodes) for name, amount in self.total.items()
        }

    def run(self) -> dict[str, str]:
        """The whole session."""
        self.enqueue()
        self.allocate()
        self.backfill()
        return self.binds

    # Orders and amounts.

    def of_queue(self, queue: str, *states: str) -> Amounts:
        total: Amounts = {}
        for job in self.cluster.jobs:
            if job.queue == queue:
                for name, amount in job.sum(*states).items():
                    total[name] = total.get(name, 0) + amount
        return total

    def queue_order(self, queue: OQueue) -> tuple[int, float, str]:
        held = self.of_queue(queue.name, *HOLDING, "pipelined")
        shares = [
            (held.get(name, 0) / amount if amount else float(held.get(name, 0) != 0))
            for name, amount in self.deserved[queue.name].items()
        ]
        return -queue.priority, max(shares, default=0.0), f"queue-{queue.name}"

    def job_order(self, job: OJob) -> tuple[int, bool, float, str]:
        held = job.sum(*HOLDING, "pipelined")
        share = max((held.get(name, 0) / amount for name, amount in self.total.items() if amount), default=0.0)
        return -job.priority, job.ready(), share, f"ns-{job.name}"

    def outstanding(self, job: OJob) -> Amounts:
        held = job.sum(*HOLDING)
        return {name: max(amount - held.get(name, 0), 0) for name, amount in (job.minimum_resources or {}).items()}

    def beyond_minimum(self, job: OJob) -> Amounts:
        minimum = job.minimum_resources or {}
        return {name: max(amount - minimum.get(name, 0), 0) for name, amount in job.sum(*HOLDING).items()}

    def holds_back(self, job: OJob) -> bool:
        if job.minimum_resources is None:
            return False
        return job.phase == "Inqueue" or (job.phase == "Running" and job.count(*HOLDING) >= job.minimum)

    # enqueue.

    def enqueue(self) -> None:
        waiting = {
            name: [job for job in self.cluster.jobs if job.queue == name and job.phase == "Pending"]
            for name in self.deserved
        }
        queues = [self.queues[name] for name, jobs in waiting.items() if jobs]
        while queues:
            queue = min(queues, key=self.queue_order)
            jobs = waiting[queue.name]
            if not jobs:
                queues.remove(queue)
                continue
            job = min(jobs, key=self.job_order)
            jobs.remove(job)
            if self.enqueueable(job):
                job.phase = "Inqueue"
                if job.minimum_resources is not None:
                    self.admitted.append((job, job.minimum_resources))
                    self.admitted_overcommit.append(job.minimum_resources)

    def enqueueable(self, job: OJob) -> bool:
        if job.minimum_resources is None:
            return True
        if not self.queues[job.queue].open:
            return False
        held = self.of_queue(job.queue, *HOLDING)
        for name, amount in job.minimum_resources.items():
            if amount <= 0 or name == "pods":
                continue
            if amount + sum(given.get(name, 0) for given in self.admitted_overcommit) > self.idle.get(name, 0):
                return False
            waiting = sum(given.get(name, 0) for other, given in self.admitted if other.queue == job.queue)
            spare = sum(
                self.elastic[other.name].get(name, 0) for other in self.cluster.jobs if other.queue == job.queue
            )
            if amount + held.get(name, 0) + waiting - spare > self.ceilings[job.queue].get(name, 0):
                return False
        return True

    # allocate.

    def allocate(self) -> None:
        left: dict[str, list[OTask]] = {}
        waiting: dict[str, list[OJob]] = {}
        for job in self.cluster.jobs:
            if job.phase == "Pending" or not job.valid():
                continue
            tasks = sorted((t for t in job.tasks if t.state == "pending" and not t.best_effort), key=lambda t: t.order)
            if tasks:
                left[job.name] = tasks
                waiting.setdefault(job.queue, []).append(job)
        queues = [self.queues[name] for name in waiting]
        while queues:
            queue = min(queues, key=self.queue_order)
            if self.overused(queue) or not waiting[queue.name]:
                queues.remove(queue)
                continue
            job = min(waiting[queue.name], key=self.job_order)
            waiting[queue.name].remove(job)
            if self.turn(queue, job, left[job.name]) and left[job.name]:
                waiting[queue.name].append(job)

    def overused(self, queue: OQueue) -> bool:
        held = self.of_queue(queue.name, *HOLDING, "pipelined")
        return all(amount - held.get(name, 0) < 0.1 for name, amount in self.deserved[queue.name].items())

    def allocatable(self, queue: OQueue, task: OTask) -> bool:
        held = self.of_queue(queue.name, *HOLDING, "pipelined")
        deserved = self.deserved[queue.name]
        return queue.open and all(
            held.get(name, 0) + amount <= deserved.get(name, 0)
            for name, amount in task.requests.items()
            if amount > 0 and name != "pods"
        )

    def turn(self, queue: OQueue, job: OJob, tasks: list[OTask]) -> bool:
        """One turn of a job: whether its statement was committed."""
        placed: list[OTask] = []
        failed = self.failed_roles.setdefault(job.name, set())
        while tasks:
            task = tasks.pop(0)
            if task.role in failed or not self.allocatable(queue, task):
                continue
            if not self.place(task, placed):
                failed.update({task.role} - {""})
                if job.minimum == len(job.tasks):
                    break
                continue
            if job.ready():
                break
        if job.ready():
            self.binds.update({task.name: task.node for task in placed if task.state == "allocated"})
            return True
        if not job.pipelined():
            self.discard(placed)
        return False

    def discard(self, placed: list[OTask]) -> None:
        for task in placed:
            self.node(task.node).tasks.remove(task)
            task.state, task.node = "pending", ""

    # backfill.

    def backfill(self) -> None:
        for queue in sorted(self.cluster.queues, key=self.queue_order_or_last):
            jobs = [job for job in self.cluster.jobs if job.queue == queue.name and job.phase != "Pending"]
            for job in sorted((job for job in jobs if job.valid()), key=self.job_order):
                tasks = [task for task in job.tasks if task.state == "pending" and task.best_effort]
                placed: list[OTask] = []
                homeless = 0
                for task in sorted(tasks, key=lambda task: task.order):
                    homeless += not self.place(task, placed, idle_only=True)
                if job.ready(homeless):
                    self.binds.update({task.name: task.node for task in placed})
                else:
                    self.discard(placed)

    def queue_order_or_last(self, queue: OQueue) -> tuple[bool, tuple[int, float, str]]:
        return (False, self.queue_order(queue)) if queue.name in self.deserved else (True, (0, 0.0, queue.name))

    # Nodes.

    def node(self, name: str) -> ONode:
        return next(node for node in self.cluster.nodes if node.name == name)

    def place(self, task: OTask, placed: list[OTask], *, idle_only: bool = False) -> bool:
        """Put a task on its best node: one with idle room, else one with room that is being released."""
        candidates = [node for node in self.cluster.nodes if self.fits(task, node) and self.passes(task, node)]
        idle = [n for n in candidates if all(n.idle(name) >= amount for name, amount in task.requests.items())]
        group = idle if idle or idle_only else candidates
        if not group:
            return False
        best = min(group, key=lambda node: (-self.score(task, node, group), self.tie(task, node)))
        task.state, task.node = "allocated" if idle else "pipelined", best.name
        best.tasks.append(task)
        placed.append(task)
        return True

    @staticmethod
    def fits(task: OTask, node: ONode) -> bool:
        return all(node.future(name) >= amount for name, amount in task.requests.items())

    @staticmethod
    def passes(task: OTask, node: ONode) -> bool:
        if node.unschedulable or any(node.labels.get(key) != value for key, value in task.selector.items()):
            return False
        return all(effect != "NoSchedule" or key in task.tolerations for key, _, effect in node.taints)

    def score(self, task: OTask, node: ONode, group: list[ONode]) -> float:
        """nodeorder (least requested 1, balanced 1, affinity 2, taints 3) and binpack (1)."""
        total = self.least(task, node) + self.balanced(task, node) + self.binpack(task, node)
        wishes = {other.name: self.wishes(task, other) for other in group}
        if top := max(wishes.values()):
            total += wishes[node.name] * 100 // top * 2
        soft = {other.name: self.soft(task, other) for other in group}
        top = max(soft.values())
        return total + (100 - soft[node.name] * 100 // top if top else 100) * 3

    @staticmethod
    def least(task: OTask, node: ONode) -> int:
        scores = []
        for name in ("cpu", "memory"):
            capacity = node.allocatable[name]
            free = capacity - node.nonzero(name) - task.nonzero[name]
            scores.append(free * 100 // capacity if free > 0 else 0)
        return sum(scores) // 2

    @staticmethod
    def balanced(task: OTask, node: ONode) -> int:
        names = ["cpu", "memory"] + (["nvidia.com/gpu"] if task.requests.get("nvidia.com/gpu") else [])
        fractions = [
            min((node.used(name) + task.requests.get(name, 0)) / node.allocatable[name], 1.0)
            for name in names
            if node.allocatable.get(name)
        ]
        if len(fractions) == 2:
            return int((1 - abs((fractions[0] - fractions[1]) / 2)) * 100)
        mean = (fractions[0] + fractions[1] + fractions[2]) / 3
        squares = 0.0
        for fraction in fractions:
            squares += (fraction - mean) * (fraction - mean)
        return int((1 - sqrt(squares / 3)) * 100)

    @staticmethod
    def binpack(task: OTask, node: ONode) -> float:
        asked = [name for name in ("cpu", "memory") if task.requests.get(name)]
        total = 0.0
        for name in asked:
            final = node.used(name) + task.requests[name]
            if final > node.allocatable[name]:
                return 0.0
            total += final / node.allocatable[name]
        return total / len(asked) * 100.0 if asked else 0.0

    @staticmethod
    def wishes(task: OTask, node: ONode) -> int:
        return sum(weight for weight, key, value in task.prefers if node.labels.get(key) == value)

    @staticmethod
    def soft(task: OTask, node: ONode) -> int:
        return sum(e == "PreferNoSchedule" and key not in task.tolerations for key, _, e in node.taints)
