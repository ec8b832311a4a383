"""Plugin cdp, cooldown protection: recently placed pods are not evicted (Volcano: pkg/scheduler/plugins/cdp)."""

from collections.abc import Mapping, Sequence
from typing import Any

from volcanoio.framework.arguments import NoArguments, convert
from volcanoio.framework.scheduling.sessionview import SessionView
from volcanoio.framework.scheduling.views import Task, TaskStatus
from volcanoio.model.names import COOLDOWN_TIME
from volcanoio.model.times import epoch_or_none, positive_duration

SCHEDULED = "PodScheduled"


class Cdp:
    """Protects running pods until their cooldown time, a label or annotation, has passed since placement."""

    name = "cdp"

    def __init__(self, arguments: Mapping[str, Any]) -> None:
        convert(arguments, NoArguments, self.name)
        self._now = 0.0

    def open(self, session: SessionView) -> None:
        """Read the time."""
        self._now = session.now

    def preemptable(self, preemptor: Task, candidates: Sequence[Task]) -> Sequence[Task]:  # noqa: ARG002 - any preemptor
        """Return all but protected pods."""
        return [task for task in candidates if not self._is_protected(task)]

    def reclaimable(self, reclaimer: Task, candidates: Sequence[Task]) -> Sequence[Task]:  # noqa: ARG002 - any reclaimer
        """Return all but protected pods."""
        return [task for task in candidates if not self._is_protected(task)]

    def _is_protected(self, task: Task) -> bool:
        if task.status is not TaskStatus.RUNNING:
            return False
        meta = task.pod.metadata
        cooldown = positive_duration(meta.labels.get(COOLDOWN_TIME) or meta.annotations.get(COOLDOWN_TIME, ""))
        if cooldown is None:
            return False
        at = next((item.last_transition_time for item in task.pod.status.conditions if item.type == SCHEDULED), None)
        return (placed := epoch_or_none(at)) is not None and self._now < placed + cooldown
