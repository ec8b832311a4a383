"""Plain objects of the oracle: a cluster as Volcano's loop sees it, without columns, shapes or caches."""

from __future__ import annotations

from dataclasses import dataclass, field

Amounts = dict[str, int]

HOLDING = ("allocated", "running")
"""States of tasks that count as allocated."""


@dataclass
class ONode:
    """A node; `tasks` are on it in whatever state."""

    name: str
    allocatable: Amounts
    labels: dict[str, str] = field(default_factory=dict)
    taints: list[tuple[str, str, str]] = field(default_factory=list)
    unschedulable: bool = False
    tasks: list[OTask] = field(default_factory=list)

    def total(self, name: str, *states: str) -> int:
        return sum(task.requests.get(name, 0) for task in self.tasks if task.state in states)

    def used(self, name: str) -> int:
        return self.total(name, *HOLDING, "releasing")

    def idle(self, name: str) -> int:
        return self.allocatable.get(name, 0) - self.used(name)

    def future(self, name: str) -> int:
        return self.idle(name) + self.total(name, "releasing") - self.total(name, "pipelined")

    def nonzero(self, name: str) -> int:
        return sum(task.nonzero[name] for task in self.tasks)


@dataclass
class OTask:
    """A task; `requests` hold `pods`: 1. `tolerations` are keys, `prefers` (weight, label, value)."""

    name: str
    requests: Amounts
    nonzero: Amounts
    role: str = ""
    priority: int = 1
    selector: dict[str, str] = field(default_factory=dict)
    tolerations: list[str] = field(default_factory=list)
    prefers: list[tuple[int, str, str]] = field(default_factory=list)
    state: str = "pending"
    node: str = ""

    @property
    def best_effort(self) -> bool:
        return set(self.requests) == {"pods"}

    @property
    def order(self) -> tuple[int, float, str]:
        """Priority, then the index in the name, then the uid (all are created at the same time)."""
        last = self.name.rsplit("-", 1)[-1]
        index = float(last) if self.name.count("-") > 1 and last.isdigit() else float("inf")
        return -self.priority, index, f"ns-{self.name}"


@dataclass
class OJob:
    """A job; `minimum_resources` None is admitted at once."""

    name: str
    queue: str
    minimum: int
    tasks: list[OTask]
    priority: int = 0
    phase: str = "Pending"
    minimum_resources: Amounts | None = None

    def count(self, *states: str) -> int:
        return sum(task.state in states for task in self.tasks)

    def sum(self, *states: str) -> Amounts:
        total: Amounts = {}
        for task in self.tasks:
            if task.state in states:
                for name, amount in task.requests.items():
                    total[name] = total.get(name, 0) + amount
        return total

    def ready(self, homeless: int = 0) -> bool:
        free = sum(task.state == "pending" and task.best_effort for task in self.tasks) - homeless
        return self.count(*HOLDING) + free >= self.minimum

    def pipelined(self) -> bool:
        free = sum(task.state == "pending" and task.best_effort for task in self.tasks)
        return self.count(*HOLDING, "pipelined") + free >= self.minimum

    def valid(self) -> bool:
        return self.count(*HOLDING, "pipelined", "pending") >= self.minimum


@dataclass
class OQueue:
    """A queue."""

    name: str
    weight: int = 1
    priority: int = 0
    capability: Amounts = field(default_factory=dict)
    open: bool = True


@dataclass
class OCluster:
    """All of it."""

    nodes: list[ONode]
    queues: list[OQueue]
    jobs: list[OJob]

    def total(self) -> Amounts:
        total: Amounts = {}
        for node in self.nodes:
            for name, amount in node.allocatable.items():
                total[name] = total.get(name, 0) + amount
        return total
