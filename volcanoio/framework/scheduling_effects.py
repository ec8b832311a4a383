"""Effects of the scheduler: binds and evictions; status writes and Events are in `framework.effects`."""

from typing import Any, TypeAlias

import msgspec

from volcanoio.framework.effects import Create, EffectBase, Patch, PatchType, Record
from volcanoio.model.base import Manifest


class PreBindStep(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """One step before a pod's bind: write to an object, then wait until it matches a pattern.

    `create` is the object to create first, unless one exists that matches `holds`; it is deleted when the bind fails.
    `patch` ({}: nothing is written) is sent under the uid and, where given, the resourceVersion. With `before`, the
    object is read first: the step fails unless it matches that pattern, and the patch is sent under the resourceVersion
    that was read, so that only one of several clients gets a lock. `undo` reverts it when the bind fails, unless the
    object then matches `keeps` or does not match `holds` (by default `patch`). Both are of `patch_type`, merge or
    strategic merge. `before`, `until`, `holds`, `keeps` and those in `fails` are patterns: an object matches when it
    has all their fields with these values; True matches any value that is not empty, None a missing field, and a list
    matches one that has an entry for each of its patterns. The step waits for `until` ({}: it does not) for at most
    `timeout` seconds, and fails at once when the object is deleted, replaced, no longer matches `holds`, or matches one
    of `fails`, whose keys are the errors.
    """

    resource: str
    name: str
    namespace: str = ""
    uid: str = ""
    resource_version: str = ""
    subresource: str = ""
    create: Manifest = {}
    patch_type: PatchType = PatchType.MERGE
    patch: Manifest = {}
    before: Manifest = {}
    undo: Manifest = {}
    until: Manifest = {}
    holds: Manifest = {}
    keeps: Manifest = {}
    fails: dict[str, Manifest] = {}
    timeout: float = 600.0


class BindRequest(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """The bind of one pod to one node, with annotations to send along (for device plugins).

    `prebind` are the steps before it, in order: the first bind of a batch waits for the steps of all its binds.
    """

    uid: str
    namespace: str
    name: str
    node: str
    annotations: dict[str, str] = {}
    prebind: tuple[PreBindStep, ...] = ()


class BindBatch(EffectBase, frozen=True, kw_only=True):
    """All binds of one committed statement: a gang is sent as one batch. `group` is the PodGroup's `namespace/name`."""

    group: str
    cycle: int
    binds: tuple[BindRequest, ...]


class Evict(EffectBase, frozen=True, kw_only=True):
    """Evict a pod (condition DisruptionTarget, then delete by uid); `reason` is the action."""

    group: str
    uid: str
    namespace: str
    name: str
    node: str
    reason: str


class Question(EffectBase, frozen=True, kw_only=True):
    """A JSON body to post to `url` for a plugin, answered within `timeout` seconds (see `sessionview`).

    `key` identifies it among the plugin's questions: equal keys share one answer. `default` is the answer in offline
    runs.
    """

    plugin: str
    key: str
    url: str
    body: Any
    timeout: float = 1.0
    default: Any = None


SchedulerEffect: TypeAlias = BindBatch | Evict | Patch | Create | Record | Question
