"""scheduling.volcano.sh/v1beta1: PodGroup and Queue."""

from enum import StrEnum

import msgspec

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
    """Name of the policy."""
    network_topology: NetworkTopology | None = None
    """Network topology for the pods of a sub-group."""
    sub_group_size: int | None = None
    """Minimum number of pods for a sub-group to start."""
    min_sub_groups: int | None = None
    """Minimum number of sub-groups for the PodGroup to start; 0 for none."""
    label_selector: Manifest | None = None
    """Selects the pods that the policy divides."""
    match_label_keys: tuple[str, ...] = ()
    """Labels whose values distinguish the sub-groups."""


class PodGroupSpec(Model):
    """`spec` of a PodGroup. minResources None (absent) is admitted to the queue at once; {} is a demand of nothing."""

    min_member: int = 0
    """Minimum number of pods that must be able to start together."""
    min_task_member: dict[str, int] = {}
    """Minimum number of pods of each task that must be able to start together."""
    queue: str = ""
    """Queue in which the PodGroup waits and whose share it uses."""
    priority_class_name: str = ""
    """PriorityClass of the PodGroup, which orders it within its queue."""
    min_resources: ResourceList | None = None
    """Amounts that must be available before the PodGroup is admitted to its queue; without them it is admitted at once.
    """
    network_topology: NetworkTopology | None = None
    """Network topology for the pods."""
    sub_group_policy: tuple[SubGroupPolicy, ...] = ()
    """Division of the pods into sub-groups that start together."""


class PodGroupCondition(Model):
    """`status.conditions[]` of a PodGroup: type Unschedulable or Scheduled."""

    type: str = ""
    """Unschedulable or Scheduled."""
    status: str = ""
    """True, False or Unknown."""
    transition_id: str = msgspec.field(default="", name="transitionID")
    """Identity of the scheduling session that wrote the condition."""
    last_transition_time: str | None = None
    """When the condition was last written."""
    reason: str = ""
    """Reason for the status, as one word in CamelCase."""
    message: str = ""
    """Reason for the status, as a sentence."""


class PodGroupStatus(Model):
    """`status` of a PodGroup. There is no status subresource: it is written with the object."""

    phase: str = ""
    """Phase of the PodGroup."""
    conditions: tuple[PodGroupCondition, ...] = ()
    """Conditions that the scheduler last determined."""
    running: int = 0
    """Number of running pods."""
    succeeded: int = 0
    """Number of pods that succeeded."""
    failed: int = 0
    """Number of pods that failed."""


class PodGroup(ApiObject):
    """Pods that are scheduled together (scheduling.volcano.sh/v1beta1)."""

    spec: PodGroupSpec = PodGroupSpec()
    """Requirements of the pods as a group."""
    status: PodGroupStatus = PodGroupStatus()
    """Status of the group, written by the scheduler with the object."""


class Guarantee(Model):
    """`spec.guarantee` of a Queue."""

    resource: ResourceList = {}
    """Amounts that are reserved for the queue; no other queue may use them."""


class QueueSpec(Model):
    """`spec` of a Queue."""

    weight: int = 1
    """Share of the queue among its siblings, where plugin proportion divides the cluster."""
    capability: ResourceList = {}
    """Maximum that the queue may use; resources that are not listed are unlimited."""
    reclaimable: bool | None = None
    """Whether other queues may reclaim what this one uses beyond its deserved amount; true by default."""
    extend_clusters: tuple[Manifest, ...] = ()
    """Clusters that jobs of the queue may be forwarded to."""
    guarantee: Guarantee = Guarantee()
    """Resources that are reserved for the queue."""
    affinity: Manifest | None = None
    """Node groups that pods of the queue may, should or must not use."""
    type: str = ""
    """Free text."""
    parent: str = ""
    """Parent queue; root by default."""
    deserved: ResourceList = {}
    """Amounts that the queue is entitled to; to reach them, it may reclaim what other queues use beyond theirs."""
    priority: int = 0
    """Priority among queues: higher ones come first."""
    dequeue_strategy: str = "traverse"
    """traverse skips jobs that cannot start; fifo waits for the first one."""


class QueueStatus(Model):
    """`status` of a Queue; counts are PodGroups by phase, allocated is the scheduler's."""

    state: str = ""
    """Whether jobs may be submitted: Open, Closed, Closing (closed, with jobs left) or Unknown."""
    unknown: int = 0
    """Number of PodGroups of unknown phase."""
    pending: int = 0
    """Number of PodGroups that wait to be admitted."""
    running: int = 0
    """Number of running PodGroups."""
    inqueue: int = 0
    """Number of PodGroups that are admitted and wait for room."""
    completed: int = 0
    """Number of completed PodGroups."""
    reservation: Manifest | None = None
    """Resources that are reserved for the queue."""
    allocated: ResourceList = {}
    """Resources that the pods of the queue and of its child queues use, written by the scheduler."""


class Queue(ApiObject):
    """A share of the cluster that jobs wait for (scheduling.volcano.sh/v1beta1)."""

    spec: QueueSpec = QueueSpec()
    """Limits of the queue, and its relation to other queues."""
    status: QueueStatus = QueueStatus()
    """State of the queue, and its usage."""

    @property
    def is_open(self) -> bool:
        """Whether jobs may be submitted to the queue."""
        return self.status.state in ("", QueueState.OPEN)
