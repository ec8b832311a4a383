"""Effects: what a reducer asks the edge to do. Each is idempotent by name or precondition; each outcome is an event.

A reducer returns *stages*: the effects of one stage run in parallel, the next stage starts only when all of the one
before succeeded. The first stage of anything destructive is the status write that records the intent.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Any, TypeAlias

import msgspec

from volcanoio.framework.decisions import Wake
from volcanoio.framework.lifecycle import LifecycleEvent
from volcanoio.model.base import Manifest, ObjectReference


class PatchType(StrEnum):
    """How a patch is merged."""

    MERGE = "application/merge-patch+json"
    JSON = "application/json-patch+json"
    STRATEGIC = "application/strategic-merge-patch+json"


class EffectBase(msgspec.Struct, frozen=True, kw_only=True, tag=True, tag_field="effect"):
    """Base of all effects. `id` is given by the host; the tag is `effect`, as two effects have a `type`."""

    id: int = 0


class Create(EffectBase, frozen=True, kw_only=True):
    """Create an object. 409 AlreadyExists comes back as EffectFailed: the reducer decides whether that is success.

    `fill` names a generator of secret material that the edge runs just before sending (`ssh-keypair`), so that no key
    passes through the engine or the journal.
    """

    resource: str
    manifest: Manifest
    fill: str = ""


class Patch(EffectBase, frozen=True, kw_only=True):
    """Patch an object or its subresource, with uid and resourceVersion as preconditions where given.

    Updates of one object are a slot: a newer Patch of the same object and subresource replaces an unsent older one.
    """

    resource: str
    namespace: str
    name: str
    patch: Any
    subresource: str = ""
    type: PatchType = PatchType.MERGE
    uid: str = ""
    resource_version: str = ""


class Delete(EffectBase, frozen=True, kw_only=True):
    """Delete an object of that uid, and of that version where one is given; another is a 409.

    404 counts as success. `grace` in seconds, None for the object's own.
    """

    resource: str
    namespace: str
    name: str
    uid: str
    grace: int | None = None
    propagation: str = "Background"
    resource_version: str = ""


class Record(EffectBase, frozen=True, kw_only=True):
    """Write a Kubernetes Event: best effort, aggregated, never retried and without an outcome event.

    `component` is who says it, "" the process' own.
    """

    regarding: ObjectReference
    type: str
    reason: str
    message: str
    component: str = ""


class Measurement(StrEnum):
    """What a Measure does to its series; see `framework.probe.Probe`."""

    COUNT = "count"
    GAUGE = "gauge"
    OBSERVE = "observe"
    FORGET = "forget"


class Measure(EffectBase, frozen=True, kw_only=True):
    """Report a figure to the process' metrics: best effort and without an outcome event.

    `name` is exported as it stands. `value` is counted, set or observed, that `times` over for a histogram; FORGET
    drops the series that have these `labels`.
    """

    measurement: Measurement
    name: str
    labels: dict[str, str] = {}
    value: float = 1.0
    times: int = 1


class StartTimer(EffectBase, frozen=True, kw_only=True):
    """Raise TimerFired(name) for this key at `due` (epoch seconds); an older timer of that name is replaced.

    With `wake` it fires sooner, shortly (some 20 ms, so that changes are taken together) after one of these objects
    changed.
    """

    name: str
    due: float
    wake: tuple[Wake, ...] = ()


class StopTimer(EffectBase, frozen=True, kw_only=True):
    """Forget a timer."""

    name: str


class Ask(EffectBase, frozen=True, kw_only=True):
    """Ask the lifecycle policies about an event; the outcome is Answered with this effect's `question`."""

    question: int
    event: LifecycleEvent
    deadline: float = 0.0


class Notify(EffectBase, frozen=True, kw_only=True):
    """POST `body` as JSON to `url`, again with back-off until it answers 2xx or `until` (epoch seconds) has passed.

    The outcome is Notified with this `notice`; a Notify of a notice that is under way for the key changes nothing.
    """

    notice: str
    url: str
    body: Manifest
    until: float


class CheckEndpoint(EffectBase, frozen=True, kw_only=True):
    """Ask once whether something serves at `host` and `port`: GET `path` over HTTP, or connect only when that is "".

    EffectSucceeded when it does (a status of 200 to 399), else EffectFailed with the HTTP status, 0 without an answer
    within `timeout` seconds. `check` names the question among those of the key; `pod` is the uid of the pod whose
    address it is, if it is one's.
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
    """The JSON merge patch (RFC 7386) that turns `before` into `after`; {} when they are equal."""
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
