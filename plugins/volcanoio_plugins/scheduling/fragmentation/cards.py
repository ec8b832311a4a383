"""The cards (GPUs) of nodes as columns, read from the annotations that device plugins and schedulers write.

A node lists its cards in `volcano.sh/node-vgpu-register`, a pod on it has its cards in `volcano.sh/vgpu-ids-new`, as
Volcano's vGPU device plugin defines. A card is as full as the larger of its shares of memory and cores.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from functools import lru_cache
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from volcanoio.framework.scheduling.sessionview import SessionView
from volcanoio.framework.scheduling.views import Shape, Task

Ints = NDArray[np.int64]

REGISTER = "volcano.sh/node-vgpu-register"
ASSIGNED = "volcano.sh/vgpu-ids-new"
NUMBER = "volcano.sh/vgpu-number"
MEMORY = "volcano.sh/vgpu-memory"
PERCENTAGE = "volcano.sh/vgpu-memory-percentage"
CORES = "volcano.sh/vgpu-cores"
WHOLE = 1000
"""The share of a whole card."""
MAX_CARDS = 16
"""Cards of a node that are counted."""


class Card(NamedTuple):
    """One card of a node: its uuid, how many pods may share it, and its memory (MiB)."""

    uuid: str
    sharers: int
    memory: int


class Assigned(NamedTuple):
    """What a pod has of a card: memory (MiB) and percent of its cores."""

    uuid: str
    memory: int
    cores: int


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
    """Return the demand in requests or limits (thousandths of each resource)."""
    number, memory, percentage, cores = (amounts.get(name, 0) // 1000 for name in (NUMBER, MEMORY, PERCENTAGE, CORES))
    return Demand(number, memory, percentage, cores) if number else NO_CARDS


def demand_of_shape(shape: Shape) -> Demand:
    """Return the demand of a pod; its limits have it where the resources are no plain amounts."""
    return demand_of(shape.limits if NUMBER in shape.limits else shape.requests)


def registered(text: str) -> list[Card]:
    """Return the healthy cards of a node's annotation `uuid,count,memory,type,health,mode:…`; [] if it is not valid."""
    cards = []
    for entry in text.split(":"):
        fields = entry.split(",")
        if len(fields) < 5 or fields[4] != "true":
            continue
        if not (fields[1].isdecimal() and fields[2].isdecimal()):
            return []
        cards.append(Card(fields[0], int(fields[1]), int(fields[2])))
    return cards[:MAX_CARDS]


def assigned(text: str) -> Iterator[Assigned]:
    """Yield the cards in a pod's annotation `uuid,type,memory,cores:` of each container, `;` between containers."""
    for container in text.split(";"):
        for entry in container.split(":"):
            fields = entry.split(",")
            if len(fields) == 4 and fields[2].isdecimal() and fields[3].isdecimal():
                yield Assigned(fields[0], int(fields[2]), int(fields[3]))


def assignment(cards: Iterable[Assigned], card_type: str = "GPU") -> str:
    """Return the annotation of a pod with one container that has these cards."""
    return "".join(f"{one.uuid},{card_type},{one.memory},{one.cores}:" for one in cards) + ";"


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
        self._cards: list[tuple[str, list[Card]]] = []
        """By row the annotation, and the cards in it."""
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

    def on(self, row: int) -> list[Card]:
        """Return the cards of a row."""
        return self._cards[row][1]

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
            self._cards = [("", [])] * len(nodes)
            self._memories = Counter({0: len(nodes)})
        names, objects = nodes.names, nodes.objects
        rows = dict.fromkeys((*session.changed_rows(since), *self._touched))
        self._touched.clear()
        for row in rows:
            text = objects[row].metadata.annotations.get(REGISTER, "")
            if text != self._cards[row][0]:
                self._cards[row] = text, registered(text)
            self._read(row, session.tasks_on(names[row]))

    def _read(self, row: int, tasks: Iterable[Task]) -> None:
        """Count the cards of one row."""
        cards = self._cards[row][1]
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
        for task in tasks:
            if text := assigned_cards(task):
                for uuid, memory, cores in _assigned(text):
                    if (card_use := used.get(uuid)) is not None:
                        card_use[0] += memory
                        card_use[1] += cores
                        card_use[2] += 1
        self.free[row, : len(cards)] = [_free(card, *used[card.uuid]) for card in cards]


def _free(card: Card, memory: int, cores: int, sharers: int) -> int:
    """Return the free share of a card of which so much is used."""
    if sharers >= card.sharers or not card.memory:
        return 0
    return max(WHOLE - max(memory * WHOLE // card.memory, cores * WHOLE // 100), 0)


@lru_cache(maxsize=1 << 16)
def _assigned(text: str) -> tuple[Assigned, ...]:
    return tuple(assigned(text))


def assigned_cards(task: Task) -> str:
    """Return the annotation of a task's cards: chosen in the session, or as its pod shows it."""
    return task.bind_annotations.get(ASSIGNED) or task.pod.metadata.annotations.get(ASSIGNED, "")
