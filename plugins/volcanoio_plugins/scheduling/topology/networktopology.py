"""Plugin network-topology-aware: keeps the pods of a gang close to each other in the tree of HyperNodes.

Source: Volcano pkg/scheduler/plugins/network-topology-aware.
"""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from volcanoio.framework.arguments import ArgumentError, convert
from volcanoio.framework.scheduling.hypernodes import CLUSTER, HyperNodes
from volcanoio.framework.scheduling.sessionview import SessionView, Table
from volcanoio.framework.scheduling.views import ALLOCATED_STATUSES, Job, Nodes, SubJob, Task, TaskStatus
from volcanoio.model.kinds import HYPER_NODE
from volcanoio.model.resources import add
from volcanoio_plugins.scheduling.resource_weights import resource_weights, without_weights

MAX_SCORE = 100
_RESOURCES = "hypernode.binpack.resources"
_DEFAULT_FADING, _MAX_HYPER_NODES = 0.8, 8


class NetworkTopologyArguments(msgspec.Struct, frozen=True):
    """Weights and limits, with Volcano's names and defaults.

    `resources` lists resources beside cpu and memory, comma-separated; each has a weight under
    `hypernode.binpack.resources.<name>`, 1 by default. `fading` reduces the share of a tier in the score of pods
    without a network topology with every tier above the lowest. `most_hyper_nodes` limits the HyperNodes that the
    actions with evictions try.
    """

    weight: int = 1
    cpu: int = msgspec.field(default=1, name="hypernode.binpack.cpu")
    memory: int = msgspec.field(default=1, name="hypernode.binpack.memory")
    resources: str = msgspec.field(default="", name="hypernode.binpack.resources")
    packs_normal_pods: bool = msgspec.field(default=True, name="hypernode.binpack.normal-pod.enable")
    fading: float = msgspec.field(default=_DEFAULT_FADING, name="hypernode.binpack.normal-pod.fading")
    most_hyper_nodes: int = msgspec.field(default=_MAX_HYPER_NODES, name="hypernode.gradient.evict.max-hypernodes")


class _Tiers:
    """The HyperNode of each tier that a node is in, for one tree."""

    def __init__(self, tree: HyperNodes, count: int) -> None:
        self.tree = tree
        positions = len(tree.names) - 1
        self.numbers: list[int] = sorted(set(tree.tiers[:positions].tolist()))
        """The tiers that have HyperNodes, lowest first; the root is not counted."""
        self.of_row: list[NDArray[np.intp]] = []
        """For each tier the position of the HyperNode by row, -1 for nodes in none."""
        self.lowest: NDArray[np.intp] = np.full(count, positions)
        """The position of the lowest HyperNode by row, that of the root for nodes in none."""
        for tier in self.numbers:
            of_row = np.full(count, -1)
            for at in np.flatnonzero(tree.tiers[:positions] == tier).tolist():
                rows = tree.rows(tree.names[at])
                of_row[rows[of_row[rows] < 0]] = at
            self.of_row.append(of_row)
        for of_row in reversed(self.of_row):
            self.lowest = np.where(of_row >= 0, of_row, self.lowest)


_FEW = 64
"""Changed nodes up to which sums are updated; with more they are computed again."""


