"""The status of ReplicaSets and ReplicationControllers (Kubernetes: calculateStatus in replica_set_utils.go)."""

from __future__ import annotations

from collections.abc import Sequence

from volcanoio.framework.effects import Create
from volcanoio.localcluster.controllers.conditions import find, with_condition, without_condition
from volcanoio.localcluster.controllers.frame.contract import View
from volcanoio.localcluster.controllers.kinds import REPLICATION_CONTROLLER, Workload
from volcanoio.localcluster.controllers.pods import available_at, ready
from volcanoio.model.base import Manifest
from volcanoio.model.core import Pod
from volcanoio.model.kinds import POD, Kind

_FAILURE = "ReplicaFailure"


def status_of(kind: Kind, owner: Workload, living: Sequence[Pod], terminating: int, view: View) -> Manifest:
    """The status as it should be; what is zero is left out, as the API server's encoding leaves it out."""
    template = (owner.spec.get("template") or {}).get("metadata") or {}
    wanted = (template.get("labels") or {}).items()
    min_ready = float(owner.spec.get("minReadySeconds") or 0)
    status: Manifest = {"replicas": len(living)}
    available = 0
    for pod in living:
        at = available_at(pod, min_ready)
        available += at is not None and at <= view.now
    counts = {
        "fullyLabeledReplicas": sum(1 for pod in living if wanted <= pod.metadata.labels.items()),
        "readyReplicas": sum(1 for pod in living if ready(pod)),
        "availableReplicas": available,
    }
    status.update({name: count for name, count in counts.items() if count})
    if kind is not REPLICATION_CONTROLLER:
        status["terminatingReplicas"] = terminating
    if owner.metadata.generation:
        status["observedGeneration"] = owner.metadata.generation
    if conditions := _conditions(owner, view):
        status["conditions"] = conditions
    return status


def _conditions(owner: Workload, view: View) -> list[Manifest]:
    known: list[Manifest] = owner.status.get("conditions") or []
    trouble = view.trouble
    if trouble is None or trouble.effect.resource != POD.resource:
        return without_condition(known, _FAILURE)
    if find(known, _FAILURE) is not None:
        return known
    reason = "FailedCreate" if isinstance(trouble.effect, Create) else "FailedDelete"
    return with_condition(known, _FAILURE, True, reason, trouble.message, view.now, update=False)


def next_availability(owner: Workload, living: Sequence[Pod], view: View) -> float | None:
    """When the next ready pod becomes available."""
    min_ready = float(owner.spec.get("minReadySeconds") or 0)
    if not min_ready:
        return None
    moments = [at for pod in living if (at := available_at(pod, min_ready)) is not None and at > view.now]
    return min(moments, default=None)
