"""`Operator`: a `Controller` of which only the plan is left to write.

The plan is level-triggered: it sees the object, what it owns and what is stored, and says what is to be written now.
It is asked again after every change, but not while writes of its own are under way, and after a refusal only later.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable
from functools import partial
from typing import Any, ClassVar, Generic, TypeVar

import msgspec
from msgspec.structs import replace

from volcanoio.framework.controller import Input, Reference, Rule, Step, View
from volcanoio.framework.effects import Create, Delete, Effect, Patch, StartTimer
from volcanoio.framework.events import Change, ControllerEvent, EffectFailed, EffectSucceeded, Observed, TimerFired
from volcanoio.framework.operators.objects import applied
from volcanoio.framework.operators.parts import Parts, owner_key
from volcanoio.model.base import ApiObject, Manifest
from volcanoio.model.kinds import Kind
from volcanoio.model.references import owner_reference

Object = TypeVar("Object", bound=ApiObject)
RETRY = "operator/retry"
LONGEST_BACKOFF = 60.0
"""Seconds."""
_READ = ("get", "list", "watch")


class Standing(msgspec.Struct, Generic[Object], frozen=True):
    """An operator's state of one key: the object, and how its writes fare.

    `problem` is what was said of the last one that was refused, "" once a whole plan was carried out; `failures` counts
    refusals until then. Nothing is planned before `retry_at` (epoch seconds). `troubled`: one of the plan under way was
    refused.
    """

    subject: Object | None = None
    problem: str = ""
    failures: int = 0
    retry_at: float = 0.0
    troubled: bool = False


class Operator(ABC, Generic[Object]):
    """Makes what objects of `kind` need. `owns` are the kinds it makes, `looks_up` those it only reads.

    What it makes names the object as its controller (`apply` sees to that). Deleting the object is left to
    Kubernetes' garbage collector, which follows these references.
    """

    name: ClassVar[str]
    kind: ClassVar[Kind]
    owns: ClassVar[tuple[Kind, ...]] = ()
    looks_up: ClassVar[tuple[Kind, ...]] = ()

    @abstractmethod
    def plan(self, parts: Parts[Object], view: View) -> Iterable[Iterable[Effect | None]]:
        """The stages due now, nothing when all is as it should be; a None stands for no effect.

        Effects of one stage run in parallel; the next stage only if all of it succeeded, so what tells of problems
        belongs into the first. Pure: no I/O, no clock (`view.now`), no randomness. To be asked again at a time, add
        StartTimer.
        """

    def apply(self, parts: Parts[Object], kind: Kind, manifest: Manifest) -> Create | Patch | None:
        """Create an object that the subject controls, in its namespace, or patch what differs; None when it is so.

        The manifest's metadata needs a name; labels and annotations follow it, too. Leave alone what may not be
        changed, such as a pod that is there.
        """
        meta, subject = manifest["metadata"], parts.subject
        owned = {**meta, "ownerReferences": [owner_reference(self.kind, subject)]}
        if kind.namespaced:
            owned.setdefault("namespace", subject.metadata.namespace)
        return applied(kind, {**manifest, "metadata": owned}, parts.get(kind, meta["name"]))

    @property
    def inputs(self) -> tuple[Input, ...]:
        """The kind, and what its objects own."""
        owned = partial(_owner_keys, self.kind)
        return (Input(self.kind, _own_key), *(Input(kind, owned) for kind in self.owns))

    @property
    def references(self) -> tuple[Reference, ...]:
        """What plans look up."""
        return tuple(map(Reference, self.looks_up))

    @property
    def rules(self) -> tuple[Rule, ...]:
        """The RBAC that follows from the kinds."""
        kind = self.kind
        return (
            Rule(kind.group, (kind.plural,), (*_READ, "patch")),
            Rule(kind.group, (f"{kind.plural}/status",), ("patch",)),
            Rule(kind.group, (f"{kind.plural}/finalizers",), ("update",)),
            *(Rule(each.group, (each.plural,), (*_READ, "create", "patch", "delete")) for each in self.owns),
            *(Rule(each.group, (each.plural,), _READ) for each in self.looks_up),
            Rule("", ("events",), ("create", "patch")),
        )

    def start(self, key: str) -> Standing[Object]:  # noqa: ARG002 - the same for every key
        """Nothing is known."""
        return Standing()

    def reduce(self, state: Standing[Object], event: ControllerEvent, view: View) -> Step[Standing[Object]]:
        """Fold one event, then plan, unless writes are under way or a refusal is waited for."""
        writing = any(isinstance(effect, Create | Patch | Delete) for effect in view.in_flight.values())
        match event:
            case Observed(resource=resource, object=obj) if resource == self.kind.resource:
                if obj.metadata.key == view.key:
                    state = replace(state, subject=None if event.change is Change.GONE else obj)
            case EffectSucceeded() if state.problem and not writing and not state.troubled:
                state = replace(state, failures=0, problem="")
            case EffectFailed():
                return _refused(state, event, view.now)
            case TimerFired(name=name) if name == RETRY:
                state = replace(state, retry_at=0.0)
            case _:
                pass
        subject = state.subject
        if subject is None:
            return Step(None)
        if not view.synced or writing or view.now < state.retry_at or subject.metadata.deletion_timestamp is not None:
            return Step(state)
        planned = self.plan(Parts(subject, view.lookup, state.problem), view)
        stages = (tuple(effect for effect in _listed(stage) if effect is not None) for stage in planned)
        due = tuple(stage for stage in stages if stage)
        return Step(replace(state, troubled=False) if due and state.troubled else state, due)


def _listed(stage: Any) -> Iterable[Effect | None]:
    """What a plan gave as a stage: anybody's plan, and a single effect without brackets is easily written."""
    if isinstance(stage, Iterable):
        return stage
    msg = f"plan gave {type(stage).__name__} where a list of effects is due; write yield [...], or return [[...]]"
    raise TypeError(msg)


def _own_key(obj: ApiObject) -> Iterable[str]:
    return (obj.metadata.key,)


def _owner_keys(primary: Kind, obj: ApiObject) -> Iterable[str]:
    key = owner_key(primary, obj)
    return (key,) if key else ()


def _refused(state: Standing[Object], event: EffectFailed, now: float) -> Step[Standing[Object]]:
    """Later and later; soon when it was but overtaken by another's write."""
    failures = state.failures + 1
    due = now + (0.2 if event.code == 409 else min(2.0 ** (failures - 1), LONGEST_BACKOFF))
    state = replace(state, failures=failures, retry_at=due, problem=event.message, troubled=True)
    return Step(state, ((StartTimer(name=RETRY, due=due),),))
