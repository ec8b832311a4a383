"""What must survive us, kept on the Job: `status.controlledResources`, so that it moves with the counts in one write.

Volcano keeps delayed actions in memory and deletes a Command before it acts. Here phase, version, retry count, the
accepted Command and the delayed actions are one atomic status write: a process killed at any await finds either all of
it or nothing. `metadata.annotations` could not give that, as the status subresource ignores metadata.
"""

from __future__ import annotations

from typing import Any

import msgspec

from volcanoio.framework.overrides import TaskOverride
from volcanoio.model import names
from volcanoio.model.batch import JobAction, JobStatus

TARGETS = "volcanoio.dev/restart-targets"
COUNTED = "volcanoio.dev/counted-pods"
LEAVING = "volcanoio.dev/leaving-pods"
HOLD = "volcanoio.dev/hold"
GENERATION = "volcanoio.dev/observed-generation"


class Delayed(msgspec.Struct, frozen=True, omit_defaults=True):
    """An action that waits for its time. `due` in epoch seconds; `cause` is the event's name.

    About pods of a task it names their indexes (`ranges`) in `pods`; with `born` only those stand that were created by
    then (a timestamp of the API server), as a later one of the name is another pod. Without `pods` it is about the job.
    """

    action: JobAction
    cause: str
    due: float
    version: int
    task: str = ""
    pods: str = ""
    born: str = ""


class Target(msgspec.Struct, frozen=True, omit_defaults=True):
    """What of a task a restart is about: all of it, one of its partitions, or the pods of some indexes (`ranges`).

    While a job restarts no pod is made, so an index is the pod that was meant.
    """

    task: str
    partition: str = ""
    pods: str = ""


class Hold(msgspec.Struct, frozen=True):
    """A policy asked to leave the job alone until `until` (epoch seconds)."""

    reason: str
    until: float


class Raised(msgspec.Struct, frozen=True, omit_defaults=True):
    """An alert that was raised, by policy and key, when (epoch seconds). `webhook` has not heard of it yet."""

    key: str
    reason: str
    message: str
    at: float
    webhook: str = ""


class Ledger(msgspec.Struct, frozen=True, kw_only=True):
    """Our entries of `status.controlledResources`.

    `targets` None means that a Restarting job restarts whole; a tuple (possibly empty) names what goes. `counted` says
    which pods, by task and index ranges, the stored counts hold: one that is missing later was evicted. It is None on a
    job whose status Volcano wrote. `leaving`, in the same form, are pods of the job's version that somebody else is
    deleting: once they are gone they were evicted, even if nobody saw them go. `generation` is that of the newest spec
    that the policies were told of. `overrides` are the resources that they gave to tasks, `alerts` what they raised.
    """

    command: str = ""
    delayed: tuple[Delayed, ...] = ()
    targets: tuple[Target, ...] | None = None
    counted: dict[str, str] | None = None
    leaving: dict[str, str] = {}
    hold: Hold | None = None
    generation: int | None = None
    overrides: tuple[TaskOverride, ...] = ()
    alerts: tuple[Raised, ...] = ()


_KEYS: tuple[tuple[str, str, Any], ...] = (
    (names.PENDING_ACTION, "delayed", tuple[Delayed, ...]),
    (TARGETS, "targets", tuple[Target, ...] | None),
    (COUNTED, "counted", dict[str, str] | None),
    (LEAVING, "leaving", dict[str, str]),
    (HOLD, "hold", Hold | None),
    (GENERATION, "generation", int | None),
    (names.OVERRIDES, "overrides", tuple[TaskOverride, ...]),
    (names.ALERTS, "alerts", tuple[Raised, ...]),
)
KEYS = frozenset({names.ACCEPTED_COMMAND, *(key for key, _, _ in _KEYS)})


def read(status: JobStatus) -> Ledger:
    """Our entries; one that somebody garbled counts as absent."""
    stored = status.controlled_resources
    fields: dict[str, Any] = {"command": stored.get(names.ACCEPTED_COMMAND, "")}
    for key, field, kind in _KEYS:
        if key in stored:
            try:
                fields[field] = msgspec.json.decode(stored[key], type=kind)
            except msgspec.DecodeError:
                continue
    return Ledger(**fields)


def has_times(status: JobStatus) -> bool:
    """Whether anything is stored that waits for a time."""
    return names.PENDING_ACTION in status.controlled_resources or HOLD in status.controlled_resources


def write(ledger: Ledger) -> dict[str, str]:
    """The entries as they are stored; what is empty is left out."""
    stored = {names.ACCEPTED_COMMAND: ledger.command} if ledger.command else {}
    empty = Ledger()
    for key, field, _ in _KEYS:
        value = getattr(ledger, field)
        if value != getattr(empty, field):
            stored[key] = msgspec.json.encode(value).decode()
    return stored
