"""pdb: no more victims than every budget about them allows. Ours: pods without labels may be victims."""

from __future__ import annotations

from collections.abc import Sequence

from tests.oracle.cluster import Task
from tests.oracle.labels import selects
from tests.oracle.plugins.plugin import Plugin


class Pdb(Plugin):
    def permitted(self, victims: Sequence[Task]) -> list[Task]:
        """Ours: for shuffle a veto on what others name."""
        budgets = self.session.cluster.others.get("PodDisruptionBudget", [])
        left = [each.get("status", {}).get("disruptionsAllowed", 0) for each in budgets]
        allowed = []
        for task in victims:
            about = [
                at
                for at, each in enumerate(budgets)
                if each["metadata"]["namespace"] == task.namespace
                and selects(each["spec"].get("selector"), task.labels)
                and task.name not in each.get("status", {}).get("disruptedPods", {})
            ]
            if all(left[at] > 0 for at in about):
                for at in about:
                    left[at] -= 1
                allowed.append(task)
        return allowed

    def preemptable(self, taker: Task, candidates: Sequence[Task]) -> list[Task]:
        return self.permitted(candidates)

    reclaimable = preemptable
