"""A reproducible cluster with a backlog of gangs.

Nodes are of three types, half of them part-used on request; there are eight queues and twenty shapes of pods.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import msgspec

from bench.checker import GroupFacts, NodeFacts, PodFacts
from volcanoio.model import names
from volcanoio.model.base import ObjectMeta
from volcanoio.model.core import (
    Container,
    Node,
    NodeStatus,
    Pod,
    PodSpec,
    PodStatus,
    PriorityClass,
    ResourceList,
    ResourceRequirements,
)
from volcanoio.model.scheduling import PodGroup, PodGroupSpec, Queue, QueueSpec, QueueStatus

GI = 1 << 30
GPU = "nvidia.com/gpu"
NODE_TYPES = (("small", 16, 64, 0), ("large", 32, 128, 0), ("gpu", 64, 256, 8))
"""Name, cores, GiB, GPUs."""
TYPE_OF_TEN = (0, 0, 0, 0, 0, 0, 1, 1, 1, 2)
"""The types of every ten nodes."""
QUEUES = 8
QUEUE_PART = 25
"""The capability of a queue, in percent of the cluster."""
CREATED = "2026-01-01T00:00:00Z"


@dataclass(frozen=True, slots=True)
class PodShape:
    """Requests of a pod: milli-cores, bytes, GPUs, and the required type of node ("" for any)."""

    cpu: int
    memory: int
    gpus: int
    node_type: str


SHAPES = tuple(
    PodShape(
        cpu=(250, 500, 1000, 2000)[index % 4],
        memory=(1, 2, 4)[index % 3] * GI // 2,
        gpus=1 if index == 19 else 0,
        node_type=("", "", "", "", "large")[index % 5] if index != 19 else "",
    )
    for index in range(20)
)


@dataclass(frozen=True, slots=True)
class Workload:
    """Sizes of the cluster and of the backlog.

    `minimum` members of a gang are required, all if it is 0; `priorities` is the number of priority classes that the
    gangs have in turn, none if it is 0; with `used` every second node already runs pods of others.
    """

    nodes: int
    pods: int
    gang: int
    shapes: int = len(SHAPES)
    minimum: int = 0
    priorities: int = 0
    used: bool = False

    @property
    def gangs(self) -> int:
        """Number of gangs; the last one may be smaller."""
        return -(-self.pods // self.gang)

    def members(self, gang: int) -> int:
        """Return the number of a gang's pods."""
        return min(self.gang, self.pods - gang * self.gang)

    def needed(self, gang: int) -> int:
        """Return how many of a gang's pods must be placed at once."""
        return min(self.minimum or self.gang, self.members(gang))

    def taken(self, node: int) -> tuple[int, int]:
        """Return the usage of a node by others' pods: milli-cores and bytes, zero on every second node."""
        if not self.used or node % 2:
            return 0, 0
        step = 1 + node // 2 % 6
        return 1000 * step, GI * (1 + step % 4)

    def shape(self, gang: int) -> PodShape:
        """Return the shape of a gang's pods: shapes after the first twenty have a few milli-cores more."""
        more, index = divmod(gang % self.shapes, len(SHAPES))
        return replace(SHAPES[index], cpu=SHAPES[index].cpu + more)

    def node_objects(self) -> Iterator[Node]:
        """Yield the nodes."""
        for index in range(self.nodes):
            kind, cores, gib, gpus = NODE_TYPES[TYPE_OF_TEN[index % len(TYPE_OF_TEN)]]
            offered = {"cpu": str(cores), "memory": f"{gib}Gi", "pods": "110", **({GPU: str(gpus)} if gpus else {})}
            yield Node(
                metadata=_meta(f"node-{index}", labels={"type": kind}),
                status=NodeStatus(capacity=dict(offered), allocatable=dict(offered)),
            )

    def class_objects(self) -> Iterator[PriorityClass]:
        """Yield the priority classes of gangs."""
        for index in range(self.priorities):
            yield PriorityClass(metadata=_meta(f"class-{index}"), value=100 * index)

    def other_objects(self) -> Iterator[Pod]:
        """Yield running pods of another scheduler."""
        for index in range(self.nodes):
            cpu, memory = self.taken(index)
            if cpu:
                spec = msgspec.structs.replace(
                    _pod_spec(PodShape(cpu, memory, 0, "")),
                    scheduler_name="default-scheduler",
                    node_name=f"node-{index}",
                )
                meta = _meta(f"other-{index}", namespace="others")
                yield Pod(metadata=meta, spec=spec, status=PodStatus(phase="Running"))

    def queue_objects(self) -> Iterator[Queue]:
        """Yield the queues, of weights 1 to 8, each with a capability."""
        limit = self.limit()
        capability: ResourceList = {"cpu": f"{limit['cpu']}m", "memory": str(limit["memory"])}
        for index in range(QUEUES):
            yield Queue(
                metadata=_meta(f"queue-{index}"),
                spec=QueueSpec(weight=index + 1, reclaimable=True, capability=capability),
                status=QueueStatus(state="Open"),
            )

    def group_objects(self) -> Iterator[PodGroup]:
        """Yield one PodGroup per gang."""
        for gang in range(self.gangs):
            shape, size = self.shape(gang), self.needed(gang)
            yield PodGroup(
                metadata=_meta(f"gang-{gang}", namespace="bench"),
                spec=PodGroupSpec(
                    min_member=size,
                    queue=f"queue-{gang % QUEUES}",
                    min_resources={"cpu": f"{shape.cpu * size}m", "memory": str(shape.memory * size)},
                    priority_class_name=f"class-{gang // QUEUES % self.priorities}" if self.priorities else "",
                ),
            )

    def pod_objects(self) -> Iterator[Pod]:
        """Yield the pods, gang by gang."""
        for gang in range(self.gangs):
            spec = _pod_spec(self.shape(gang))
            annotations = {names.GROUP_NAME: f"gang-{gang}", names.TASK_SPEC: "worker"}
            for member in range(self.members(gang)):
                yield Pod(
                    metadata=_meta(f"gang-{gang}-worker-{member}", namespace="bench", annotations=annotations),
                    spec=spec,
                    status=PodStatus(phase="Pending"),
                )

    def node_facts(self) -> Iterator[NodeFacts]:
        """Return the nodes for the checker."""
        for index in range(self.nodes):
            kind, cores, gib, gpus = NODE_TYPES[TYPE_OF_TEN[index % len(TYPE_OF_TEN)]]
            cpu, memory = self.taken(index)
            offered = {"cpu": cores * 1000 - cpu, "memory": gib * GI - memory, "pods": 110 - bool(cpu), GPU: gpus}
            yield NodeFacts(f"node-{index}", offered, {"type": kind})

    def group_facts(self) -> Iterator[GroupFacts]:
        """Return the gangs for the checker."""
        for gang in range(self.gangs):
            yield GroupFacts(f"gang-{gang}", self.needed(gang), f"queue-{gang % QUEUES}")

    def pod_facts(self) -> Iterator[PodFacts]:
        """Return the pods for the checker."""
        for gang in range(self.gangs):
            shape = self.shape(gang)
            requests = {"cpu": shape.cpu, "memory": shape.memory, **({GPU: shape.gpus} if shape.gpus else {})}
            selector = {"type": shape.node_type} if shape.node_type else {}
            for member in range(self.members(gang)):
                yield PodFacts(f"uid-gang-{gang}-worker-{member}", f"gang-{gang}", requests, selector)

    def limit(self) -> dict[str, int]:
        """Return the limit of each queue's usage."""
        total = {"cpu": 0, "memory": 0}
        for index in range(self.nodes):
            _, cores, gib, _ = NODE_TYPES[TYPE_OF_TEN[index % len(TYPE_OF_TEN)]]
            total["cpu"] += cores * 1000
            total["memory"] += gib * GI
        return {name: amount * QUEUE_PART // 100 for name, amount in total.items()}

    def limits(self) -> dict[str, dict[str, int]]:
        """Return the limits by queue for the checker."""
        limit = self.limit()
        return {f"queue-{index}": limit for index in range(QUEUES)}


def _meta(
    name: str, *, namespace: str = "", labels: dict[str, str] | None = None, annotations: dict[str, str] | None = None
) -> ObjectMeta:
    return ObjectMeta(
        name=name,
        namespace=namespace,
        uid=f"uid-{name}",
        resource_version="1",
        creation_timestamp=CREATED,
        labels=labels or {},
        annotations=annotations or {},
    )


def _pod_spec(shape: PodShape) -> PodSpec:
    requests: dict[str, str | int | float] = {"cpu": f"{shape.cpu}m", "memory": str(shape.memory)}
    if shape.gpus:
        requests[GPU] = str(shape.gpus)
    return PodSpec(
        scheduler_name=names.SCHEDULER_NAME,
        node_selector={"type": shape.node_type} if shape.node_type else {},
        containers=(Container(name="main", image="bench", resources=ResourceRequirements(requests=requests)),),
    )
