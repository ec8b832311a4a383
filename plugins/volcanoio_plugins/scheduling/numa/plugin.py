"""Plugin numa-aware: pods get nodes whose kubelet can align their CPUs (Volcano: plugins/numaaware).

It concerns Guaranteed pods with containers that request whole CPUs. A pod with a policy (annotation
`volcano.sh/numa-topology-policy`) needs a node with the same policy of the topology manager, the static CPU manager and
a Numatopology. Without one, or with `none`, nodes without these pass, and others only if their kubelet admits the pod.
CPUs are assigned as the kubelet does, and stay assigned until the exporter reports the pod.

score = weight × (100 − 100 × NUMA nodes of the pod / most NUMA nodes on any feasible node).
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from volcanoio.framework.arguments import convert
from volcanoio.framework.scheduling.numa import TopologyPolicy, exclusive_cpus, outcome
from volcanoio.framework.scheduling.sessionview import SessionView, Table
from volcanoio.framework.scheduling.verdicts import Depends, Feasibility
from volcanoio.framework.scheduling.views import Job, Nodes, Shape, Task
from volcanoio.framework.scheduling_effects import PreBindStep
from volcanoio.model import kinds
from volcanoio.model.names import NUMA_TOPOLOGY_POLICY, TOPOLOGY_DECISION
from volcanoio_plugins.scheduling.numa.free_cpus import FreeCpus

MAX_SCORE = 100.0
NO_POLICY = "node(s) had no CPU manager with the pod's NUMA topology policy"
NOT_ALIGNED = "node(s) had no free CPUs that fit the NUMA topology policy"
_WATCHED = kinds.NUMATOPOLOGY.resource
_UNKNOWN = -1
"""Number of NUMA nodes on a node that assigns no CPUs."""


class NumaAwareArguments(msgspec.Struct, frozen=True):
    """The weight of the score."""

    weight: int = 1


@dataclass(frozen=True, slots=True)
class Wish:
    """What a pod needs: its policy (None: any node) and the number of CPUs of each container."""

    policy: TopologyPolicy | None
    containers: tuple[int, ...]

    @property
    def text(self) -> str:
        """The wish as a trait."""
        return f"{self.policy or ''}:{','.join(map(str, self.containers))}"

    @classmethod
    def parse(cls, text: str) -> "Wish":
        """Parse a trait."""
        policy, _, containers = text.partition(":")
        return cls(TopologyPolicy(policy) if policy else None, tuple(map(int, containers.split(","))))

    @classmethod
    def of(cls, task: Task) -> "Wish | None":
        """Return the wish of a task; None if it gets no CPU exclusively."""
        if not (containers := exclusive_cpus(task.pod.spec)):
            return None
        named = task.pod.metadata.annotations.get(NUMA_TOPOLOGY_POLICY, "")
        known = named in set(TopologyPolicy) and named != TopologyPolicy.NONE
        return cls(TopologyPolicy(named) if known else None, containers)


@dataclass(slots=True)
class _Answers:
    """Per row of the session's nodes: the number of NUMA nodes that a pod would use, 0 if it does not fit.

    `seen` are the CPUs taken in the session that the answers include, `version` that of the table of these.
    """

    numa_nodes: NDArray[np.int64]
    has_policy: NDArray[np.bool_]
    seen: dict[str, int]
    version: int


class NumaAware:
    """Filters and scores nodes by the CPUs that their kubelets would assign."""

    name = "numa-aware"
    watches = (_WATCHED,)

    def __init__(self, arguments: Mapping[str, Any]) -> None:
        self._weight = convert(arguments, NumaAwareArguments, self.name).weight
        self._cpus = FreeCpus()
        self._version = -1
        self._session: SessionView | None = None
        self._taken: Table
        self._of_tasks: Table
        self._rows: dict[str, int] = {}
        self._answers: dict[str, _Answers] = {}

    def open(self, session: SessionView) -> None:
        """Read the changed Numatopologies and jobs."""
        self._session = session
        self._taken = session.table(self.name, "taken")
        self._of_tasks = session.table(self.name, "of tasks")
        self._rows, self._answers = {}, {}
        changed_jobs = session.changed_jobs(self)
        had_nodes = bool(self._cpus.nodes)
        version = session.version(_WATCHED)
        if version != self._version:
            changed = session.changed_since(_WATCHED, self._version) if self._version >= 0 else None
            self._cpus.read(session.objects(_WATCHED), changed)
            self._version = version
        if self._cpus.nodes or had_nodes:  # most clusters have none
            self._cpus.update(session.jobs, changed_jobs if had_nodes else session.jobs.values())

    def trait(self, task: Task, job: Job) -> str:  # noqa: ARG002 - the pod alone matters
        """Return the policy and the CPUs of a pod that gets any exclusively."""
        if not self._cpus.nodes and NUMA_TOPOLOGY_POLICY not in task.pod.metadata.annotations:
            return ""
        wish = Wish.of(task)
        return "" if wish is None else wish.text

    def tracks_shape(self, shape: Shape) -> bool:
        """Return whether tasks of a shape get CPUs exclusively."""
        return bool(shape.traits.get(self.name))

    def feasible_depends(self, shape: Shape) -> Depends:
        """Depend on the Numatopologies, and on the pods that take CPUs."""
        return Depends.SOURCE | Depends.PODS | Depends.NOW if self.tracks_shape(shape) else Depends.SKIP

    def feasible(self, shape: Shape, nodes: Nodes) -> Feasibility:
        """Return the nodes whose kubelet admits pods of the shape."""
        if not (trait := shape.traits.get(self.name)):
            return Feasibility(np.ones(len(nodes), np.bool_))
        answers = self._answers_for(trait)
        rows = self._rows_of(nodes)
        other_policy, unaligned = ~answers.has_policy[rows], answers.numa_nodes[rows] == 0
        return Feasibility(~other_policy & ~unaligned, ((NO_POLICY, other_policy), (NOT_ALIGNED, unaligned)))

    def score_depends(self, shape: Shape) -> Depends:
        """Depend on what the filter depends on, and on the other nodes."""
        if not self._weight or not self.tracks_shape(shape):
            return Depends.NOTHING
        return Depends.SOURCE | Depends.PODS | Depends.NOW | Depends.FEASIBLE_SET

    def score(self, shape: Shape, nodes: Nodes, feasible: NDArray[np.bool_]) -> NDArray[np.float64]:
        """Prefer nodes where the pod is on few NUMA nodes; a node that assigns no CPUs scores 0."""
        if not self._weight or not (trait := shape.traits.get(self.name)):
            return np.zeros(len(nodes))
        numa_nodes = self._answers_for(trait).numa_nodes[self._rows_of(nodes)]
        most = int(numa_nodes[feasible].max(initial=0))
        if most <= 0:
            return np.zeros(len(nodes))
        return np.where(numa_nodes > 0, self._weight * (MAX_SCORE - MAX_SCORE * numa_nodes / most), 0.0)

    def task_placed(self, task: Task) -> None:
        """Take the CPUs that the kubelet will assign to the task."""
        if not (trait := task.shape.traits.get(self.name)) or (node := self._cpus.nodes.get(task.node)) is None:
            return
        cpus = outcome(node.topology, node.policy, self._free(task.node), Wish.parse(trait).containers)
        if cpus:  # none yet for a task that waits for others to end
            self._taken.set(task.node, self._taken.get(task.node) | cpus)
            self._of_tasks.set(task.uid, cpus)

    def task_evicted(self, task: Task) -> None:
        """Leave the CPUs taken: the kubelet releases them when the pod has ended."""

    def prebinds(self, shape: Shape) -> bool:
        """Return whether tasks of a shape get CPUs exclusively."""
        return self.tracks_shape(shape)

    def prebind(self, task: Task) -> Sequence[PreBindStep]:
        """Remember the task's CPUs until they are reported, and annotate the pod with the decision."""
        cpus = self._of_tasks.get(task.uid)
        node = self._cpus.nodes.get(task.node)
        if not cpus or node is None:
            return ()
        self._cpus.expect(task, cpus)
        if node.policy is TopologyPolicy.NONE:
            return ()
        decision = {str(number): {"cpu": str(count)} for number, count in node.topology.numa_ids(cpus).items()}
        text = msgspec.json.encode(decision).decode()
        return (
            PreBindStep(
                resource=kinds.POD.resource,
                namespace=task.namespace,
                name=task.name,
                uid=task.uid,
                patch={"metadata": {"annotations": {TOPOLOGY_DECISION: text}}},
                undo={"metadata": {"annotations": {TOPOLOGY_DECISION: None}}},
            ),
        )

    def _free(self, node: str) -> int:
        return self._cpus.free.get(node, 0) & ~self._taken.get(node)

    def _answers_for(self, trait: str) -> _Answers:
        """Return the answers for all nodes of the session; rows whose CPUs changed since are computed again."""
        taken, version = self._taken.values, self._taken.version
        if (answers := self._answers.get(trait)) is not None and answers.version == version:
            return answers
        wish = Wish.parse(trait)
        if answers is None:
            answers = self._answers[trait] = self._new_answers(wish)
            changed: Iterable[str] = self._cpus.nodes
        else:
            seen = answers.seen
            changed = [name for name in {*seen, *taken} if seen.get(name, 0) != taken.get(name, 0)]
        for name in changed:
            self._answer(wish, answers, name)
        answers.seen, answers.version = dict(taken), version
        return answers

    def _new_answers(self, wish: Wish) -> _Answers:
        """Return the answers for nodes that assign no CPUs exclusively."""
        assert self._session is not None
        names = self._session.nodes.names
        if not self._rows:
            self._rows = {name: row for row, name in enumerate(names)}
        size = len(names)
        return _Answers(np.full(size, _UNKNOWN), np.full(size, wish.policy is None), {}, -1)

    def _answer(self, wish: Wish, answers: _Answers, name: str) -> None:
        row, node = self._rows.get(name), self._cpus.nodes[name]
        if row is None:
            return
        answers.has_policy[row] = wish.policy in (None, node.policy)
        if wish.policy is None and node.policy is TopologyPolicy.NONE:
            return
        cpus = outcome(node.topology, node.policy, self._free(name), wish.containers)
        answers.numa_nodes[row] = len(node.topology.numa_ids(cpus)) if cpus else 0

    def _rows_of(self, nodes: Nodes) -> NDArray[np.intp] | slice:
        assert self._session is not None
        if nodes is self._session.nodes:
            return slice(0, len(nodes))
        return np.fromiter((self._rows[name] for name in nodes.names), np.intp, len(nodes))
