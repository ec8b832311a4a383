"""Events of the scheduler's process: observations, outcomes of binds, and the openings and ends of cycles."""

from __future__ import annotations

from typing import Any, TypeAlias

from volcanoio.framework.events import EffectFailed, EffectSucceeded, Event, Observed, Relisting, Synced
from volcanoio.framework.scheduling_effects import SchedulerEffect


class BindOutcome(Event, frozen=True, kw_only=True):
    """What every outcome of a bind or eviction carries: the pod by uid, its PodGroup's key and the node."""

    group: str
    uid: str
    namespace: str
    name: str
    node: str


class BindDone(BindOutcome, frozen=True, kw_only=True):
    """The pod is bound to the node by us; its row waits for its own watch event."""


class BindRefused(BindOutcome, frozen=True, kw_only=True):
    """The server refused for good (a definite 4xx, or the pod is gone or bound elsewhere): the row is released."""

    code: int
    reason: str = ""
    message: str = ""


class BindUnknown(BindOutcome, frozen=True, kw_only=True):
    """Time-out, reset or 5xx: the row is kept. The binder asks the API server and follows up with Done or Refused."""

    message: str = ""


class EvictDone(BindOutcome, frozen=True, kw_only=True):
    """The pod's deletion was accepted; it is Releasing until it is gone."""


class EvictRefused(BindOutcome, frozen=True, kw_only=True):
    """The eviction failed for good: the task is what it was."""

    code: int
    message: str = ""


class FactsSaid(Event, frozen=True, kw_only=True):
    """A source said something: facts by key, None for one that holds no longer; `whole`: they are all there are."""

    source: str
    facts: dict[str, Any] = {}
    whole: bool = False


class AskAnswered(Event, frozen=True, kw_only=True):
    """What came back to a plugin's question: JSON, or `fault` says why nothing did."""

    plugin: str
    key: str
    value: Any = None
    fault: str = ""


class CycleOpened(Event, frozen=True, kw_only=True):
    """A cycle begins: every event with seq <= `upto` is folded. `seed` breaks ties, `now` is `at`.

    `period` is the schedule period in seconds; `answering`: questions of plugins are answered. So the opening holds
    all that a cycle is given beside the state.
    """

    cycle: int
    upto: int
    seed: int
    period: float = 1.0
    answering: bool = False


class Decided(Event, frozen=True, kw_only=True):
    """What a cycle decided since it last said so; it is being sent. A replay is compared with it."""

    cycle: int
    decisions: tuple[SchedulerEffect, ...]


class CycleClosed(Event, frozen=True, kw_only=True):
    """A cycle ended. `where` names the action at whose gang boundary the budget cut it, "" when it ran to its end.

    `boundaries` is at which of its gang boundaries (counted from 1) that was, 0 when it was not cut: a replay cuts at
    the same one. `fault` is what a plugin or action raised, which ended the cycle. `stopped` is at which checkpoint
    (counted from 1) the cycle was given up because the process ends, 0 when it was not.
    """

    cycle: int
    where: str = ""
    boundaries: int = 0
    fault: str = ""
    stopped: int = 0


class ConfigurationChanged(Event, frozen=True, kw_only=True):
    """A configuration took effect; `text` is the file, `plugins` name to origin (version or sha256).

    `sources` are the files of mounted plugins and actions by name: a replay runs these. `ignore_unavailable`: what is
    not available was left out.
    """

    text: str
    plugins: dict[str, str] = {}
    sources: dict[str, str] = {}
    ignore_unavailable: bool = False


SchedulerEvent: TypeAlias = (
    Observed
    | Synced
    | Relisting
    | BindDone
    | BindRefused
    | BindUnknown
    | EvictDone
    | EvictRefused
    | FactsSaid
    | AskAnswered
    | EffectSucceeded
    | EffectFailed
    | CycleOpened
    | Decided
    | CycleClosed
    | ConfigurationChanged
)
