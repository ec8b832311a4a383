"""The views of a session that plugins get, as plain data for tests."""

from __future__ import annotations

from collections.abc import Collection, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from tests.unit.scheduling_plugins.nodeviews import NodesView
from volcanoio.engine.scheduling.claims.device_claims import DeviceClaims
from volcanoio.engine.scheduling.claims.volumes import VolumeIndex
from volcanoio.engine.scheduling.cluster.inputs import Inputs
from volcanoio.engine.scheduling.topology.tree import HyperNodeTree
from volcanoio.framework.scheduling.podterms import Carried, NodeCounts, Selectors
from volcanoio.framework.scheduling.points import Opens
from volcanoio.framework.scheduling.sessionview import Answer, Text
from volcanoio.framework.scheduling.views import ALLOCATED_STATUSES, Shape, SubJob, Task, TaskStatus
from volcanoio.framework.scheduling_effects import PreBindStep, Question
from volcanoio.model.base import ApiObject
from volcanoio.model.batch import NetworkTopology
from volcanoio.model.core import Affinity, Pod, Toleration
from volcanoio.model.resources import add, amounts
from volcanoio.model.scheduling import PodGroup, PodGroupPhase, Queue

READY = (*sorted(ALLOCATED_STATUSES), TaskStatus.SUCCEEDED)


def make_shape(
    requests: Mapping[str, str | int] | None = None,
    *,
    number: int = 0,
    node_selector: dict[str, str] | None = None,
    affinity: Affinity | None = None,
    tolerations: tuple[Toleration, ...] = (),
    nonzero: dict[str, int] | None = None,
) -> Shape:
    asked = {**amounts(requests or {}), "pods": 1}
    return Shape(
        id=number,
        requests=asked,
        best_effort=len(asked) == 1,
        node_selector=node_selector or {},
        affinity=affinity,
        tolerations=tolerations,
        nonzero_requests=nonzero
        if nonzero is not None
        else {"cpu": asked.get("cpu", 100), "memory": asked.get("memory", 200_000_000)},
    )


@dataclass
class TaskView:
    """A task in any state."""

    name: str
    job: str = ""
    status: TaskStatus = TaskStatus.PENDING
    shape: Shape = field(default_factory=lambda: make_shape({"cpu": 1}))
    priority: int = 1
    role: str = ""
    namespace: str = "ns"
    priority_class_name: str = ""
    created: str = ""
    node: str = ""
    preemptable: bool = True
    can_preempt: bool = True
    pod: Pod = field(default_factory=Pod)
    bind_annotations: dict[str, str] = field(default_factory=dict)

    @property
    def uid(self) -> str:
        return f"uid-{self.namespace}-{self.name}"


