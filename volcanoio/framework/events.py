"""Events: everything the engine ever learns, in the order it learned it.

Two closed families share the observations of API objects: ControllerEvent and SchedulerEvent (`scheduling_events`).
`seq` is the event's place in its process's order, `at` the time the process gave it (epoch seconds), `cause` the seq of
the event that led to it, 0 for one from outside. Following causes ends at an external event.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Any, TypeAlias

import msgspec

from volcanoio.framework.decisions import Alert, Annotate, Decision
from volcanoio.framework.lifecycle import Roster
from volcanoio.model.base import ApiObject


class Event(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """Base of all events; the bus stamps seq and at when it takes one in."""

    seq: int = 0
    at: float = 0.0
    cause: int = 0


class Change(StrEnum):
    """What happened to an object, as the informer's cache saw it."""

    APPEARED = "appeared"
    CHANGED = "changed"
    GONE = "gone"


class Observed(Event, frozen=True, kw_only=True):
    """An object appeared, changed or is gone; `object` is its newest known state.

    `resource` is `Kind.resource` (such as `jobs.batch.volcano.sh`). Watch events and responses to our own writes arrive
    here alike, and of two versions of one uid only the higher one does. `previous` is what the cache held before, None
    when it appeared.
    """

    resource: str
    change: Change
    object: Any
    previous: Any = None

    @property
    def obj(self) -> ApiObject:
        """The object, typed."""
        assert isinstance(self.object, ApiObject)
        return self.object


class Synced(Event, frozen=True, kw_only=True):
    """All of a resource was listed: what is not in the cache does not exist. Appears once per (re)list."""

    resource: str


class Relisting(Event, frozen=True, kw_only=True):
    """The watch of a resource was lost; until the next Synced nothing is decided from absence."""

    resource: str


class EffectSucceeded(Event, frozen=True, kw_only=True):
    """An effect was carried out. `object` is the response's object (an ApiObject of its kind), where there is one."""

    controller: str
    key: str
    effect_id: int
    object: Any = None

    @property
    def obj(self) -> ApiObject | None:
        """The object, typed."""
        assert self.object is None or isinstance(self.object, ApiObject)
        return self.object


class EffectFailed(Event, frozen=True, kw_only=True):
    """An effect was refused (403, 404, 409, 422, …) or given up; later stages of its step were dropped.

    `code` is the HTTP status, 0 when the outcome stayed unknown; `reason` and `message` are the Status' own.
    `dropped` are the ids of effects that were not sent because of it.
    """

    controller: str
    key: str
    effect_id: int
    code: int
    reason: str = ""
    message: str = ""
    dropped: tuple[int, ...] = ()


class TimerFired(Event, frozen=True, kw_only=True):
    """A timer a reducer asked for is due."""

    controller: str
    key: str
    name: str


class Answered(Event, frozen=True, kw_only=True):
    """The lifecycle policies answered a question; `policy` is the one that decided ("" if all abstained).

    `decision` is Abstain, Act, Hold or Override; `asides` are what policies on the way said beside it, each with the
    policy's name. `faults` names policies that raised, answered nonsense or overran their limit, and why.
    """

    controller: str
    key: str
    question: int
    decision: Decision
    policy: str = ""
    faults: tuple[tuple[str, str], ...] = ()
    asides: tuple[tuple[str, Alert | Annotate], ...] = ()


class PoliciesLoaded(Event, frozen=True, kw_only=True):
    """The lifecycle policies in force are these from now on: the first event of a process, and one at each reload."""

    roster: Roster


class Notified(Event, frozen=True, kw_only=True):
    """A Notify effect came to its end: `delivered`, or given up because of `problem`."""

    controller: str
    key: str
    notice: str
    delivered: bool
    problem: str = ""


ControllerEvent: TypeAlias = (
    Observed | Synced | Relisting | EffectSucceeded | EffectFailed | TimerFired | Answered | PoliciesLoaded | Notified
)
