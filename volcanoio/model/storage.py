"""Volumes, claims, classes and drivers: the fields that scheduling reads (core/v1 and storage.k8s.io/v1)."""

from typing import Any

from volcanoio.model.base import ApiObject, Model, ObjectReference
from volcanoio.model.core import LabelSelector, NodeSelector, ResourceList

READ_WRITE_ONCE_POD = "ReadWriteOncePod"
"""Access mode of a claim that only one pod may use."""
FILESYSTEM = "Filesystem"
"""The default volumeMode."""
WAIT_FOR_FIRST_CONSUMER = "WaitForFirstConsumer"
"""The volumeBindingMode of classes whose claims are bound after their pod was placed."""
NO_PROVISIONER = "kubernetes.io/no-provisioner"
"""The provisioner of classes whose volumes are created manually."""
SELECTED_NODE = "volume.kubernetes.io/selected-node"
"""Annotation of a claim: the node for which the volume is provisioned."""
BIND_COMPLETED = "pv.kubernetes.io/bind-completed"
"""Annotation of a claim: claim and volume refer to each other."""
BOUND_BY_CONTROLLER = "pv.kubernetes.io/bound-by-controller"
"""Annotation of a volume or claim: a controller, not the user, chose the binding."""
VOLUMES_REACHABLE = "storage.volcanoio.dev/volumes-reachable"
"""Annotation of a StorageClass (ours): `everywhere` means that every node can use any of its volumes."""


class VolumeResources(Model):
    """`spec.resources` of a claim."""

    requests: ResourceList = {}


class ClaimSpec(Model):
    """`spec` of a claim. `storage_class_name` None means the default class, "" none."""

    access_modes: tuple[str, ...] = ()
    resources: VolumeResources = VolumeResources()
    selector: LabelSelector | None = None
    storage_class_name: str | None = None
    volume_mode: str = FILESYSTEM
    volume_name: str = ""
    data_source: dict[str, Any] | None = None
    data_source_ref: dict[str, Any] | None = None


class ClaimStatus(Model):
    """`status` of a claim: Pending, Bound or Lost."""

    phase: str = ""


class PersistentVolumeClaim(ApiObject):
    """core/v1 PersistentVolumeClaim."""

    spec: ClaimSpec = ClaimSpec()
    status: ClaimStatus = ClaimStatus()


class VolumeNodeAffinity(Model):
    """`spec.nodeAffinity` of a volume: the nodes that can reach it."""

    required: NodeSelector | None = None


class CSISource(Model):
    """`spec.csi` of a volume."""

    driver: str = ""
    volume_handle: str = ""


class VolumeSpec(Model):
    """`spec` of a volume."""

    access_modes: tuple[str, ...] = ()
    capacity: ResourceList = {}
    claim_ref: ObjectReference | None = None
    csi: CSISource | None = None
    node_affinity: VolumeNodeAffinity | None = None
    storage_class_name: str = ""
    volume_mode: str = FILESYSTEM


class VolumeStatus(Model):
    """`status` of a volume: Pending, Available, Bound, Released or Failed."""

    phase: str = ""


class PersistentVolume(ApiObject):
    """core/v1 PersistentVolume."""

    spec: VolumeSpec = VolumeSpec()
    status: VolumeStatus = VolumeStatus()


class TopologyRequirement(Model):
    """A label of nodes and the values it may have."""

    key: str = ""
    values: tuple[str, ...] = ()


class TopologyTerm(Model):
    """All requirements of a term must hold."""

    match_label_expressions: tuple[TopologyRequirement, ...] = ()


class StorageClass(ApiObject):
    """storage.k8s.io/v1 StorageClass. `allowed_topologies`: any of the terms must hold for the node."""

    provisioner: str = ""
    volume_binding_mode: str = "Immediate"
    allowed_topologies: tuple[TopologyTerm, ...] = ()


class DriverAllocatable(Model):
    """`allocatable` of a driver on a node; without a count it is unlimited."""

    count: int | None = None


class NodeDriver(Model):
    """`spec.drivers[]` of a CSINode."""

    name: str = ""
    allocatable: DriverAllocatable | None = None
    topology_keys: tuple[str, ...] = ()


class CSINodeSpec(Model):
    """`spec` of a CSINode."""

    drivers: tuple[NodeDriver, ...] = ()


class CSINode(ApiObject):
    """storage.k8s.io/v1 CSINode: the drivers of the node of that name."""

    spec: CSINodeSpec = CSINodeSpec()


class CSIDriverSpec(Model):
    """`spec` of a driver. `storage_capacity`: claims wait for a node with a CSIStorageCapacity that is large enough."""

    attach_required: bool = True
    storage_capacity: bool = False


class CSIDriver(ApiObject):
    """storage.k8s.io/v1 CSIDriver."""

    spec: CSIDriverSpec = CSIDriverSpec()


class CSIStorageCapacity(ApiObject):
    """storage.k8s.io/v1 CSIStorageCapacity: free capacity of a class on the nodes of a topology."""

    storage_class_name: str = ""
    node_topology: LabelSelector | None = None
    capacity: str | int | float | None = None
    maximum_volume_size: str | int | float | None = None


class AttachmentSource(Model):
    """`spec.source` of an attachment."""

    persistent_volume_name: str = ""


class AttachmentSpec(Model):
    """`spec` of an attachment."""

    attacher: str = ""
    node_name: str = ""
    source: AttachmentSource = AttachmentSource()


class AttachmentStatus(Model):
    """`status` of an attachment."""

    attached: bool = False


class VolumeAttachment(ApiObject):
    """storage.k8s.io/v1 VolumeAttachment: a volume that is attached to a node, or is to be."""

    spec: AttachmentSpec = AttachmentSpec()
    status: AttachmentStatus = AttachmentStatus()
