"""Plugin predicates: which nodes a pod may go to (Volcano: pkg/scheduler/plugins/predicates).

Kubernetes' filters in Volcano's order and with their texts, each in a module of its own. Fit of resources, the pod
count among them, is the session's own; so are scheduling gates: a gated pod is not tried.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from volcanoio.framework.arguments import convert
from volcanoio.framework.scheduling.points import Checkpoints, Filter
from volcanoio.framework.scheduling.sessionview import SessionView
from volcanoio.framework.scheduling.views import Shape, Task
from volcanoio.framework.scheduling_effects import PreBindStep
from volcanoio.model import kinds
from volcanoio_plugins.scheduling.nodes.nodefilter import NodeFilter
from volcanoio_plugins.scheduling.nodes.nodeindex import NodeIndex
from volcanoio_plugins.scheduling.pods.hostports import HostPortsFilter
from volcanoio_plugins.scheduling.pods.podaffinity import PodAffinityFilter
from volcanoio_plugins.scheduling.pods.topologyspread import TopologySpreadFilter
from volcanoio_plugins.scheduling.volumes.volumebinding import VolumeBinding
from volcanoio_plugins.scheduling.volumes.volumelimits import LoneUsers, VolumeLimits
from volcanoio_plugins.scheduling.volumes.volumezones import VolumeZones


class PredicatesArguments(msgspec.Struct, frozen=True):
    """Which filters are on."""

    node_affinity: bool = msgspec.field(default=True, name="predicate.NodeAffinityEnable")
    taint_toleration: bool = msgspec.field(default=True, name="predicate.TaintTolerationEnable")
    node_ports: bool = msgspec.field(default=True, name="predicate.NodePortsEnable")
    pod_affinity: bool = msgspec.field(default=True, name="predicate.PodAffinityEnable")
    volume_limits: bool = msgspec.field(default=True, name="predicate.NodeVolumeLimitsEnable")
    volume_zone: bool = msgspec.field(default=True, name="predicate.VolumeZoneEnable")
    topology_spread: bool = msgspec.field(default=True, name="predicate.PodTopologySpreadEnable")
    volume_binding: bool = msgspec.field(default=True, name="predicate.VolumeBindingEnable")
    bind_timeout: int = msgspec.field(default=600, name="volumebinding.bindTimeoutSeconds")
    """Seconds a claim may take to be bound before the pod's bind."""
    volume_weight: int = msgspec.field(default=1, name="volumebinding.weight")
    volume_scores: list[dict[str, Any]] = msgspec.field(default_factory=list, name="volumebinding.shape")
    """These two change nothing: Kubernetes' scorer of volumes is behind a feature that is off."""
    resource_allocation: bool = msgspec.field(default=False, name="predicate.DynamicResourceAllocationEnable")
    cache: bool = msgspec.field(default=False, name="predicate.CacheEnable")
    """Nothing to turn on: answers are kept by shape until a node changes."""


class Predicates:
    """The filters that are switched on, in order; of volumes, what claims get is planned and written before a bind."""

    name = "predicates"

    def __init__(self, arguments: Mapping[str, Any]) -> None:
        given = convert(arguments, PredicatesArguments, self.name)
        self._index = index = NodeIndex()
        ports = HostPortsFilter(index) if given.node_ports else None
        affinity = PodAffinityFilter(index) if given.pod_affinity else None
        spread = TopologySpreadFilter(index) if given.topology_spread else None
        nodes = NodeFilter(index, affinity=given.node_affinity, taints=given.taint_toleration)
        limits = VolumeLimits(index) if given.volume_limits else None
        zones = VolumeZones(index) if given.volume_zone else None
        self._binding = binding = VolumeBinding(index, float(given.bind_timeout)) if given.volume_binding else None
        alone = LoneUsers() if binding is not None else None
        self._opening = [part for part in (ports, affinity, alone, limits, spread, binding) if part is not None]
        self.filters: list[Filter] = [
            part for part in (nodes, ports, affinity, alone, limits, zones, spread, binding) if part is not None
        ]
        self.watches: tuple[str, ...] = (kinds.NAMESPACE.resource,)
        if limits is not None or zones is not None or binding is not None:
            read = {kinds.PVC.resource, kinds.PV.resource, kinds.STORAGE_CLASS.resource}
            read.update(*(part.watches for part in (limits, binding) if part is not None))
            self.watches += tuple(sorted(read))

    def open(self, session: SessionView) -> Checkpoints:
        """Nodes and pods may have changed since the last cycle."""
        self._index.begin(session.nodes)
        for part in self._opening:
            part.open(session)
        return self._index.prepare(session.pods.topology_keys)

    def concerned(self, shape: Shape) -> bool:
        """Of tasks without volume claims it need not know where they are."""
        return self._binding is not None and bool(shape.claims)

    def task_placed(self, task: Task) -> None:
        """Plan what the volume claims of the task get."""
        if self._binding is not None:
            self._binding.task_placed(task)

    def task_evicted(self, task: Task) -> None:
        """Its claims stay as they are."""

    def prebinds(self, shape: Shape) -> bool:
        """Whether there are volume claims that wait."""
        return self._binding is not None and any(claim.waits for claim in shape.claims)

    def prebind(self, task: Task) -> Sequence[PreBindStep]:
        """What binds the volume claims of a task."""
        return self._binding.steps(task) if self._binding is not None else ()
