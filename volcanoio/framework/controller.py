"""`Controller`: a reducer for a kind. Ours are written on it, and so can be anyone's.

The host gives a controller informers, per-key order, in-flight bookkeeping, retries, timers, journal and metrics. The
controller gives a pure `reduce(state, event, view) -> (state, stages)`. Keys run in parallel, events of one in order.

Controllers are found by entry point (group `volcanoio.controllers`) or as files of a `--controllers-dir`, ours as
anybody's. What is registered is a class, or a function, that gives a `Controller`; it is called with a
`ControllerContext` if it takes an argument, and else without.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Generic, Protocol, TypeVar

import msgspec

from volcanoio.framework.effects import Effect, Stages
from volcanoio.framework.events import ControllerEvent
from volcanoio.framework.jobs import JobPlugin
from volcanoio.framework.lifecycle import Roster
from volcanoio.model import names
from volcanoio.model.base import ApiObject
from volcanoio.model.kinds import Kind

State = TypeVar("State")


@dataclass(frozen=True, slots=True)
class Input:
    """Objects that belong to keys: every change of one is an event of each key that `keys` names.

    `keys` maps an object to the controller keys (usually `namespace/name` of the primary object) it concerns.
    Selectors narrow what is watched, as the API server understands them.
    """

    kind: Kind
    keys: Callable[[ApiObject], Iterable[str]]
    label_selector: str = ""
    field_selector: str = ""


@dataclass(frozen=True, slots=True)
class Reference:
    """Objects that keys only look up (a queue, a priority class). A change wakes the keys that looked it up last."""

    kind: Kind


@dataclass(frozen=True, slots=True)
class Rule:
    """One RBAC rule a controller needs; the deployment manifests are generated from these."""

    group: str
    resources: tuple[str, ...]
    verbs: tuple[str, ...]


class Lookup(Protocol):
    """Read access to the references, a fold of the same events."""

    def get(self, kind: Kind, name: str, namespace: str = "") -> ApiObject | None:
        """The object, or None. The asking key is woken when it appears, changes or goes."""
        ...

    def all(self, kind: Kind) -> Iterable[ApiObject]:
        """All objects of a reference kind, sorted by namespace and name."""
        ...

    def mine(self, kind: Kind) -> Iterable[ApiObject]:
        """The objects of an input that belong to the asking key, sorted by namespace and name: what a state need not
        hold if it is seldom asked for.
        """
        ...


class View(msgspec.Struct, frozen=True):
    """What a reducer sees beside its state: the key, the event's time, what is in flight, and the references.

    `synced` is False until every input and reference was listed; before that the host folds observations but the
    controller must return no stages that decide from absence. `roster` says which lifecycle policies are in force: a
    change of it is no event of a key.
    """

    key: str
    now: float
    synced: bool
    lookup: Lookup
    in_flight: Mapping[int, Effect] = msgspec.field(default_factory=dict)
    roster: Roster = Roster()


class Step(msgspec.Struct, Generic[State], frozen=True):
    """What a reduction gives: the new state (None: forget the key) and the stages to carry out."""

    state: State | None
    stages: Stages = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class ControllerContext:
    """What a controller is made with: how this process was asked to behave.

    `scheduler_names` are the schedulers whose pods are Volcano's; with `inherit_owner_annotations` PodGroups take
    annotations from the workloads that own their pods. `job_plugins` are factories by name.
    """

    scheduler_names: tuple[str, ...] = (names.SCHEDULER_NAME,)
    inherit_owner_annotations: bool = True
    job_plugins: Mapping[str, Callable[..., JobPlugin]] = field(default_factory=dict)


class Controller(Protocol[State]):
    """One controller. `name` is unique and stable: it stands in events, metrics and the journal."""

    @property
    def name(self) -> str:
        """Such as `job-controller`."""
        ...

    @property
    def inputs(self) -> tuple[Input, ...]:
        """What it watches; the first is its primary kind."""
        ...

    @property
    def references(self) -> tuple[Reference, ...]:
        """What it looks up."""
        ...

    @property
    def rules(self) -> tuple[Rule, ...]:
        """The RBAC it needs."""
        ...

    def start(self, key: str) -> State:
        """The state of a key nothing is known about."""
        ...

    def reduce(self, state: State, event: ControllerEvent, view: View) -> Step[State]:
        """Fold one event of one key. Pure: the same state, event and view give the same step.

        After the last input synced, the host raises Synced (resource "") once for every known key.
        """
        ...
