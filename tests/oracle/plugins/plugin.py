"""Plugins of the oracle: their methods are extension points, which Volcano's switches enable."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from tests.oracle.cluster import Node, Task

if TYPE_CHECKING:
    from tests.oracle.session import Session

SWITCHES = {
    "job_key": "enableJobOrder",
    "queue_key": "enableQueueOrder",
    "task_key": "enableTaskOrder",
    "part_key": "enabledSubJobOrder",
    "part_ready": "enabledSubJobReady",
    "part_pipelined": "enabledSubJobPipelined",
    "ready": "enableJobReady",
    "pipelined": "enableJobPipelined",
    "starving": "enableJobStarving",
    "enqueueable": "enableJobEnqueued",
    "enqueued": "enableJobEnqueued",
    "predicate": "enablePredicate",
    "score": "enableNodeOrder",
    "relative_scores": "enableNodeOrder",
    "own_score": "enableNodeOrder",
    "preemptable": "enablePreemptable",
    "reclaimable": "enableReclaimable",
    "preemptive": "enablePreemptive",
    "victim_tasks": "enabledVictim",
    "permitted": "enabledVictim",
    "overused": "enabledOverused",
    "allocatable": "enabledAllocatable",
}
"""Extension points that are not listed (valid, victim_queue_key, evictable, placed, removed) are always enabled."""


class Plugin:
    """The base class of plugins; `given` is the plugin's entry in the configuration."""

    def __init__(self, session: Session, given: Mapping[str, Any], arguments: Mapping[str, Any]) -> None:
        self.session = session
        self.given = given
        self.arguments = arguments
        self.hierarchical = bool(given.get("enableHierarchy", False))

    def open(self) -> None:
        """Start a session."""

    def passes_statically(self, task: Task, node: Node) -> bool:
        """Return whether the filter passes, without the parts that evictions can change."""
        return bool(self.predicate(task, node))

    def simulated(self, task: Task, node: Node) -> bool:
        """Return whether the filters that a dry run does not simulate pass with the pods as they are now."""
        return True

    def offers(self, method: str) -> bool:
        return hasattr(self, method) and bool(self.given.get(SWITCHES.get(method, ""), True))

    def __getattr__(self, name: str) -> Any:
        raise AttributeError(name)