class _Sums:
    """Allocatable and used amounts of one resource in each HyperNode of a tree, updated for nodes that changed.

    Pods without a network topology are scored one by one: with sums over all nodes for each, 2,000 pods on 10,000 nodes
    took 2.5 CPU seconds.
    """

    _version: int
    _allocatable_by_row: NDArray[np.int64]
    _used_by_row: NDArray[np.int64]
    allocatable: NDArray[np.int64]
    used: NDArray[np.int64]

    def __init__(self, session: SessionView, resource: str) -> None:
        self._resource = resource
        self._compute(session)

    def update(self, session: SessionView) -> None:
        """Bring the sums up to date with the nodes of the session; the tree must be the same."""
        if self._version == session.nodes_version:
            return
        rows = set(session.changed_rows(self._version))
        if len(rows) > _FEW:
            self._compute(session)
            return
        self._version = session.nodes_version
        for sums, before, now in (
            (self.allocatable, self._allocatable_by_row, session.nodes.allocatable(self._resource)),
            (self.used, self._used_by_row, session.nodes.used(self._resource)),
        ):
            for row in rows:
                if change := now.item(row) - before.item(row):
                    before[row] += change
                    for at in session.hyper_nodes.around(row):
                        sums[at] += change

    def _compute(self, session: SessionView) -> None:
        self._version = session.nodes_version
        self._allocatable_by_row = session.nodes.allocatable(self._resource).copy()
        self._used_by_row = session.nodes.used(self._resource).copy()
        self.allocatable = session.hyper_nodes.sums(self._allocatable_by_row)
        self.used = session.hyper_nodes.sums(self._used_by_row)


