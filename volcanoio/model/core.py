"""The fields of core/v1 kinds that the scheduler and controllers read: pods, nodes and a few others."""

from typing import Any
from weakref import WeakValueDictionary

import msgspec

from volcanoio.model.base import ApiObject, Model, ObjectReference

ResourceList = dict[str, str | int | float]


class ResourceRequirements(Model):
    """`resources` of a container or pod."""

    requests: ResourceList = {}
    limits: ResourceList = {}


class ContainerPort(Model):
    """`ports[]` of a container."""

    container_port: int = 0
    host_port: int = 0
    host_ip: str = msgspec.field(default="", name="hostIP")
    protocol: str = "TCP"
    name: str = ""


class Container(Model):
    """A container; image, command, hooks and probes are kept for the simulated nodes."""

    name: str = ""
    image: str = ""
    image_pull_policy: str = ""
    command: tuple[str, ...] = ()
    args: tuple[str, ...] = ()
    resources: ResourceRequirements = ResourceRequirements()
    ports: tuple[ContainerPort, ...] = ()
    restart_policy: str = ""
    restart_policy_rules: tuple[dict[str, Any], ...] = ()
    lifecycle: dict[str, Any] | None = None
    startup_probe: dict[str, Any] | None = None
    readiness_probe: dict[str, Any] | None = None
    liveness_probe: dict[str, Any] | None = None


class Toleration(Model):
    """`spec.tolerations[]` of a pod."""

    key: str = ""
    operator: str = "Equal"
    value: str = ""
    effect: str = ""
    toleration_seconds: int | None = None


class Taint(Model):
    """`spec.taints[]` of a node."""

    key: str = ""
    value: str = ""
    effect: str = ""
    time_added: str | None = None


class Requirement(Model):
    """A label or field selector requirement."""

    key: str = ""
    operator: str = ""
    values: tuple[str, ...] = ()


class LabelSelector(Model):
    """Labels and requirements that must all hold; an empty selector matches everything."""

    match_labels: dict[str, str] = {}
    match_expressions: tuple[Requirement, ...] = ()

    @property
    def requirements(self) -> tuple[Requirement, ...]:
        """Return both parts as requirements. Gt and Lt are valid for nodes only: here nothing satisfies them."""
        equal = (Requirement(key=key, operator="In", values=(value,)) for key, value in self.match_labels.items())
        return (*equal, *(_without_comparison(one) for one in self.match_expressions))


def _without_comparison(requirement: Requirement) -> Requirement:
    if requirement.operator not in ("Gt", "Lt"):
        return requirement
    return Requirement(key=requirement.key, values=requirement.values)


class NodeSelectorTerm(Model):
    """All requirements of a term must hold."""

    match_expressions: tuple[Requirement, ...] = ()
    match_fields: tuple[Requirement, ...] = ()


class NodeSelector(Model):
    """Any of the terms must hold."""

    node_selector_terms: tuple[NodeSelectorTerm, ...] = ()


class PreferredSchedulingTerm(Model):
    """A weighted preference."""

    weight: int = 0
    preference: NodeSelectorTerm = NodeSelectorTerm()


class NodeAffinity(Model):
    """`spec.affinity.nodeAffinity`."""

    required_during_scheduling_ignored_during_execution: NodeSelector | None = None
    preferred_during_scheduling_ignored_during_execution: tuple[PreferredSchedulingTerm, ...] = ()


class PodAffinityTerm(Model):
    """Pods that a pod is placed near, or away from, in a topology; a missing label selector matches no pod."""

    label_selector: LabelSelector | None = None
    topology_key: str = ""
    namespaces: tuple[str, ...] = ()
    namespace_selector: LabelSelector | None = None
    match_label_keys: tuple[str, ...] = ()
    mismatch_label_keys: tuple[str, ...] = ()


class WeightedPodAffinityTerm(Model):
    """A weighted preference for pods."""

    weight: int = 0
    pod_affinity_term: PodAffinityTerm = PodAffinityTerm()


