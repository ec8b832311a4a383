"""Plugin predicates: which nodes a pod may go to (Volcano: pkg/scheduler/plugins/predicates).

Kubernetes' filters in Volcano's order and with their texts, each in a module of its own. Fit of resources, the pod
count among them, is the session's own; so are scheduling gates: a gated pod is not tried.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from volcanoio.framework.arguments import convert
from volcanoio.framework.scheduling.points import Filter
from volcanoio.framework.scheduling.sessionview import SessionView
from volcanoio.model import kinds
from volcanoio_plugins.scheduling.hostports import HostPortsFilter
from volcanoio_plugins.scheduling.nodefilter import NodeFilter
from volcanoio_plugins.scheduling.nodeindex import NodeIndex
from volcanoio_plugins.scheduling.podaffinity import PodAffinityFilter
from volcanoio_plugins.scheduling.topologyspread import TopologySpreadFilter


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
    resource_allocation: bool = msgspec.field(default=False, name="predicate.DynamicResourceAllocationEnable")
    cache: bool = msgspec.field(default=False, name="predicate.CacheEnable")
    """Nothing to turn on: answers are kept by shape until a node changes."""


class Predicates:
    """The filters that are switched on, in order."""

    name = "predicates"
    watches = (kinds.NAMESPACE.resource,)

    def __init__(self, arguments: Mapping[str, Any]) -> None:
        given = convert(arguments, PredicatesArguments, self.name)
        self._index = index = NodeIndex()
        ports = HostPortsFilter(index) if given.node_ports else None
        affinity = PodAffinityFilter(index) if given.pod_affinity else None
        spread = TopologySpreadFilter(index) if given.topology_spread else None
        self._opening = [part for part in (ports, affinity, spread) if part is not None]
        nodes = NodeFilter(index, affinity=given.node_affinity, taints=given.taint_toleration)
        self.filters: list[Filter] = [part for part in (nodes, ports, affinity, spread) if part is not None]

    def open(self, session: SessionView) -> None:
        """Nodes and pods may have changed since the last cycle."""
        self._index.begin(session.nodes)
        for part in self._opening:
            part.open(session)
