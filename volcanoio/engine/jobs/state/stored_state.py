"""What the controller stores on a job: entries of `status.controlledResources`, written with the counts.

Volcano keeps delayed actions in memory and deletes a Command before it acts. Here phase, version, retry count, the
accepted Command and the delayed actions are one atomic status write: a process that is killed has stored either all of
it or nothing. `metadata.annotations` would not do, as the status subresource ignores metadata.
"""

from collections.abc import Callable, Iterable
from functools import lru_cache
from typing import Any

import msgspec

from volcanoio.engine.jobs.pods.index_ranges import format_indexes, parse_indexes
from volcanoio.framework.overrides import TaskOverride
from volcanoio.model import names
from volcanoio.model.batch import JobAction, JobStatus
from volcanoio.model.documents import decode_json

RESTART_TARGETS = "volcanoio.dev/restart-targets"
COUNTED_PODS = "volcanoio.dev/counted-pods"
LEAVING_PODS = "volcanoio.dev/leaving-pods"
HOLD = "volcanoio.dev/hold"
OBSERVED_GENERATION = "volcanoio.dev/observed-generation"


class DelayedAction(msgspec.Struct, frozen=True, omit_defaults=True):
    """An action that waits for its time; `due` is in epoch seconds, `cause` the name of the event.

    `pods` has the indexes of the task's pods (see `pods.index_ranges`); empty, the action is about the job. With `born`
    only pods created up to that time (a timestamp of the API server) count: a later pod of that name is another one.
    """

    action: JobAction
    cause: str
    due: float
    version: int
    task: str = ""
    pods: str = ""
    born: str = ""


class RestartTarget(msgspec.Struct, frozen=True, omit_defaults=True):
    """What a restart deletes of a task: everything, one partition, or the pods of some indexes.

    While a job restarts no pod is created, so an index always means the same pod.
    """

    task: str
    partition: str = ""
    pods: str = ""


class StoredHold(msgspec.Struct, frozen=True):
    """A policy's request to make no change to the job before `until` (epoch seconds)."""

    reason: str
    until: float


class StoredAlert(msgspec.Struct, frozen=True, omit_defaults=True):
    """An alert that a policy raised at a time (epoch seconds); `webhook` is empty once it was called."""

    key: str
    reason: str
    message: str
    at: float
    webhook: str = ""


class StoredState(msgspec.Struct, frozen=True, kw_only=True):
    """The controller's entries of `status.controlledResources`.

    - `restart_targets`: None when a Restarting job restarts as a whole, else what is deleted (possibly nothing)
    - `counted_pods`: pods that the stored counts include, as index ranges by task; one that is missing was evicted;
      None on a job whose status Volcano wrote
    - `leaving_pods`: pods of the job's version that somebody else is deleting: they count as evicted once they are gone
    - `observed_generation`: generation of the newest spec for which the policies got JobUpdated
    - `overrides`: resources that the policies gave to tasks; `alerts`: what they raised
    """

    accepted_command: str = ""
    delayed: tuple[DelayedAction, ...] = ()
    restart_targets: tuple[RestartTarget, ...] | None = None
    counted_pods: dict[str, str] | None = None
    leaving_pods: dict[str, str] = {}
    hold: StoredHold | None = None
    observed_generation: int | None = None
    overrides: tuple[TaskOverride, ...] = ()
    alerts: tuple[StoredAlert, ...] = ()


_FIELD_KEYS: tuple[tuple[str, str, Any], ...] = (
    (names.PENDING_ACTION, "delayed", tuple[DelayedAction, ...]),
    (RESTART_TARGETS, "restart_targets", tuple[RestartTarget, ...] | None),
    (COUNTED_PODS, "counted_pods", dict[str, str] | None),
    (LEAVING_PODS, "leaving_pods", dict[str, str]),
    (HOLD, "hold", StoredHold | None),
    (OBSERVED_GENERATION, "observed_generation", int | None),
    (names.OVERRIDES, "overrides", tuple[TaskOverride, ...]),
    (names.ALERTS, "alerts", tuple[StoredAlert, ...]),
)
STORED_KEYS = frozenset({names.ACCEPTED_COMMAND, *(key for key, _, _ in _FIELD_KEYS)})


def read_stored(status: JobStatus) -> StoredState:
    """Return the stored entries; an unreadable one counts as missing."""
    stored = status.controlled_resources
    fields: dict[str, Any] = {"accepted_command": stored.get(names.ACCEPTED_COMMAND, "")}
    for key, field, kind in _FIELD_KEYS:
        if key in stored:
            try:
                fields[field] = decode_json(stored[key], kind)
            except msgspec.DecodeError:
                continue
    return StoredState(**fields)


def has_stored_times(status: JobStatus) -> bool:
    """Return whether an entry is stored that waits for a time."""
    return names.PENDING_ACTION in status.controlled_resources or HOLD in status.controlled_resources


def write_stored(state: StoredState) -> dict[str, str]:
    """Return the entries as they are stored, without empty ones."""
    stored = {names.ACCEPTED_COMMAND: state.accepted_command} if state.accepted_command else {}
    empty = StoredState()
    for key, field, _ in _FIELD_KEYS:
        if (value := getattr(state, field)) != getattr(empty, field):
            stored[key] = msgspec.json.encode(value).decode()
    return stored


TargetFilter = Callable[[str, int | None, str], bool]
"""Whether a pod is a target, by its task, index and partition."""


def merge_targets(targets: Iterable[RestartTarget], new: Iterable[RestartTarget]) -> tuple[RestartTarget, ...]:
    """Merge earlier targets with new ones; single pods of a task become one target."""
    result: dict[tuple[str, str, bool], RestartTarget] = {}
    for target in (*targets, *new):
        key = (target.task, target.partition, bool(target.pods))
        if (old := result.get(key)) is not None and target.pods and old.pods != target.pods:
            target = msgspec.structs.replace(
                target, pods=format_indexes((*parse_indexes(old.pods), *parse_indexes(target.pods)))
            )
        result[key] = target
    return tuple(result[key] for key in sorted(result))


@lru_cache(maxsize=64)
def restarted_pods_filter(stored: str) -> TargetFilter:
    """Return a filter for the pods that the current restart replaces, given the stored entry."""
    targets = read_stored(JobStatus(controlled_resources={RESTART_TARGETS: stored})).restart_targets
    if targets is None:  # the whole job
        return lambda *_: True
    return target_filter(targets)


@lru_cache(maxsize=64)
def target_filter(targets: tuple[RestartTarget, ...]) -> TargetFilter:
    """Return a filter for pods that are targets."""
    whole: set[tuple[str, str]] = set()
    single: dict[str, frozenset[int]] = {}
    for target in targets:
        if target.pods:
            single[target.task] = frozenset(parse_indexes(target.pods))
        else:
            whole.add((target.task, target.partition))

    def is_hit(task: str, index: int | None, partition: str) -> bool:
        return (task, "") in whole or (task, partition) in whole or (task in single and index in single[task])

    return is_hit
