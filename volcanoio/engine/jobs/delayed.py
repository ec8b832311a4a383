"""Delayed actions: stored on the job before they are timed, cancelled by what made them pointless.

Source: Volcano, pkg/controllers/job/job_controller.go. There they live in memory; here each is an entry of the ledger,
and whether it still stands is read off the pods, so that nothing depends on having seen the edge.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from volcanoio.engine.jobs.ledger import Delayed
from volcanoio.framework.lifecycle import LifecycleEvent
from volcanoio.model.batch import JobAction, JobEvent, JobStatus
from volcanoio.model.core import Pod

_BY_POD_RUNNING = frozenset({JobEvent.POD_FAILED, JobEvent.POD_EVICTED})


def entry(event: LifecycleEvent, action: JobAction, due: float) -> Delayed:
    """The entry for an action decided about an event."""
    return Delayed(
        action=action,
        cause=event.name,
        due=due,
        version=event.version,
        task=event.task,
        pod=event.pod,
        pod_uid=event.pod_uid,
        partition=event.partition,
    )


def added(entries: tuple[Delayed, ...], new: Delayed) -> tuple[Delayed, ...]:
    """The entries with a new one: the same action for the same pod is already waiting, another one is replaced."""
    if any(old.pod == new.pod and old.action == new.action and old.version == new.version for old in entries):
        return entries
    return (*(old for old in entries if old.pod != new.pod), new)


def standing(entries: Sequence[Delayed], status: JobStatus, pods: Iterable[Pod]) -> tuple[Delayed, ...]:
    """The entries that still have a point.

    One for a pending pod stands while that very pod is pending; one for a failed or evicted pod until a pod of its
    name runs; each as long as the job is of the version it was decided for.
    """
    if not entries:
        return ()
    by_name = {pod.metadata.name: pod for pod in pods}
    return tuple(item for item in entries if item.version >= status.version and _stands(item, by_name.get(item.pod)))


def surviving(
    entries: Iterable[Delayed], action: JobAction, task: str, pod: str, partition: str
) -> tuple[Delayed, ...]:
    """The entries that an executed action leaves: one about the job leaves none, a targeted one other targets'."""

    def hit(item: Delayed) -> bool:
        match action:
            case JobAction.RESTART_TASK:
                return item.task == task and item.action is action
            case JobAction.RESTART_POD:
                return item.pod == pod and item.action is action
            case JobAction.RESTART_PARTITION:
                return item.task == task and item.partition == partition and item.action is action
            case _:
                return True

    return tuple(item for item in entries if not hit(item))


def _stands(item: Delayed, pod: Pod | None) -> bool:
    if item.cause == JobEvent.POD_PENDING:
        return pod is not None and pod.metadata.uid == item.pod_uid and pod.status.phase in ("", "Pending")
    if item.cause in _BY_POD_RUNNING:
        return pod is None or pod.status.phase != "Running"
    return True
