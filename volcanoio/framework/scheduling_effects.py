"""What the scheduler asks of the edge: binds and evictions; status writes and Events are `framework.effects`."""

from __future__ import annotations

from typing import Any, TypeAlias

import msgspec

from volcanoio.framework.effects import Create, EffectBase, Patch, Record
from volcanoio.model.base import Manifest


class PreBindStep(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """One step before a pod's bind: write to an object, then wait until it says what is wanted.

    `patch` is a merge patch ({}: nothing is written), sent under the uid and, where given, the resourceVersion; `undo`
    takes it back when the bind comes to nothing, unless the object says what `keeps` asks by then. `until`, `holds` and
    `keeps` are patterns: an object says what they ask when it has all their fields with these values, whatever else it
    has; True stands for any value but an empty one. The step waits for `until` ({}: it does not) for `timeout` seconds
    at most, and fails at once when the object is gone, is another or no longer says what `holds` asks.
    """

    resource: str
    name: str
    namespace: str = ""
    uid: str = ""
    resource_version: str = ""
    patch: Manifest = {}
    undo: Manifest = {}
    until: Manifest = {}
    holds: Manifest = {}
    keeps: Manifest = {}
    timeout: float = 600.0


class BindRequest(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """One pod to one node, with annotations sent along (device plugins).

    `prebind` are the steps before it, in order: the first bind of a batch waits for the steps of all its binds.
    """

    uid: str
    namespace: str
    name: str
    node: str
    annotations: dict[str, str] = {}
    prebind: tuple[PreBindStep, ...] = ()


class BindBatch(EffectBase, frozen=True, kw_only=True):
    """All binds of one committed statement: a gang goes out as one batch. `group` is the PodGroup's `ns/name`."""

    group: str
    cycle: int
    binds: tuple[BindRequest, ...]


class Evict(EffectBase, frozen=True, kw_only=True):
    """Evict a pod (condition DisruptionTarget, then delete with its uid) because of `reason` (the action)."""

    group: str
    uid: str
    namespace: str
    name: str
    node: str
    reason: str


class Question(EffectBase, frozen=True, kw_only=True):
    """A JSON body to post to `url` on behalf of a plugin, answered within `timeout` seconds (see `scheduling.asks`).

    `key` names it among the plugin's questions: equal keys have one answer. `default` is the answer where nobody asks.
    """

    plugin: str
    key: str
    url: str
    body: Any
    timeout: float = 1.0
    default: Any = None


SchedulerEffect: TypeAlias = BindBatch | Evict | Patch | Create | Record | Question
