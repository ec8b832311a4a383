"""Delayed actions: stored on the job before they are timed, cancelled by what made them pointless.

Source: Volcano, pkg/controllers/job/job_controller.go. There they live in memory; here they are entries of the ledger,
and whether one still stands is read off the pods, so that nothing depends on having seen the edge. Pods that wait for
the same share an entry; when many wait for slightly different times, these are rounded up until the entries are short.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from math import ceil

import msgspec

from volcanoio.engine.jobs.ledger import Delayed
from volcanoio.engine.jobs.ranges import compact, expand
from volcanoio.framework.lifecycle import LifecycleEvent
from volcanoio.model.batch import Job, JobAction, JobEvent
from volcanoio.model.core import Pod

LONGEST_TEXT = 48 * 1024
"""Characters that all entries may take together."""
FINEST, COARSEST = 0.25, 86400.0
"""Seconds to which due times are rounded up where there are too many, and the most."""
_BY_POD_RUNNING = frozenset({JobEvent.POD_FAILED, JobEvent.POD_EVICTED})


class Wait(msgspec.Struct, frozen=True):
    """One pod that an action waits for, or the job when `index` is None; see `ledger.Delayed`."""

    action: JobAction
    cause: str
    due: float
    version: int
    task: str = ""
    index: int | None = None
    born: str = ""


def waiting(event: LifecycleEvent, action: JobAction, due: float, held: Mapping[str, Pod]) -> Wait | None:
    """What a delayed action decided about an event waits for; None when its pending pod is no longer there."""
    wait = Wait(action=action, cause=event.name, due=due, version=event.version, task=event.task, index=event.index)
    if event.name != JobEvent.POD_PENDING:
        return wait
    pod = held.get(event.pod_uid)
    return None if pod is None else msgspec.structs.replace(wait, born=pod.metadata.creation_timestamp or "")


def added(entries: tuple[Delayed, ...], new: Sequence[Wait]) -> tuple[Delayed, ...]:
    """The entries with new ones: the same action for the same pod is already waiting, another one is replaced."""
    if not new:
        return entries
    waits = {(wait.task, wait.index): wait for entry in entries for wait in _unpacked(entry)}
    for wait in new:
        old = waits.get((wait.task, wait.index))
        if old is None or (old.action, old.version) != (wait.action, wait.version):
            waits[wait.task, wait.index] = wait
    return _packed(waits.values())


def standing(entries: tuple[Delayed, ...], job: Job, pods: Iterable[Pod]) -> tuple[Delayed, ...]:
    """The entries that still have a point; the same ones when all have.

    One for a pending pod stands while that very pod is pending; one for a failed or evicted pod until a pod of its
    name runs; each as long as the job is of the version it was decided for.
    """
    if not entries:
        return entries
    by_name = {pod.metadata.name: pod for pod in pods}
    kept: list[Delayed] = []
    for entry in entries:
        if entry.version < job.status.version:
            continue
        if not entry.pods:
            kept.append(entry)
            continue
        prefix = f"{job.metadata.name}-{entry.task}-"
        indexes = expand(entry.pods)
        left = [index for index in indexes if _stands(entry, by_name.get(f"{prefix}{index}"))]
        if len(left) == len(indexes):
            kept.append(entry)
        elif left:
            kept.append(msgspec.structs.replace(entry, pods=compact(left)))
    return entries if kept == list(entries) else tuple(kept)


def surviving(
    entries: Iterable[Delayed], action: JobAction, task: str, indexes: frozenset[int], size: int
) -> tuple[Delayed, ...]:
    """The entries that an executed action leaves: one about the job leaves none, a targeted one other targets'.

    `indexes` are the pods it is about, `size` how many pods of the task are a partition.
    """
    kept: list[Delayed] = []
    for entry in entries:
        if entry.action is not action or action not in _TARGETS:
            kept += [entry] if action in _TARGETS else []
        elif entry.task != task:
            kept.append(entry)
        elif action is not JobAction.RESTART_TASK:
            hit = indexes if action is JobAction.RESTART_POD else {index // max(1, size) for index in indexes}
            unit = 1 if action is JobAction.RESTART_POD else max(1, size)
            left = [index for index in expand(entry.pods) if index // unit not in hit]
            kept += [msgspec.structs.replace(entry, pods=compact(left))] if left else []
    return tuple(kept)


_TARGETS = frozenset({JobAction.RESTART_TASK, JobAction.RESTART_POD, JobAction.RESTART_PARTITION})


def _unpacked(entry: Delayed) -> list[Wait]:
    def wait(index: int | None) -> Wait:
        return Wait(entry.action, entry.cause, entry.due, entry.version, entry.task, index, entry.born)

    return [wait(index) for index in expand(entry.pods)] if entry.pods else [wait(None)]


def _packed(waits: Iterable[Wait]) -> tuple[Delayed, ...]:
    """The entries for all that wait: those for the same together, due times rounded up until the text is short."""
    every = list(waits)
    step = 0.0
    while True:
        groups: dict[tuple[JobAction, str, int, str, bool, float], list[Wait]] = {}
        for wait in every:
            due = ceil(wait.due / step) * step if step else wait.due
            groups.setdefault((wait.action, wait.cause, wait.version, wait.task, wait.index is None, due), []).append(
                wait
            )
        entries = tuple(_entry(group, due) for (*_, due), group in sorted(groups.items()))
        if step >= COARSEST or len(msgspec.json.encode(entries)) <= LONGEST_TEXT:
            return entries
        step = max(FINEST, 2 * step)


def _entry(group: Sequence[Wait], due: float) -> Delayed:
    first = group[0]
    return Delayed(
        action=first.action,
        cause=first.cause,
        due=due,
        version=first.version,
        task=first.task,
        pods=compact(wait.index for wait in group if wait.index is not None),
        born=max(wait.born for wait in group),
    )


def _stands(entry: Delayed, pod: Pod | None) -> bool:
    if entry.cause == JobEvent.POD_PENDING:
        if pod is None or pod.status.phase not in ("", "Pending"):
            return False
        return not entry.born or (pod.metadata.creation_timestamp or "") <= entry.born
    if entry.cause in _BY_POD_RUNNING:
        return pod is None or pod.status.phase != "Running"
    return True
