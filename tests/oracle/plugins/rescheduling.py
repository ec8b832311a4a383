"""Plugin rescheduling, lowNodeUtilization: evict from overused nodes as far as underused nodes have room.

Unlike Volcano: metrics are averages of ten minutes; only preemptable tasks are evicted; thresholdPriorityClassName
protects tasks.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tests.oracle.cluster import Node, Task
from tests.oracle.plugins.plugin import Plugin
from tests.oracle.plugins.times import seconds

NAMES = ("cpu", "memory", "pods")


class Rescheduling(Plugin):
    def open(self) -> None:
        self.interval = seconds(self.arguments.get("interval", "5m")) or 0.0
        self.session.memory.setdefault("rescheduling", self.session.now + self.interval)

    def victim_tasks(self, candidates: Sequence[Task]) -> list[Task]:
        """Return victims once in an interval, for the first time one interval after the first session."""
        if self.session.now < self.session.memory["rescheduling"]:
            return []
        self.session.memory["rescheduling"] = self.session.now + self.interval
        named: list[Task] = []
        for strategy in self.arguments.get("strategies", [{}]):
            named += self._overloading(candidates, strategy.get("params", {}))
        return named

    def _overloading(self, candidates: Sequence[Task], given: dict[str, Any]) -> list[Task]:
        self.used = {node.name: self._used(node) for node in self.session.cluster.nodes if node.name in self._figures}
        nodes = [node for node in self.session.cluster.nodes if node.name in self.used]
        least, target = given.get("thresholds", {}), given.get("targetThresholds", {})
        low = [node for node in nodes if not node.unschedulable and self._parts(node, least, -1)]
        high = [node for node in nodes if node not in low and self._parts(node, target, 1)]
        high.sort(key=lambda node: (-self._busy(node), node.name))
        room = {
            name: sum(
                node.allocatable.get(name, 0) * _limit(target, name) / 100 - self.used[node.name][name] for node in low
            )
            for name in NAMES
        }
        chosen: list[Task] = []
        for node in high if low else []:
            for task in sorted((t for t in candidates if t.node == node.name and t.preemptable), key=_first_to_go):
                if not self._parts(node, target, 1) or min(room.values()) <= 0:
                    break
                chosen.append(task)
                for name in NAMES:
                    self.used[node.name][name] -= task.requests.get(name, 0)
                    room[name] -= task.requests.get(name, 0)
        return chosen

    @property
    def _figures(self) -> dict[str, Any]:
        found: dict[str, Any] = self.session.memory.get("figures", {})
        return found

    def _used(self, node: Node) -> dict[str, float]:
        figures = self._figures[node.name]
        parts = {name: figures[name] / 100 * node.allocatable.get(name, 0) for name in ("cpu", "memory")}
        return {**parts, "pods": float(node.used("pods"))}

    def _parts(self, node: Node, limits: dict[str, float], side: int) -> bool:
        """Return whether a node is above any of the limits (side 1), or below all of them (side -1)."""
        more = [
            self.used[node.name][name] * 100 - _limit(limits, name) * node.allocatable.get(name, 0) for name in NAMES
        ]
        return any(each > 0 for each in more) if side > 0 else all(each < 0 for each in more)

    def _busy(self, node: Node) -> float:
        return sum(self.used[node.name][name] / max(node.allocatable.get(name, 0), 1) for name in ("cpu", "memory"))


def _limit(limits: dict[str, float], name: str) -> float:
    return limits.get(name, limits.get("pod", 100.0) if name == "pods" else 100.0)


def _first_to_go(task: Task) -> tuple[int, bool, str, str]:
    """Order by priority, then tasks that request neither cpu nor memory first, then by name."""
    return task.priority, bool(task.requests.get("cpu") or task.requests.get("memory")), task.namespace, task.name
