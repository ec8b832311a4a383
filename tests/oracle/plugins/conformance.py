"""Plugin conformance: critical pods of the cluster are never evicted."""

from __future__ import annotations

from collections.abc import Sequence

from tests.oracle.cluster import Job, Task
from tests.oracle.plugins.plugin import Plugin


class Conformance(Plugin):
    def preemptable(self, preemptor: Task, candidates: Sequence[Task]) -> list[Task]:
        critical = ("system-cluster-critical", "system-node-critical")
        return [
            task
            for task in candidates
            if task.spec.get("priorityClassName") not in critical and task.namespace != "kube-system"
        ]

    reclaimable = preemptable

    def evictable(self, job: Job, action: str, candidates: Sequence[Task]) -> list[Task]:
        return self.preemptable(candidates[0], candidates) if candidates else []
