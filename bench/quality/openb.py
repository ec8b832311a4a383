"""Shares of GPUs on the openb traces: how much of the cluster's GPUs is allocated, and how much is fragmented.

Nodes list their cards as Volcano's vGPU device plugin does; pods arrive in shuffled order and never end, and a pod that
fits nowhere is removed. All decisions are the engine's: a session with the action allocate and the policy as a plugin.
"""

from __future__ import annotations

import statistics
from argparse import Namespace
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from volcanoio_plugins.scheduling.fragmentation.aware import FragmentationAware
from volcanoio_plugins.scheduling.fragmentation.cards import WHOLE
from volcanoio_plugins.scheduling.fragmentation.kinds import Kinds, TypicalPod, columns
from volcanoio_plugins.scheduling.fragmentation.measure import Room, fragmentation
from volcanoio_plugins.scheduling.gang import Gang
from volcanoio_plugins.scheduling.predicates import Predicates

from bench.quality import derived_traces
from bench.quality.gpu_policies import BestFit, DotProduct, GpuCards, GpuClustering, GpuPacking, Random, RandomCards
from bench.quality.openb_trace import (
    ARRIVED,
    MODEL,
    PUBLISHED,
    GpuNode,
    GpuPod,
    draw,
    typical_pods,
)
from volcanoio.engine.scheduling.cluster.state import ClusterState
from volcanoio.engine.scheduling.config.configuration import parse
from volcanoio.engine.scheduling.config.profile import Profile
from volcanoio.engine.scheduling.offline.offline import Offline
from volcanoio.engine.scheduling.offline.remedies import new_queue
from volcanoio.engine.scheduling.session.session import CycleSession
from volcanoio.framework import entrypoints
from volcanoio.framework.scheduling.points import PluginFactory
from volcanoio.framework.scheduling_effects import BindBatch
from volcanoio.model import kinds, names
from volcanoio.model.base import ObjectMeta
from volcanoio.model.core import (
    Affinity,
    Container,
    Node,
    NodeAffinity,
    NodeSelector,
    NodeSelectorTerm,
    NodeStatus,
    Pod,
    PodSpec,
    PodStatus,
    Requirement,
    ResourceList,
    ResourceRequirements,
)
from volcanoio.model.devices.annotations import VGPU_IDS, VGPU_MEMORY, VGPU_NUMBER, VGPU_REGISTER, parse_pod_devices
from volcanoio.model.scheduling import PodGroup, PodGroupSpec, PodGroupStatus
from volcanoio.model.times import rfc3339
from volcanoio.runtime.loading.registry import discover

NAMESPACE = "openb"
FIRST = 1_767_225_600.0
"""2026-01-01T00:00:00Z."""
CHECKED_SEEDS = 2
"""Seeds of each row that are measured again to find decisions that got worse."""
CARD_MEMORY = 1000
"""MiB of a card: the trace has thousandths of cards."""
BATCH = 64
"""Pods that arrive between two cycles. They are placed in their order, each after the one before: a pod that finds no
room is not tried again, so the result is that of one cycle a pod."""


class Policy(NamedTuple):
    """What is compared: the plugin that scores, its arguments, and the plugin that gives out cards."""

    scorer: type[Any]
    cards: type[GpuCards] = GpuCards
    arguments: dict[str, Any] = {}
    gets_typical_pods: bool = False
    """Whether the plugin gets the typical pods of the trace, as the authors' FGD; else it learns them."""


_POLICY = "fragmentation-aware.policy"
POLICIES = {
    "random": Policy(Random, RandomCards),
    "dot-product": Policy(DotProduct),
    "gpu-clustering": Policy(GpuClustering),
    "gpu-packing": Policy(GpuPacking),
    "best-fit": Policy(BestFit),
    "fgd": Policy(FragmentationAware, arguments={_POLICY: "fgd"}, gets_typical_pods=True),
    "fragmentation-aware": Policy(FragmentationAware, gets_typical_pods=True),
    "fragmentation-aware-learning": Policy(FragmentationAware),
}


class Figures(NamedTuple):
    """GPUs allocated and fragmented, in percent of the cluster's."""

    allocated: float
    fragmented: float