class PodAffinity(Model):
    """`spec.affinity.podAffinity` and `podAntiAffinity`."""

    required_during_scheduling_ignored_during_execution: tuple[PodAffinityTerm, ...] = ()
    preferred_during_scheduling_ignored_during_execution: tuple[WeightedPodAffinityTerm, ...] = ()


class Affinity(Model):
    """`spec.affinity`."""

    node_affinity: NodeAffinity | None = None
    pod_affinity: PodAffinity | None = None
    pod_anti_affinity: PodAffinity | None = None


class TopologySpreadConstraint(Model):
    """`spec.topologySpreadConstraints[]`."""

    max_skew: int = 1
    topology_key: str = ""
    when_unsatisfiable: str = "DoNotSchedule"
    label_selector: LabelSelector | None = None
    min_domains: int | None = None
    node_affinity_policy: str = "Honor"
    node_taints_policy: str = "Ignore"
    match_label_keys: tuple[str, ...] = ()


class SchedulingGate(Model):
    """`spec.schedulingGates[]`."""

    name: str = ""


class SchedulingGroup(Model):
    """`spec.schedulingGroup`: the native PodGroup (scheduling.k8s.io) to which a pod belongs."""

    pod_group_name: str = ""


class PodSpec(Model):
    """The part of a pod's spec that scheduling and the simulated nodes read."""

    node_name: str = ""
    node_selector: dict[str, str] = {}
    affinity: Affinity | None = None
    tolerations: tuple[Toleration, ...] = ()
    containers: tuple[Container, ...] = ()
    init_containers: tuple[Container, ...] = ()
    overhead: ResourceList = {}
    resources: ResourceRequirements | None = None
    priority: int | None = None
    priority_class_name: str = ""
    preemption_policy: str = ""
    scheduler_name: str = ""
    scheduling_gates: tuple[SchedulingGate, ...] = ()
    scheduling_group: SchedulingGroup | None = None
    restart_policy: str = "Always"
    termination_grace_period_seconds: int | None = None
    active_deadline_seconds: int | None = None
    host_network: bool = False
    hostname: str = ""
    subdomain: str = ""
    volumes: tuple[dict[str, Any], ...] = ()
    readiness_gates: tuple[dict[str, Any], ...] = ()
    resource_claims: tuple[dict[str, Any], ...] = ()
    topology_spread_constraints: tuple[TopologySpreadConstraint, ...] = ()


class Condition(Model):
    """A condition of a pod or node."""

    type: str = ""
    status: str = ""
    reason: str = ""
    message: str = ""
    last_transition_time: str | None = None
    last_heartbeat_time: str | None = None


class ContainerStateTerminated(Model):
    """Termination of a container: exit code, reason and times."""

    exit_code: int = 0
    reason: str = ""
    message: str = ""
    started_at: str | None = None
    finished_at: str | None = None


class ContainerState(Model):
    """One of waiting, running and terminated is set."""

    waiting: dict[str, Any] | None = None
    running: dict[str, Any] | None = None
    terminated: ContainerStateTerminated | None = None


class ContainerStatus(Model):
    """`status.containerStatuses[]`."""

    name: str = ""
    container_id: str = msgspec.field(default="", name="containerID")
    ready: bool = False
    started: bool = False
    restart_count: int = 0
    state: ContainerState = ContainerState()
    last_state: ContainerState = ContainerState()


class PodStatus(Model):
    """The part of a pod's status that we read."""

    phase: str = ""
    reason: str = ""
    message: str = ""
    conditions: tuple[Condition, ...] = ()
    container_statuses: tuple[ContainerStatus, ...] = ()
    init_container_statuses: tuple[ContainerStatus, ...] = ()
    nominated_node_name: str = ""
    resource_claim_statuses: tuple[dict[str, Any], ...] = ()
    extended_resource_claim_status: dict[str, Any] | None = None
    start_time: str | None = None
    pod_ip: str = msgspec.field(default="", name="podIP")


