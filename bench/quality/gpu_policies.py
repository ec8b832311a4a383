"""The policies that are compared on the openb traces: yardsticks as score plugins, and who gets which card.

`GpuCards` fits pods to cards and gives a pod the fullest card that has room. The yardsticks score as the simulator of
the openb authors does: whole percents, and of equally good nodes the first by name.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray
from volcanoio_plugins.scheduling.fragmentation.cards import WHOLE, Cards, Demand, demand_of_shape

from volcanoio.framework.scheduling.sessionview import SessionView
from volcanoio.framework.scheduling.verdicts import Depends, Feasibility
from volcanoio.framework.scheduling.views import Nodes, Shape, Task
from volcanoio.model.devices.annotations import (
    VGPU_CORES,
    VGPU_IDS,
    VGPU_MEMORY,
    VGPU_NUMBER,
    VGPU_PERCENTAGE,
    DeviceShare,
    format_pod_devices,
)
from volcanoio.model.resources import CPU

Scores = NDArray[np.float64]
MAX_CPU, MAX_GPU = 128_000, 8_000
"""The largest node (milli-cores, thousandths of a GPU), by which the authors' scores are scaled."""


class GpuCards:
    """Gives each pod the cards it requests, on nodes whose cards all have the same memory."""

    name = "gpu-cards"
    ignored_resources = (VGPU_NUMBER, VGPU_MEMORY, VGPU_PERCENTAGE, VGPU_CORES)

    def __init__(self, arguments: Mapping[str, Any]) -> None:  # noqa: ARG002 - it has none
        self.cards = Cards()
        self._session: SessionView
        self._rows: dict[str, int] = {}

    def open(self, session: SessionView) -> None:
        """Start a session."""
        self._session = session
        self.cards.open(session)
        if len(self._rows) != len(session.nodes):
            self._rows = {name: row for row, name in enumerate(session.nodes.names)}

    def feasible_depends(self, shape: Shape) -> Depends:
        """Depend on other pods if the shape requests cards."""
        return Depends.PODS if demand_of_shape(shape).cards else Depends.SKIP

    def feasible(self, shape: Shape, nodes: Nodes) -> Feasibility:
        """Return the nodes whose cards have room."""
        ok = self.allowed(shape, nodes)
        return Feasibility(ok, (("node(s) had too few cards with enough room", ~ok),))

    def allowed(self, shape: Shape, nodes: Nodes) -> NDArray[np.bool_]:  # noqa: ARG002 - those of the session
        """Return the same for each placement."""
        self.cards.update()
        demand = demand_of_shape(shape)
        enough: NDArray[np.bool_] = (self.cards.free >= self._share(demand)).sum(1) >= demand.cards
        return enough

    def _share(self, demand: Demand) -> int:
        return demand.share(int(self.cards.memory.max(initial=0)))

    def annotates(self, shape: Shape) -> bool:
        """Return whether the shape requests cards."""
        return bool(demand_of_shape(shape).cards)

    def bind_annotations(self, task: Task) -> Mapping[str, str]:
        """Choose the fullest cards with room."""
        self.cards.update()
        self.cards.touch(self._rows[task.node])
        row, demand = self._rows[task.node], demand_of_shape(task.shape)
        free, share = self.cards.free[row], self._share(demand)
        places = self.order(task, np.flatnonzero(free >= share), free)[: demand.cards]
        cards = self.cards.on(row)
        shares = [DeviceShare(cards[at].uuid, cards[at].type, share * cards[at].memory // WHOLE, 0) for at in places]
        return {VGPU_IDS: format_pod_devices([shares])}

    def order(self, task: Task, places: NDArray[np.intp], free: NDArray[np.int64]) -> NDArray[np.intp]:  # noqa: ARG002
        """Return cards with room in the order of choice."""
        return places[np.argsort(free[places], kind="stable")]


class Yardstick(ABC):
    """A score by idle cpu and free cards of each node alone; of equal nodes the first by name."""

    name: str

    def __init__(self, arguments: Mapping[str, Any]) -> None:  # noqa: ARG002 - it has none
        self._cards = Cards()
        self._session: SessionView
        self._order: Scores = np.zeros(0)

    def open(self, session: SessionView) -> None:
        """Start a session."""
        self._session = session
        self._cards.open(session)
        if len(self._order) != len(session.nodes):
            names = np.array(session.nodes.names)
            self._order = np.argsort(np.argsort(names)) / max(len(names), 1) / 2

    def score_depends(self, shape: Shape) -> Depends:  # noqa: ARG002 - the same for all shapes
        """Depend on the pods of the node, and on which others are feasible."""
        return Depends.PODS | Depends.FEASIBLE_SET

    def score(self, shape: Shape, nodes: Nodes, feasible: NDArray[np.bool_]) -> Scores:  # noqa: ARG002 - plain
        """Score all nodes."""
        self._cards.update()
        demand = demand_of_shape(shape)
        share = demand.share(int(self._cards.memory.max(initial=0))) if demand.cards else 0
        free, idle = self._cards.free, nodes.idle(CPU)
        return np.floor(self.points(shape.requests.get(CPU, 0), demand.cards, share, idle, free)) - self._order

    @abstractmethod
    def points(self, cpu: int, cards: int, share: int, idle: NDArray[np.int64], free: NDArray[np.int64]) -> Scores:
        """Return points from 0 to 100."""


class BestFit(Yardstick):
    """Prefers the node with least cpu and GPU left, both relative to the largest node."""

    name = "best-fit"

    def points(self, cpu: int, cards: int, share: int, idle: NDArray[np.int64], free: NDArray[np.int64]) -> Scores:
        """Return points from 0 to 100."""
        left = np.maximum(free, 0).sum(1) - cards * share
        scores: Scores = 100 * (1 - 0.5 * (idle - cpu) / MAX_CPU - 0.5 * left / MAX_GPU)
        return scores


class DotProduct(Yardstick):
    """Prefers the smallest product of demand and room over cpu and GPU (Tetris, SIGCOMM 2014, as adapted by openb).

    A share of a card sees the fullest card, or all idle ones; pods with whole cards the idle ones.
    """

    name = "dot-product"

    def points(self, cpu: int, cards: int, share: int, idle: NDArray[np.int64], free: NDArray[np.int64]) -> Scores:
        """Return points from 0 to 100."""
        whole = (free == WHOLE).sum(1) * WHOLE
        product = idle / MAX_CPU * (cpu / MAX_CPU)
        if cards:
            part = np.where((free >= share) & (free < WHOLE), free, 9 * WHOLE).min(1)
            room = np.where((part < 9 * WHOLE) & (share < WHOLE), part, whole)
            product = product + room / MAX_GPU * (cards * share / MAX_GPU)
        scores: Scores = 100 * (1 - product / 2)
        return scores


class GpuPacking(Yardstick):
    """Prefers shared cards, then idle cards of used nodes, then idle nodes."""

    name = "gpu-packing"

    def points(self, cpu: int, cards: int, share: int, idle: NDArray[np.int64], free: NDArray[np.int64]) -> Scores:  # noqa: ARG002
        """Return points from 0 to 100."""
        if not cards:
            return np.zeros(len(free))
        whole, has = (free == WHOLE).sum(1), (free >= 0).sum(1)
        chosen = np.sort(np.where(free >= share, free, 9 * WHOLE), 1)[:, :cards]
        shared = np.maximum(100 - (chosen // 10).sum(1) // 10, 50)
        opened = np.maximum(50 - (chosen == WHOLE).sum(1), 33)
        unused = np.maximum(33 - whole, whole)
        scores: Scores = np.where(whole == has, unused, np.where((chosen == WHOLE).any(1), opened, shared)).astype(
            float
        )
        return scores


class GpuClustering(Yardstick):
    """Prefers nodes whose pods are all of the same size class, then those with one like it, idle nodes, and any others.

    Classes are a share of a card, and each number of whole cards. Within them, nodes with the least GPU left are first.
    """

    name = "gpu-clustering"

    def __init__(self, arguments: Mapping[str, Any]) -> None:
        super().__init__(arguments)
        self._version = -1
        self._classes = np.zeros((0, MAX_GPU // WHOLE + 1), np.bool_)
        """By row, whether the node has a pod of each class: the number of whole cards, 0 for a share of one."""

    def points(self, cpu: int, cards: int, share: int, idle: NDArray[np.int64], free: NDArray[np.int64]) -> Scores:  # noqa: ARG002
        """Return points from 0 to 100."""
        if not cards:
            return np.zeros(len(free))
        self._update_classes(len(free))
        has = self._classes[:, cards if share == WHOLE else 0]
        number = self._classes.sum(1)
        base = np.where(has, np.where(number == 1, 75, 50), np.where(number == 0, 25, 0))
        scores: Scores = base + 25 * (MAX_GPU - np.maximum(free, 0).sum(1)) / MAX_GPU
        return scores

    def _update_classes(self, size: int) -> None:
        """Read the pods of nodes that changed."""
        session = self._session
        if len(self._classes) != size:
            self._version, self._classes = -1, np.zeros((size, self._classes.shape[1]), np.bool_)
        for row in set(session.changed_rows(self._version)):
            self._classes[row] = False
            for task in session.tasks_on(session.nodes.names[row]):
                if (demand := demand_of_shape(task.shape)).cards:
                    is_whole = self._cards.memory[row] == demand.memory or not demand.memory
                    self._classes[row, demand.cards if is_whole else 0] = True
        self._version = session.nodes_version


class Random:
    """Scores all nodes alike: one of them is chosen by the seed of the cycle."""

    name = "random"

    def __init__(self, arguments: Mapping[str, Any]) -> None:
        """Accept the arguments of a plugin; there are none."""

    def score_depends(self, shape: Shape) -> Depends:  # noqa: ARG002 - the same for all shapes
        """Depend on nothing."""
        return Depends.NOTHING

    def score(self, shape: Shape, nodes: Nodes, feasible: NDArray[np.bool_]) -> Scores:  # noqa: ARG002 - all alike
        """Return zeros."""
        return np.zeros(len(nodes))


class RandomCards(GpuCards):
    """Gives a pod any cards with room, by a hash of its name."""

    def order(self, task: Task, places: NDArray[np.intp], free: NDArray[np.int64]) -> NDArray[np.intp]:  # noqa: ARG002
        """Return the cards in an order that the name decides."""
        return np.random.default_rng(int(task.name.rpartition("-")[2])).permutation(places)
