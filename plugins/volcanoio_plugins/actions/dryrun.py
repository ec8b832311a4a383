"""Preemption with foresight: victims are worked out on several nodes, and the least harmful set is taken.

Volcano: topology-aware preemption in pkg/scheduler/actions/preempt, which follows kube-scheduler's. Working out is
evicting on the live columns and taking it back.
"""

from __future__ import annotations

from collections.abc import Generator
from dataclasses import dataclass
from typing import Any

from volcanoio.framework.scheduling.victims import Hunt
from volcanoio.framework.scheduling.views import Task
from volcanoio_plugins.actions.taking import Taking

_OFFSET = 2**31
"""Added to priorities before they are summed, so that more victims weigh more (Kubernetes: MaxInt32 + 1)."""
_NOT_STARTED = "~"
"""Sorts after every time: a pod that has not started loses nothing."""


@dataclass(frozen=True, slots=True)
class Plan:
    """Whom to evict on a node for a task, in order."""

    node: str
    victims: list[Task]

    @property
    def harm(self) -> tuple[int, int, int]:
        """The smaller the better: the highest priority among the victims, the sum of all, their number."""
        priorities = [victim.priority for victim in self.victims]
        return max(priorities), sum(priority + _OFFSET for priority in priorities), len(priorities)

    @property
    def since(self) -> str:
        """When the first of the victims with the highest priority started: the later the better."""
        highest = max(victim.priority for victim in self.victims)
        return min(
            victim.pod.status.start_time or _NOT_STARTED for victim in self.victims if victim.priority == highest
        )


class DryRun(Taking):
    """Chooses among `percentage` of the nodes that are left, `least` and `most` in absolute numbers."""

    def __init__(self, *what: Any, percentage: int, least: int, most: int, own: bool) -> None:
        super().__init__(*what, own=own)
        self._percentage = percentage
        self._least = least
        self._most = most

    def search(self, task: Task, hunt: Hunt) -> Generator[None, None, str]:
        """As `Taking.search`; the node is the one where victims do the least harm."""
        nodes = hunt.around()
        wanted = min(max(len(nodes) * self._percentage // 100, self._least), self._most)
        plans: list[Plan] = []
        for node in nodes:
            if len(plans) >= wanted:
                break
            yield
            plan = self.plan(task, node)
            if plan is None:
                self.spent(task, node, hunt)
            else:
                plans.append(plan)
        plans.sort(key=lambda plan: plan.since, reverse=True)
        plans.sort(key=lambda plan: plan.harm)
        for plan in plans:
            mark = self._statement.mark()
            for victim in plan.victims:
                self._statement.evict(victim, self._reason)
            if self._fits(task, plan.node) and self.settle(task, plan.node, plan.victims):
                return plan.node
            self._statement.rollback(mark)
            self.spent(task, plan.node, hunt)
        return ""

    def plan(self, task: Task, node: str) -> Plan | None:
        """The fewest victims on a node, those of high standing spared first; None where there are none or too few."""
        statement = self._statement
        chosen = self.candidates(task, node)
        self._victims.attempted(len(chosen))
        if not chosen:
            return None
        mark = statement.mark()
        for victim in chosen:
            statement.evict(victim, self._reason)
        plan: Plan | None = None
        if self._fits(task, node):
            needed: list[Task] = []
            for victim in reversed(chosen):
                statement.spare(victim)
                if not self._fits(task, node):
                    statement.evict(victim, self._reason)
                    needed.append(victim)
            plan = Plan(node, needed[::-1]) if needed else None
        else:
            self._hindered = True
        statement.rollback(mark)
        return plan
