"""Plugin predicates: Kubernetes' filters (Volcano: pkg/scheduler/plugins/predicates).

They run in Volcano's order and with their messages, each in a module of `kubernetes`. Resource fit, including the
number of pods, is checked by the session itself, and so are scheduling gates: a gated pod is not tried.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from volcanoio.framework.arguments import convert
from volcanoio.framework.scheduling.points import Checkpoints, Filter
from volcanoio.framework.scheduling.sessionview import SessionView
from volcanoio.framework.scheduling.views import Shape, Task
from volcanoio.framework.scheduling_effects import PreBindStep
from volcanoio.model import kinds
from volcanoio_plugins.scheduling.dynamic_resources.filtering import DynamicResources
from volcanoio_plugins.scheduling.kubernetes.interpodaffinity import PodAffinityFilter
from volcanoio_plugins.scheduling.kubernetes.nodeaffinity import NodeFilter
from volcanoio_plugins.scheduling.kubernetes.nodeindex import NodeIndex
from volcanoio_plugins.scheduling.kubernetes.nodeports import HostPortsFilter
from volcanoio_plugins.scheduling.kubernetes.podtopologyspread import TopologySpreadFilter
from volcanoio_plugins.scheduling.kubernetes.volumebinding import VolumeBinding
from volcanoio_plugins.scheduling.kubernetes.volumelimits import ReadWriteOncePodFilter, VolumeLimits, VolumeZones


class PredicatesArguments(msgspec.Struct, frozen=True):
    """Which filters are enabled."""

    node_affinity: bool = msgspec.field(default=True, name="predicate.NodeAffinityEnable")
    taint_toleration: bool = msgspec.field(default=True, name="predicate.TaintTolerationEnable")
    node_ports: bool = msgspec.field(default=True, name="predicate.NodePortsEnable")
    pod_affinity: bool = msgspec.field(default=True, name="predicate.PodAffinityEnable")
    volume_limits: bool = msgspec.field(default=True, name="predicate.NodeVolumeLimitsEnable")
    volume_zone: bool = msgspec.field(default=True, name="predicate.VolumeZoneEnable")
    topology_spread: bool = msgspec.field(default=True, name="predicate.PodTopologySpreadEnable")
    volume_binding: bool = msgspec.field(default=True, name="predicate.VolumeBindingEnable")
    bind_timeout: int = msgspec.field(default=600, name="volumebinding.bindTimeoutSeconds")
    """Seconds to wait for a claim to be bound before the pod's bind."""
    volume_weight: int = msgspec.field(default=1, name="volumebinding.weight")
    volume_scores: list[dict[str, Any]] = msgspec.field(default_factory=list, name="volumebinding.shape")
    """These two have no effect: Kubernetes' scorer of volumes is behind a feature gate that is off."""
    devices: bool = msgspec.field(default=False, name="predicate.DynamicResourceAllocationEnable")
    """Whether devices are allocated for the resource claims of pods; otherwise such pods wait."""
    devices_timeout: int = msgspec.field(default=10, name="dynamicresources.filterTimeoutSeconds")
    """Limit of the search for devices on a node; a second stands for 1000 of its steps."""
    cache: bool = msgspec.field(default=False, name="predicate.CacheEnable")
    """Has no effect: answers are always cached by shape until a node changes."""


class Predicates:
    """The enabled filters, in order; claims of volumes and devices are planned, and written before a bind."""

    name = "predicates"

    def __init__(self, arguments: Mapping[str, Any]) -> None:
        given = convert(arguments, PredicatesArguments, self.name)
        self._index = index = NodeIndex()
        ports = HostPortsFilter(index) if given.node_ports else None
        affinity = PodAffinityFilter(index) if given.pod_affinity else None
        spread = TopologySpreadFilter(index) if given.topology_spread else None
        nodes = NodeFilter(index, affinity=given.node_affinity, taints=given.taint_toleration, devices=given.devices)
        limits = VolumeLimits(index) if given.volume_limits else None
        zones = VolumeZones(index) if given.volume_zone else None
        self._binding = binding = VolumeBinding(index, float(given.bind_timeout)) if given.volume_binding else None
        self._devices = devices = DynamicResources(index, given.devices_timeout) if given.devices else None
        alone = ReadWriteOncePodFilter(index) if binding is not None else None
        parts = (nodes, ports, affinity, alone, limits, zones, spread, binding, devices)
        self.filters: list[Filter] = [part for part in parts if part is not None]
        self.watches: tuple[str, ...] = (kinds.NAMESPACE.resource,)
        if limits is not None or zones is not None or binding is not None:
            read = {kinds.PVC.resource, kinds.PV.resource, kinds.STORAGE_CLASS.resource}
            read.update(*(part.watches for part in (limits, binding) if part is not None))
            self.watches += tuple(sorted(read))
        if devices is not None:
            self.watches += devices.watches

    def open(self, session: SessionView) -> Checkpoints:
        """Update nodes; the filters read the session when a shape they apply to needs them."""
        self._index.open(session)
        if self._devices is not None:
            self._devices.open()
        return self._index.prepare(session.pods.topology_keys)

    def tracks_shape(self, shape: Shape) -> bool:
        """Return whether tasks of the shape have claims of volumes or devices."""
        return (self._binding is not None and bool(shape.claims)) or self._has_devices(shape)

    def task_placed(self, task: Task) -> None:
        """Plan the claims of the task."""
        if self._binding is not None:
            self._binding.task_placed(task)
        if self._devices is not None and task.shape.device_claims:
            self._devices.task_placed(task)

    def task_evicted(self, task: Task) -> None:
        """Leave the task's claims as they are."""

    def prebinds(self, shape: Shape) -> bool:
        """Return whether the shape has unbound volume claims, or claims of devices."""
        unbound = self._binding is not None and any(claim.waits_for_consumer for claim in shape.claims)
        return unbound or self._has_devices(shape)

    def prebind(self, task: Task) -> Sequence[PreBindStep]:
        """Return the steps that bind the volume claims of a task, and reserve its devices."""
        volumes = self._binding.steps(task) if self._binding is not None and task.shape.claims else ()
        devices = self._devices.steps(task) if self._devices is not None and task.shape.device_claims else ()
        return (*volumes, *devices)

    def _has_devices(self, shape: Shape) -> bool:
        return self._devices is not None and bool(shape.device_claims)
