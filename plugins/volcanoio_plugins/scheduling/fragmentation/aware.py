"""Plugin fragmentation-aware: keeps the idle room of GPUs usable for the pods to come. Ours; Volcano has none.

It scores nodes for pods of all kinds, also for those without GPUs: they take the cpu that pods with GPUs need. Which
card of a node a pod gets is the device plugin's choice; the score assumes the fullest card that fits (binpack).

Policy `scarcity` (default): score = -Σ_k w_k · loss_k / U_k over typical kinds of pods k. U_k is what pods of the kind
could use on all nodes, loss_k how much less it is with the pod on the node: the derivative of Σ w_k · ln U_k. What is
scarce counts more: whole nodes for pods with many cards while few are left, a GPU model that some pods require, cpu
beside idle cards. w_k is the kind's part of all pods, times how many of them share a card: what remains of a card is of
use to kinds with small shares only. Policy `fgd`: the published score, the sigmoid of the decrease of
the node's fragmentation in whole percents; of equally good nodes the first by name, as in its authors' simulator.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Annotated, Any, Literal

import msgspec
import numpy as np
from numpy.typing import NDArray

from volcanoio.framework.arguments import convert
from volcanoio.framework.scheduling.sessionview import SessionView
from volcanoio.framework.scheduling.verdicts import Depends
from volcanoio.framework.scheduling.views import Nodes, Shape
from volcanoio.model.resources import CPU
from volcanoio_plugins.scheduling.fragmentation.cards import WHOLE, Cards, demand_of_shape
from volcanoio_plugins.scheduling.fragmentation.kinds import Kind, Kinds, TypicalPod, columns
from volcanoio_plugins.scheduling.fragmentation.measure import (
    Floats,
    Ints,
    Mask,
    Room,
    Typical,
    usable_by_copies,
    usable_once,
)
from volcanoio_plugins.scheduling.kubernetes.nodeindex import NodeIndex

MAX_SCORE = 100.0
MAX_LOSSES = 1 << 27
"""Bytes of losses that are kept for shapes; the least recently used ones are dropped."""
CHUNK = 512
"""Nodes that are measured in one call."""


class FragmentationArguments(msgspec.Struct, frozen=True):
    """Weight of the score, its policy, and the typical pods; with an empty list they are learned from pods seen."""

    weight: Annotated[float, msgspec.Meta(ge=0)] = msgspec.field(default=1.0, name="fragmentation-aware.weight")
    policy: Literal["scarcity", "fgd"] = msgspec.field(default="scarcity", name="fragmentation-aware.policy")
    typical_pods: list[TypicalPod] = msgspec.field(default_factory=list, name="fragmentation-aware.typicalPods")


@dataclass(slots=True)
class Losses:
    """What typical kinds lose on each node by a pod of a shape; valid up to `version`, where the pod fits."""

    of: Floats
    version: int = -1
    fits: Mask = field(default_factory=lambda: np.zeros(0, np.bool_))


class FragmentationAware:
    """Prefers nodes where a pod leaves most that typical pods can use."""

    name = "fragmentation-aware"

    def __init__(self, arguments: Mapping[str, Any]) -> None:
        given = convert(arguments, FragmentationArguments, self.name)
        self._weight = given.weight
        self._is_fgd = given.policy == "fgd"
        self._measure = usable_once if self._is_fgd else usable_by_copies
        self._kinds = Kinds(given.typical_pods, popular=self._is_fgd)
        self._cards = Cards()
        self._index = NodeIndex()
        self._session: SessionView
        self._basis: tuple[int, ...] = ()
        """Versions of kinds, nodes and cards for which everything below was computed."""
        self._chosen: list[Kind] = []
        self._by_memory: dict[int, Typical] = {}
        """The typical pods by the memory of a node's cards."""
        self._reach: Mask = np.zeros((0, 0), np.bool_)
        self._usable: Floats = np.zeros((0, 0), np.float32)
        """What is usable for each kind on each node, at `_version`."""
        self._total: NDArray[np.float64] = np.zeros(0)
        self._version = -1
        self._losses: dict[int, Losses] = {}
        self._order: NDArray[np.float64] = np.zeros(0)
        """The rank of each node by name."""

    def open(self, session: SessionView) -> None:
        """Read the cards of nodes that changed, and count the pods that are new once there are cards."""
        self._session = session
        self._index.open(session)
        self._cards.open(session)
        self._cards.update()
        if self._cards.memories:
            self._kinds.learn(session)

    def score_depends(self, shape: Shape) -> Depends:  # noqa: ARG002 - the same for all shapes
        """Depend on all nodes and their pods, as scarcity is of the whole cluster; on nothing without cards."""
        if not self._weight or not self._cards.memories:
            return Depends.NOTHING
        return Depends.NODE_SPEC | Depends.NODE_USAGE | Depends.PODS | Depends.FEASIBLE_SET

    def score(self, shape: Shape, nodes: Nodes, feasible: NDArray[np.bool_]) -> NDArray[np.float64]:
        """Score all nodes from 0 to 100, times the weight."""
        if not self._weight or len(nodes) != len(self._session.nodes):
            return np.zeros(len(nodes))
        self._update()
        if not self._chosen:
            return np.zeros(len(nodes))
        losses = self._losses_of(shape)
        scored = feasible & losses.fits
        if not scored.any():
            return np.zeros(len(nodes))
        scores = self._fgd_scores(shape, losses) if self._is_fgd else self._scarcity_scores(losses, scored)
        return np.where(scored, scores, 0.0) * self._weight

    def _scarcity_scores(self, losses: Losses, scored: Mask) -> NDArray[np.float64]:
        """Return the scores, scaled so that the best node has 100 and the worst 0."""
        typical = next(iter(self._by_memory.values()))
        weight = typical.weight * WHOLE / typical.share
        price = np.divide(weight, self._total, out=np.zeros(len(weight)), where=self._total > 0)
        loss = (losses.of @ price.astype(np.float32)).astype(np.float64)
        least, most = loss[scored].min(), loss[scored].max()
        if most <= least:
            return np.full(len(loss), MAX_SCORE)
        scores: NDArray[np.float64] = (most - loss) / (most - least) * MAX_SCORE
        return scores

    def _fgd_scores(self, shape: Shape, losses: Losses) -> NDArray[np.float64]:
        """Return the published score; less than one percent orders equal nodes by name."""
        weight = next(iter(self._by_memory.values())).weight
        demand = demand_of_shape(shape)
        taken = np.zeros(len(losses.fits))
        if demand.cards:
            for memory in self._by_memory:
                taken[self._cards.memory == memory] = demand.cards * demand.share(memory)
        decrease = (taken - losses.of.astype(np.float64) @ weight) / WHOLE
        return np.floor(MAX_SCORE / (1.0 + np.exp(-decrease))) - self._order

    def _update(self) -> None:
        """Compute again what changed since the last call."""
        cards, nodes = self._cards, self._session.nodes
        cards.update()
        index = self._index.update()
        memories = cards.memories
        basis = self._kinds.version, index.version, len(nodes), *memories
        if basis != self._basis:
            self._basis = basis
            self._rebuild(memories)
        elif self._version == cards.version:
            return
        rows = self._changed_rows(self._version)
        self._version = cards.version
        if len(rows) and self._chosen:
            usable = self._measured(rows, Room(nodes.idle(CPU)[rows], cards.free[rows]))
            self._total += usable.sum(0, dtype=np.float64) - self._usable[rows].sum(0, dtype=np.float64)
            self._usable[rows] = usable

    def _changed_rows(self, version: int) -> Ints:
        """Return the rows that changed after a version, each once."""
        rows = dict.fromkeys(self._session.changed_rows(version))
        return np.fromiter(rows, np.int64, len(rows))

    def _rebuild(self, memories: list[int]) -> None:
        """Choose the typical kinds again, and drop everything that was computed for the former ones."""
        chosen = self._kinds.chosen(memories[-1]) if memories else []
        size = len(self._session.nodes)
        self._chosen = [kind for kind, _ in chosen]
        self._by_memory = {memory: columns(chosen, memory) for memory in memories}
        self._reach = self._kinds.reach(self._chosen, self._index)
        self._usable = np.zeros((size, len(chosen)), np.float32)
        self._total = np.zeros(len(chosen))
        self._version = -1
        self._losses.clear()
        self._order = np.argsort(np.argsort(np.array(self._session.nodes.names))) / max(size, 1) / 2

    def _measured(self, rows: Ints, room: Room) -> Floats:
        """Return what each kind can use on rows with this room."""
        measured = np.zeros((len(rows), len(self._chosen)), np.float32)
        for memory, typical in self._by_memory.items():
            with_memory = np.flatnonzero(self._cards.memory[rows] == memory)
            for start in range(0, len(with_memory), CHUNK):
                at = with_memory[start : start + CHUNK]
                part = Room(room.cpu[at], room.free[at])
                measured[at] = self._measure(part, typical, self._reach[rows[at]])
        return measured

    def _losses_of(self, shape: Shape) -> Losses:
        """Return the losses by a pod of a shape on every node, up to date."""
        size, kinds = self._usable.shape
        if (losses := self._losses.pop(shape.base_id, None)) is None:
            while self._losses and (len(self._losses) + 1) * size * kinds * 4 > MAX_LOSSES:
                del self._losses[next(iter(self._losses))]
            losses = Losses(np.zeros((size, kinds), np.float32), fits=np.zeros(size, np.bool_))
        self._losses[shape.base_id] = losses
        if losses.version != self._version:
            rows = self._changed_rows(losses.version)
            losses.version = self._version
            self._measure_losses(shape, losses, rows)
        return losses

    def _measure_losses(self, shape: Shape, losses: Losses, rows: Ints) -> None:
        """Compute the losses on some rows again."""
        cpu, demand = shape.requests.get(CPU, 0), demand_of_shape(shape)
        idle = self._session.nodes.idle(CPU)[rows]
        fits = idle >= cpu
        for memory in (0, *self._by_memory):
            alike = np.flatnonzero((self._cards.memory[rows] == memory) & fits)
            if not len(alike):
                continue
            if not memory:
                fits[alike] = not demand.cards
                continue
            at, share = rows[alike], demand.share(memory) if demand.cards else 0
            room = Room(idle[alike], self._cards.free[at])
            has_room = room.fits(demand.cards, share)
            fits[alike] = has_room
            at, room = at[has_room], Room(room.cpu[has_room], room.free[has_room])
            if len(at):
                losses.of[at] = self._usable[at] - self._measured(at, room.with_pod(cpu, demand.cards, share))
        losses.fits[rows] = fits
