"""`Operator`: the short way to write a controller that creates objects for the objects of a kind.

Only `plan` has to be written. It receives the object and those it owns (`Parts`), and returns what to write now, with
`create_or_patch`, `patch_status`, `record_event` and the other functions of this module. As a `Reconciler` it is
level-triggered: it runs again after every change, but not while its own writes are in flight. After a refused write all
but the object's status waits for the end of a back-off.
"""

from abc import abstractmethod
from collections.abc import Iterable, Mapping
from typing import Any, ClassVar, Generic, TypeVar, cast

import msgspec

from volcanoio.framework.backoff import Backoff
from volcanoio.framework.controller import Rule, View
from volcanoio.framework.effects import Create, Delete, Effect, Patch, record_event
from volcanoio.framework.events import Observed
from volcanoio.framework.objects import Objects
from volcanoio.framework.reconciler import NO_CHANGES, READ, Plan, Reconciler, ReconcileView, Write, WriteFailure
from volcanoio.model.base import ApiObject, Manifest
from volcanoio.model.kinds import Kind, object_reference, owner_reference
from volcanoio.model.times import rfc3339

Object = TypeVar("Object", bound=ApiObject)


class Parts(Generic[Object]):
    """The `subject` of a plan, and the objects that it controls.

    `problem` is the message of the last refused write, "" once a whole plan was carried out.
    """

    def __init__(self, subject: Object, objects: Objects, problem: str = "") -> None:
        self.subject = subject
        self.problem = problem
        self._objects = objects
        self._owned: dict[str, dict[str, ApiObject]] = {}

    def get(self, kind: Kind, name: str) -> ApiObject | None:
        """Return the object of that kind and name that the subject owns, None if there is none.

        An object of an earlier subject with the same name does not count.
        """
        return self._of(kind).get(name)

    def all(self, kind: Kind) -> list[ApiObject]:
        """Return all objects of a kind that the subject owns, by name."""
        return list(self._of(kind).values())

    def _of(self, kind: Kind) -> dict[str, ApiObject]:
        if (objects := self._owned.get(kind.resource)) is None:
            owned = self._objects.controlled(kind, self.subject.metadata.uid, ApiObject)
            objects = self._owned[kind.resource] = {obj.metadata.name: obj for obj in owned}
        return objects


def owner_key(primary: Kind, obj: ApiObject) -> str:
    """Return the key of the primary object that controls an object, "" if no object of that kind does."""
    owner = obj.metadata.controller
    if owner is None or (owner.api_version, owner.kind) != (primary.api_version, primary.kind):
        return ""
    return f"{obj.metadata.namespace}/{owner.name}" if primary.namespaced else owner.name


_NOT_CONTENT = ("apiVersion", "kind", "metadata", "status")


def create_or_patch(kind: Kind, manifest: Manifest, existing: ApiObject | None) -> Create | Patch | None:
    """Return the effect that creates an object, or patches the labels, annotations and content of an `existing` one.

    None if nothing differs. Fields that are not in the manifest stay as they are, and so do fields that the kind's
    Struct does not read (most of a Pod).
    """
    if existing is None:
        return Create(resource=kind.resource, manifest=manifest)
    wanted = msgspec.to_builtins(msgspec.convert(manifest, kind.type, strict=False))
    have = msgspec.to_builtins(existing)
    content = {key: value for key, value in manifest.items() if key not in _NOT_CONTENT}
    patch = differences(content, wanted, have)
    marks = {key: manifest.get("metadata", {}).get(key, {}) for key in ("labels", "annotations")}
    if meta := differences(marks, wanted.get("metadata", {}), have.get("metadata", {})):
        patch["metadata"] = meta
    return Patch.of(kind.resource, existing, patch) if patch else None


def patch_status(kind: Kind, obj: ApiObject, wanted: Manifest) -> Patch | None:
    """Return the effect that writes these fields of the status; None if nothing differs.

    A field that is None is removed. The write is refused with 409 if the object has changed since it was observed.
    """
    have = msgspec.to_builtins(obj).get("status", {})
    given = {key: value for key, value in wanted.items() if value is not None}
    read = msgspec.to_builtins(msgspec.convert({"status": given}, kind.type, strict=False)).get("status", {})
    patch = differences(given, read, have) | {key: None for key in wanted if key not in given and key in have}
    if not patch:
        return None
    return msgspec.structs.replace(
        Patch.of(kind.resource, obj, {"status": patch}),
        subresource="status" if kind.status_subresource else "",
        resource_version=obj.metadata.resource_version,
    )


def delete(kind: Kind, obj: ApiObject) -> Delete | None:
    """Return the effect that deletes this object, by uid; None if it is being deleted already."""
    return None if obj.metadata.deletion_timestamp is not None else Delete.of(kind.resource, obj)


def set_condition(  # noqa: PLR0913 - the fields of a condition
    conditions: Iterable[Mapping[str, Any]], type_: str, holds: bool, reason: str, message: str = "", *, now: float
) -> list[Manifest]:
    """Return the conditions, sorted by type, with this one set.

    `lastTransitionTime` changes only when the condition's status changes. Pass `view.now`.
    """
    by_type = {str(each.get("type")): dict(each) for each in conditions}
    before = by_type.get(type_, {})
    verdict = "True" if holds else "False"
    since = before.get("lastTransitionTime") if before.get("status") == verdict else None
    by_type[type_] = {
        "type": type_, "status": verdict, "reason": reason, "message": message,
        "lastTransitionTime": since or rfc3339(now),
    }  # fmt: skip
    return [by_type[name] for name in sorted(by_type)]


