"""The state of the demo: jobs, gangs and pods folded into rows. Pure; how rows are printed is `demo`'s."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

from volcanoio.framework.events import Change, Observed
from volcanoio.model import names
from volcanoio.model.batch import FINISHED_PHASES, Job, JobPhase
from volcanoio.model.core import Event, Pod
from volcanoio.model.scheduling import PodGroup, PodGroupPhase

_ENDED = ("Succeeded", "Failed")


@dataclass(frozen=True, slots=True)
class Row:
    """One line of the board: a Job, or a PodGroup that somebody else made."""

    name: str
    kind: str
    queue: str
    phase: str
    gang: int
    placed: int
    pending: int
    running: int
    succeeded: int
    failed: int
    retries: int
    note: str

    @property
    def finished(self) -> bool:
        """Whether nothing more will happen."""
        return self.phase in FINISHED_PHASES or self.phase == JobPhase.ABORTED

    @property
    def failed_job(self) -> bool:
        """Whether it ended otherwise than asked."""
        return self.finished and self.phase != JobPhase.COMPLETED


class Board:
    """Folds observations of Jobs, PodGroups, Pods, and of the events that say why a PodGroup waits."""

    def __init__(self) -> None:
        self._jobs: dict[str, Job] = {}
        self._groups: dict[str, PodGroup] = {}
        self._pods: dict[str, Pod] = {}
        self._reasons: dict[str, str] = {}

    def fold(self, event: Observed) -> None:
        """Take one observation in."""
        obj = event.object
        store: dict[str, Job] | dict[str, PodGroup] | dict[str, Pod]
        if isinstance(obj, Job):
            store = self._jobs
        elif isinstance(obj, PodGroup):
            store = self._groups
        elif isinstance(obj, Pod):
            store = self._pods
        elif isinstance(obj, Event):
            if obj.involved_object.kind == "PodGroup" and obj.reason == "Unschedulable":
                self._reasons[obj.involved_object.uid] = obj.message
            return
        else:
            return
        if event.change is Change.GONE:
            store.pop(obj.metadata.key, None)
        else:
            store[obj.metadata.key] = obj

    def rows(self) -> list[Row]:
        """Jobs in the order of their names, then PodGroups of other owners."""
        by_group: dict[str, list[Pod]] = {}
        for pod in self._pods.values():
            group = pod.metadata.annotations.get(names.GROUP_NAME, "")
            by_group.setdefault(f"{pod.metadata.namespace}/{group}", []).append(pod)
        rows = [self._job_row(job, by_group) for _, job in sorted(self._jobs.items())]
        owned = {
            key
            for key, group in self._groups.items()
            if group.metadata.controller is not None and group.metadata.controller.kind == "Job"
        }
        rows += [
            self._group_row(group, by_group.get(key, []))
            for key, group in sorted(self._groups.items())
            if key not in owned
        ]
        return rows

    def _job_row(self, job: Job, by_group: dict[str, list[Pod]]) -> Row:
        key = f"{job.metadata.namespace}/{job.metadata.name}-{job.metadata.uid}"
        group = self._groups.get(key)
        status = job.status
        return Row(
            name=job.metadata.name,
            kind="job",
            queue=job.spec.queue,
            phase=status.state.phase or JobPhase.PENDING,
            gang=job.spec.min_available,
            placed=_placed(by_group.get(key, [])) if status.state.phase not in FINISHED_PHASES else status.succeeded,
            pending=status.pending,
            running=status.running,
            succeeded=status.succeeded,
            failed=status.failed,
            retries=status.retry_count,
            note=self._waiting(group) if status.state.phase in ("", JobPhase.PENDING) else "",
        )

    def _group_row(self, group: PodGroup, pods: list[Pod]) -> Row:
        counts = Counter(pod.status.phase for pod in pods)
        return Row(
            name=group.metadata.name,
            kind="podgroup",
            queue=group.spec.queue,
            phase=group.status.phase or PodGroupPhase.PENDING,
            gang=group.spec.min_member,
            placed=_placed(pods),
            pending=counts["Pending"],
            running=counts["Running"],
            succeeded=counts["Succeeded"],
            failed=counts["Failed"],
            retries=0,
            note=self._waiting(group),
        )

    def _waiting(self, group: PodGroup | None) -> str:
        """Why a gang is not placed: its condition, or before it is let in, what the event says."""
        if group is None or group.status.phase not in ("", PodGroupPhase.PENDING, PodGroupPhase.INQUEUE):
            return ""
        told = (each.message for each in reversed(group.status.conditions) if each.type == "Unschedulable")
        return next(told, "") or self._reasons.get(group.metadata.uid, "")


def _placed(pods: list[Pod]) -> int:
    return sum(1 for pod in pods if pod.spec.node_name and pod.status.phase != "Failed")
