"""Plugin cdp: running tasks are not evicted during their cooldown."""

from __future__ import annotations

from collections.abc import Sequence

from tests.oracle.cluster import Task
from tests.oracle.plugins.plugin import Plugin
from tests.oracle.plugins.times import epoch, seconds

COOLDOWN = "volcano.sh/cooldown-time"


class Cdp(Plugin):
    def preemptable(self, preemptor: Task, candidates: Sequence[Task]) -> list[Task]:
        return [task for task in candidates if not self._cools(task)]

    reclaimable = preemptable

    def _cools(self, task: Task) -> bool:
        cooldown = seconds(task.labels.get(COOLDOWN) or task.annotations.get(COOLDOWN))
        if task.state != "running" or cooldown is None:
            return False
        times = [
            each["lastTransitionTime"] for each in task.status.get("conditions", []) if each["type"] == "PodScheduled"
        ]
        return bool(times) and self.session.now < epoch(times[0]) + cooldown