def differences(given: Manifest, wanted: Manifest, have: Manifest) -> Manifest:
    """Return the merge patch of the fields in `given` that differ from the object.

    `wanted` and `have` are as decoded by the kind's Struct and written without defaults. A field in neither is at its
    default or unknown to the Struct, and is skipped.
    """
    patch: Manifest = {}
    for key, value in given.items():
        if key not in wanted and key not in have:
            continue
        want, has = wanted.get(key, value), have.get(key)
        if isinstance(value, dict) and isinstance(want, dict) and isinstance(has, dict):
            if nested := differences(value, want, has):
                patch[key] = nested
        elif want != has:
            patch[key] = value
    return patch


_BACKOFF = Backoff(base=1.0, cap=60.0)
_CONFLICT = 409
_CONFLICT_DELAY = 0.2
"""Seconds until a plan is repeated after a conflict."""


class Operator(Reconciler, Generic[Object]):
    """Creates what objects of `kind` need. `owns` are the kinds it creates, `looks_up` those it only reads.

    What it creates has the object as its controller reference (`apply` sets it). When the object is deleted,
    Kubernetes' garbage collector follows these references.
    """

    kind: ClassVar[Kind]
    owns: ClassVar[tuple[Kind, ...]] = ()
    looks_up: ClassVar[tuple[Kind, ...]] = ()

    @abstractmethod
    def plan(self, parts: Parts[Object], view: View) -> Iterable[Iterable[Effect | None]]:
        """Return the stages due now, nothing if the objects are as desired; None is ignored.

        Effects of one stage run in parallel; the next stage runs only if all of it succeeded, so writes that report
        problems belong in the first. Pure: no I/O, no clock (use `view.now`), no randomness. Add StartTimer to be
        called again at a time.
        """

    def apply(self, parts: Parts[Object], kind: Kind, manifest: Manifest) -> Create | Patch | None:
        """Return the effect that creates an object that the subject controls, or patches what differs.

        None if nothing differs. The object is in the subject's namespace. The manifest's metadata needs a name; labels
        and annotations are applied too. For objects that may not be changed, such as pods, test
        `parts.get(kind, name) is None` first.
        """
        meta, subject = manifest["metadata"], parts.subject
        owned = {**meta, "ownerReferences": [owner_reference(self.kind, subject)]}
        if kind.namespaced:
            owned.setdefault("namespace", subject.metadata.namespace)
        return create_or_patch(kind, {**manifest, "metadata": owned}, parts.get(kind, meta["name"]))

    @property
    def primary(self) -> Kind:  # type: ignore[override]  # nothing assigns it
        """The kind whose objects are reconciled."""
        return self.kind

    @property
    def reads(self) -> tuple[Kind, ...]:  # type: ignore[override]
        """The kinds that it owns or looks up."""
        return (*self.owns, *self.looks_up)

    @property
    def rules(self) -> tuple[Rule, ...]:
        """The RBAC rules that follow from the kinds."""
        kind = self.kind
        return (
            Rule(kind.group, (kind.plural,), (*READ, "patch")),
            Rule(kind.group, (f"{kind.plural}/status",), ("patch",)),
            Rule(kind.group, (f"{kind.plural}/finalizers",), ("update",)),
            *(Rule(each.group, (each.plural,), (*READ, "create", "patch", "delete")) for each in self.owns),
            *(Rule(each.group, (each.plural,), READ) for each in self.looks_up),
            Rule("", ("events",), ("create", "patch")),
        )

    def keys(self, event: Observed, objects: Objects) -> Iterable[str]:
        """Return the keys to reconcile: the object itself, or the owner of an owned one.

        Objects that a plan looked up need no key: their changes repeat the plan.
        """
        del objects
        if event.resource == self.kind.resource:
            yield event.obj.metadata.key
        if event.resource in {kind.resource for kind in self.owns}:
            for obj in (event.previous, event.obj):
                if obj is not None and (key := owner_key(self.kind, obj)):
                    yield key

    def reconcile(self, key: str, view: ReconcileView) -> Plan:
        """Return the plan for an object that is not being deleted; during a back-off only the writes of its status."""
        subject, failure = cast("Object | None", view.objects.by_key(self.kind).get(key)), view.failure
        if subject is None or subject.metadata.deletion_timestamp is not None:
            return NO_CHANGES
        if view.is_backing_off and (failure is None or self._is_status_patch(failure.effect)):
            return NO_CHANGES
        planned = self.plan(Parts(subject, view.objects, "" if failure is None else failure.message), view)
        stages = (tuple(Write(each) for each in _listed(stage) if each is not None) for stage in planned)
        if view.is_backing_off:
            stages = (tuple(each for each in stage if self._is_status_patch(each.effect)) for stage in stages)
        return Plan(tuple(stages))

    def _is_status_patch(self, effect: Effect) -> bool:
        return isinstance(effect, Patch) and effect.resource == self.kind.resource and effect.patch.keys() == {"status"}

    def retry_delay(self, failures: int, refused: WriteFailure) -> float:
        """Return the back-off in seconds; a conflict is retried soon."""
        return _CONFLICT_DELAY if refused.code == _CONFLICT else _BACKOFF.delay(failures)


def _listed(stage: Any) -> Iterable[Effect | None]:
    """Return a stage of a plan; raises TypeError for a single effect, an easy mistake in third-party plans."""
    if isinstance(stage, Iterable):
        return stage
    msg = f"plan gave {type(stage).__name__} instead of a list of effects; write yield [...], or return [[...]]"
    raise TypeError(msg)


__all__ = [
    "Operator",
    "Parts",
    "create_or_patch",
    "delete",
    "object_reference",
    "owner_reference",
    "patch_status",
    "record_event",
    "set_condition",
]
