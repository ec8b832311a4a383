"""preempt's topology-aware mode: victims are simulated on several nodes, and the least harmful set is evicted."""

from __future__ import annotations

from tests.oracle.actions.taking import Taking
from tests.oracle.cluster import Node, Task

_OFFSET = 2**31


class DryRun(Taking):
    def _evict_for(self, task: Task) -> bool:
        given = self.session.arguments.get("preempt", {})
        nodes = self.nodes(task)
        if not nodes:
            return False
        start = min(range(len(nodes)), key=lambda at: self.session.tie(task, nodes[at]))
        wanted = len(nodes) * given.get("minCandidateNodesPercentage", 10) // 100
        wanted = min(
            max(wanted, given.get("minCandidateNodesAbsolute", 1)), given.get("maxCandidateNodesAbsolute", 100)
        )
        plans: list[tuple[Node, list[Task]]] = []
        for node in nodes[start:] + nodes[:start]:
            if len(plans) >= wanted:
                break
            if victims := self._plan(task, node):
                plans.append((node, victims))
        plans.sort(key=lambda plan: _since(plan[1]), reverse=True)
        plans.sort(key=lambda plan: _harm(plan[1]))
        for node, victims in plans:
            mark = self.statement.mark()
            for victim in victims:
                self.statement.evict(victim, self.reason)
            if self.fits(task, node) and self.pipeline(task, node, victims):
                return True
            self.statement.rollback(mark)
        return False

    def _plan(self, task: Task, node: Node) -> list[Task]:
        """Return the victims on a node: all candidates but those of highest priority that are not needed."""
        chosen = self.candidates(task, node)
        if any(not plugin.simulated(task, node) for plugin in self.session.every("predicate")):
            return []
        mark = self.statement.mark()
        for victim in chosen:
            self.statement.evict(victim, self.reason)
        needed = []
        if self.fits(task, node):
            for victim in reversed(chosen):
                self.statement.spare(victim)
                if not self.fits(task, node):
                    self.statement.evict(victim, self.reason)
                    needed.append(victim)
        for victim in list(self.statement.victims[mark[1] :]):
            self.statement.spare(victim)
        return needed[::-1]


def _harm(victims: list[Task]) -> tuple[int, int, int]:
    """Return the highest priority, the sum of priorities, and the number of victims."""
    return max(v.priority for v in victims), sum(v.priority + _OFFSET for v in victims), len(victims)


def _since(victims: list[Task]) -> str:
    """Return the earliest start of the victims with the highest priority; later is better."""
    highest = max(victim.priority for victim in victims)
    return min(str(victim.status.get("startTime") or "~") for victim in victims if victim.priority == highest)
