"""Claims of devices, templates, classes and slices (resource.k8s.io/v1): the fields that scheduling reads.

Taints and tolerations of devices have the fields and rules of those of nodes.
"""

from typing import Any, TypeAlias

import msgspec

from volcanoio.model.base import ApiObject, Model, StatusCondition
from volcanoio.model.core import NodeSelector, Taint, Toleration

Quantity: TypeAlias = str | int | float

FINALIZER = "resource.kubernetes.io/delete-protection"
"""Finalizer of claims that are allocated."""
POD_CLAIM_NAME = "resource.kubernetes.io/pod-claim-name"
"""Annotation of a claim made from a template: the name of the entry in the pod's `spec.resourceClaims`."""
EXACT_COUNT, ALL_DEVICES = "ExactCount", "All"
"""Values of allocationMode."""
MAX_DEVICES = 32
"""Maximum number of devices of a claim (AllocationResultsMaxSize)."""
MAX_CONSUMERS = 256
"""Maximum number of pods for which a claim is reserved (ResourceClaimReservedForMaxSize)."""


class Counter(Model):
    """A counter of a set: the amount that is there, or that a device consumes."""

    value: Quantity = 0


class CounterSet(Model):
    """`spec.sharedCounters[]` of a slice: counters that several devices of the pool consume."""

    name: str = ""
    counters: dict[str, Counter] = {}


class CounterConsumption(Model):
    """`consumesCounters[]` of a device."""

    counter_set: str = ""
    counters: dict[str, Counter] = {}


class RequestRange(Model):
    """`requestPolicy.validRange` of a capacity."""

    min: Quantity | None = None
    max: Quantity | None = None
    step: Quantity | None = None


class RequestPolicy(Model):
    """`requestPolicy` of a capacity: how much a request may consume, and the default."""

    default: Quantity | None = None
    valid_values: tuple[Quantity, ...] = ()
    valid_range: RequestRange | None = None


class DeviceCapacity(Model):
    """`capacity.NAME` of a device."""

    value: Quantity = 0
    request_policy: RequestPolicy | None = None


class DeviceAttribute(Model):
    """`attributes.NAME` of a device: exactly one of the fields is set."""

    int_: int | None = msgspec.field(default=None, name="int")
    bool_: bool | None = msgspec.field(default=None, name="bool")
    string: str | None = None
    version: str | None = None

    @property
    def value(self) -> tuple[str, int | bool | str] | None:
        """The kind of the value and the value; None for a kind that is not supported."""
        for kind, value in (("int", self.int_), ("bool", self.bool_), ("string", self.string)):
            if value is not None:
                return kind, value
        return None if self.version is None else ("version", self.version)


class Device(Model):
    """`spec.devices[]` of a slice. The node fields count if the slice has `perDeviceNodeSelection`."""

    name: str = ""
    attributes: dict[str, DeviceAttribute] = {}
    capacity: dict[str, DeviceCapacity] = {}
    consumes_counters: tuple[CounterConsumption, ...] = ()
    node_name: str = ""
    node_selector: NodeSelector | None = None
    all_nodes: bool = False
    taints: tuple[Taint, ...] = ()
    binds_to_node: bool = False
    binding_conditions: tuple[str, ...] = ()
    """Conditions that the driver sets on the allocated device, and that must be true before its pods are bound."""
    binding_failure_conditions: tuple[str, ...] = ()
    allow_multiple_allocations: bool = False


class ResourcePool(Model):
    """`spec.pool` of a slice: only the slices of the highest generation count, all of them together."""

    name: str = ""
    generation: int = 0
    resource_slice_count: int = 0


class SliceSpec(Model):
    """`spec` of a slice. One of the fields about nodes is set."""

    driver: str = ""
    pool: ResourcePool = ResourcePool()
    node_name: str = ""
    node_selector: NodeSelector | None = None
    all_nodes: bool = False
    per_device_node_selection: bool = False
    devices: tuple[Device, ...] = ()
    shared_counters: tuple[CounterSet, ...] = ()


class ResourceSlice(ApiObject):
    """resource.k8s.io/v1 ResourceSlice: devices of a driver's pool."""

    spec: SliceSpec = SliceSpec()


class CelSelector(Model):
    """`selectors[].cel`."""

    expression: str = ""


class DeviceSelector(Model):
    """`selectors[]` of a class or request."""

    cel: CelSelector | None = None


