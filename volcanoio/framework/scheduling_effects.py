"""What the scheduler asks of the edge: binds and evictions; status writes and Events are `framework.effects`."""

from __future__ import annotations

from typing import TypeAlias

import msgspec

from volcanoio.framework.effects import Create, EffectBase, Patch, Record


class BindRequest(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """One pod to one node, with annotations sent along (device plugins)."""

    uid: str
    namespace: str
    name: str
    node: str
    annotations: dict[str, str] = {}


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


SchedulerEffect: TypeAlias = BindBatch | Evict | Patch | Create | Record
