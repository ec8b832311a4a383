"""The supported kinds: names, scope, paths and Struct, and references to objects of a kind.

`owner_reference` and `owner_names` are for metadata.ownerReferences, `object_reference` for the subject of an Event.
"""

from dataclasses import dataclass, field

import msgspec

from volcanoio.model import batch, core, flow, nodes, scheduling, storage, workloads
from volcanoio.model.base import ApiObject, Manifest, ObjectMeta, ObjectReference
from volcanoio.model.dynamic_resources import objects as devices


@dataclass(frozen=True, slots=True)
class Kind:
    """One kind of one API version.

    `status_subresource`: whether the status is written to `/status`; a PodGroup's is not. `is_optional`: not every
    Kubernetes that is supported serves the kind; where it is not served, or may not be read, there are no such objects.
    """

    group: str
    version: str
    kind: str
    plural: str
    type: type[ApiObject]
    namespaced: bool = True
    status_subresource: bool = True
    is_optional: bool = False
    resource: str = field(init=False)
    """The name `plural.group`, as in error messages and RBAC."""

    def __post_init__(self) -> None:
        """Compose the name of the resource."""
        object.__setattr__(self, "resource", f"{self.plural}.{self.group}" if self.group else self.plural)

    @property
    def api_version(self) -> str:
        """The apiVersion `group/version`, or the version alone for the core group."""
        return f"{self.group}/{self.version}" if self.group else self.version

    def path(self, namespace: str = "", name: str = "", subresource: str = "") -> str:
        """Return the URL path of the collection, or of one object and its subresource."""
        path = f"/apis/{self.group}/{self.version}/" if self.group else f"/api/{self.version}/"
        path += f"namespaces/{namespace}/{self.plural}" if self.namespaced and namespace else self.plural
        if name:
            path += f"/{name}"
        return f"{path}/{subresource}" if subresource else path

    def decode(self, data: bytes) -> ApiObject:
        """Decode one object from JSON."""
        return msgspec.json.decode(data, type=self.type)

    def manifest(self, obj: ApiObject) -> Manifest:
        """Return the object as it is sent: with apiVersion and kind, without defaults."""
        return {"apiVersion": self.api_version, "kind": self.kind, **msgspec.to_builtins(obj)}

    def __str__(self) -> str:
        """Return `Kind.group`, for logs."""
        return f"{self.kind}.{self.group}" if self.group else self.kind


def _core(kind: str, plural: str, struct: type[ApiObject], *, namespaced: bool = True, status: bool = True) -> Kind:
    return Kind("", "v1", kind, plural, struct, namespaced, status)


def _storage(
    kind: str, plural: str, struct: type[ApiObject], *, namespaced: bool = False, status: bool = False
) -> Kind:
    return Kind("storage.k8s.io", "v1", kind, plural, struct, namespaced, status)


def _devices(kind: str, plural: str, struct: type[ApiObject], *, namespaced: bool, status: bool = False) -> Kind:
    return Kind("resource.k8s.io", "v1", kind, plural, struct, namespaced, status)


