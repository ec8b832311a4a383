"""predicates: Kubernetes' filters in Volcano's order."""

from __future__ import annotations

from tests.oracle.cluster import Node, Task
from tests.oracle.labels import affine, tolerates, untolerated
from tests.oracle.plugins import podrules
from tests.oracle.plugins.plugin import Plugin

CORDON = {"key": "node.kubernetes.io/unschedulable", "effect": "NoSchedule"}


class Predicates(Plugin):
    def on(self, name: str) -> bool:
        return bool(self.arguments.get(f"predicate.{name}Enable", True))

    def standing(self, task: Task, node: Node) -> bool:
        if node.unschedulable and not tolerates(task.spec, CORDON):
            return False
        if self.on("NodeAffinity") and not affine(task.spec, node.name, node.labels):
            return False
        return not (self.on("TaintToleration") and untolerated(task.spec, node.taints))

    def predicate(self, task: Task, node: Node) -> bool:
        cluster = self.session.cluster
        if not self.standing(task, node):
            return False
        if self.on("NodePorts") and not podrules.ports_are_free(task, node):
            return False
        if self.on("PodAffinity"):
            if not podrules.has_company(task, node, cluster):
                return False
            if not podrules.keeps_apart(task, node, cluster):
                return False
        return not self.on("PodTopologySpread") or podrules.is_even(task, node, cluster)