class Pod(ApiObject):
    """core/v1 Pod."""

    spec: PodSpec = PodSpec()
    status: PodStatus = PodStatus()


class NodeSpec(Model):
    """`spec` of a node."""

    unschedulable: bool = False
    taints: tuple[Taint, ...] = ()


class ContainerImage(Model, gc=True, weakref=True):
    """`status.images[]` of a node: an image with all its names, and its size in bytes."""

    names: tuple[str, ...] = ()
    size_bytes: int = 0


_IMAGES: WeakValueDictionary[tuple[tuple[str, ...], int], ContainerImage] = WeakValueDictionary()
"""Images of all nodes by content: a node lists up to 50, and most of them are on many nodes."""


class NodeStatus(Model):
    """`status` of a node. Equal images of all nodes are one object, so that each costs a node one pointer."""

    capacity: ResourceList = {}
    allocatable: ResourceList = {}
    conditions: tuple[Condition, ...] = ()
    images: tuple[ContainerImage, ...] = ()

    def __post_init__(self) -> None:
        if self.images:
            known = _IMAGES.setdefault
            images = tuple([known((image.names, image.size_bytes), image) for image in self.images])
            msgspec.structs.force_setattr(self, "images", images)


class Node(ApiObject):
    """core/v1 Node."""

    spec: NodeSpec = NodeSpec()
    status: NodeStatus = NodeStatus()


class Namespace(ApiObject):
    """core/v1 Namespace."""


class Service(ApiObject):
    """core/v1 Service."""

    spec: dict[str, Any] = {}


class ConfigMap(ApiObject):
    """core/v1 ConfigMap."""

    data: dict[str, str] = {}


class Secret(ApiObject):
    """core/v1 Secret, data in base64."""

    data: dict[str, str] = {}
    type: str = ""


class QuotaSpec(Model):
    """`spec` of a quota; with scopes it counts only some pods."""

    hard: ResourceList = {}
    scopes: tuple[str, ...] = ()
    scope_selector: dict[str, Any] | None = None


class QuotaStatus(Model):
    """`status` of a quota."""

    hard: ResourceList = {}
    used: ResourceList = {}


class ResourceQuota(ApiObject):
    """core/v1 ResourceQuota."""

    spec: QuotaSpec = QuotaSpec()
    status: QuotaStatus = QuotaStatus()


class BudgetSpec(Model):
    """`spec` of a disruption budget; no selector matches no pod, an empty one every pod of the namespace."""

    selector: LabelSelector | None = None
    min_available: int | str | None = None
    max_unavailable: int | str | None = None


class BudgetStatus(Model):
    """`status` of a disruption budget; `disrupted_pods` are pods by name with the time of their accepted eviction."""

    disruptions_allowed: int = 0
    disrupted_pods: dict[str, Any] = {}


class PodDisruptionBudget(ApiObject):
    """policy/v1 PodDisruptionBudget."""

    spec: BudgetSpec = BudgetSpec()
    status: BudgetStatus = BudgetStatus()


class NetworkPolicy(ApiObject):
    """networking.k8s.io/v1 NetworkPolicy."""

    spec: dict[str, Any] = {}


class PriorityClass(ApiObject):
    """scheduling.k8s.io/v1 PriorityClass."""

    value: int = 0
    global_default: bool = False
    preemption_policy: str = ""
    description: str = ""


class Event(ApiObject):
    """core/v1 Event."""

    involved_object: ObjectReference = ObjectReference()
    type: str = ""
    reason: str = ""
    message: str = ""
    count: int = 0
    source: dict[str, str] = {}
    first_timestamp: str | None = None
    last_timestamp: str | None = None


class Lease(ApiObject):
    """coordination.k8s.io/v1 Lease."""

    spec: dict[str, Any] = {}
