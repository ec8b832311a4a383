"""What a controller is: keys in, a plan of writes out.

Level-triggered: a plan follows from what is there, not from what happened.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Protocol, TypeAlias

import msgspec

from volcanoio.framework.effects import Create, Delete, Patch, Record
from volcanoio.framework.events import Change, Observed
from volcanoio.localcluster.controllers.frame.tables import Tables
from volcanoio.model.base import ObjectReference
from volcanoio.model.kinds import Kind

BURST = 500
"""How many objects one plan creates or deletes at most (Kubernetes: BurstReplicas)."""


class Told(msgspec.Struct, frozen=True):
    """What is said in Events of a write: (reason, message) when it is done, and (reason, prefix) when it is refused."""

    regarding: ObjectReference
    done: tuple[str, str] | None = None
    refused: tuple[str, str] | None = None


class Write(msgspec.Struct, frozen=True):
    """One write and what is told of it."""

    effect: Create | Patch | Delete
    told: Told | None = None


Stage: TypeAlias = tuple[Write, ...]


class Plan(msgspec.Struct, frozen=True):
    """What is to be done: writes of a stage in parallel, a stage only if all before succeeded; Events at once.

    `again` is when (epoch seconds) the key is to be looked at though nothing changes. With `more` it is looked at again
    as soon as this is carried out and others had a turn: so a big key is done in pieces.
    """

    stages: tuple[Stage, ...] = ()
    events: tuple[Record, ...] = ()
    again: float | None = None
    more: bool = False


NOTHING = Plan()


@dataclass(frozen=True, slots=True)
class Trouble:
    """The last write of a key that was refused: HTTP status, reason and message, and what it was meant to do."""

    code: int
    reason: str
    message: str
    effect: Create | Patch | Delete


@dataclass(frozen=True, slots=True)
class View:
    """What a reconciler sees besides the key: the tables, the time, and how the last plan ended.

    While `held`, writes other than of status wait for the back-off of `trouble`. `suffix` gives the random end of a
    generated name.
    """

    tables: Tables
    now: float
    suffix: Callable[[], str]
    trouble: Trouble | None = None
    held: bool = False


class Defaults:
    """What most controllers say."""

    primary: Kind
    settles = 0.0
    every = 0.0

    def all_keys(self, tables: Tables, now: float) -> Iterable[str]:
        """As `Controller`: every object of the primary kind."""
        del now
        return sorted(tables.table(self.primary).objects)

    def wakes(self, event: Observed) -> bool:
        """As `Controller`: any object."""
        return event.change is not Change.GONE


class Controller(Protocol):
    """One controller. Nothing beyond `primary` is watched, and nothing is done, before a change of it `wakes`."""

    @property
    def name(self) -> str:
        """The component that its Events name, such as `replicaset-controller`."""
        ...

    @property
    def primary(self) -> Kind:
        """The kind it acts for."""
        ...

    @property
    def reads(self) -> tuple[Kind, ...]:
        """What else it reads and writes; watched from then on."""
        ...

    @property
    def settles(self) -> float:
        """Seconds after a change in which more changes are waited for."""
        ...

    @property
    def every(self) -> float:
        """Every how many seconds all keys are looked at though nothing changed; 0 for never."""
        ...

    def wakes(self, event: Observed) -> bool:
        """Whether a change of its primary kind gives it something to do; it is asked until one does."""
        ...

    def keys(self, event: Observed, tables: Tables) -> Iterable[str]:
        """The keys that a change concerns; the tables hold it already."""
        ...

    def all_keys(self, tables: Tables, now: float) -> Iterable[str]:
        """The keys to look at when everything was listed, and from time to time."""
        ...

    def reconcile(self, key: str, view: View) -> Plan:
        """What is to be done for a key. Pure."""
        ...


def in_slow_start(writes: Iterable[Write]) -> tuple[Stage, ...]:
    """Stages of 1, 2, 4, … writes: what is refused for a reason that holds for all is not tried by all."""
    left = list(writes)
    stages: list[Stage] = []
    size = 1
    while left:
        stages.append(tuple(left[:size]))
        left = left[size:]
        size *= 2
    return tuple(stages)
