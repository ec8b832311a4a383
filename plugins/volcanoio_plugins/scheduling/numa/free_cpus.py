"""Which CPUs of each node can still be assigned exclusively.

Free are the allocatable CPUs of a Numatopology, less those reserved for the system, those of its pods, and those that
the scheduler expects for pods that the exporter has not reported yet. These are remembered from the bind on. After a
restart they follow from the annotation of the decision, or, for a pod without one, from the node's policy.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

import msgspec

from volcanoio.framework.scheduling.numa import (
    CPU_MANAGER_POLICY,
    STATIC,
    TOPOLOGY_MANAGER_POLICY,
    CpuTopology,
    TopologyPolicy,
    exclusive_cpus,
    outcome,
    parse_cpus,
    take,
)
from volcanoio.framework.scheduling.views import ALLOCATED_STATUSES, Job, Task, TaskStatus
from volcanoio.model.base import ApiObject
from volcanoio.model.documents import decode_json
from volcanoio.model.names import TOPOLOGY_DECISION
from volcanoio.model.nodes import Numatopology
from volcanoio.model.quantity import QuantityError
from volcanoio.model.resources import CPU, amount_of


@dataclass(frozen=True)
class NumaNode:
    """A node whose CPU manager assigns CPUs: its CPUs, the policy of its topology manager, and its pods by uid.

    `reported` are the CPUs free according to the exporter, `version` the resourceVersion of its report.
    """

    topology: CpuTopology
    policy: TopologyPolicy
    reported: int
    pods: Mapping[str, int]
    version: str


def read_node(found: ApiObject | None) -> NumaNode | None:
    """Return the node that a Numatopology describes; None if the node assigns no CPUs, or if it cannot be read."""
    if not isinstance(found, Numatopology):
        return None
    spec = found.spec
    if spec.policies.get(CPU_MANAGER_POLICY) != STATIC or not spec.cpu_detail or CPU not in spec.numares:
        return None
    try:
        topology = CpuTopology.of(spec.cpu_detail)
        policy = TopologyPolicy(spec.policies.get(TOPOLOGY_MANAGER_POLICY) or TopologyPolicy.NONE)
        reserved = -(-amount_of(CPU, spec.res_reserved.get(CPU, "0")) // 1000)
        pods = {each.uid: 0 for each in spec.pod_allocations}
        for each in spec.pod_allocations:
            for container in each.container_allocations:
                pods[each.uid] |= parse_cpus(container.allocations.get(CPU, ""))
        free = parse_cpus(spec.numares[CPU].allocatable) & topology.cpus
    except (ValueError, QuantityError):
        return None
    if 0 < reserved <= topology.cpus.bit_count():
        free &= ~take(topology, topology.cpus, reserved)
    for cpus in pods.values():
        free &= ~cpus
    return NumaNode(topology, policy, free, pods, found.metadata.resource_version)


@dataclass(slots=True)
class _Expected:
    """The CPUs expected for a pod; `running_at` is the version of the report when it was first seen running."""

    node: str
    cpus: int
    running_at: str = ""


@dataclass
class FreeCpus:
    """Free CPUs by node, kept across cycles. Call `update` when a session opens."""

    nodes: dict[str, NumaNode] = field(default_factory=dict)
    free: dict[str, int] = field(default_factory=dict)
    """Masks of free CPUs by node, before the placements of the session."""
    _expected: dict[str, dict[str, _Expected]] = field(default_factory=dict)
    """By job and uid."""

    def read(self, objects: Mapping[str, ApiObject], changed: Iterable[str] | None) -> set[str]:
        """Read the changed Numatopologies, or all (None); returns the names of nodes that were read."""
        names = {*self.nodes, *objects} if changed is None else set(changed)
        for name in names:
            if (node := read_node(objects.get(name))) is None:
                self.nodes.pop(name, None)
            else:
                self.nodes[name] = node
        return names

    def expect(self, task: Task, cpus: int) -> None:
        """Remember the CPUs of a task that is about to be bound."""
        self._expected.setdefault(task.job, {})[task.uid] = _Expected(task.node, cpus)

    def update(self, jobs: Mapping[str, Job], changed: Iterable[Job]) -> None:
        """Drop what was confirmed or has ended, add pods that are not reported yet, and compute the free CPUs."""
        gone: set[str] = set()
        for job in changed:
            if job.key in jobs:
                self._follow(job)
            else:
                gone.add(job.key)
        for key in gone & self._expected.keys():
            del self._expected[key]
        self.free = {name: node.reported for name, node in self.nodes.items()}
        for key in list(self._expected):
            self._subtract(key)

    def _follow(self, job: Job) -> None:
        """Drop tasks of a job that are no longer on their node, and add those that no report contains."""
        expected = self._expected.get(job.key, {})
        there = {task.uid: task for task in job.tasks if task.node and task.status in _ON_NODE}
        for uid in [uid for uid, each in expected.items() if uid not in there or there[uid].node != each.node]:
            del expected[uid]
        for uid, task in there.items():
            node = self.nodes.get(task.node)
            if node is None or uid in node.pods:
                continue
            if (known := expected.get(uid)) is None:
                if (cpus := self._recovered(task, node)) and not _is_reported_otherwise(task, node):
                    expected[uid] = _Expected(task.node, cpus)
            elif task.status is TaskStatus.RUNNING and not known.running_at:
                known.running_at = node.version
        if expected:
            self._expected[job.key] = expected

    def _subtract(self, key: str) -> None:
        """Subtract the CPUs of a job's tasks that are not confirmed, and forget the others."""
        expected = self._expected[key]
        for uid, each in list(expected.items()):
            node = self.nodes.get(each.node)
            if node is None or uid in node.pods:
                del expected[uid]
            elif not node.pods and each.running_at and each.running_at != node.version:
                del expected[uid]  # an exporter that lists no pods has reported since
            else:
                self.free[each.node] &= ~each.cpus
        if not expected:
            del self._expected[key]

    def _recovered(self, task: Task, node: NumaNode) -> int:
        """Return the CPUs that a pod of an earlier process probably has."""
        wanted = exclusive_cpus(task.pod.spec)
        free = self.free.get(task.node, node.reported)
        if not wanted:
            return 0
        cpus = 0
        for number, count in _decision(task).items():
            pool = dict(node.topology.numa_nodes).get(number, 0) & free
            cpus |= take(node.topology, pool, min(count, pool.bit_count()))
        if not cpus:
            cpus = outcome(node.topology, node.policy, free, wanted) or 0
        self.free[task.node] = free & ~cpus  # the next pod gets others
        return cpus


_ON_NODE = ALLOCATED_STATUSES | {TaskStatus.RELEASING}


def _is_reported_otherwise(task: Task, node: NumaNode) -> bool:
    """Return whether a running pod is missing in the report because the exporter lists no pods at all."""
    return not node.pods and task.status is TaskStatus.RUNNING


def _decision(task: Task) -> dict[int, int]:
    """Return the number of CPUs by NUMA node that the annotation of a pod names."""
    text = task.pod.metadata.annotations.get(TOPOLOGY_DECISION)
    if not text:
        return {}
    try:
        found = decode_json(text.encode())
        return {int(number): amount_of(CPU, named[CPU]) // 1000 for number, named in found.items() if CPU in named}
    except (ValueError, TypeError, AttributeError, QuantityError, msgspec.DecodeError):
        return {}
