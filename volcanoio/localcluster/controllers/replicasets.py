"""The controller of ReplicaSets and ReplicationControllers, and their status.

Kubernetes: pkg/controller/replicaset. The two kinds differ in a few names only.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from volcanoio.framework.effects import Create
from volcanoio.framework.events import Observed
from volcanoio.framework.objects import Objects
from volcanoio.framework.reconciler import NO_CHANGES, Plan, ReconcileView, Stage, Write, in_slow_start
from volcanoio.localcluster.controllers.contract import BURST, ClusterController, creating, deleting
from volcanoio.localcluster.controllers.objects import (
    REPLICA_SET,
    REPLICATION_CONTROLLER,
    ConditionUpdate,
    Workload,
    condition_of,
    with_condition,
    without_condition,
)
from volcanoio.localcluster.controllers.ownership import Candidates, affected_keys, claim, status_stages
from volcanoio.localcluster.controllers.pods import (
    active,
    available_at,
    deletion_order,
    finished,
    generated,
    pod_of,
    ready,
    terminating,
)
from volcanoio.model.base import Manifest
from volcanoio.model.core import Pod
from volcanoio.model.kinds import POD, Kind

_FAILURE = "ReplicaFailure"


def status_of(kind: Kind, owner: Workload, living: Sequence[Pod], terminating: int, view: ReconcileView) -> Manifest:
    """Return the desired status without zero counts, as the API server's encoding omits them."""
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


def _conditions(owner: Workload, view: ReconcileView) -> list[Manifest]:
    known: list[Manifest] = owner.status.get("conditions") or []
    failure = view.failure
    if failure is None or failure.effect.resource != POD.resource:
        return without_condition(known, _FAILURE)
    if condition_of(known, _FAILURE) is not None:
        return known
    reason = "FailedCreate" if isinstance(failure.effect, Create) else "FailedDelete"
    return with_condition(known, ConditionUpdate(_FAILURE, True, reason, failure.message), view.now)


def next_availability(owner: Workload, living: Sequence[Pod], view: ReconcileView) -> float | None:
    """Return when the next ready pod becomes available."""
    min_ready = float(owner.spec.get("minReadySeconds") or 0)
    if not min_ready:
        return None
    moments = [at for pod in living if (at := available_at(pod, min_ready)) is not None and at > view.now]
    return min(moments, default=None)


class ReplicaSetController(ClusterController):
    """Controller that keeps the number of pods that a ReplicaSet (or ReplicationController) specifies."""

    reads = (POD,)

    def __init__(self, kind: Kind = REPLICA_SET, name: str = "replicaset-controller") -> None:
        self.primary = kind
        self.name = name

    def keys(self, event: Observed, objects: Objects) -> Iterable[str]:
        """Return the set; for a pod its owner or possible owners."""
        if event.resource == self.primary.resource:
            return (event.obj.metadata.key,)
        sets = objects.namespace(self.primary, event.obj.metadata.namespace, Workload)
        return affected_keys(self.primary, sets, event.obj, event.previous) if sets else ()

    def reconcile(self, key: str, view: ReconcileView) -> Plan:
        """Adopt, create or delete pods, and update the status."""
        owner = view.objects.get(self.primary, key, Workload)
        if owner is None:
            return NO_CHANGES
        meta = owner.metadata
        orphans = [pod for pod in view.objects.orphans(POD, meta.namespace, Pod) if active(pod)]
        candidates = Candidates(POD, view.objects.controlled(POD, meta.uid, Pod), orphans)
        mine, claims = claim(owner, self.primary, candidates)
        if claims and not view.is_backing_off:
            return Plan((tuple(claims),))
        living = [pod for pod in mine if active(pod)]
        stages: tuple[Stage, ...] = ()
        if meta.deletion_timestamp is None and not view.is_backing_off:
            stages = self._managed(owner, living, view)
        going = [pod for pod in mine if terminating(pod) and not finished(pod)]
        status = status_of(self.primary, owner, living, len(going), view)
        stages = (*stages, *status_stages(self.primary, owner, status))
        return Plan(stages, requeue_at=next_availability(owner, living, view))

    def _managed(self, owner: Workload, living: Sequence[Pod], view: ReconcileView) -> tuple[Stage, ...]:
        missing = int(owner.spec.get("replicas", 1)) - len(living)
        if missing > 0:
            return in_slow_start(self._create(owner, view) for _ in range(min(missing, BURST)))
        if missing < 0:
            related = self._related(owner, view)
            surplus = deletion_order(living, related, view.now)[: min(-missing, BURST)]
            return (tuple(deleting(self.primary, owner, pod) for pod in surplus),)
        return ()

    def _related(self, owner: Workload, view: ReconcileView) -> dict[str, int]:
        """Return the number of running pods of the same controller on each node.

        The controller is a Deployment; pods of its other ReplicaSets count.
        """
        meta = owner.metadata
        controller = meta.controller
        uids = [meta.uid]
        if controller is not None:
            uids = [one.metadata.uid for one in view.objects.controlled(self.primary, controller.uid, Workload)]
        counts: dict[str, int] = {}
        for uid in uids:
            for pod in view.objects.controlled(POD, uid, Pod):
                if active(pod) and pod.spec.node_name:
                    counts[pod.spec.node_name] = counts.get(pod.spec.node_name, 0) + 1
        return counts

    def _create(self, owner: Workload, view: ReconcileView) -> Write:
        name = generated(owner.metadata.name, view.suffix())
        manifest = pod_of(owner.spec.get("template") or {}, self.primary, owner, name)
        return creating(self.primary, owner, manifest)
