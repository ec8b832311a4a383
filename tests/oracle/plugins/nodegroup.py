"""Plugin nodegroup: queues use certain groups of nodes (label volcano.sh/nodegroup-name)."""

from __future__ import annotations

import json
from typing import Any

from tests.oracle.cluster import ALLOCATED, Node, Queue, Task
from tests.oracle.plugins.plugin import Plugin
from volcanoio.model.resources import amounts

REQUIRED, PREFERRED = (f"{kind}DuringSchedulingIgnoredDuringExecution" for kind in ("required", "preferred"))


class Nodegroup(Plugin):
    def passes_statically(self, task: Task, node: Node) -> bool:
        """Apply the filter, except for queues with limits, where it depends on what else is placed."""
        queue = self._queue(task)
        limited = queue is not None and "volcano.sh/nodegroup-resource-limits" in queue.annotations
        return limited or self.predicate(task, node)

    def predicate(self, task: Task, node: Node) -> bool:
        queue = self._queue(task)
        if queue is None:
            return True
        text = queue.annotations.get("volcano.sh/nodegroup-resource-limits", "{}")
        if text == "broken":
            return False
        affinity, group = self._affinity(queue), node.labels.get("volcano.sh/nodegroup-name")
        if group is None:
            return not self.arguments.get("strict", True) and affinity is None
        wanted, unwanted = _sides(affinity)
        if group not in unwanted[1] and (group in unwanted[0] or group not in [*wanted[0], *wanted[1]]):
            return False
        limits = amounts(json.loads(text).get(group))
        return all(
            self._held(queue, group, name) + task.requests.get(name, 0) <= limit for name, limit in limits.items()
        )

    def score(self, task: Task, node: Node) -> float:
        queue, group = self._queue(task), node.labels.get("volcano.sh/nodegroup-name")
        if queue is None or group is None:
            return 0.0
        wanted, unwanted = _sides(self._affinity(queue))
        if group in unwanted[1]:
            return -1.0
        total = 100.0 if group in wanted[0] else 0.0
        if group in wanted[1]:
            number = len(wanted[1])
            ordered = self.arguments.get("enablePreferredOrder", False)
            total += 50.0 * (number - wanted[1].index(group)) / number if ordered else 50.0
        return total

    def _queue(self, task: Task) -> Queue | None:
        return self.session.cluster.queues[task.job.queue] if task.job is not None else None

    def _affinity(self, queue: Queue) -> Any:
        """Return the affinity of the queue or, with enableHierarchy, of its nearest ancestor that has one."""
        queues, seen = self.session.cluster.queues, [queue.name]
        while queue.spec.get("affinity") is None and self.hierarchical and queue.parent in queues:
            queue = queues[queue.parent]
            if queue.name in seen:
                break
            seen.append(queue.name)
        return queue.spec.get("affinity")

    def _held(self, queue: Queue, group: str, name: str) -> int:
        there = {n.name for n in self.session.cluster.nodes if n.labels.get("volcano.sh/nodegroup-name") == group}
        return sum(
            task.requests.get(name, 0)
            for job in queue.jobs
            for task in job.tasks
            if task.state in (*ALLOCATED, "pipelined") and task.node in there
        )


def _sides(affinity: Any) -> tuple[tuple[list[str], list[str]], tuple[list[str], list[str]]]:
    """Return required and preferred groups of the affinity, then of the anti-affinity."""
    sides = [(affinity or {}).get(name) or {} for name in ("nodeGroupAffinity", "nodeGroupAntiAffinity")]
    wanted, unwanted = ((side.get(REQUIRED, []), side.get(PREFERRED, [])) for side in sides)
    return wanted, unwanted
