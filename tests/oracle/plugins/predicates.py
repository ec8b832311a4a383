"""Plugin predicates: the filters of Kubernetes in Volcano's order."""

from __future__ import annotations

from tests.oracle.cluster import Node, Task
from tests.oracle.labels import affine, tolerates, untolerated
from tests.oracle.plugins import podrules
from tests.oracle.plugins.plugin import Plugin
from tests.oracle.plugins.storage import Storage, names

CORDON = {"key": "node.kubernetes.io/unschedulable", "effect": "NoSchedule"}


SIMULATING = ("enablePreemptable", "enabledAllocatable")
"""The switches of which one lets dry runs simulate what an eviction does to pod affinity."""


class Predicates(Plugin):
    def on(self, name: str) -> bool:
        return bool(self.arguments.get(f"predicate.{name}Enable", True))

    def open(self) -> None:
        self.storage = Storage(self.session.cluster)

    def placed(self, task: Task) -> None:
        if self.on("VolumeBinding") and self.storage.usable(task):
            self.storage.placed(task, self.session.cluster.node(task.node))

    def removed(self, task: Task) -> None:
        if names(task):
            self.storage.removed(task)

    def _stored(self, task: Task, node: Node) -> bool:
        storage = self.storage
        if not storage.usable(task) or not storage.alone(task):
            return False
        if self.on("NodeVolumeLimits") and not storage.within_limits(task, node):
            return False
        if self.on("VolumeZone") and not storage.in_zone(task, node):
            return False
        return not self.on("VolumeBinding") or storage.reachable(task, node)

    def passes_statically(self, task: Task, node: Node) -> bool:
        if node.unschedulable and not tolerates(task.spec, CORDON):
            return False
        if self.on("NodeAffinity") and not affine(task.spec, node.name, node.labels):
            return False
        if self.on("TaintToleration") and untolerated(task.spec, node.taints):
            return False
        return not names(task) or self._stored_there(task, node)

    def _stored_there(self, task: Task, node: Node) -> bool:
        """Apply the volume filters that do not depend on what else is placed; claims stay when pods are evicted."""
        if self.on("VolumeZone") and not self.storage.in_zone(task, node):
            return False
        if not self.on("VolumeBinding") or self.storage.chooses(task):
            return True
        return self.storage.usable(task) and self.storage.reachable(task, node)

    def simulated(self, task: Task, node: Node) -> bool:
        if not self.on("PodAffinity") or any(self.given.get(switch, True) for switch in SIMULATING):
            return True
        cluster = self.session.cluster
        return podrules.has_company(task, node, cluster) and podrules.keeps_apart(task, node, cluster)

    def predicate(self, task: Task, node: Node) -> bool:
        cluster = self.session.cluster
        if not self.passes_statically(task, node):
            return False
        if names(task) and not self._stored(task, node):
            return False
        if self.on("NodePorts") and not podrules.ports_are_free(task, node):
            return False
        if self.on("PodAffinity"):
            if not podrules.has_company(task, node, cluster):
                return False
            if not podrules.keeps_apart(task, node, cluster):
                return False
        return not self.on("PodTopologySpread") or podrules.is_even(task, node, cluster)
