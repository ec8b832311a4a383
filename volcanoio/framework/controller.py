"""`Controller`: a reducer for a kind. The built-in controllers implement it, and so can third parties.

The host provides informers, ordering by key, tracking of in-flight effects, retries, timers, the journal and metrics.
The controller provides a pure `reduce(state, event, view) -> (state, stages)`. Keys are independent; the events of one
key are processed in order.

Controllers are found by entry point (group `volcanoio.controllers`) or as files of a `--controllers-dir`. A class or
function is registered that returns a `Controller`; if it takes an argument, it is called with a `ControllerContext`.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Generic, Protocol, TypeVar

import msgspec

from volcanoio.framework.effects import Effect, Stages
from volcanoio.framework.events import ControllerEvent
from volcanoio.framework.jobs import JobPlugin
from volcanoio.framework.lifecycle import PolicyRegistry
from volcanoio.framework.objects import Objects
from volcanoio.model import names
from volcanoio.model.base import ApiObject
from volcanoio.model.kinds import Kind

State = TypeVar("State")


@dataclass(frozen=True, slots=True)
class Input:
    """Objects that belong to keys: every change of one is an event for each key that `keys` returns.

    `keys` maps an object to controller keys, usually `namespace/name` of the primary object. Selectors narrow the
    watch, in the API server's syntax.
    """

    kind: Kind
    keys: Callable[[ApiObject], Iterable[str]]
    label_selector: str = ""
    field_selector: str = ""


@dataclass(frozen=True, slots=True)
class Reference:
    """A kind that keys only look up (queues, priority classes).

    A change of an object wakes the keys that looked it up last.
    """

    kind: Kind


@dataclass(frozen=True, slots=True)
class Rule:
    """One RBAC rule that a component needs; with `names` for these objects only. The roles are generated from these."""

    group: str
    resources: tuple[str, ...]
    verbs: tuple[str, ...]
    names: tuple[str, ...] = ()


class Lookup(Protocol):
    """Read access to the reference objects, as of the event that is being reduced."""

    def get(self, kind: Kind, name: str, namespace: str = "") -> ApiObject | None:
        """Return the object, or None. The calling key is woken when it appears, changes or is deleted."""
        ...

    def all(self, kind: Kind) -> Iterable[ApiObject]:
        """Return all objects of a reference kind, sorted by namespace and name."""
        ...

    def for_key(self, kind: Kind) -> Iterable[ApiObject]:
        """Return the objects of an input that belong to the calling key, sorted by namespace and name.

        For objects that are needed too rarely to be kept in the key's state. A `Reconciler` reads `View.objects`.
        """
        ...


class View(msgspec.Struct, frozen=True):
    """What a reducer receives beside its state: the key, the event's time, in-flight effects and the references.

    `synced` is False until every input and reference was listed; before that the host folds observations, but the
    controller must not return stages that decide from absence. `policies` are the lifecycle policies in force; a change
    of them is not an event of a key. `ended` is the effect whose outcome the event is. `objects` are the cached
    objects of all declared kinds, for a `Reconciler` only: reading them wakes nothing.
    """

    key: str
    now: float
    synced: bool
    lookup: Lookup
    in_flight: Mapping[int, Effect] = msgspec.field(default_factory=dict)
    policies: PolicyRegistry = PolicyRegistry()
    ended: Effect | None = None
    objects: Objects | None = None


class Step(msgspec.Struct, Generic[State], frozen=True):
    """The result of a reduction: the new state (None: forget the key) and the stages to carry out."""

    state: State | None
    stages: Stages = ()


class ShardingSettings(msgspec.Struct, frozen=True, kw_only=True):
    """Settings of the sharding controller: its ConfigMap, and what holds where that leaves something out.

    `scheduler_configs` are schedulers as NAME:TYPE:MINCPU:MAXCPU:WARMUP:MINNODES:MAXNODES. Shards are computed every
    `sync_period` seconds, with `node_events` also soon after nodes changed.
    """

    configmap: str = "volcano-sharding-configmap"
    configmap_namespace: str = "volcano-system"
    scheduler_configs: tuple[str, ...] = (
        "volcano:volcano:0.0:0.6:false:2:100",
        "agent-scheduler:agent:0.7:1.0:true:2:100",
    )
    sync_period: float = 60.0
    node_events: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class ControllerContext:
    """The settings of this process that a controller is constructed with.

    `scheduler_names` are the schedulers whose pods Volcano manages; with `inherit_owner_annotations` PodGroups take
    annotations from the workloads that own their pods. `job_plugins` are factories by name.
    """

    scheduler_names: tuple[str, ...] = (names.SCHEDULER_NAME,)
    inherit_owner_annotations: bool = True
    job_plugins: Mapping[str, Callable[..., JobPlugin]] = field(default_factory=dict)
    sharding: ShardingSettings = field(default_factory=ShardingSettings)


class Controller(Protocol[State]):
    """One controller. `name` is unique and stable: it is used in events, metrics and the journal."""

    @property
    def name(self) -> str:
        """The name, such as `job-controller`."""
        ...

    @property
    def inputs(self) -> tuple[Input, ...]:
        """The kinds it watches; the first is its primary kind."""
        ...

    @property
    def references(self) -> tuple[Reference, ...]:
        """The kinds it looks up."""
        ...

    @property
    def rules(self) -> tuple[Rule, ...]:
        """The RBAC rules it needs."""
        ...

    def start(self, key: str) -> State:
        """Return the state of a new key."""
        ...

    def reduce(self, state: State, event: ControllerEvent, view: View) -> Step[State]:
        """Fold one event of one key. Pure: the same state, event and view give the same step.

        Once the last input has synced, the host sends Synced (resource "") to every existing key.
        """
        ...
