"""Nodes as plugins see them, as plain data for tests."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from volcanoio.framework.scheduling.views import AmountName, cpu_memory_column
from volcanoio.model.base import ObjectMeta
from volcanoio.model.core import Node, NodeSpec, Taint


def make_node(
    name: str, labels: dict[str, str] | None = None, taints: tuple[Taint, ...] = (), *, unschedulable: bool = False
) -> Node:
    return Node(
        metadata=ObjectMeta(name=name, labels=labels or {}), spec=NodeSpec(taints=taints, unschedulable=unschedulable)
    )


@dataclass
class NodesView:
    """Nodes as columns; amounts a resource holds are rows of `offered` and `taken`, in scheduling units."""

    objects: list[Node]
    offered: dict[str, list[int]] = field(default_factory=dict)
    taken: dict[str, list[int]] = field(default_factory=dict)
    nonzero: dict[str, list[int]] = field(default_factory=dict)

    def __len__(self) -> int:
        return len(self.objects)

    @property
    def names(self) -> list[str]:
        return [node.metadata.name for node in self.objects]

    def _column(self, table: dict[str, list[int]], resource: str) -> NDArray[np.int64]:
        return np.array(table.get(resource, [0] * len(self)), np.int64)

    def allocatable(self, resource: str) -> NDArray[np.int64]:
        return self._column(self.offered, resource)

    def used(self, resource: str) -> NDArray[np.int64]:
        return self._column(self.taken, resource)

    def idle(self, resource: str) -> NDArray[np.int64]:
        return self.allocatable(resource) - self.used(resource)

    def future_idle(self, resource: str) -> NDArray[np.int64]:
        return self.idle(resource)

    def nonzero_used(self, resource: str) -> NDArray[np.int64]:
        return self._column(self.nonzero or self.taken, resource)

    def cpu_memory(self, what: AmountName) -> NDArray[np.float64]:
        column: Callable[[str], NDArray[np.int64]] = getattr(self, what)
        return np.array([column("cpu"), column("memory")], np.float64)

    all_fit = False

    def utilization(self, cpu: int, memory: int) -> NDArray[np.float64]:
        filled: NDArray[np.float64] = (self.cpu_memory("used") + cpu_memory_column(cpu, memory)) / self.cpu_memory(
            "allocatable"
        )
        return filled

    @property
    def all_have_cpu_memory(self) -> bool:
        return bool((self.cpu_memory("allocatable") > 0).all())

    def row(self, row: int) -> NodeRowView:
        return NodeRowView(self, row)


@dataclass
class NodeRowView:
    """One node of a NodesView."""

    nodes: NodesView
    row: int

    @property
    def name(self) -> str:
        return self.object.metadata.name

    @property
    def object(self) -> Node:
        return self.nodes.objects[self.row]

    def allocatable(self, resource: str) -> int:
        return int(self.nodes.allocatable(resource)[self.row])

    def used(self, resource: str) -> int:
        return int(self.nodes.used(resource)[self.row])

    def idle(self, resource: str) -> int:
        return int(self.nodes.idle(resource)[self.row])

    def future_idle(self, resource: str) -> int:
        return int(self.nodes.future_idle(resource)[self.row])

    def nonzero_used(self, resource: str) -> int:
        return int(self.nodes.nonzero_used(resource)[self.row])


class Flat:
    """Where amounts of cpu and memory, and of GPUs, stand among all that a node has; no node has anything else."""

    NAMES = ("cpu", "memory", "nvidia.com/gpu")
    QUANTITIES = ("allocatable", "used", "idle", "future_idle", "nonzero_used")

    @classmethod
    def amounts(cls, nodes: NodesView, row: int) -> list[int]:
        return [int(getattr(nodes, quantity)(name)[row]) for quantity in cls.QUANTITIES for name in cls.NAMES]

    def _at(self, quantity: int, resource: str) -> int | None:
        return quantity * len(self.NAMES) + self.NAMES.index(resource) if resource in self.NAMES else None

    def allocatable(self, resource: str) -> int | None:
        return self._at(0, resource)

    def used(self, resource: str) -> int | None:
        return self._at(1, resource)

    def idle(self, resource: str) -> int | None:
        return self._at(2, resource)

    def future_idle(self, resource: str) -> int | None:
        return self._at(3, resource)

    def nonzero_used(self, resource: str) -> int | None:
        return self._at(4, resource)
