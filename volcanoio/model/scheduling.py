"""scheduling.volcano.sh/v1beta1: PodGroup and Queue."""

from __future__ import annotations

from enum import StrEnum

from volcanoio.model.base import ApiObject, Manifest, Model
from volcanoio.model.batch import NetworkTopology
from volcanoio.model.core import ResourceList


class PodGroupPhase(StrEnum):
    """`status.phase` of a PodGroup; a new one has none."""

    PENDING = "Pending"
    INQUEUE = "Inqueue"
    RUNNING = "Running"
    UNKNOWN = "Unknown"
    COMPLETED = "Completed"


class QueueState(StrEnum):
    """`status.state` of a Queue; a new one has none, which counts as Open."""

    OPEN = "Open"
    CLOSED = "Closed"
    CLOSING = "Closing"
    UNKNOWN = "Unknown"


class SubGroupPolicy(Model):
    """`spec.subGroupPolicy[]` of a PodGroup."""

    name: str = ""
    network_topology: NetworkTopology | None = None
    sub_group_size: int | None = None
    min_sub_groups: int | None = None
    label_selector: Manifest | None = None
    match_label_keys: tuple[str, ...] = ()


class PodGroupSpec(Model):
    """`spec` of a PodGroup. minResources None (absent) is admitted to the queue at once; {} is a demand of nothing."""

    min_member: int = 0
    min_task_member: dict[str, int] = {}
    queue: str = ""
    priority_class_name: str = ""
    min_resources: ResourceList | None = None
    network_topology: NetworkTopology | None = None
    sub_group_policy: tuple[SubGroupPolicy, ...] = ()


class PodGroupCondition(Model):
    """`status.conditions[]` of a PodGroup: type Unschedulable or Scheduled."""

    type: str = ""
    status: str = ""
    transition_id: str = ""
    last_transition_time: str | None = None
    reason: str = ""
    message: str = ""


class PodGroupStatus(Model):
    """`status` of a PodGroup. There is no status subresource: it is written with the object."""

    phase: str = ""
    conditions: tuple[PodGroupCondition, ...] = ()
    running: int = 0
    succeeded: int = 0
    failed: int = 0


class PodGroup(ApiObject):
    """scheduling.volcano.sh/v1beta1 PodGroup."""

    spec: PodGroupSpec = PodGroupSpec()
    status: PodGroupStatus = PodGroupStatus()


class Guarantee(Model):
    """`spec.guarantee` of a Queue."""

    resource: ResourceList = {}


class QueueSpec(Model):
    """`spec` of a Queue."""

    weight: int = 1
    capability: ResourceList = {}
    reclaimable: bool | None = None
    extend_clusters: tuple[Manifest, ...] = ()
    guarantee: Guarantee = Guarantee()
    affinity: Manifest | None = None
    type: str = ""
    parent: str = ""
    deserved: ResourceList = {}
    priority: int = 0
    dequeue_strategy: str = "traverse"


class QueueStatus(Model):
    """`status` of a Queue; counts are PodGroups by phase, allocated is the scheduler's."""

    state: str = ""
    unknown: int = 0
    pending: int = 0
    running: int = 0
    inqueue: int = 0
    completed: int = 0
    reservation: Manifest | None = None
    allocated: ResourceList = {}


class Queue(ApiObject):
    """scheduling.volcano.sh/v1beta1 Queue."""

    spec: QueueSpec = QueueSpec()
    status: QueueStatus = QueueStatus()

    @property
    def is_open(self) -> bool:
        """Whether jobs may be submitted to it."""
        return self.status.state in ("", QueueState.OPEN)
