"""Effects: requests of a reducer to the runtime. Each is idempotent by name or precondition; each outcome is an event.

A reducer returns *stages*: the effects of one stage run in parallel, and the next stage starts only when all effects of
the previous one succeeded. The first stage of anything destructive is the status write that records the intent. Writes
are JSON merge patches (RFC 7386): `merge_diff` computes one, `apply_merge_patch` applies one.
"""

from enum import StrEnum
from typing import Any, Self, TypeAlias

import msgspec

from volcanoio.framework.decisions import Wake
from volcanoio.framework.lifecycle import LifecycleEvent
from volcanoio.model.base import ApiObject, Manifest, ObjectReference
from volcanoio.model.kinds import Kind, object_reference


class PatchType(StrEnum):
    """The media type of a patch."""

    MERGE = "application/merge-patch+json"
    JSON = "application/json-patch+json"
    STRATEGIC = "application/strategic-merge-patch+json"


class EffectBase(msgspec.Struct, frozen=True, kw_only=True, tag=True, tag_field="effect"):
    """Base of all effects. The host sets `id`; the tag field is `effect`, because two effects have a field `type`."""

    id: int = 0


class Create(EffectBase, frozen=True, kw_only=True):
    """Create an object. 409 AlreadyExists is an EffectFailed: the reducer decides whether that is a success.

    `fill` names a generator of secret material (`ssh-keypair`) that runs just before the request is sent, so that no
    key passes through the engine or the journal.
    """

    resource: str
    manifest: Manifest
    fill: str = ""


class Patch(EffectBase, frozen=True, kw_only=True):
    """Patch an object or its subresource, with uid and resourceVersion as preconditions where given.

    A newer Patch of the same object and subresource replaces an older one that was not sent yet.
    """

    resource: str
    namespace: str
    name: str
    patch: Any
    subresource: str = ""
    type: PatchType = PatchType.MERGE
    uid: str = ""
    resource_version: str = ""

    @classmethod
    def of(cls, resource: str, obj: ApiObject, patch: Any, *, at_version: bool = False, **options: Any) -> Self:
        """Return the patch of an observed object, by its uid; with `at_version` only of the observed version."""
        return cls(patch=patch, **_target(resource, obj, at_version=at_version), **options)


class Delete(EffectBase, frozen=True, kw_only=True):
    """Delete the object with this uid, and this resourceVersion if given; any other is a 409.

    404 counts as success. `grace` is in seconds, None for the object's own grace period.
    """

    resource: str
    namespace: str
    name: str
    uid: str
    grace: int | None = None
    propagation: str = "Background"
    resource_version: str = ""

    @classmethod
    def of(cls, resource: str, obj: ApiObject, *, at_version: bool = False, **options: Any) -> Self:
        """Return the deletion of an observed object, by its uid; with `at_version` only of the observed version."""
        return cls(**_target(resource, obj, at_version=at_version), **options)


def _target(resource: str, obj: ApiObject, *, at_version: bool) -> dict[str, Any]:
    meta = obj.metadata
    target = {"resource": resource, "namespace": meta.namespace, "name": meta.name, "uid": meta.uid}
    return {**target, "resource_version": meta.resource_version} if at_version else target


class Record(EffectBase, frozen=True, kw_only=True):
    """Write a Kubernetes Event: best effort, aggregated, never retried and without an outcome event.

    `component` is the reporting component, "" for the process's own.
    """

    regarding: ObjectReference
    type: str
    reason: str
    message: str
    component: str = ""


def record_event(kind: Kind, obj: ApiObject, reason: str, message: str, *, type_: str = "Normal") -> Record:
    """Return the effect that writes a Kubernetes Event on an object; `type_` is Normal or Warning."""
    return Record(regarding=object_reference(kind, obj), type=type_, reason=reason, message=message)


class Measurement(StrEnum):
    """What a Measure does to its series; see `framework.probe.Probe`."""

    COUNT = "count"
    GAUGE = "gauge"
    OBSERVE = "observe"
    FORGET = "forget"


class Measure(EffectBase, frozen=True, kw_only=True):
    """Report a value to the process's metrics: best effort and without an outcome event.

    `name` is exported unchanged. `value` is counted, set or observed, `times` times for a histogram; FORGET drops the
    series with these `labels`.
    """

    measurement: Measurement
    name: str
    labels: dict[str, str] = {}
    value: float = 1.0
    times: int = 1


class StartTimer(EffectBase, frozen=True, kw_only=True):
    """Raise TimerFired(name) for this key at `due` (epoch seconds), replacing an older timer of that name.

    With `wake` it fires early, some 20 ms after one of these objects changed, so that several changes are handled
    together.
    """

    name: str
    due: float
    wake: tuple[Wake, ...] = ()


class StopTimer(EffectBase, frozen=True, kw_only=True):
    """Cancel a timer."""

    name: str


class Ask(EffectBase, frozen=True, kw_only=True):
    """Call the lifecycle policies for an event; the outcome is Answered with this effect's `question`."""

    question: int
    event: LifecycleEvent
    deadline: float = 0.0


class Notify(EffectBase, frozen=True, kw_only=True):
    """POST `body` as JSON to `url`, with back-off until it answers 2xx or `until` (epoch seconds) has passed.

    The outcome is Notified with this `notice`; a second Notify of a notice that is in flight for the key is ignored.
    """

    notice: str
    url: str
    body: Manifest
    until: float


class CheckEndpoint(EffectBase, frozen=True, kw_only=True):
    """Probe `host` and `port` once: GET `path` over HTTP, or only connect when `path` is "".

    The outcome is EffectSucceeded for a status of 200 to 399, else EffectFailed with the HTTP status, 0 without an
    answer within `timeout` seconds. `check` identifies the probe within the key; `pod` is the uid of the pod that has
    the address, if any.
    """

    check: str
    host: str
    port: int
    pod: str = ""
    path: str = ""
    headers: dict[str, str] = {}
    timeout: float = 5.0


LocalEffect: TypeAlias = StartTimer | StopTimer | Ask | Notify | CheckEndpoint
"""Effects that the controllers' host carries out itself."""
Effect: TypeAlias = Create | Patch | Delete | Record | Measure | LocalEffect
Stages: TypeAlias = tuple[tuple[Effect, ...], ...]


def merge_diff(before: Manifest, after: Manifest) -> Manifest:
    """Return the JSON merge patch (RFC 7386) that turns `before` into `after`; {} when they are equal."""
    patch: Manifest = {}
    for name in sorted({*before, *after}):
        old, new = before.get(name), after.get(name)
        if name not in after:
            patch[name] = None
        elif isinstance(old, dict) and isinstance(new, dict):
            if nested := merge_diff(old, new):
                patch[name] = nested
        elif old != new or name not in before:
            patch[name] = new
    return patch


def apply_merge_patch(target: Any, patch: Any) -> Any:
    """Return the merged document; an object `target` is changed in place."""
    if not isinstance(patch, dict):
        return patch
    if not isinstance(target, dict):
        target = {}
    for key, value in patch.items():
        if value is None:
            target.pop(key, None)
        elif isinstance(value, dict):
            target[key] = apply_merge_patch(target.get(key), value)
        else:
            target[key] = value
    return target
