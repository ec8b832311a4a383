"""Kubernetes' filter NodePorts: host ports are used by one pod per node (pkg/scheduler/framework/plugins/nodeports)."""

from collections.abc import Sequence

import numpy as np

from volcanoio.framework.scheduling.podterms import HostPort, NodeCounts, PodCounts
from volcanoio.framework.scheduling.verdicts import Depends, Feasibility
from volcanoio.framework.scheduling.views import Nodes, Shape
from volcanoio_plugins.scheduling.kubernetes.nodeindex import Mask, NodeIndex
from volcanoio_plugins.scheduling.kubernetes.topologydomains import ShapeCache

TAKEN = "node(s) didn't have free ports for the requested pod ports"
ANY_ADDRESS = "0.0.0.0"


class FreePorts:
    """The nodes where the ports of a shape are free: `ok` is updated as pods are added and removed."""

    def __init__(self, users: Sequence[NodeCounts], index: NodeIndex) -> None:
        self._users = users
        self._versions = [-1] * len(users)
        self._index = index
        self.ok: Mask = np.ones(index.size, np.bool_)

    def update(self) -> None:
        """Apply new placements."""
        for number, user in enumerate(self._users):
            version, known = user.version, self._versions[number]
            if version == known:
                continue
            changes = user.since(known) if known >= 0 else None
            if changes is None:
                self._recompute()
                return
            self._versions[number] = version
            for node, _ in changes:
                if (row := self._index.row_of(node)) is not None:
                    self.ok[row] = not any(node in other.by_node for other in self._users)

    def _recompute(self) -> None:
        self.ok[:] = True
        self._versions = [user.version for user in self._users]
        for user in self._users:
            rows = [row for node in user.by_node if (row := self._index.row_of(node)) is not None]
            self.ok[rows] = False


class HostPortsFilter:
    """Filters nodes by the host ports of a shape."""

    applies_to = ("host_ports",)

    def __init__(self, index: NodeIndex) -> None:
        self._index = index
        self._rules = ShapeCache(index, self._free)

    def feasible_depends(self, shape: Shape) -> Depends:  # noqa: ARG002 - the same for all shapes with host ports
        """Depend on the ports of other pods."""
        return Depends.PODS

    def feasible(self, shape: Shape, nodes: Nodes) -> Feasibility:
        """Return the nodes of the session where the ports are free, and the others."""
        ok = self.allowed(shape, nodes)
        return Feasibility(ok, () if ok.all() else ((TAKEN, ~ok),))

    def allowed(self, shape: Shape, nodes: Nodes) -> Mask:
        """Return the nodes of the session where the ports are free."""
        if (free := self._rules.of(shape)) is None:
            return np.ones(len(nodes), np.bool_)
        free.update()
        return free.ok

    def _free(self, shape: Shape, pods: PodCounts) -> FreePorts | None:
        wanted = shape.terms.ports if shape.terms else ()
        users = {
            carried: pods.carrying(carried)
            for port in wanted
            for carried in pods.carried(port.topic)
            if isinstance(carried, HostPort) and _conflict(carried.ip, port.ip)
        }
        return FreePorts(list(users.values()), self._index) if users else None


def _conflict(one: str, other: str) -> bool:
    """Return whether two addresses share their ports."""
    return one == other or ANY_ADDRESS in (one, other)