class GpuCluster:
    """The cluster of a trace under one policy; counts cards by itself and fails if one is assigned twice."""

    def __init__(self, nodes: Sequence[GpuNode], trace: Sequence[GpuPod], policy: Policy, seed: int) -> None:
        self._nodes = nodes
        self._row = {node.name: row for row, node in enumerate(nodes)}
        self._gpus = sum(node.gpus for node in nodes)
        has = np.arange(8) < np.array([node.gpus for node in nodes])[:, None]
        self._room = Room(np.array([node.cpu for node in nodes]), np.where(has, WHOLE, -1))
        listed = [_typical_pod(pod, count) for pod, count in typical_pods(trace)]
        self._measure = _Fragmentation(nodes, listed)
        self._offline = _Uninspected(ClusterState(), _profile(policy, listed), now=FIRST, period=0.0, seed=seed)
        self._offline.load([new_queue("default"), *map(_node, nodes)])
        self._allocated = 0

    @property
    def free(self) -> list[list[int]]:
        """The free share of each GPU by node, in thousandths."""
        return [row[: node.gpus] for row, node in zip(self._room.free.tolist(), self._nodes, strict=True)]

    def run(self, pods: Sequence[GpuPod]) -> list[Figures]:
        """Let pods arrive in order; return the figures at each of `ARRIVED`."""
        marks, arrived, figures = list(ARRIVED), 0, []
        waiting: list[tuple[int, GpuPod]] = []
        for number, pod in enumerate(pods):
            while marks and arrived >= marks[0] * self._gpus * WHOLE:
                self._schedule(waiting)
                figures.append(self._figures())
                del marks[0]
            arrived += pod.request
            waiting.append((number, pod))
            if len(waiting) == BATCH:
                self._schedule(waiting)
        self._schedule(waiting)
        return figures + [self._figures() for _ in marks]

    def _schedule(self, waiting: list[tuple[int, GpuPod]]) -> None:
        """Place the waiting pods in their order, and remove those without a node."""
        offline = self._offline
        for number, pod in waiting:
            offline.put(_group(number))
            offline.put(_pod(number, pod))
        offline.cycle()
        bound = set()
        for decision in offline.last:
            if isinstance(decision, BindBatch):
                offline.carry_out(decision)
                bound |= {bind.name for bind in decision.binds}
        for number, pod in waiting:
            name = f"pod-{number}"
            key = f"{NAMESPACE}/{name}"
            if name in bound:
                stored = offline.pod(key)
                assert stored is not None
                self._count(pod, stored)
            else:
                offline.remove(kinds.POD, key)
                offline.remove(kinds.POD_GROUP, key)
        waiting.clear()

    def _count(self, pod: GpuPod, stored: Pod) -> None:
        row = self._row[stored.spec.node_name]
        if pod.models and self._nodes[row].model not in pod.models:
            raise AssertionError(f"{stored.metadata.name} is on a GPU of another model than it allows")
        self._room.cpu[row] -= pod.cpu
        containers = parse_pod_devices(stored.metadata.annotations.get(VGPU_IDS, ""))
        cards = [share for shares in containers for share in shares]
        for one in cards:
            self._room.free[row, int(one.uuid.rpartition("-")[2])] -= one.memory
        used = {one.uuid for one in cards if one.memory == pod.milli}
        full = self._room.cpu[row] < 0 or (self._room.free[row, : self._nodes[row].gpus] < 0).any()
        if len(used) != pod.gpus or full:
            raise AssertionError(f"{stored.metadata.name} has cards or cpu that it did not request or others have")
        self._allocated += pod.request

    def _figures(self) -> Figures:
        total = self._gpus * WHOLE
        return Figures(100 * self._allocated / total, 100 * self._measure.of(self._room) / total)


class _Uninspected(Offline):
    """An offline scheduler without snapshots of its sessions, which would take longer than the decisions."""

    def inspect(self, session: CycleSession) -> None:
        pass


class _Fragmentation:
    """FGD's measure of the whole cluster, with the typical pods of the trace."""

    def __init__(self, nodes: Sequence[GpuNode], listed: list[TypicalPod]) -> None:
        self._chosen = Kinds(listed, popular=True).chosen(CARD_MEMORY)
        self._typical = columns(self._chosen, CARD_MEMORY)
        self._reach = np.array(
            [[not kind.labels or f'"{node.model}"' in kind.labels for kind, _ in self._chosen] for node in nodes]
        )

    def of(self, room: Room) -> float:
        """Return the sum over nodes, in thousandths of a GPU."""
        return float(fragmentation(room, self._typical, self._reach).sum())


def _profile(policy: Policy, listed: list[TypicalPod]) -> Profile:
    registry = discover()
    actions = registry.factories(entrypoints.ACTIONS)
    plugins: dict[str, PluginFactory] = {each.name: each for each in (Gang, Predicates, policy.cards, policy.scorer)}
    configuration = parse(
        "actions: allocate\ntiers:\n- plugins:\n" + "".join(f"  - name: {name}\n" for name in plugins),
        actions=actions,
        plugins=plugins,
    )
    arguments = dict(policy.arguments)
    if policy.gets_typical_pods:
        arguments["fragmentation-aware.typicalPods"] = listed
    if arguments:
        plugins[policy.scorer.name] = lambda given: policy.scorer({**given, **arguments})
    return Profile.build(configuration, plugins, actions)


def _typical_pod(pod: GpuPod, count: int) -> TypicalPod:
    return TypicalPod(requests=_requests(pod, with_memory=False), count=count, affinity=_affinity(pod))


