"""Plugin pdb: no more victims than every budget that selects them allows.

Unlike Volcano: pods without labels can be victims; evictions of this session, which no budget shows yet, count.
"""

from __future__ import annotations

from collections.abc import Sequence

from tests.oracle.cluster import Task
from tests.oracle.labels import selects
from tests.oracle.plugins.plugin import Plugin
from volcanoio.model.base import Manifest


class Pdb(Plugin):
    def permitted(self, victims: Sequence[Task]) -> list[Task]:
        """Return the victims within all budgets; unlike Volcano, this also filters the victims of shuffle."""
        budgets = self.session.cluster.others.get("PodDisruptionBudget", [])
        left = [each.get("status", {}).get("disruptionsAllowed", 0) for each in budgets]
        for task in self.session.cluster.tasks:
            for at in _about(task, budgets) if task.evicted else ():
                left[at] -= 1
        allowed = []
        for task in victims:
            about = _about(task, budgets)
            if all(left[at] > 0 for at in about):
                for at in about:
                    left[at] -= 1
                allowed.append(task)
        return allowed

    def preemptable(self, preemptor: Task, candidates: Sequence[Task]) -> list[Task]:
        return self.permitted(candidates)

    reclaimable = preemptable


def _about(task: Task, budgets: list[Manifest]) -> list[int]:
    """Return the indexes of the budgets that an eviction counts against."""
    return [
        at
        for at, each in enumerate(budgets)
        if each["metadata"]["namespace"] == task.namespace
        and selects(each["spec"].get("selector"), task.labels)
        and task.name not in each.get("status", {}).get("disruptedPods", {})
    ]
