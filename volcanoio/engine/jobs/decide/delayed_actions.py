"""Delayed actions: stored on the job before their timers start, cancelled by what makes them pointless.

Source: Volcano, pkg/controllers/job/job_controller.go. There they live in memory; here they are part of the job's
stored state, and whether one is still valid follows from the pods, so that no change has to be observed. Pods with the
same action share an entry; when due times differ only slightly, they are rounded up until the entries are short.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from math import ceil

import msgspec

from volcanoio.engine.jobs.pods.index_ranges import format_indexes, parse_indexes
from volcanoio.engine.jobs.pods.observed import task_of
from volcanoio.engine.jobs.state.stored_state import DelayedAction
from volcanoio.engine.jobs.state.transitions import TARGETED_ACTIONS
from volcanoio.framework.lifecycle import LifecycleEvent
from volcanoio.model.batch import Job, JobAction, JobEvent
from volcanoio.model.core import Pod
from volcanoio.model.times import rfc3339

MAX_ENCODED_LENGTH = 48 * 1024
"""Maximum length of all entries together, in characters."""
MIN_ROUNDING, MAX_ROUNDING = 0.25, 86400.0
"""Smallest and largest unit, in seconds, to which due times are rounded up where there are too many."""
_END_PHASES: dict[str, str] = {JobEvent.POD_FAILED: "Failed", JobEvent.TASK_COMPLETED: "Succeeded"}
"""Events that may end the job, and the phase of their pod."""
_TASK_EVENTS = frozenset({JobEvent.TASK_COMPLETED, JobEvent.TASK_FAILED})
"""Events of a task as a whole."""
_ENDS_THAT_MAY_COME_FIRST = {(JobEvent.TASK_COMPLETED, JobAction.COMPLETE_JOB)}
"""Events and actions where the job may end before the action: it ends as the action would end it."""
_CANCELLED_BY_RUNNING = frozenset({JobEvent.POD_FAILED, JobEvent.POD_EVICTED})
"""Events whose actions are dropped when the pod, or its replacement, runs."""


class PodDelayedAction(msgspec.Struct, frozen=True):
    """A delayed action for one pod, or for the job when `index` is None.

    `stored_state.DelayedAction` has the same fields, with the indexes of several pods.
    """

    action: JobAction
    cause: str
    due: float
    version: int
    task: str = ""
    index: int | None = None
    born: str = ""


def pod_delayed_action(
    event: LifecycleEvent, action: JobAction, due: float, pods: Mapping[str, Pod]
) -> PodDelayedAction | None:
    """Return the delayed action for an event; None when its pending pod does not exist any more."""
    delay = PodDelayedAction(
        action=action, cause=event.name, due=due, version=event.version, task=event.task, index=event.index
    )
    if event.name != JobEvent.POD_PENDING:
        return delay
    pod = pods.get(event.pod_uid)
    return None if pod is None else msgspec.structs.replace(delay, born=pod.metadata.creation_timestamp or "")


def add_delays(entries: tuple[DelayedAction, ...], new: Sequence[PodDelayedAction]) -> tuple[DelayedAction, ...]:
    """Add entries; an equal action for the same pod stays as it is, a different action replaces the old one."""
    if not new:
        return entries
    delays = {_delay_key(delay): delay for entry in entries for delay in _pod_delays(entry)}
    for delay in new:
        old = delays.get(_delay_key(delay))
        if old is None or (old.action, old.version) != (delay.action, delay.version):
            delays[_delay_key(delay)] = delay
    return _group_delays(delays.values())


def _delay_key(delay: PodDelayedAction) -> tuple[str, int | str | None]:
    """Return what an action is about: the job, a pod, or an event of a task, whichever of its pods was the last."""
    return delay.task, delay.cause if delay.cause in _TASK_EVENTS else delay.index


def valid_actions(entries: tuple[DelayedAction, ...], job: Job, pods: Iterable[Pod]) -> tuple[DelayedAction, ...]:
    """Return the entries that are still valid; the same tuple when all are.

    An entry for a pending pod is valid while that very pod is pending, one for a failed or evicted pod until a pod of
    its name runs, and each only for the job version it was decided for.
    """
    if not entries:
        return entries
    by_name = {pod.metadata.name: pod for pod in pods}
    kept: list[DelayedAction] = []
    for entry in entries:
        if entry.version < job.status.version:
            continue
        if not entry.pods:
            kept.append(entry)
            continue
        prefix = f"{job.metadata.name}-{entry.task}-"
        indexes = parse_indexes(entry.pods)
        remaining = [index for index in indexes if _is_valid(entry, by_name.get(f"{prefix}{index}"))]
        if len(remaining) == len(indexes):
            kept.append(entry)
        elif remaining:
            kept.append(msgspec.structs.replace(entry, pods=format_indexes(remaining)))
    return entries if kept == list(entries) else tuple(kept)


def ends_awaiting_an_action(
    entries: Iterable[DelayedAction], job: Job, pods: Iterable[Pod]
) -> tuple[Counter[str], DelayedAction | None]:
    """Return ended pods by phase for whose end an action is still to come, and the first of these actions.

    Until it is executed such an end is not final. A completed task counts as one of its pods, unless the action is to
    complete the job.
    """
    relevant = [
        entry
        for entry in entries
        if entry.cause in _END_PHASES and (entry.cause, entry.action) not in _ENDS_THAT_MAY_COME_FIRST
    ]
    if not relevant:
        return Counter(), None
    ended = {
        pod.metadata.name: (task_of(pod), pod.status.phase) for pod in pods if pod.metadata.deletion_timestamp is None
    }
    answered: dict[str, str] = {}
    first: DelayedAction | None = None
    for entry in sorted(relevant, key=lambda entry: entry.due):
        end = (entry.task, _END_PHASES[entry.cause])
        names = [f"{job.metadata.name}-{entry.task}-{index}" for index in parse_indexes(entry.pods)]
        if entry.cause == JobEvent.TASK_COMPLETED:
            names = [name for name, other in ended.items() if other == end][:1]
        found = [name for name in names if ended.get(name) == end]
        answered |= dict.fromkeys(found, end[1])
        first = first or (entry if found else None)
    return Counter(answered.values()), first


def delayed_action_message(entry: DelayedAction) -> str:
    """Return the message of a job that waits for an action."""
    number = len(parse_indexes(entry.pods))
    relevant = f"{entry.cause} of {number} pod{'' if number == 1 else 's'} of task {entry.task}"
    return f"{entry.action} follows at {rfc3339(ceil(entry.due))}, as an answer to {relevant}"


def actions_after(
    entries: Iterable[DelayedAction], action: JobAction, task: str, indexes: frozenset[int], partition_size: int
) -> tuple[DelayedAction, ...]:
    """Return the entries that remain after an action: none after one for the job.

    After a targeted action these are the entries with other targets or with other actions. `indexes` are the pods the
    action is about, `partition_size` is the number of pods in a partition of the task.
    """
    if action not in TARGETED_ACTIONS:
        return ()
    group_size = _group_size(action, partition_size)
    kept: list[DelayedAction] = []
    for entry in entries:
        if entry.action is not action or entry.task != task:
            kept.append(entry)
        elif group_size is not None:
            affected = {index // group_size for index in indexes}
            remaining = [index for index in parse_indexes(entry.pods) if index // group_size not in affected]
            kept += [msgspec.structs.replace(entry, pods=format_indexes(remaining))] if remaining else []
    return tuple(kept)


def _group_size(action: JobAction, partition_size: int) -> int | None:
    """Return how many consecutive indexes a targeted action affects together; None for all of its task."""
    match action:
        case JobAction.RESTART_TASK:
            return None
        case JobAction.RESTART_PARTITION:
            return max(1, partition_size)
        case JobAction.RESTART_POD:
            return 1
        case _:
            raise NotImplementedError(f"_group_size has no case for the targeted action {action}")


def _pod_delays(entry: DelayedAction) -> list[PodDelayedAction]:
    def delay(index: int | None) -> PodDelayedAction:
        return PodDelayedAction(entry.action, entry.cause, entry.due, entry.version, entry.task, index, entry.born)

    return [delay(index) for index in parse_indexes(entry.pods)] if entry.pods else [delay(None)]


def _group_delays(delays: Iterable[PodDelayedAction]) -> tuple[DelayedAction, ...]:
    """Group delays into entries; due times are rounded up until the encoded entries are short enough."""
    all_delays = list(delays)
    step = 0.0
    while True:
        groups: dict[tuple[JobAction, str, int, str, bool, float], list[PodDelayedAction]] = {}
        for delay in all_delays:
            due = ceil(delay.due / step) * step if step else delay.due
            groups.setdefault(
                (delay.action, delay.cause, delay.version, delay.task, delay.index is None, due), []
            ).append(delay)
        entries = tuple(_delayed_action(group, due) for (*_, due), group in sorted(groups.items()))
        if step >= MAX_ROUNDING or len(msgspec.json.encode(entries)) <= MAX_ENCODED_LENGTH:
            return entries
        step = max(MIN_ROUNDING, 2 * step)


def _delayed_action(group: Sequence[PodDelayedAction], due: float) -> DelayedAction:
    first = group[0]
    return DelayedAction(
        action=first.action,
        cause=first.cause,
        due=due,
        version=first.version,
        task=first.task,
        pods=format_indexes(delay.index for delay in group if delay.index is not None),
        born=max(delay.born for delay in group),
    )


def _is_valid(entry: DelayedAction, pod: Pod | None) -> bool:
    if entry.cause == JobEvent.POD_PENDING:
        if pod is None or pod.status.phase not in ("", "Pending"):
            return False
        return not entry.born or (pod.metadata.creation_timestamp or "") <= entry.born
    if entry.cause in _CANCELLED_BY_RUNNING:
        return pod is None or pod.status.phase != "Running"
    return True
