"""Volcano's kinds about nodes: HyperNode, Numatopology, NodeShard and ColocationConfiguration.

Groups of nodes by network topology, the NUMA layout inside a node, shards of nodes for several schedulers, and memory
protection for pods that share nodes with others. Also what HyperNodes are discovered from besides node labels: the
configuration, and the links of a fabric. The controllers' runtime publishes both as objects of local kinds
(`kinds.LOCAL`), so that they are cached, journaled and replayed like API objects; no API server serves them.
"""

from volcanoio.model.base import ApiObject, Model, ObjectMeta, StatusCondition
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
    """Selector of nodes or hypernodes: exactly one of the three fields is set."""

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
    """Selects the nodes or hypernodes: exactly one of exactMatch, regexMatch and labelMatch."""


class HyperNodeSpec(Model):
    """`spec` of a hypernode."""

    tier: int = 0
    """Distance of the nodes from each other: a higher tier means more distant."""
    tier_name: str = ""
    """Name of the tier, such as rack."""
    members: tuple[Member, ...] = ()
    """Member nodes or hypernodes."""


class HyperNodeStatus(Model):
    """`status` of a hypernode."""

    conditions: tuple[StatusCondition, ...] = ()
    """Conditions of the hypernode."""
    node_count: int = 0
    """Number of nodes, including those of its member hypernodes."""


class HyperNode(ApiObject):
    """A part of the network that contains nodes or smaller parts (topology.volcano.sh/v1alpha1)."""

    spec: HyperNodeSpec = HyperNodeSpec()
    """Tier and members."""
    status: HyperNodeStatus = HyperNodeStatus()
    """Results of resolving the members."""


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
    """Allocated units of each resource, as a list such as 0-3,8."""


class PodAllocation(Model):
    """`spec.podAllocations[]` of a Numatopology."""

    uid: str = ""
    """UID of the pod."""
    name: str = ""
    """Name of the pod."""
    namespace: str = ""
    """Namespace of the pod."""
    container_allocations: tuple[ContainerAllocation, ...] = ()
    """Allocations of each container."""


class NumatopologySpec(Model):
    """`spec` of a Numatopology."""

    policies: dict[str, str] = {}
    """Policies of the kubelet: CPUManagerPolicy and TopologyManagerPolicy."""
    res_reserved: dict[str, str] = {}
    """Amounts that are reserved for the system."""
    numares: dict[str, NumaResource] = {}
    """Resources of the node by NUMA node."""
    cpu_detail: dict[str, CpuDetail] = {}
    """NUMA node, socket and core of each CPU, by its number."""
    pod_allocations: tuple[PodAllocation, ...] = ()
    """Allocations of the pods on the node."""


class Numatopology(ApiObject):
    """NUMA layout of the node of the same name, written by an exporter on it (nodeinfo.volcano.sh/v1alpha1)."""

    spec: NumatopologySpec = NumatopologySpec()
    """Policies, CPUs and allocations."""


class NodeShardSpec(Model):
    """`spec` of a NodeShard."""

    nodes_desired: tuple[str, ...] = ()
    """Names of the nodes that are assigned to the scheduler."""


class NodeShardStatus(Model):
    """`status` of a NodeShard."""

    last_update_time: str | None = None
    """When the status was last written."""
    nodes_in_use: tuple[str, ...] = ()
    """Names of the nodes that the scheduler uses."""
    nodes_to_remove: tuple[str, ...] = ()
    """Names of the nodes that the scheduler releases."""
    nodes_to_add: tuple[str, ...] = ()
    """Names of the nodes that the scheduler is about to take over."""


class NodeShard(ApiObject):
    """The nodes that one of several schedulers places pods on (shard.volcano.sh/v1alpha1)."""

    spec: NodeShardSpec = NodeShardSpec()
    """The nodes that are assigned to the scheduler."""
    status: NodeShardStatus = NodeShardStatus()
    """The nodes that the scheduler uses."""


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
    """Selects the pods of the namespace to which the configuration applies."""
    memory_qos: MemoryQos | None = None
    """Protection and limits of the pods' memory."""


class ColocationConfigurationStatus(Model):
    """`status` of a ColocationConfiguration."""

    conditions: tuple[StatusCondition, ...] = ()
    """Conditions of the configuration."""


class ColocationConfiguration(ApiObject):
    """Memory protection of pods that share nodes with others (config.volcano.sh/v1alpha1)."""

    spec: ColocationConfigurationSpec = ColocationConfigurationSpec()
    """Pods and settings."""
    status: ColocationConfigurationStatus = ColocationConfigurationStatus()
    """Status of the configuration."""


LABEL, UFM, ROCE = "label", "ufm", "roce"
"""Names of the sources; Volcano accepts roce in configurations and has no such source either."""
DEFAULT_INTERVAL = 3600.0
"""Seconds between two requests to a fabric's manager."""


class Level(Model):
    """One level of a network topology: the nodes with the same value of `label` are in one domain."""

    label: str
    tier_name: str = ""


class TopologyType(Model):
    """One kind of network in the cluster; `levels` are listed from the lowest tier, without the nodes themselves.

    With `selector` it is a profile: it contains the nodes that the selector matches, and each of these must have all
    labels. Without, it contains the nodes that have the label of the lowest level.
    """

    name: str
    levels: tuple[Level, ...]
    selector: LabelSelector | None = None


class SecretReference(Model):
    """Name of the Secret with `username` and `password`."""

    namespace: str
    name: str


class DiscoverySource(Model):
    """One entry of networkTopologyDiscovery."""

    source: str
    enabled: bool = False
    interval: float = DEFAULT_INTERVAL
    endpoint: str = ""
    insecure_skip_verify: bool = False
    secret: SecretReference | None = None
    types: tuple[TopologyType, ...] = ()


class DiscoveryConfiguration(ApiObject):
    """The sources of HyperNodes in force."""

    sources: tuple[DiscoverySource, ...] = ()

    def enabled(self, source: str) -> DiscoverySource | None:
        """Return the entry of a source, None if it is off."""
        return next((each for each in self.sources if each.source == source and each.enabled), None)


class Fabric(ApiObject):
    """The links of a fabric as its manager listed them: pairs of node and leaf switch, sorted."""

    links: tuple[tuple[str, str], ...] = ()


CONFIGURATION_NAME = "network-topology-discovery"
"""Name of the one DiscoveryConfiguration."""


def configuration_object(sources: tuple[DiscoverySource, ...], version: int) -> DiscoveryConfiguration:
    """Return the configuration as an object; `version` grows with each change."""
    return DiscoveryConfiguration(metadata=_metadata(CONFIGURATION_NAME, version), sources=sources)


def fabric_object(source: str, links: tuple[tuple[str, str], ...], version: int) -> Fabric:
    """Return the links that a source listed as an object; `version` grows with each list."""
    return Fabric(metadata=_metadata(source, version), links=links)


def _metadata(name: str, version: int) -> ObjectMeta:
    return ObjectMeta(name=name, uid=name, resource_version=str(version))
