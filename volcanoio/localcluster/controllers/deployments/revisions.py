"""Which ReplicaSet is the newest, what each revision is called, and what a ReplicaSet takes over of its Deployment."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from volcanoio.localcluster.controllers.deployments.sizes import DESIRED, MAXIMUM
from volcanoio.localcluster.controllers.hashing import short_hash
from volcanoio.localcluster.controllers.kinds import Workload
from volcanoio.model.base import Manifest

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
    """Oldest first."""
    return sorted(sets, key=lambda one: (one.metadata.creation_timestamp or "", one.metadata.name))


def newest_of(deployment: Workload, sets: Sequence[Workload]) -> Workload | None:
    """The ReplicaSet of the Deployment's template, the oldest where several are."""
    wanted = _bare(deployment.spec.get("template") or {})
    return next((one for one in by_age(sets) if _bare(one.spec.get("template") or {}) == wanted), None)


def _bare(template: Mapping[str, Any]) -> Manifest:
    """A template without the label that tells ReplicaSets apart."""
    meta = {key: value for key, value in (template.get("metadata") or {}).items() if value is not None}
    labels = {key: value for key, value in (meta.pop("labels", None) or {}).items() if key != HASH}
    return {**template, "metadata": {**meta, "labels": labels}}


def revision(obj: Workload) -> int:
    """The number of a revision; 0 where there is none."""
    text = obj.metadata.annotations.get(REVISION, "")
    return int(text) if text.isdigit() else 0


def template_hash(deployment: Workload) -> str:
    """The hash of the Deployment's template; another one after each collision of names."""
    return short_hash(deployment.spec.get("template") or {}, deployment.status.get("collisionCount"))


def taken_over(deployment: Workload) -> dict[str, str]:
    """The Deployment's annotations that its newest ReplicaSet has, too."""
    return {key: value for key, value in deployment.metadata.annotations.items() if key not in _NOT_COPIED}


def renumbered(newest: Workload, number: int) -> dict[str, str]:
    """The annotations by which a ReplicaSet becomes revision `number`, if it is not that or later already."""
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
