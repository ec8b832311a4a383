"""Plugin conformance: critical pods of the cluster are never evicted (Volcano: pkg/scheduler/plugins/conformance)."""

from collections.abc import Mapping, Sequence
from typing import Any

from volcanoio.framework.arguments import NoArguments, convert
from volcanoio.framework.scheduling.points import Purpose
from volcanoio.framework.scheduling.views import Job, Task

CRITICAL_CLASSES = frozenset({"system-cluster-critical", "system-node-critical"})
SYSTEM_NAMESPACE = "kube-system"


class Conformance:
    """Protects critical pods."""

    name = "conformance"
    keeps_verdicts = True

    def __init__(self, arguments: Mapping[str, Any]) -> None:
        convert(arguments, NoArguments, self.name)

    def preemptable(self, preemptor: Task, candidates: Sequence[Task]) -> Sequence[Task]:  # noqa: ARG002 - any preemptor
        """Return all but critical pods."""
        return _not_critical(candidates)

    def reclaimable(self, reclaimer: Task, candidates: Sequence[Task]) -> Sequence[Task]:  # noqa: ARG002 - any reclaimer
        """Return all but critical pods."""
        return _not_critical(candidates)

    def evictable(self, job: Job, purpose: Purpose, candidates: Sequence[Task]) -> Sequence[Task]:  # noqa: ARG002 - any
        """Return all but critical pods."""
        return _not_critical(candidates)


def _not_critical(candidates: Sequence[Task]) -> list[Task]:
    return [
        task
        for task in candidates
        if task.priority_class_name not in CRITICAL_CLASSES and task.namespace != SYSTEM_NAMESPACE
    ]
