"""The status of Deployments: counts, and the conditions Available, Progressing and ReplicaFailure."""

from __future__ import annotations

from collections.abc import Sequence

from volcanoio.localcluster.controllers.conditions import find, with_condition, without_condition
from volcanoio.localcluster.controllers.deployments.sizes import Limits, observed, size
from volcanoio.localcluster.controllers.frame.contract import View
from volcanoio.localcluster.controllers.kinds import Workload
from volcanoio.localcluster.controllers.quantities import count
from volcanoio.model.base import Manifest
from volcanoio.model.times import epoch, rfc3339

_NO_DEADLINE = 2**31 - 1
_AVAILABLE, _PROGRESSING, _FAILURE = "Available", "Progressing", "ReplicaFailure"
_COMPLETE, _TIMED_OUT = "NewReplicaSetAvailable", "ProgressDeadlineExceeded"
_PAUSED, _RESUMED = "DeploymentPaused", "DeploymentResumed"


def has_deadline(deployment: Workload) -> bool:
    """Whether progress is watched."""
    deadline = deployment.spec.get("progressDeadlineSeconds")
    return deadline is not None and int(deadline) != _NO_DEADLINE


def counted(
    deployment: Workload, limits: Limits, newest: Workload | None, sets: Sequence[Workload], now: float
) -> Manifest:
    """Counts and Available; the other conditions as they are."""
    available = sum(observed(one, "availableReplicas") for one in sets)
    counts = {
        "observedGeneration": deployment.metadata.generation,
        "replicas": sum(observed(one, "replicas") for one in sets),
        "updatedReplicas": observed(newest, "replicas") if newest is not None else 0,
        "readyReplicas": sum(observed(one, "readyReplicas") for one in sets),
        "availableReplicas": available,
        "unavailableReplicas": max(sum(map(size, sets)) - available, 0),
    }
    status: Manifest = {name: number for name, number in counts.items() if number}
    if all("terminatingReplicas" in one.status for one in sets):
        status["terminatingReplicas"] = sum(observed(one, "terminatingReplicas") for one in sets)
    if deployment.status.get("collisionCount") is not None:
        status["collisionCount"] = deployment.status["collisionCount"]
    conditions: list[Manifest] = list(deployment.status.get("conditions") or ())
    if available >= limits.replicas - limits.unavailable:
        told = (True, "MinimumReplicasAvailable", "Deployment has minimum availability.")
    else:
        told = (False, "MinimumReplicasUnavailable", "Deployment does not have minimum availability.")
    status["conditions"] = with_condition(conditions, _AVAILABLE, *told, now, update=True)
    return status


def complete(deployment: Workload, status: Manifest) -> bool:
    """Whether all pods are of the newest template, and available."""
    wanted = count(deployment.spec.get("replicas"), 1)
    names = ("updatedReplicas", "replicas", "availableReplicas")
    return (
        all(count(status.get(name)) == wanted for name in names)
        and count(status.get("observedGeneration")) >= deployment.metadata.generation
    )


def with_progress(
    deployment: Workload, status: Manifest, newest: Workload | None, sets: Sequence[Workload], view: View
) -> Manifest:
    """The status with what is to be told of the rollout's progress and of ReplicaSets that cannot make pods."""
    conditions: list[Manifest] = status["conditions"]
    known = find(conditions, _PROGRESSING)
    name = f'ReplicaSet "{newest.metadata.name}"' if newest is not None else f'Deployment "{deployment.metadata.name}"'
    if not has_deadline(deployment):
        conditions = without_condition(conditions, _PROGRESSING)
    elif not _is_over(status, known):
        if complete(deployment, status):
            conditions = set_progress(conditions, True, _COMPLETE, f"{name} has successfully progressed.", view.now)
        elif _advanced(deployment.status, status):
            told = with_condition(
                without_condition(conditions, _PROGRESSING),
                _PROGRESSING, True, "ReplicaSetUpdated", f"{name} is progressing.", view.now, update=True,
            )  # fmt: skip
            if known is not None and known.get("status") == "True":
                told[-1]["lastTransitionTime"] = known["lastTransitionTime"]
            conditions = told
        elif (due := deadline_of(deployment, status)) is not None and due <= view.now:
            conditions = set_progress(conditions, False, _TIMED_OUT, f"{name} has timed out progressing.", view.now)
    failures = (find(one.status.get("conditions") or (), _FAILURE) for one in (*filter(None, (newest,)), *sets))
    failure = next(filter(None, failures), None)
    conditions = without_condition(conditions, _FAILURE)
    if failure is not None:
        moment = failure.get("lastTransitionTime") or rfc3339(view.now)
        conditions = [*conditions, {**failure, "lastUpdateTime": moment, "lastTransitionTime": moment}]
    return {**status, "conditions": conditions}


def set_progress(
    conditions: list[Manifest], status: bool | str, reason: str, message: str, now: float
) -> list[Manifest]:
    """The conditions with another Progressing."""
    return with_condition(conditions, _PROGRESSING, status, reason, message, now, update=True)


def paused_or_resumed(deployment: Workload, conditions: list[Manifest], now: float) -> list[Manifest]:
    """Progress is unknown while paused, and is measured anew afterwards."""
    known = find(conditions, _PROGRESSING)
    reason = known.get("reason") if known is not None else None
    if not has_deadline(deployment) or reason == _TIMED_OUT:
        return conditions
    paused = bool(deployment.spec.get("paused"))
    if paused and reason != _PAUSED:
        return set_progress(conditions, "Unknown", _PAUSED, "Deployment is paused", now)
    if not paused and reason == _PAUSED:
        return set_progress(conditions, "Unknown", _RESUMED, "Deployment is resumed", now)
    return conditions


def deadline_of(deployment: Workload, status: Manifest) -> float | None:
    """When (epoch seconds) the rollout counts as stuck unless it gets on; None when that is not to be watched."""
    known = find(status.get("conditions") or (), _PROGRESSING)
    if not has_deadline(deployment) or known is None or known.get("reason") in (_COMPLETE, _TIMED_OUT):
        return None
    since = epoch(known.get("lastUpdateTime"))
    return None if since is None else since + 1.0 + int(deployment.spec["progressDeadlineSeconds"])


def _is_over(status: Manifest, known: Manifest | None) -> bool:
    """Whether the rollout has been told complete and only pods come and go since."""
    whole = count(status.get("replicas")) == count(status.get("updatedReplicas"))
    return whole and known is not None and known.get("reason") == _COMPLETE


def _advanced(before: Manifest, after: Manifest) -> bool:
    def of(status: Manifest, name: str) -> int:
        return count(status.get(name))

    old_before = of(before, "replicas") - of(before, "updatedReplicas")
    old_after = of(after, "replicas") - of(after, "updatedReplicas")
    more = any(of(after, name) > of(before, name) for name in ("updatedReplicas", "readyReplicas", "availableReplicas"))
    return more or old_after < old_before