class NetworkTopologyAware:
    """Divides the cluster for gangs with a network topology, and scores HyperNodes and nodes."""

    name = "network-topology-aware"
    watches = (HYPER_NODE.resource,)

    def __init__(self, arguments: Mapping[str, Any]) -> None:
        options = convert(without_weights(arguments, _RESOURCES), NetworkTopologyArguments, self.name)
        if not 0 <= options.fading <= 1:
            msg = f"{self.name}: hypernode.binpack.normal-pod.fading is {options.fading}; give a number from 0 to 1"
            raise ArgumentError(msg, key="hypernode.binpack.normal-pod.fading")
        self._options = options
        self._weights = resource_weights(self.name, arguments, _RESOURCES, cpu=options.cpu, memory=options.memory)
        self._session: SessionView
        self._tiers: _Tiers | None = None
        self._sums: dict[str, _Sums] = {}
        """By resource."""
        self._closeness: dict[str, NDArray[np.float64]] = {}
        """By the name of a HyperNode, how close each node is to it: 1 inside it, 0 where only the root is common."""

    def open(self, session: SessionView) -> None:
        """Take the tree of the session; what was derived from another one is dropped."""
        self._session = session
        if self._tiers is None or self._tiers.tree is not session.hyper_nodes:
            self._tiers = _Tiers(session.hyper_nodes, len(session.nodes))
            self._closeness, self._sums = {}, {}

    def hyper_node_levels(self, gang: Job | SubJob, within: str, *, evicting: bool) -> list[list[str]]:
        """Return the HyperNodes that may hold the gang, by the tier that would contain all its tasks: the lowest first.

        For evictions the highest tier comes first and the number of HyperNodes is limited; of one tier those with most
        of the requests free are tried first.
        """
        session, tree = self._session, self._session.hyper_nodes
        if (highest := session.highest_tier(gang)) is None:
            return [[within]]
        placed = session.placed_in(gang)
        if not (start := self._search_root(within, placed, highest)):
            return []
        requests, nodes = _least_requests(gang), session.nodes
        if evicting:
            enough = self._share_in(requests, nodes.allocatable) >= 1
        else:
            enough = np.maximum(self._share_in(requests, nodes.idle), self._share_in(requests, nodes.future_idle)) >= 1
        levels: dict[int, list[str]] = {}
        for name in tree.below(start):
            if tree.tier(name) <= highest and (
                enough[tree.positions[name]] or (placed and tree.is_within(placed, name))
            ):
                levels.setdefault(tree.tier(tree.lowest_common(placed, name)), []).append(name)
        found = [levels[tier] for tier in sorted(levels, reverse=evicting)]
        if not evicting:
            return found
        free = self._share_in(requests, nodes.future_idle)
        ordered = [sorted(level, key=lambda name: -free.item(tree.positions[name])) for level in found]
        return _first(ordered, self._options.most_hyper_nodes)

    def _share_in(
        self, requests: Mapping[str, int], amounts: Callable[[str], NDArray[np.int64]]
    ) -> NDArray[np.float64]:
        """Return how many times each HyperNode holds all these requests; infinite without requests."""
        tree = self._session.hyper_nodes
        shares = np.full(len(tree.names), np.inf)
        for resource, amount in requests.items():
            if amount:
                np.minimum(shares, tree.sums(amounts(resource)) / amount, out=shares)
        return shares

    def hyper_node_scores(self, gang: Job | SubJob, names: Sequence[str]) -> NDArray[np.float64]:
        """Prefer fuller HyperNodes; of the fullest, those with more tasks of the gang."""
        tree = self._session.hyper_nodes
        positions = [tree.positions[name] for name in names]
        scores = self._fullness(_pending_requests(gang))[positions]
        best = scores == scores.max()
        if np.count_nonzero(best) > 1:
            scores[best] += self._shares(gang)[positions][best]
        return scores * (MAX_SCORE * self._options.weight)

    def scores_task(self, task: Task) -> bool:
        """Return whether the nodes' HyperNodes matter for a task."""
        if len(self._session.hyper_nodes.names) == 1 or not self._options.weight:
            return False
        gang = self._gang(task)
        return self._options.packs_normal_pods or (gang is not None and self._session.highest_tier(gang) is not None)

    def score_task(self, task: Task, nodes: Nodes) -> NDArray[np.float64]:
        """Prefer nodes close to the gang's other tasks; for other pods, nodes in full HyperNodes."""
        gang = self._gang(task)
        if gang is not None and self._session.highest_tier(gang) is not None:
            scores = self._close_to(gang, len(nodes))
        elif self._options.packs_normal_pods:
            scores = self._packed(task)
        else:
            scores = np.zeros(len(nodes))
        return scores * (MAX_SCORE * self._options.weight)

    def task_placed(self, task: Task) -> None:
        """Count a task that was placed in its gang."""
        self._count(task, 1)

    def task_evicted(self, task: Task) -> None:
        """Count a task that leaves its gang's HyperNode."""
        self._count(task, -1)

    def _count(self, task: Task, change: int) -> None:
        if (gang := self._gang(task)) is not None and self._session.table(self.name, _COUNTED).get(gang.key):
            self._session.table(self.name, gang.key).add(self._lowest(task.node), change)

    def _gang(self, task: Task) -> Job | SubJob | None:
        """Return the sub-job of a task if that has a network topology, else its job, None for a task without."""
        if (job := self._session.jobs.get(task.job)) is None or not job.has_network_topology:
            return None
        sub_job = job.sub_job_of(task)
        return job if sub_job is None or sub_job.network_topology is None else sub_job

    def _search_root(self, within: str, placed: str, highest: int) -> str:
        """Return where to search: the part of a HyperNode that is not too far from the placed tasks; "" for none."""
        if not placed:
            return within
        tree, top = self._session.hyper_nodes, placed
        if tree.tier(top) > highest:
            return ""
        while (parent := tree.parent(top)) and tree.tier(parent) <= highest:
            top = parent
        if tree.is_within(top, within):
            return top
        return within if tree.is_within(within, top) else ""

    def _fullness(self, requests: Mapping[str, int]) -> NDArray[np.float64]:
        """Return the weighted share of each HyperNode in use with these requests, 0 where they do not fit."""
        count = len(self._session.hyper_nodes.names)
        total, weights = np.zeros(count), 0
        fits = np.ones(count, np.bool_)
        for resource, weight in self._weights.items():
            if not weight or not (amount := requests.get(resource, 0)):
                continue
            if (sums := self._sums.get(resource)) is None:
                sums = self._sums[resource] = _Sums(self._session, resource)
            sums.update(self._session)
            used = sums.used + amount
            total += weight * np.divide(used, sums.allocatable, out=np.zeros(count), where=sums.allocatable > 0)
            fits &= used <= sums.allocatable
            weights += weight
        return np.where(fits, total / weights, 0.0) if weights else total

    def _counts(self, gang: Job | SubJob) -> Table:
        """Return how many tasks of a gang are in each lowest HyperNode now, by its name; undone with statements."""
        table, counted = self._session.table(self.name, gang.key), self._session.table(self.name, _COUNTED)
        if not counted.get(gang.key):
            counted.set(gang.key, 1)
            for task in gang.tasks:
                if task.node and task.status in _PLACED:
                    table.add(self._lowest(task.node), 1)
        return table

    def _lowest(self, node: str) -> str:
        """Return the lowest HyperNode that contains a node."""
        return self._session.hyper_nodes.enclosing([node])

    def _shares(self, gang: Job | SubJob) -> NDArray[np.float64]:
        """Return the share of a gang's tasks that is in each HyperNode now, by position."""
        tree, total = self._session.hyper_nodes, max(len(gang.tasks), 1)
        shares = np.zeros(len(tree.names))
        for name, count in self._counts(gang).values.items():
            while name:
                shares[tree.positions[name]] += count / total
                name = tree.parent(name)
        return shares

    def _placed_now(self, gang: Job | SubJob) -> str:
        """Return the lowest HyperNode that contains all placed tasks of a gang, those just placed included."""
        tree, placed = self._session.hyper_nodes, ""
        for name, count in self._counts(gang).values.items():
            if count:
                placed = tree.lowest_common(placed, name)
        return placed

    def _close_to(self, gang: Job | SubJob, count: int) -> NDArray[np.float64]:
        """Return how close each node is to the placed tasks of a gang; the closest get the share of tasks there, too.

        The first task of a gang has no preference.
        """
        assert self._tiers is not None
        tree, lowest = self._session.hyper_nodes, self._tiers.lowest
        if not (placed := self._placed_now(gang)):
            return np.zeros(count)
        if (closeness := self._closeness.get(placed)) is None:
            tiers = [tree.tier(tree.lowest_common(placed, name)) for name in tree.names]
            spread = tree.tier(CLUSTER) - int(tree.tiers.min())
            by_name = (tree.tier(CLUSTER) - np.array(tiers)) / max(spread, 1)
            by_name[tree.positions[placed]] = 1.0
            closeness = self._closeness[placed] = by_name[lowest]
        best = closeness == closeness.max()
        scores: NDArray[np.float64] = closeness + np.where(best, self._shares(gang)[lowest], 0.0)
        return scores

    def _packed(self, task: Task) -> NDArray[np.float64]:
        """Return the fullness of the HyperNodes around each node, where each further tier counts less."""
        assert self._tiers is not None
        fullness = np.append(self._fullness(task.shape.requests), 1.0)  # the last one, -1, is for nodes in none
        total, weights = np.zeros(len(self._tiers.lowest)), 0.0
        for tier, of_row in zip(self._tiers.numbers, self._tiers.of_row, strict=True):
            weight = self._options.fading ** max(tier - 1, 0)
            total += weight * fullness[of_row]
            weights += weight
        return total / weights if weights else total


_COUNTED = "counted gangs"
"""Name of the table in which a gang's key is set once its tasks were counted; tables of counts have the gang's key."""
_PLACED = frozenset({*ALLOCATED_STATUSES, TaskStatus.PIPELINED})


def _least_requests(gang: Job | SubJob) -> Mapping[str, int]:
    """Return what a gang needs: minResources of a PodGroup, the requests of a sub-job's pending tasks."""
    if hasattr(gang, "min_resources"):
        return gang.min_resources or {}
    return _pending_requests(gang)


def _pending_requests(gang: Job | SubJob) -> dict[str, int]:
    """Return the summed requests of a gang's pending tasks."""
    pending = [task.shape for task in gang.tasks if task.status is TaskStatus.PENDING]
    shapes = {shape.id: shape for shape in pending}
    requests: dict[str, int] = {}
    for key, count in Counter([shape.id for shape in pending]).items():
        add(requests, shapes[key].requests, count)
    return requests


def _first(levels: Sequence[Sequence[str]], most: int) -> list[list[str]]:
    """Return the first HyperNodes of the levels, at most `most` in total."""
    found = []
    for level in levels:
        if most > 0 and (some := list(level[:most])):
            found.append(some)
            most -= len(some)
    return found
