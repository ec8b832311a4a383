"""Volcano's kinds about nodes: HyperNode, Numatopology, NodeShard and ColocationConfiguration.

Groups of nodes by network topology, the NUMA layout inside a node, shards of nodes for several schedulers, and memory
protection for pods that share nodes with others.
"""

from volcanoio.model.base import ApiObject, Model, StatusCondition
from volcanoio.model.core import LabelSelector


class ExactMatch(Model):
    """`exactMatch` of a member's selector."""

    name: str = ""
    """Name of the node or hypernode."""


class RegexMatch(Model):
    """`regexMatch` of a member's selector."""

    pattern: str = ""
    """Regular expression that the names match."""


class MemberSelector(Model):
    """Which nodes or hypernodes a member stands for: one of the three is set."""

    exact_match: ExactMatch | None = None
    """Selects one by name."""
    regex_match: RegexMatch | None = None
    """Selects by a pattern of names."""
    label_match: LabelSelector | None = None
    """Selects nodes by labels."""


class Member(Model):
    """`spec.members[]`."""

    type: str = ""
    """Node, or HyperNode of the tier below."""
    selector: MemberSelector = MemberSelector()
    """Which nodes or hypernodes these are: exactly one of exactMatch, regexMatch and labelMatch."""


class HyperNodeSpec(Model):
    """`spec` of a hypernode."""

    tier: int = 0
    """How far apart the nodes are: the higher the tier, the farther."""
    tier_name: str = ""
    """Name of the tier, such as rack."""
    members: tuple[Member, ...] = ()
    """The nodes or hypernodes that it consists of."""


class HyperNodeStatus(Model):
    """`status` of a hypernode."""

    conditions: tuple[StatusCondition, ...] = ()
    """What is known of the hypernode."""
    node_count: int = 0
    """Number of nodes, those of its hypernodes included."""


class HyperNode(ApiObject):
    """A part of the network that nodes or smaller parts belong to (topology.volcano.sh/v1alpha1)."""

    spec: HyperNodeSpec = HyperNodeSpec()
    """Tier and members."""
    status: HyperNodeStatus = HyperNodeStatus()
    """What was found out about the members."""


class NumaResource(Model):
    """`spec.numares[resource]` of a Numatopology."""

    allocatable: str = ""
    """The NUMA nodes or units that pods may use, as a list such as 0-3,8."""
    capacity: int = 0
    """Number of units."""


class CpuDetail(Model):
    """`spec.cpuDetail[cpu]` of a Numatopology."""

    numa: int = 0
    """NUMA node of the CPU."""
    socket: int = 0
    """Socket of the CPU."""
    core: int = 0
    """Core of the CPU."""


class ContainerAllocation(Model):
    """`containerAllocations[]` of a pod in a Numatopology."""

    name: str = ""
    """Name of the container."""
    allocations: dict[str, str] = {}
    """What the container has of each resource, as a list such as 0-3,8."""


class PodAllocation(Model):
    """`spec.podAllocations[]` of a Numatopology."""

    uid: str = ""
    """UID of the pod."""
    name: str = ""
    """Name of the pod."""
    namespace: str = ""
    """Namespace of the pod."""
    container_allocations: tuple[ContainerAllocation, ...] = ()
    """What each container has."""


class NumatopologySpec(Model):
    """`spec` of a Numatopology."""

    policies: dict[str, str] = {}
    """Policies of the kubelet: CPUManagerPolicy and TopologyManagerPolicy."""
    res_reserved: dict[str, str] = {}
    """Amounts that are reserved for the system."""
    numares: dict[str, NumaResource] = {}
    """What the node offers of each resource."""
    cpu_detail: dict[str, CpuDetail] = {}
    """Where each CPU is, by its number."""
    pod_allocations: tuple[PodAllocation, ...] = ()
    """What the pods on the node have."""


class Numatopology(ApiObject):
    """NUMA layout of the node of the same name, written by an exporter on it (nodeinfo.volcano.sh/v1alpha1)."""

    spec: NumatopologySpec = NumatopologySpec()
    """Policies, CPUs and what is allocated."""


class NodeShardSpec(Model):
    """`spec` of a NodeShard."""

    nodes_desired: tuple[str, ...] = ()
    """Names of the nodes that the scheduler is to have."""


class NodeShardStatus(Model):
    """`status` of a NodeShard."""

    last_update_time: str | None = None
    """When the status was last written."""
    nodes_in_use: tuple[str, ...] = ()
    """Names of the nodes that the scheduler has."""
    nodes_to_remove: tuple[str, ...] = ()
    """Names of the nodes that the scheduler gives up."""
    nodes_to_add: tuple[str, ...] = ()
    """Names of the nodes that the scheduler is about to get."""


class NodeShard(ApiObject):
    """The nodes that one of several schedulers places pods on (shard.volcano.sh/v1alpha1)."""

    spec: NodeShardSpec = NodeShardSpec()
    """The nodes that the scheduler is to have."""
    status: NodeShardStatus = NodeShardStatus()
    """The nodes that the scheduler has."""


class MemoryQos(Model):
    """`spec.memoryQos`: percentages of a pod's memory."""

    high_ratio: int = 100
    """Percentage of the memory limit at which the pod is slowed down."""
    low_ratio: int = 0
    """Percentage of the memory request that is reclaimed last."""
    min_ratio: int = 0
    """Percentage of the memory request that is never reclaimed."""


class ColocationConfigurationSpec(Model):
    """`spec` of a ColocationConfiguration."""

    selector: LabelSelector | None = None
    """Selects the pods of the namespace that it is about."""
    memory_qos: MemoryQos | None = None
    """How memory of these pods is protected and limited."""


class ColocationConfigurationStatus(Model):
    """`status` of a ColocationConfiguration."""

    conditions: tuple[StatusCondition, ...] = ()
    """What is known of the configuration."""


class ColocationConfiguration(ApiObject):
    """How memory of pods that share nodes with others is protected (config.volcano.sh/v1alpha1)."""

    spec: ColocationConfigurationSpec = ColocationConfigurationSpec()
    """Pods and settings."""
    status: ColocationConfigurationStatus = ColocationConfigurationStatus()
    """What became of the configuration."""