def _requests(pod: GpuPod, *, with_memory: bool = True) -> ResourceList:
    requests: ResourceList = {"cpu": f"{pod.cpu}m"}
    if with_memory:
        requests["memory"] = f"{pod.memory}Mi"
    if pod.gpus:
        requests |= {VGPU_NUMBER: str(pod.gpus), VGPU_MEMORY: str(pod.milli * CARD_MEMORY // WHOLE)}
    return requests


def _affinity(pod: GpuPod) -> Affinity | None:
    if not pod.models:
        return None
    term = NodeSelectorTerm(match_expressions=(Requirement(key=MODEL, operator="In", values=pod.models),))
    required = NodeSelector(node_selector_terms=(term,))
    return Affinity(node_affinity=NodeAffinity(required_during_scheduling_ignored_during_execution=required))


def _node(node: GpuNode) -> Node:
    cards = ":".join(f"{node.name}-{at},100,{CARD_MEMORY},{node.model},true,hami-core" for at in range(node.gpus))
    amounts: ResourceList = {
        "cpu": f"{node.cpu}m", "memory": f"{node.memory}Mi", "pods": "1000",
        VGPU_NUMBER: str(100 * node.gpus), VGPU_MEMORY: str(CARD_MEMORY * node.gpus),
    }  # fmt: skip
    meta = ObjectMeta(name=node.name, labels={MODEL: node.model}, annotations={VGPU_REGISTER: f"{cards}:"})
    return Node(metadata=meta, status=NodeStatus(allocatable=amounts, capacity=amounts))


def _meta(number: int, **more: Any) -> ObjectMeta:
    name = f"pod-{number}"
    return ObjectMeta(
        name=name, namespace=NAMESPACE, uid=name, creation_timestamp=rfc3339(FIRST - 1_000_000 + number), **more
    )


def _group(number: int) -> PodGroup:
    spec = PodGroupSpec(min_member=1, queue="default")
    return PodGroup(metadata=_meta(number), spec=spec, status=PodGroupStatus(phase="Inqueue"))


def _pod(number: int, pod: GpuPod) -> Pod:
    requests = _requests(pod)
    limits = {name: amount for name, amount in requests.items() if "/" in name}
    container = Container(name="main", resources=ResourceRequirements(requests=requests, limits=limits))
    return Pod(
        metadata=_meta(number, annotations={names.GROUP_NAME: f"pod-{number}"}),
        spec=PodSpec(scheduler_name=names.SCHEDULER_NAME, containers=(container,), affinity=_affinity(pod)),
        status=PodStatus(phase="Pending"),
    )


class Run(NamedTuple):
    """What a row of the results measures."""

    directory: Path
    trace: str
    policy: str
    seeds: int


def key(row: Mapping[str, Any]) -> tuple[str, str]:
    """Return what identifies a row of the results."""
    return row["trace"], row["policy"]


def runs(given: Namespace) -> list[Run]:
    """Return the rows to measure."""
    return [Run(given.directory, trace, policy, given.seeds) for trace in given.traces for policy in given.policies]


def repeated(row: Mapping[str, Any], directory: Path) -> Run:
    """Return the run that measures the first seeds of a row again."""
    return Run(directory, row["trace"], row["policy"], min(row["seeds"], CHECKED_SEEDS))


def measure(run: Run) -> dict[str, Any]:
    """Return the row of a trace and policy: means, the deviation over seeds, and the figures of `CHECKED_SEEDS`."""
    by_seed = []
    for seed in range(run.seeds):
        nodes, pods = derived_traces.read(run.directory, run.trace, seed)
        cluster = GpuCluster(nodes, pods, POLICIES[run.policy], seed)
        by_seed.append(cluster.run(draw(pods, sum(node.gpus for node in nodes), seed)))
    row: dict[str, Any] = {
        "trace": run.trace,
        "policy": run.policy,
        **_means(by_seed),
    }
    if (published := PUBLISHED.get(run.trace, {}).get(run.policy)) is not None:
        row["published_allocated"], row["published_fragmented"] = published.allocated, published.fragmented
    return row


def comparable(row: Mapping[str, Any], run: Run) -> dict[str, Any]:
    """Return a committed row with the means of the seeds of a run only, and the deviation of all."""
    by_seed = [[Figures(*figures) for figures in seed] for seed in row["by_seed"][: run.seeds]]
    return {**row, **_means(by_seed), "deviation": row["deviation"]}


def _means(by_seed: list[list[Figures]]) -> dict[str, Any]:
    by_mark = list(zip(*by_seed, strict=True))
    return {
        "seeds": len(by_seed),
        "arrived": ARRIVED,
        "allocated": [round(statistics.fmean(one.allocated for one in mark), 2) for mark in by_mark],
        "fragmented": [round(statistics.fmean(one.fragmented for one in mark), 2) for mark in by_mark],
        "deviation": [round(statistics.pstdev(one.allocated for one in mark), 2) for mark in by_mark],
        "by_seed": [[[round(figure, 2) for figure in mark] for mark in seed] for seed in by_seed[:CHECKED_SEEDS]],
    }