POD = _core("Pod", "pods", core.Pod)
NODE = _core("Node", "nodes", core.Node, namespaced=False)
NAMESPACE = _core("Namespace", "namespaces", core.Namespace, namespaced=False)
SERVICE = _core("Service", "services", core.Service)
CONFIG_MAP = _core("ConfigMap", "configmaps", core.ConfigMap, status=False)
SECRET = _core("Secret", "secrets", core.Secret, status=False)
PVC = _core("PersistentVolumeClaim", "persistentvolumeclaims", storage.PersistentVolumeClaim)
PV = _core("PersistentVolume", "persistentvolumes", storage.PersistentVolume, namespaced=False)
RESOURCE_QUOTA = _core("ResourceQuota", "resourcequotas", core.ResourceQuota)
EVENT = _core("Event", "events", core.Event, status=False)
NETWORK_POLICY = Kind("networking.k8s.io", "v1", "NetworkPolicy", "networkpolicies", core.NetworkPolicy, True, False)
PRIORITY_CLASS = Kind("scheduling.k8s.io", "v1", "PriorityClass", "priorityclasses", core.PriorityClass, False, False)
NATIVE_POD_GROUP = Kind(
    "scheduling.k8s.io", "v1beta1", "PodGroup", "podgroups", workloads.NativePodGroup, is_optional=True
)
WORKLOAD = Kind(
    "scheduling.k8s.io", "v1beta1", "Workload", "workloads", workloads.Workload, True, False, is_optional=True
)
NATIVE_GROUPS = (NATIVE_POD_GROUP, WORKLOAD)
"""Kinds of native groups, which not every Kubernetes serves."""
LEASE = Kind("coordination.k8s.io", "v1", "Lease", "leases", core.Lease, True, False)
PDB = Kind("policy", "v1", "PodDisruptionBudget", "poddisruptionbudgets", core.PodDisruptionBudget)
STORAGE_CLASS = _storage("StorageClass", "storageclasses", storage.StorageClass)
CSI_NODE = _storage("CSINode", "csinodes", storage.CSINode)
CSI_DRIVER = _storage("CSIDriver", "csidrivers", storage.CSIDriver)
CSI_CAPACITY = _storage("CSIStorageCapacity", "csistoragecapacities", storage.CSIStorageCapacity, namespaced=True)
VOLUME_ATTACHMENT = _storage("VolumeAttachment", "volumeattachments", storage.VolumeAttachment, status=True)
RESOURCE_CLAIM = _devices("ResourceClaim", "resourceclaims", devices.ResourceClaim, namespaced=True, status=True)
RESOURCE_CLAIM_TEMPLATE = _devices(
    "ResourceClaimTemplate", "resourceclaimtemplates", devices.ResourceClaimTemplate, namespaced=True
)
RESOURCE_SLICE = _devices("ResourceSlice", "resourceslices", devices.ResourceSlice, namespaced=False)
DEVICE_CLASS = _devices("DeviceClass", "deviceclasses", devices.DeviceClass, namespaced=False)
REPLICA_SET = Kind("apps", "v1", "ReplicaSet", "replicasets", workloads.ReplicaSet)
STATEFUL_SET = Kind("apps", "v1", "StatefulSet", "statefulsets", workloads.StatefulSet)
DAEMON_SET = Kind("apps", "v1", "DaemonSet", "daemonsets", workloads.DaemonSet)
KUBERNETES_JOB = Kind("batch", "v1", "Job", "jobs", workloads.KubernetesJob)

JOB = Kind("batch.volcano.sh", "v1alpha1", "Job", "jobs", batch.Job)
CRON_JOB = Kind("batch.volcano.sh", "v1alpha1", "CronJob", "cronjobs", batch.CronJob)
JOB_FLOW = Kind("flow.volcano.sh", "v1alpha1", "JobFlow", "jobflows", flow.JobFlow)
JOB_TEMPLATE = Kind("flow.volcano.sh", "v1alpha1", "JobTemplate", "jobtemplates", flow.JobTemplate)
COMMAND = Kind("bus.volcano.sh", "v1alpha1", "Command", "commands", batch.Command, True, False)
POD_GROUP = Kind("scheduling.volcano.sh", "v1beta1", "PodGroup", "podgroups", scheduling.PodGroup, True, False)
QUEUE = Kind("scheduling.volcano.sh", "v1beta1", "Queue", "queues", scheduling.Queue, False)
HYPER_NODE = Kind("topology.volcano.sh", "v1alpha1", "HyperNode", "hypernodes", nodes.HyperNode, False)
NUMATOPOLOGY = Kind(
    "nodeinfo.volcano.sh", "v1alpha1", "Numatopology", "numatopologies", nodes.Numatopology, False, False
)
NODE_SHARD = Kind("shard.volcano.sh", "v1alpha1", "NodeShard", "nodeshards", nodes.NodeShard, False)
COLOCATION_CONFIGURATION = Kind(
    "config.volcano.sh",
    "v1alpha1",
    "ColocationConfiguration",
    "colocationconfigurations",
    nodes.ColocationConfiguration,
)

