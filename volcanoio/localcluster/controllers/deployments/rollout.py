"""Sizes and revisions of a Deployment's ReplicaSets: the arithmetic of rolling updates and of scaling. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from volcanoio.localcluster.controllers.controller_revisions import short_hash
from volcanoio.localcluster.controllers.objects import Workload, count, scaled
from volcanoio.model.base import Manifest

DESIRED = "deployment.kubernetes.io/desired-replicas"
MAXIMUM = "deployment.kubernetes.io/max-replicas"


@dataclass(frozen=True, slots=True)
class Limits:
    """Replicas of a Deployment, with maxSurge and maxUnavailable as counts."""

    replicas: int
    surge: int
    unavailable: int

    @property
    def maximum(self) -> int:
        """Maximum number of pods."""
        return self.replicas + self.surge


def is_recreate(deployment: Workload) -> bool:
    """Return whether the strategy is Recreate."""
    return (deployment.spec.get("strategy") or {}).get("type") == "Recreate"


def limits_of(deployment: Workload) -> Limits:
    """Return the limits; surge is rounded up, unavailability down.

    One may be unavailable if both are 0.
    """
    replicas = count(deployment.spec.get("replicas"), 1)
    if is_recreate(deployment):
        return Limits(replicas, 0, 0)
    rolling = (deployment.spec.get("strategy") or {}).get("rollingUpdate") or {}
    surge = scaled(rolling.get("maxSurge", "25%"), replicas, up=True)
    unavailable = scaled(rolling.get("maxUnavailable", "25%"), replicas, up=False)
    if not surge and not unavailable:
        unavailable = 1
    return Limits(replicas, surge, min(unavailable, replicas))


def size(replica_set: Workload) -> int:
    """Return the desired number of pods of a ReplicaSet."""
    return count(replica_set.spec.get("replicas"), 1)


def observed(replica_set: Workload, field: str) -> int:
    """Return a count of a ReplicaSet's status."""
    return count(replica_set.status.get(field))


def first_size(limits: Limits, others: Sequence[Workload], *, recreate: bool) -> int:
    """Return the initial size of a new ReplicaSet."""
    if recreate:
        return limits.replicas
    return max(0, min(limits.maximum - sum(map(size, others)), limits.replicas))


def rolled_up(limits: Limits, newest: Workload, others: Sequence[Workload]) -> int:
    """Return the size of the newest ReplicaSet in the next step of a rolling update."""
    now = size(newest)
    if now >= limits.replicas:
        return limits.replicas
    room = limits.maximum - now - sum(map(size, others))
    return now + min(max(room, 0), limits.replicas - now)


def rolled_down(limits: Limits, newest: Workload, old: Sequence[Workload]) -> dict[str, int]:
    """Return the changed sizes of old ReplicaSets in a rolling update's next step, by name.

    First go pods that are not available, as far as the newest's own unavailable ones leave room; then as many as
    are available beyond what must be. `old` comes oldest first.
    """
    needed = limits.replicas - limits.unavailable
    pending = size(newest) - observed(newest, "availableReplicas")
    spare = sum(map(size, old)) + size(newest) - needed - pending
    if spare <= 0:
        return {}
    sizes = {one.metadata.name: size(one) for one in old}
    for one in old:
        idle = max(sizes[one.metadata.name] - observed(one, "availableReplicas"), 0)
        cut = min(idle, spare)
        sizes[one.metadata.name] -= cut
        spare -= cut
    available = sum(observed(one, "availableReplicas") for one in (newest, *old))
    surplus = available - needed
    for one in old:
        cut = min(sizes[one.metadata.name], max(surplus, 0))
        sizes[one.metadata.name] -= cut
        surplus -= cut
    return {one.metadata.name: sizes[one.metadata.name] for one in old if sizes[one.metadata.name] != size(one)}