class ClassSpec(Model):
    """`spec` of a class. `config` are parameters for drivers."""

    selectors: tuple[DeviceSelector, ...] = ()
    config: tuple[dict[str, Any], ...] = ()
    extended_resource_name: str = ""


class DeviceClass(ApiObject):
    """resource.k8s.io/v1 DeviceClass: a selection of devices by name."""

    spec: ClassSpec = ClassSpec()


class CapacityRequest(Model):
    """`capacity` of a request: what it consumes of a device that several claims may share."""

    requests: dict[str, Quantity] = {}


class ExactRequest(Model):
    """`exactly` of a request, or one of its `firstAvailable`, which have a name and no admin access."""

    name: str = ""
    device_class_name: str = ""
    selectors: tuple[DeviceSelector, ...] = ()
    allocation_mode: str = EXACT_COUNT
    count: int = 1
    admin_access: bool = False
    tolerations: tuple[Toleration, ...] = ()
    capacity: CapacityRequest | None = None


class DeviceRequest(Model):
    """`spec.devices.requests[]`: exactly these devices, or the first of several alternatives that can be had."""

    name: str = ""
    exactly: ExactRequest | None = None
    first_available: tuple[ExactRequest, ...] = ()

    @property
    def alternatives(self) -> tuple[tuple[str, ExactRequest], ...]:
        """The requests in order of preference, with the names that results and constraints use."""
        if self.exactly is not None:
            return ((self.name, self.exactly),)
        return tuple((f"{self.name}/{each.name}", each) for each in self.first_available)


class DeviceConstraint(Model):
    """`spec.devices.constraints[]`: devices that agree, or all differ, in an attribute."""

    requests: tuple[str, ...] = ()
    match_attribute: str = ""
    distinct_attribute: str = ""


class ClaimedDevices(Model):
    """`spec.devices` of a claim. `config` are parameters for drivers."""

    requests: tuple[DeviceRequest, ...] = ()
    constraints: tuple[DeviceConstraint, ...] = ()
    config: tuple[dict[str, Any], ...] = ()


class ResourceClaimSpec(Model):
    """`spec` of a claim."""

    devices: ClaimedDevices = ClaimedDevices()


class DeviceResult(Model):
    """`status.allocation.devices.results[]`: one device."""

    request: str = ""
    driver: str = ""
    pool: str = ""
    device: str = ""
    admin_access: bool | None = None
    tolerations: tuple[Toleration, ...] = ()
    share_id: str | None = msgspec.field(default=None, name="shareID")
    consumed_capacity: dict[str, Quantity] = {}
    binding_conditions: tuple[str, ...] = ()
    binding_failure_conditions: tuple[str, ...] = ()


class DeviceResults(Model):
    """`status.allocation.devices`."""

    results: tuple[DeviceResult, ...] = ()
    config: tuple[dict[str, Any], ...] = ()


class Allocation(Model):
    """`status.allocation` of a claim; without a node selector it can be used on every node."""

    devices: DeviceResults = DeviceResults()
    node_selector: NodeSelector | None = None
    allocation_timestamp: str | None = None


class Consumer(Model):
    """`status.reservedFor[]`."""

    api_group: str = ""
    resource: str = ""
    name: str = ""
    uid: str = ""


class DeviceStatus(Model):
    """`status.devices[]` of a claim: what the driver reports about an allocated device."""

    driver: str = ""
    pool: str = ""
    device: str = ""
    conditions: tuple[StatusCondition, ...] = ()


class ResourceClaimStatus(Model):
    """`status` of a claim."""

    allocation: Allocation | None = None
    reserved_for: tuple[Consumer, ...] = ()
    devices: tuple[DeviceStatus, ...] = ()


class ResourceClaim(ApiObject):
    """resource.k8s.io/v1 ResourceClaim: devices for one or more pods."""

    spec: ResourceClaimSpec = ResourceClaimSpec()
    status: ResourceClaimStatus = ResourceClaimStatus()


class TemplateMetadata(Model):
    """`spec.metadata` of a template: labels and annotations of the claims."""

    labels: dict[str, str] = {}
    annotations: dict[str, str] = {}


class TemplateSpec(Model):
    """`spec` of a template."""

    metadata: TemplateMetadata = TemplateMetadata()
    spec: ResourceClaimSpec = ResourceClaimSpec()


class ResourceClaimTemplate(ApiObject):
    """resource.k8s.io/v1 ResourceClaimTemplate: each pod that names it gets a claim of its own."""

    spec: TemplateSpec = TemplateSpec()