ALL: tuple[Kind, ...] = (
    POD, NODE, NAMESPACE, SERVICE, CONFIG_MAP, SECRET, PVC, PV, EVENT, NETWORK_POLICY, PRIORITY_CLASS, LEASE,
    RESOURCE_QUOTA, PDB, STORAGE_CLASS, CSI_NODE, CSI_DRIVER, CSI_CAPACITY, VOLUME_ATTACHMENT,
    RESOURCE_CLAIM, RESOURCE_CLAIM_TEMPLATE, RESOURCE_SLICE, DEVICE_CLASS,
    REPLICA_SET, STATEFUL_SET, DAEMON_SET, KUBERNETES_JOB, NATIVE_POD_GROUP, WORKLOAD,
    JOB, CRON_JOB, JOB_FLOW, JOB_TEMPLATE, COMMAND, POD_GROUP, QUEUE,
    HYPER_NODE, NUMATOPOLOGY, NODE_SHARD, COLOCATION_CONFIGURATION,
)  # fmt: skip
POD_METRICS = Kind("metrics.k8s.io", "v1beta1", "PodMetrics", "pods", workloads.PodMetrics, True, False)
POLLED: tuple[Kind, ...] = (POD_METRICS,)
"""Kinds that can be listed but not watched: they are not among `ALL`."""
LOCAL_GROUP = "local.volcanoio.dev"
DISCOVERY = Kind(
    LOCAL_GROUP,
    "v1",
    "DiscoveryConfiguration",
    "discoveryconfigurations",
    nodes.DiscoveryConfiguration,
    False,
    False,
)
FABRIC = Kind(LOCAL_GROUP, "v1", "Fabric", "fabrics", nodes.Fabric, False, False)
LOCAL: tuple[Kind, ...] = (DISCOVERY, FABRIC)
"""Kinds whose objects the runtime publishes: no API server serves them, and they are not among `ALL`."""
_BY_NAME = {(kind.api_version, kind.kind): kind for kind in ALL}
_BY_TYPE = {kind.type: kind for kind in ALL}
BY_RESOURCE = {kind.resource: kind for kind in ALL}
"""The kinds by `Kind.resource`."""
READABLE = {**BY_RESOURCE, **{kind.resource: kind for kind in POLLED}}
"""The kinds that lifecycle policies may read, by `Kind.resource`."""


def named(api_version: str, kind: str) -> Kind | None:
    """Return the kind with that apiVersion and kind, None if it is not supported."""
    return _BY_NAME.get((api_version, kind))


def of(obj: ApiObject) -> Kind:
    """Return the kind of a decoded object."""
    return _BY_TYPE[type(obj)]


def owner_reference(kind: Kind, owner: ApiObject) -> Manifest:
    """Return the reference of a controlled object to its controller."""
    meta = owner.metadata
    return {
        "apiVersion": kind.api_version,
        "kind": kind.kind,
        "name": meta.name,
        "uid": meta.uid,
        "controller": True,
        "blockOwnerDeletion": True,
    }


def owner_names(kind: Kind, meta: ObjectMeta) -> list[str]:
    """Return the names of an object's owners of that kind, in any version of it."""
    return [
        owner.name
        for owner in meta.owner_references
        if owner.kind == kind.kind and owner.api_version.rpartition("/")[0] == kind.group
    ]


def object_reference(kind: Kind, obj: ApiObject) -> ObjectReference:
    """Return the reference to an object in an Event."""
    meta = obj.metadata
    return ObjectReference(
        api_version=kind.api_version,
        kind=kind.kind,
        namespace=meta.namespace,
        name=meta.name,
        uid=meta.uid,
        resource_version=meta.resource_version,
    )