def proportional(limits: Limits, sets: Sequence[Workload], before: int) -> dict[str, int]:
    """Return the sizes of active ReplicaSets whose Deployment is scaled amid a rollout, by name.

    Each gets its share of what is to be added or taken, the largest the rest. `sets` comes oldest first; `before` is
    how many pods there are, for sets whose annotation does not say how many there might have been.
    """
    allowed = limits.maximum if limits.replicas else 0
    change = allowed - sum(map(size, sets))
    ages = {one.metadata.name: at for at, one in enumerate(sets)}
    direction = -1 if change > 0 else 1
    ordered = sorted(sets, key=lambda one: (-size(one), direction * ages[one.metadata.name]))
    sizes: dict[str, int] = {}
    given = 0
    for one in ordered:
        share = 0
        if change and change != given and size(one):
            wanted = _share(limits, one, before)
            share = min(wanted, change - given) if change > 0 else max(wanted, change - given)
        sizes[one.metadata.name] = size(one) + share
        given += share
    if change and ordered:
        largest = ordered[0].metadata.name
        sizes[largest] = max(sizes[largest] + change - given, 0)
    return sizes


def _share(limits: Limits, one: Workload, before: int) -> int:
    if not limits.replicas:
        return -size(one)
    stated = one.metadata.annotations.get(MAXIMUM, "")
    base = int(stated) if stated.isdigit() and int(stated) else before
    if not base:
        return 0
    return int(size(one) * limits.maximum / base + 0.5) - size(one)


def replicas_annotations(limits: Limits) -> Mapping[str, str]:
    """Return the annotations of a ReplicaSet from which scaling during a rollout is computed."""
    return {DESIRED: str(limits.replicas), MAXIMUM: str(limits.maximum)}


HASH = "pod-template-hash"
REVISION = "deployment.kubernetes.io/revision"
HISTORY = "deployment.kubernetes.io/revision-history"
_HISTORY_LENGTH = 2000
_NOT_COPIED = frozenset(
    {
        "kubectl.kubernetes.io/last-applied-configuration",
        REVISION,
        HISTORY,
        DESIRED,
        MAXIMUM,
        "deprecated.deployment.rollback.to",
    }
)


def by_age(sets: Sequence[Workload]) -> list[Workload]:
    """Return ReplicaSets, oldest first."""
    return sorted(sets, key=lambda one: (one.metadata.creation_timestamp or "", one.metadata.name))


def newest_of(deployment: Workload, sets: Sequence[Workload]) -> Workload | None:
    """Return the ReplicaSet of the Deployment's template, the oldest where several are."""
    wanted = _bare(deployment.spec.get("template") or {})
    return next((one for one in by_age(sets) if _bare(one.spec.get("template") or {}) == wanted), None)


def _bare(template: Mapping[str, Any]) -> Manifest:
    """Return a template without the hash label of its ReplicaSet."""
    meta = {key: value for key, value in (template.get("metadata") or {}).items() if value is not None}
    labels = {key: value for key, value in (meta.pop("labels", None) or {}).items() if key != HASH}
    return {**template, "metadata": {**meta, "labels": labels}}


def revision(obj: Workload) -> int:
    """Return the number of a revision; 0 where there is none."""
    text = obj.metadata.annotations.get(REVISION, "")
    return int(text) if text.isdigit() else 0


def template_hash(deployment: Workload) -> str:
    """Return the hash of the Deployment's template; another one after each collision of names."""
    return short_hash(deployment.spec.get("template") or {}, deployment.status.get("collisionCount"))


def taken_over(deployment: Workload) -> dict[str, str]:
    """Return the Deployment's annotations that its newest ReplicaSet has, too."""
    return {key: value for key, value in deployment.metadata.annotations.items() if key not in _NOT_COPIED}


def renumbered(newest: Workload, number: int) -> dict[str, str]:
    """Return the annotations that raise a ReplicaSet's revision to `number`."""
    before = revision(newest)
    if before >= number:
        return {}
    changed = {REVISION: str(number)}
    if REVISION in newest.metadata.annotations:
        past = [*filter(None, newest.metadata.annotations.get(HISTORY, "").split(",")), str(before)]
        while len(",".join(past)) > _HISTORY_LENGTH:
            del past[0]
        changed[HISTORY] = ",".join(past)
    return changed
