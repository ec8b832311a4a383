"""The cards (GPUs) of nodes as columns, read from the annotations that device plugins and schedulers write.

A node lists its cards in `volcano.sh/node-vgpu-register`, a pod on it has its cards in `volcano.sh/vgpu-ids-new`, as
Volcano's vGPU device plugin defines. A card is as full as the larger of its shares of memory and cores.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from itertools import chain
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from volcanoio.framework.scheduling.sessionview import SessionView
from volcanoio.framework.scheduling.views import Shape, Task
from volcanoio.model.core import Node
from volcanoio.model.devices.annotations import (
    VGPU_CORES,
    VGPU_IDS,
    VGPU_MEMORY,
    VGPU_NUMBER,
    VGPU_PERCENTAGE,
    VGPU_REGISTER,
    RegisteredCard,
    parse_pod_devices,
    parse_register,
)

Ints = NDArray[np.int64]

WHOLE = 1000
"""The share of a whole card."""
MAX_CARDS = 16
"""Cards of a node that are counted."""


class Demand(NamedTuple):
    """The cards that a pod requests: how many, and of each the memory in MiB or percent, and percent of its cores.

    With neither memory nor percentage it takes all memory.
    """

    cards: int
    memory: int
    percentage: int
    cores: int

    def share(self, card_memory: int) -> int:
        """Return the requested share of a card with so much memory, in thousandths; above 1000 it never fits."""
        if self.percentage:
            memory = self.percentage * WHOLE // 100
        elif self.memory:
            memory = -(-self.memory * WHOLE // card_memory) if card_memory else WHOLE + 1
        else:
            memory = WHOLE
        return max(memory, self.cores * WHOLE // 100)


NO_CARDS = Demand(0, 0, 0, 0)


def demand_of(amounts: Mapping[str, int]) -> Demand:
    """Return the demand in requests or limits of a pod (thousandths of each resource).

    They are sums over containers: with several containers that request cards, the memory of a card is overestimated.
    """
    number, memory, percentage, cores = (
        amounts.get(name, 0) // 1000 for name in (VGPU_NUMBER, VGPU_MEMORY, VGPU_PERCENTAGE, VGPU_CORES)
    )
    return Demand(number, memory, percentage, cores) if number else NO_CARDS


def demand_of_shape(shape: Shape) -> Demand:
    """Return the demand of a pod; its limits have it where the resources are no plain amounts."""
    return demand_of(shape.limits if VGPU_NUMBER in shape.limits else shape.requests)


def healthy_cards(node: Node) -> tuple[RegisteredCard, ...]:
    """Return the cards that pods can use, at most `MAX_CARDS`."""
    text = node.metadata.annotations.get(VGPU_REGISTER, "")
    return tuple(card for card in parse_register(text) if card.healthy)[:MAX_CARDS]


class Cards:
    """The cards of all nodes of a session. Call `open` in each session, `update` before reading.

    `free` has the free share of each card in thousandths by row; places without a card have -1. `memory` is the memory
    (MiB) of the largest card of a node, 0 for a node without cards.
    """

    def __init__(self) -> None:
        self._session: SessionView
        self._version = -1
        self.free: Ints = np.full((0, 1), -1)
        self.memory: Ints = np.zeros(0, np.int64)
        self._cards: list[tuple[RegisteredCard, ...]] = []
        self._touched: set[int] = set()
        self._memories: Counter[int] = Counter()
        """Number of nodes by `memory`."""

    def open(self, session: SessionView) -> None:
        """Start a session."""
        self._session = session

    @property
    def version(self) -> int:
        """The session's `nodes_version` of the last update."""
        return self._version

    @property
    def memories(self) -> list[int]:
        """The values of `memory` of nodes with cards, sorted."""
        return sorted(memory for memory, count in self._memories.items() if memory and count)

    def on(self, row: int) -> tuple[RegisteredCard, ...]:
        """Return the cards of a row."""
        return self._cards[row]

    def touch(self, row: int) -> None:
        """Read a row again at the next update: a choice for a task on it is not in its annotations yet."""
        self._touched.add(row)

    def update(self) -> None:
        """Read the rows again that changed since the last update."""
        session = self._session
        nodes, since, self._version = session.nodes, self._version, session.nodes_version
        if since == self._version and len(nodes) == len(self._cards) and not self._touched:
            return
        if len(nodes) != len(self._cards):
            since = -1
            self.free, self.memory = np.full((len(nodes), 1), -1), np.zeros(len(nodes), np.int64)
            self._cards = [()] * len(nodes)
            self._memories = Counter({0: len(nodes)})
        names, objects = nodes.names, nodes.objects
        rows = dict.fromkeys((*session.changed_rows(since), *self._touched))
        self._touched.clear()
        for row in rows:
            self._cards[row] = healthy_cards(objects[row])
            self._read(row, names[row])

    def _read(self, row: int, node: str) -> None:
        """Count the cards of one row."""
        cards = self._cards[row]
        if len(cards) > self.free.shape[1]:
            wider = np.full((len(self.free), len(cards)), -1)
            wider[:, : self.free.shape[1]] = self.free
            self.free = wider
        self._memories[self.memory.item(row)] -= 1
        self.memory[row] = max((card.memory for card in cards), default=0)
        self._memories[self.memory.item(row)] += 1
        self.free[row] = -1
        if not cards:
            return
        used = {card.uuid: [0, 0, 0] for card in cards}
        for task in self._session.tasks_on(node):
            for share in chain.from_iterable(parse_pod_devices(_assigned(task))):
                if (of_card := used.get(share.card)) is not None:
                    of_card[0] += share.memory
                    of_card[1] += share.cores
                    of_card[2] += 1
        self.free[row, : len(cards)] = [_free(card, *used[card.uuid]) for card in cards]


def _free(card: RegisteredCard, memory: int, cores: int, sharers: int) -> int:
    """Return the free share of a card of which so much is used."""
    if sharers >= card.number or not card.memory:
        return 0
    return max(WHOLE - max(memory * WHOLE // card.memory, cores * WHOLE // 100), 0)


def _assigned(task: Task) -> str:
    """Return the annotation of a task's cards: chosen in the session, or as its pod shows it."""
    return task.bind_annotations.get(VGPU_IDS) or task.pod.metadata.annotations.get(VGPU_IDS, "")
