"""The PodDisruptionBudget controller: keeps the status from which the API server grants evictions.

Kubernetes: pkg/controller/disruption.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from volcanoio.framework.effects import Record
from volcanoio.framework.events import Observed
from volcanoio.framework.objects import Objects
from volcanoio.framework.reconciler import NO_CHANGES, Plan, ReconcileView
from volcanoio.localcluster.apiserver.apimachinery.selectors import matches_label_selector
from volcanoio.localcluster.controllers.contract import ClusterController
from volcanoio.localcluster.controllers.objects import (
    BUDGET,
    DEPLOYMENT,
    REPLICA_SET,
    REPLICATION_CONTROLLER,
    STATEFUL_SET,
    ConditionUpdate,
    Workload,
    condition_of,
    count,
    scaled,
)
from volcanoio.localcluster.controllers.ownership import status_stages
from volcanoio.localcluster.controllers.pods import ready, terminating
from volcanoio.model.base import ApiObject, Manifest
from volcanoio.model.core import Pod
from volcanoio.model.kinds import POD, object_reference
from volcanoio.model.times import epoch, rfc3339

_SCALED = {kind.kind: kind for kind in (REPLICA_SET, REPLICATION_CONTROLLER, STATEFUL_SET)}
_ALLOWED = "DisruptionAllowed"
DELETION_TIMEOUT = 120.0
"""Seconds after which a pod that still exists after a granted eviction counts again."""


class _NoScaleError(Exception):
    """The expected number of pods cannot be determined; the text contains the reason."""


class BudgetController(ClusterController):
    """Controller that keeps the status of PodDisruptionBudgets: healthy and expected pods."""

    name = "controllermanager"
    primary = BUDGET
    reads = (POD, REPLICA_SET, REPLICATION_CONTROLLER, STATEFUL_SET, DEPLOYMENT)

    def keys(self, event: Observed, objects: Objects) -> Iterable[str]:
        """Return the budget; for a pod those that select it.

        For a scaled workload all of its namespace.
        """
        obj = event.obj
        if event.resource == BUDGET.resource:
            return (obj.metadata.key,)
        budgets = objects.namespace(BUDGET, obj.metadata.namespace, Workload)
        if not budgets:
            return ()
        if isinstance(obj, Workload):
            before = event.previous.spec.get("replicas") if isinstance(event.previous, Workload) else None
            return () if before == obj.spec.get("replicas") else [one.metadata.key for one in budgets]
        return [
            one.metadata.key
            for one in budgets
            if selects(one, obj) or (event.previous is not None and selects(one, event.previous))
        ]

    def reconcile(self, key: str, view: ReconcileView) -> Plan:
        """Return the write of the desired status."""
        budget = view.objects.get(BUDGET, key, Workload)
        if budget is None:
            return NO_CHANGES
        pods = [pod for pod in view.objects.namespace(POD, budget.metadata.namespace, Pod) if selects(budget, pod)]
        try:
            expected, desired = self._expected(budget, pods, view.objects)
        except _NoScaleError as error:
            return self._failed(budget, str(error), view)
        granted, late = _granted(budget, pods, view.now)
        healthy = sum(ready(pod) and not terminating(pod) and pod.metadata.name not in granted for pod in pods)
        allowed = max(healthy - desired, 0) if expected > 0 else 0
        status: Manifest = {
            "currentHealthy": healthy,
            "desiredHealthy": desired,
            "expectedPods": expected,
            "disruptionsAllowed": allowed,
            "observedGeneration": budget.metadata.generation,
        }
        if granted:
            status["disruptedPods"] = granted
        reason = "SufficientPods" if allowed else "InsufficientPods"
        status["conditions"] = _conditions(
            budget, ConditionUpdate(_ALLOWED, bool(allowed), reason), budget.metadata.generation, view.now
        )
        stages = status_stages(BUDGET, budget, status)
        events: list[Record] = []
        if stages and not pods and not view.is_backing_off:
            events.append(_event(budget, "Normal", "NoPods", "No matching pods found"))
        events += [
            Record(
                regarding=object_reference(POD, pod),
                type="Warning",
                reason="NotDeleted",
                message=f"Pod was expected by PDB {key} to be deleted but it wasn't",
            )
            for pod in late
        ]
        moments = [moment for text in granted.values() if (moment := epoch(text)) is not None]
        return Plan(stages, tuple(events), min(moments) + DELETION_TIMEOUT if moments else None)

    def _failed(self, budget: Workload, text: str, view: ReconcileView) -> Plan:
        known = count(budget.status.get("observedGeneration"))
        conditions = _conditions(budget, ConditionUpdate(_ALLOWED, False, "SyncFailed", text), known, view.now)
        status = {**budget.status, "disruptionsAllowed": 0, "conditions": conditions}
        stages = status_stages(BUDGET, budget, status)
        message = f"Failed to calculate the number of expected pods: {text}"
        events = (_event(budget, "Warning", "CalculateExpectedPodCountFailed", message),) if stages else ()
        return Plan(stages, events)

    def _expected(self, budget: Workload, pods: Sequence[Pod], objects: Objects) -> tuple[int, int]:
        """Return the expected number of pods, and how many of them must be healthy."""
        spec = budget.spec
        if spec.get("maxUnavailable") is not None:
            expected = self._scale(pods, objects)
            return expected, max(expected - scaled(spec["maxUnavailable"], expected, up=True), 0)
        least = spec.get("minAvailable")
        if least is None:
            return 0, 0
        if isinstance(least, int):
            return len(pods), least
        expected = self._scale(pods, objects)
        return expected, scaled(least, expected, up=True)

    def _scale(self, pods: Sequence[Pod], objects: Objects) -> int:
        """Return the sum of replicas over the controllers of the pods."""
        scales: dict[str, int] = {}
        for pod in pods:
            controller = pod.metadata.controller
            if controller is None or controller.uid in scales:
                continue
            kind = _SCALED.get(controller.kind)
            key = f"{pod.metadata.namespace}/{controller.name}"
            owner = objects.get(kind, key, Workload) if kind is not None else None
            if owner is None or owner.metadata.uid != controller.uid:
                text = f'found no controllers for pod "{pod.metadata.name}"'
                raise _NoScaleError(text)
            above = owner.metadata.controller
            if above is not None and above.kind == DEPLOYMENT.kind:
                key = f"{pod.metadata.namespace}/{above.name}"
                deployment = objects.get(DEPLOYMENT, key, Workload)
                if deployment is not None:
                    scales[above.uid] = count(deployment.spec.get("replicas"), 1)
                    continue
            scales[controller.uid] = count(owner.spec.get("replicas"), 1)
        return sum(scales.values())


def selects(budget: Workload, obj: ApiObject) -> bool:
    """Return whether a budget is for the pod; an empty selector is for all."""
    return matches_label_selector(budget.spec.get("selector"), obj.metadata.labels)


def _granted(budget: Workload, pods: Sequence[Pod], now: float) -> tuple[dict[str, str], list[Pod]]:
    """Return pods with a granted eviction that still exist, with its time.

    And those past the timeout.
    """
    known: dict[str, str] = budget.status.get("disruptedPods") or {}
    granted: dict[str, str] = {}
    late: list[Pod] = []
    for pod in pods:
        text = known.get(pod.metadata.name)
        if text is None or terminating(pod):
            continue
        if (epoch(text) or 0.0) + DELETION_TIMEOUT < now:
            late.append(pod)
        else:
            granted[pod.metadata.name] = text
    return granted, late


def _conditions(budget: Workload, update: ConditionUpdate, generation: int, now: float) -> list[Manifest]:
    known: list[Manifest] = budget.status.get("conditions") or []
    before = condition_of(known, _ALLOWED)
    status = str(update.status)
    same = before is not None and before.get("status") == status
    entry: Manifest = {
        "type": _ALLOWED,
        "status": status,
        "observedGeneration": generation,
        "lastTransitionTime": before["lastTransitionTime"] if same and before is not None else rfc3339(now),
        "reason": update.reason,
        "message": update.message,
    }
    return [*(one for one in known if one is not before), entry]


def _event(budget: Workload, type_: str, reason: str, message: str) -> Record:
    return Record(regarding=object_reference(BUDGET, budget), type=type_, reason=reason, message=message)
