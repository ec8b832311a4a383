"""Kubernetes' filter NodePorts: a port of a node is taken by one pod (pkg/scheduler/framework/plugins/nodeports)."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from volcanoio.framework.scheduling.podterms import HostPort, PodCounts, Tally
from volcanoio.framework.scheduling.sessionview import SessionView
from volcanoio.framework.scheduling.verdicts import Depends, Feasibility
from volcanoio.framework.scheduling.views import Nodes, Shape
from volcanoio_plugins.scheduling.nodes.nodeindex import Mask, NodeIndex
from volcanoio_plugins.scheduling.pods.domaincounts import ByShape

TAKEN = "node(s) didn't have free ports for the requested pod ports"
EVERY_ADDRESS = "0.0.0.0"


class FreePorts:
    """Where the ports of a shape are free: `ok` is kept as pods that take one of them come and go."""

    def __init__(self, takers: Sequence[Tally], index: NodeIndex) -> None:
        self._takers = takers
        self._versions = [-1] * len(takers)
        self._index = index
        self.ok: Mask = np.ones(index.size, np.bool_)

    def follow(self) -> None:
        """Take in what was placed since."""
        for number, taker in enumerate(self._takers):
            version, known = taker.version, self._versions[number]
            if version == known:
                continue
            changes = taker.since(known) if known >= 0 else None
            if changes is None:
                self._judge()
                return
            self._versions[number] = version
            for node, _ in changes:
                row = self._index.row_of(node)
                if row is not None:
                    self.ok[row] = not any(node in other.by_node for other in self._takers)

    def _judge(self) -> None:
        self.ok[:] = True
        self._versions = [taker.version for taker in self._takers]
        for taker in self._takers:
            rows = [row for node in taker.by_node if (row := self._index.row_of(node)) is not None]
            self.ok[rows] = False


class HostPortsFilter:
    """Says where the host ports that a shape wants are free."""

    def __init__(self, index: NodeIndex) -> None:
        self._index = index
        self._rules = ByShape(index, self._free)

    def open(self, session: SessionView) -> None:
        """A session begins."""
        self._rules.open(session)

    def feasible_depends(self, shape: Shape) -> Depends:
        """The pods, where the shape wants ports."""
        return Depends.PODS if shape.terms is not None and shape.terms.ports else Depends.NOTHING

    def feasible(self, shape: Shape, nodes: Nodes) -> Feasibility:
        """The nodes of the session where the ports are free, and the others."""
        ok = self.allowed(shape, nodes)
        return Feasibility(ok, () if ok.all() else ((TAKEN, ~ok),))

    def allowed(self, shape: Shape, nodes: Nodes) -> Mask:
        """The nodes of the session where the ports are free."""
        free = self._rules.of(shape)
        if free is None:
            return np.ones(len(nodes), np.bool_)
        free.follow()
        return free.ok

    def _free(self, shape: Shape, pods: PodCounts) -> FreePorts | None:
        wanted = shape.terms.ports if shape.terms else ()
        takers = {
            carried: pods.carrying(carried)
            for port in wanted
            for carried in pods.carried(port.topic)
            if isinstance(carried, HostPort) and _conflict(carried.ip, port.ip)
        }
        return FreePorts(list(takers.values()), self._index) if takers else None


def _conflict(one: str, other: str) -> bool:
    """Whether two addresses share their ports."""
    return one == other or EVERY_ADDRESS in (one, other)