@dataclass
class JobView:
    """A job whose counters follow from its tasks."""

    key: str
    tasks: list[TaskView] = field(default_factory=list)
    queue: str = "default"
    priority: int = 0
    phase: str = PodGroupPhase.PENDING
    min_available: int = 1
    role_minimums: dict[str, int] = field(default_factory=dict)
    min_resources: dict[str, int] | None = None
    is_evicted_whole: bool = False
    created: str = ""
    schedulable_count: int = 0
    group: PodGroup = field(default_factory=PodGroup)
    gated: dict[str, int] = field(default_factory=dict)
    preemptable: bool = True
    network_topology: NetworkTopology | None = None

    @property
    def has_network_topology(self) -> bool:
        return self.network_topology is not None

    @property
    def uid(self) -> str:
        return f"uid-{self.key}"

    @property
    def namespace(self) -> str:
        return self.key.partition("/")[0]

    def _sum(self, statuses: Collection[TaskStatus]) -> dict[str, int]:
        total: dict[str, int] = {}
        for task in self.tasks:
            if task.status in statuses:
                add(total, task.shape.requests)
        return total

    @property
    def allocated(self) -> dict[str, int]:
        return self._sum(ALLOCATED_STATUSES)

    @property
    def requested(self) -> dict[str, int]:
        return self._sum({*ALLOCATED_STATUSES, TaskStatus.PENDING})

    def count(self, *statuses: TaskStatus) -> int:
        return sum(task.status in statuses for task in self.tasks)

    @property
    def ready_count(self) -> int:
        return self.count(*READY)

    @property
    def terminating_count(self) -> int:
        return sum(task.status == TaskStatus.RELEASING and bool(task.node) for task in self.tasks)

    @property
    def pending_best_effort(self) -> int:
        return sum(task.status == TaskStatus.PENDING and task.shape.best_effort for task in self.tasks)

    @property
    def valid_count(self) -> int:
        return self.count(*READY, TaskStatus.PIPELINED, TaskStatus.PENDING)

    def is_ready(self) -> bool:
        return self.ready_count + self.pending_best_effort >= self.min_available

    def is_pipelined(self) -> bool:
        return self.count(TaskStatus.PIPELINED) + self.ready_count + self.pending_best_effort >= self.min_available

    def is_starving(self) -> bool:
        return self.count(TaskStatus.PIPELINED) + self.ready_count < self.min_available

    def _roles(self, *statuses: TaskStatus) -> bool:
        if self.min_available < sum(self.role_minimums.values()):
            return True
        return all(
            sum(task.role == role and task.status in statuses for task in self.tasks) >= minimum
            for role, minimum in self.role_minimums.items()
        )

    def roles_valid(self) -> bool:
        return self._roles(*READY, TaskStatus.PIPELINED, TaskStatus.PENDING)

    def roles_ready(self) -> bool:
        return self._roles(*READY)

    def roles_pipelined(self) -> bool:
        return self._roles(*READY, TaskStatus.PIPELINED)

    @property
    def sub_jobs(self) -> Collection[SubJob]:
        return ()

    @property
    def sub_job_minimums(self) -> dict[str, int]:
        return {}

    def sub_job_of(self, task: Task) -> SubJob | None:
        return None

    def sub_jobs_valid(self) -> bool:
        return True

    def all_ready(self) -> bool:
        return self.is_ready() and self.roles_ready() and self.sub_jobs_ready()

    def sub_jobs_ready(self) -> bool:
        return True

    def sub_jobs_pipelined(self) -> bool:
        return True


@dataclass
class QueueData:
    """A queue; what it holds follows from its jobs."""

    name: str
    weight: int = 1
    priority: int = 0
    is_open: bool = True
    capability: dict[str, int] = field(default_factory=dict)
    guarantee: dict[str, int] = field(default_factory=dict)
    deserved: dict[str, int] = field(default_factory=dict)
    jobs: list[JobView] = field(default_factory=list)
    object: Queue = field(default_factory=Queue)

    @property
    def allocated(self) -> dict[str, int]:
        total: dict[str, int] = {}
        for job in self.jobs:
            add(total, job.allocated)
        return total

    @property
    def requested(self) -> dict[str, int]:
        total: dict[str, int] = {}
        for job in self.jobs:
            add(total, job.requested)
        return total

    @property
    def namespaces(self) -> dict[str, dict[str, int]]:
        total: dict[str, dict[str, int]] = {}
        for job in self.jobs:
            add(total.setdefault(job.namespace, {}), job.allocated)
        return total


class TableData:
    """A table without an undo log."""

    def __init__(self) -> None:
        self.values: dict[str, int] = {}
        self.version = 0

    def get(self, key: str) -> int:
        return self.values.get(key, 0)

    def set(self, key: str, value: int) -> None:
        self.values[key] = value
        self.version += 1

    def add(self, key: str, amount: int) -> None:
        self.set(key, self.get(key) + amount)

    def add_all(self, amounts: Mapping[str, int], times: int) -> None:
        for key, amount in amounts.items():
            self.add(key, times * amount)


class NoPods:
    """Empty counts of pods."""

    version = 0
    topology_keys = ()

    def matching(self, selectors: Selectors, *, terminating: bool = True) -> NodeCounts:
        raise NotImplementedError

    def carrying(self, carried: Carried) -> NodeCounts:
        raise NotImplementedError

    def carried(self, topic: Hashable) -> Collection[Carried]:
        return ()


