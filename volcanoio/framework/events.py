"""Events: all input of the engine, in the order in which it was processed.

Two closed families share the observations of API objects: ControllerEvent and SchedulerEvent (`scheduling_events`).
`seq` is the event's number in its process, `at` the time of arrival (epoch seconds), `cause` the seq of the event that
led to it, 0 for an external one. Following causes ends at an external event.
"""

from enum import StrEnum
from typing import Any, TypeAlias

import msgspec

from volcanoio.framework.decisions import Alert, Annotate, Decision
from volcanoio.framework.lifecycle import PolicyRegistry
from volcanoio.model.base import ApiObject


class Event(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """Base of all events; the bus sets seq and at when the event is published."""

    seq: int = 0
    at: float = 0.0
    cause: int = 0


class Change(StrEnum):
    """What happened to an object, according to the informer's cache."""

    APPEARED = "appeared"
    CHANGED = "changed"
    GONE = "gone"


class Observed(Event, frozen=True, kw_only=True):
    """An object appeared, changed or was deleted; `object` is its latest known state.

    `resource` is `Kind.resource` (such as `jobs.batch.volcano.sh`). Watch events and responses to our own writes both
    arrive as Observed; of two versions of one uid only the newer one does. `previous` is the cached object before, None
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
    """A resource was listed completely: an object that is not in the cache does not exist. Sent once per list or
    relist.
    """

    resource: str


class Relisting(Event, frozen=True, kw_only=True):
    """The watch of a resource was lost; until the next Synced nothing is decided from absence."""

    resource: str


class EffectSucceeded(Event, frozen=True, kw_only=True):
    """An effect was carried out. `object` is the object of the response (an ApiObject), if there is one."""

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

    `code` is the HTTP status, 0 when the outcome is unknown; `reason` and `message` come from the Status. `dropped` are
    the ids of effects that were therefore not sent.
    """

    controller: str
    key: str
    effect_id: int
    code: int
    reason: str = ""
    message: str = ""
    dropped: tuple[int, ...] = ()


class TimerFired(Event, frozen=True, kw_only=True):
    """A timer of a reducer is due."""

    controller: str
    key: str
    name: str


class Answered(Event, frozen=True, kw_only=True):
    """The lifecycle policies answered a question; `policy` is the one that decided ("" if all abstained).

    `decision` is Abstain, Act, Hold or Override; `asides` are the alerts and annotations of the policies before it,
    each with the policy's name. `faults` lists policies that raised, returned an invalid decision or exceeded their
    limit, and why.
    """

    controller: str
    key: str
    question: int
    decision: Decision
    policy: str = ""
    faults: tuple[tuple[str, str], ...] = ()
    asides: tuple[tuple[str, Alert | Annotate], ...] = ()


class PoliciesLoaded(Event, frozen=True, kw_only=True):
    """These lifecycle policies are in force from now on: the first event of a process, and one at each reload."""

    roster: PolicyRegistry


class Notified(Event, frozen=True, kw_only=True):
    """A Notify effect ended: `delivered`, or given up because of `problem`."""

    controller: str
    key: str
    notice: str
    delivered: bool
    problem: str = ""


ControllerEvent: TypeAlias = (
    Observed | Synced | Relisting | EffectSucceeded | EffectFailed | TimerFired | Answered | PoliciesLoaded | Notified
)
