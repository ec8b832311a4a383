"""What must survive us, kept on the Job: `status.controlledResources`, so that it moves with the counts in one write.

Volcano keeps delayed actions in memory and deletes a Command before it acts. Here phase, version, retry count, the
accepted Command and the delayed actions are one atomic status write: a process killed at any await finds either all of
it or nothing. `metadata.annotations` could not give that, as the status subresource ignores metadata.
"""

from __future__ import annotations

from typing import Any

import msgspec

from volcanoio.model import names
from volcanoio.model.batch import JobAction, JobStatus

TARGETS = "volcanoio.dev/restart-targets"
COUNTED = "volcanoio.dev/counted-pods"
LEAVING = "volcanoio.dev/leaving-pods"
HOLD = "volcanoio.dev/hold"
GENERATION = "volcanoio.dev/observed-generation"


class Delayed(msgspec.Struct, frozen=True, omit_defaults=True):
    """An action that waits for its time. `due` in epoch seconds; `cause` is the event's name."""

    action: JobAction
    cause: str
    due: float
    version: int
    task: str = ""
    pod: str = ""
    pod_uid: str = ""
    partition: str = ""


class Target(msgspec.Struct, frozen=True, omit_defaults=True):
    """Pods that a restart is about: of a task, of one of its partitions, or one pod by uid; `{}` is no pod at all."""

    task: str = ""
    partition: str = ""
    pod_uid: str = ""


class Leaving(msgspec.Struct, frozen=True, omit_defaults=True):
    """A pod that somebody else is deleting: when it is gone it was evicted, even if we did not see it go."""

    task: str
    pod: str
    uid: str
    version: int
    index: int | None = None
    partition: str = ""


class Hold(msgspec.Struct, frozen=True):
    """A policy asked to leave the job alone until `until` (epoch seconds)."""

    reason: str
    until: float


class Ledger(msgspec.Struct, frozen=True, kw_only=True):
    """Our entries of `status.controlledResources`.

    `targets` None means that a Restarting job restarts whole; a tuple (possibly empty) names what goes. `counted` says
    which pods, by task and index ranges, the stored counts hold: one that is missing later was evicted. It is None on a
    job whose status Volcano wrote. `generation` is that of the newest spec that the policies were told of.
    """

    command: str = ""
    delayed: tuple[Delayed, ...] = ()
    targets: tuple[Target, ...] | None = None
    counted: dict[str, str] | None = None
    leaving: tuple[Leaving, ...] = ()
    hold: Hold | None = None
    generation: int | None = None


_KEYS: tuple[tuple[str, str, Any], ...] = (
    (names.PENDING_ACTION, "delayed", tuple[Delayed, ...]),
    (TARGETS, "targets", tuple[Target, ...] | None),
    (COUNTED, "counted", dict[str, str] | None),
    (LEAVING, "leaving", tuple[Leaving, ...]),
    (HOLD, "hold", Hold | None),
    (GENERATION, "generation", int | None),
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