@dataclass
class SessionData:
    """A session over nodes and queues; conditions set are kept in `conditions`."""

    nodes: NodesView = field(default_factory=lambda: NodesView([]))
    pods: NoPods = field(default_factory=NoPods)
    queues: dict[str, QueueData] = field(default_factory=dict)
    cycle: int = 1
    now: float = 0.0
    total: dict[str, int] = field(default_factory=dict)
    used: dict[str, int] = field(default_factory=dict)
    tables: dict[tuple[str, str], TableData] = field(default_factory=dict)
    conditions: dict[str, tuple[str, str, str]] = field(default_factory=dict)
    inputs: dict[str, dict[str, ApiObject]] = field(default_factory=dict)
    versions: dict[str, int] = field(default_factory=dict)
    evicting: list[TaskView] = field(default_factory=list)

    @property
    def jobs(self) -> dict[str, JobView]:
        return {job.key: job for queue in self.queues.values() for job in queue.jobs}

    @property
    def jobs_to_review(self) -> Collection[JobView]:
        return list(self.jobs.values())

    def jobs_in(self, phase: str) -> list[JobView]:
        return sorted(
            (job for job in self.jobs.values() if (job.phase or PodGroupPhase.PENDING) == phase),
            key=lambda job: job.key,
        )

    def has_jobs_in(self, phase: str) -> bool:
        return bool(self.jobs_in(phase))

    def tasks_on(self, node: str) -> list[TaskView]:
        return [task for job in self.jobs.values() for task in job.tasks if task.node == node]

    @property
    def nodes_version(self) -> int:
        return self.cycle

    def changed_rows(self, version: int) -> Iterable[int]:
        return range(len(self.nodes)) if version < self.cycle else ()

    def changed_jobs(self, owner: object, limit: int | None = None) -> list[JobView]:
        return list(self.jobs.values())

    def objects(self, resource: str) -> dict[str, ApiObject]:
        return self.inputs.get(resource, {})

    def version(self, resource: str) -> int:
        return self.versions.get(resource, 0)

    def facts(self, source: str) -> dict[str, Any]:
        return {}

    def ask(self, questions: Sequence[Question]) -> list[Answer]:
        return [Answer(question.default) for question in questions]

    def notify(self, notice: Question) -> None: ...

    def changed_since(self, resource: str, version: int) -> list[str] | None:
        return None

    @property
    def hyper_nodes(self) -> HyperNodeTree:
        return HyperNodeTree({}, {}, {}, {})

    def highest_tier(self, gang: object) -> int | None:
        return None

    def placed_in(self, gang: object) -> str:
        return ""

    @property
    def device_claims(self) -> DeviceClaims:
        return DeviceClaims(Inputs(), {})

    @property
    def volumes(self) -> VolumeIndex:
        return VolumeIndex(Inputs())

    @property
    def prebinding(self) -> dict[str, tuple[PreBindStep, ...]]:
        return {}

    def table(self, owner: str, name: str) -> TableData:
        return self.tables.setdefault((owner, name), TableData())

    def set_condition(self, job: str, condition: str, reason: str, message: Text) -> None:
        self.conditions[job] = (condition, reason, message if isinstance(message, str) else message())

    def fit_error(self, job: str) -> str:
        return f"why of {job}"


def session_of(*queues: QueueData, total: dict[str, int] | None = None) -> SessionData:
    return SessionData(queues={queue.name: queue for queue in queues}, total=total or {})


def tasks(
    job: str,
    count: int,
    status: TaskStatus = TaskStatus.PENDING,
    *,
    shape: Shape | None = None,
    role: str = "",
    priority: int = 1,
    node: str = "",
) -> list[TaskView]:
    name = f"{job.partition('/')[2]}-{status.name.lower()}"
    return [
        TaskView(f"{name}-{index}", job, status, shape or make_shape({"cpu": 1}), priority, role, node=node)
        for index in range(count)
    ]


def opened(plugin: Opens, session: SessionData) -> None:
    """Let a plugin open, all steps of it."""
    for _ in plugin.open(session) or ():
        pass
