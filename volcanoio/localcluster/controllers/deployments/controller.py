"""The Deployment controller: its status conditions, and one step of the rollout per reconciliation.

The conditions are Available, Progressing and ReplicaFailure.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from volcanoio.framework.effects import Create, Delete, Patch
from volcanoio.framework.events import Change, Observed
from volcanoio.framework.objects import Objects
from volcanoio.framework.reconciler import NO_CHANGES, Plan, ReconcileView, Stage, Write, WriteEvents
from volcanoio.localcluster.controllers.contract import ClusterController
from volcanoio.localcluster.controllers.deployments import rollout
from volcanoio.localcluster.controllers.deployments.rollout import Limits, limits_of, observed, size
from volcanoio.localcluster.controllers.objects import (
    DEPLOYMENT,
    REPLICA_SET,
    ConditionUpdate,
    Workload,
    condition_of,
    count,
    with_condition,
    without_condition,
)
from volcanoio.localcluster.controllers.ownership import Candidates, affected_keys, claim, selector_of, status_stages
from volcanoio.localcluster.controllers.pods import finished
from volcanoio.model.base import Manifest
from volcanoio.model.core import Pod
from volcanoio.model.kinds import POD, object_reference, owner_reference
from volcanoio.model.times import epoch, rfc3339

_NO_DEADLINE = 2**31 - 1
_AVAILABLE, _PROGRESSING, _FAILURE = "Available", "Progressing", "ReplicaFailure"
_COMPLETE, _TIMED_OUT = "NewReplicaSetAvailable", "ProgressDeadlineExceeded"
_PAUSED, _RESUMED = "DeploymentPaused", "DeploymentResumed"


def has_deadline(deployment: Workload) -> bool:
    """Return whether a progress deadline is set."""
    deadline = deployment.spec.get("progressDeadlineSeconds")
    return deadline is not None and int(deadline) != _NO_DEADLINE


def counted(
    deployment: Workload, limits: Limits, newest: Workload | None, sets: Sequence[Workload], now: float
) -> Manifest:
    """Return the status with counts and Available; other conditions stay."""
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
        availability = ConditionUpdate(
            _AVAILABLE, True, "MinimumReplicasAvailable", "Deployment has minimum availability."
        )
    else:
        text = "Deployment does not have minimum availability."
        availability = ConditionUpdate(_AVAILABLE, False, "MinimumReplicasUnavailable", text)
    status["conditions"] = with_condition(conditions, availability, now, has_update_time=True)
    return status


def complete(deployment: Workload, status: Manifest) -> bool:
    """Return whether all pods are of the newest template, and available."""
    wanted = count(deployment.spec.get("replicas"), 1)
    names = ("updatedReplicas", "replicas", "availableReplicas")
    return (
        all(count(status.get(name)) == wanted for name in names)
        and count(status.get("observedGeneration")) >= deployment.metadata.generation
    )


def with_progress(
    deployment: Workload, status: Manifest, newest: Workload | None, sets: Sequence[Workload], view: ReconcileView
) -> Manifest:
    """Return the status with the Progressing and ReplicaFailure conditions."""
    conditions: list[Manifest] = status["conditions"]
    known = condition_of(conditions, _PROGRESSING)
    name = f'ReplicaSet "{newest.metadata.name}"' if newest is not None else f'Deployment "{deployment.metadata.name}"'
    if not has_deadline(deployment):
        conditions = without_condition(conditions, _PROGRESSING)
    elif not _is_over(status, known):
        if complete(deployment, status):
            conditions = set_progress(conditions, True, _COMPLETE, f"{name} has successfully progressed.", view.now)
        elif _advanced(deployment.status, status):
            others = without_condition(conditions, _PROGRESSING)
            updated = set_progress(others, True, "ReplicaSetUpdated", f"{name} is progressing.", view.now)
            if known is not None and known.get("status") == "True":
                updated[-1]["lastTransitionTime"] = known["lastTransitionTime"]
            conditions = updated
        elif (due := deadline_of(deployment, status)) is not None and due <= view.now:
            conditions = set_progress(conditions, False, _TIMED_OUT, f"{name} has timed out progressing.", view.now)
    failures = (condition_of(one.status.get("conditions") or (), _FAILURE) for one in (*filter(None, (newest,)), *sets))
    failure = next(filter(None, failures), None)
    conditions = without_condition(conditions, _FAILURE)
    if failure is not None:
        moment = failure.get("lastTransitionTime") or rfc3339(view.now)
        conditions = [*conditions, {**failure, "lastUpdateTime": moment, "lastTransitionTime": moment}]
    return {**status, "conditions": conditions}


def set_progress(
    conditions: list[Manifest], status: bool | str, reason: str, message: str, now: float
) -> list[Manifest]:
    """Return the conditions with this Progressing condition."""
    update = ConditionUpdate(_PROGRESSING, status, reason, message)
    return with_condition(conditions, update, now, has_update_time=True)


def paused_or_resumed(deployment: Workload, conditions: list[Manifest], now: float) -> list[Manifest]:
    """Set progress to unknown while paused; its deadline restarts afterwards."""
    known = condition_of(conditions, _PROGRESSING)
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
    """Return when (epoch seconds) the rollout counts as stuck; None without deadline."""
    known = condition_of(status.get("conditions") or (), _PROGRESSING)
    if not has_deadline(deployment) or known is None or known.get("reason") in (_COMPLETE, _TIMED_OUT):
        return None
    since = epoch(known.get("lastUpdateTime"))
    return None if since is None else since + 1.0 + int(deployment.spec["progressDeadlineSeconds"])


def _is_over(status: Manifest, known: Manifest | None) -> bool:
    """Return whether the rollout was reported complete and only pods changed since."""
    whole = count(status.get("replicas")) == count(status.get("updatedReplicas"))
    return whole and known is not None and known.get("reason") == _COMPLETE


def _advanced(before: Manifest, after: Manifest) -> bool:
    def of(status: Manifest, name: str) -> int:
        return count(status.get(name))

    old_before = of(before, "replicas") - of(before, "updatedReplicas")
    old_after = of(after, "replicas") - of(after, "updatedReplicas")
    more = any(of(after, name) > of(before, name) for name in ("updatedReplicas", "readyReplicas", "availableReplicas"))
    return more or old_after < old_before


_LONGEST_NAME = 253


class DeploymentController(ClusterController):
    """Controller that replaces the pods of Deployments by those of a changed template, through ReplicaSets."""

    name = "deployment-controller"
    primary = DEPLOYMENT
    reads = (REPLICA_SET, POD)

    def keys(self, event: Observed, objects: Objects) -> Iterable[str]:
        """Return the Deployment; for a ReplicaSet its owner or possible owners.

        For a finished pod its Deployment.
        """
        if event.resource == DEPLOYMENT.resource:
            return (event.obj.metadata.key,)
        namespace = event.obj.metadata.namespace
        if event.resource == REPLICA_SET.resource:
            deployments = objects.namespace(DEPLOYMENT, namespace, Workload)
            return affected_keys(DEPLOYMENT, deployments, event.obj, event.previous)
        controller = event.obj.metadata.controller
        if controller is None or controller.kind != REPLICA_SET.kind:
            return ()
        if event.change is not Change.GONE and not finished(event.object):
            return ()
        owner = objects.get(REPLICA_SET, f"{namespace}/{controller.name}", Workload)
        above = owner.metadata.controller if owner is not None else None
        return () if above is None or above.kind != DEPLOYMENT.kind else (f"{namespace}/{above.name}",)

    def reconcile(self, key: str, view: ReconcileView) -> Plan:
        """Adopt ReplicaSets, then return the next step of the rollout."""
        deployment = view.objects.get(DEPLOYMENT, key, Workload)
        if deployment is None or not selector_of(deployment):
            return NO_CHANGES
        sets, claims = claim(deployment, DEPLOYMENT, Candidates.of(view.objects, deployment, REPLICA_SET, Workload))
        if claims and not view.is_backing_off:
            return Plan((tuple(claims),))
        return _Step(deployment, rollout.by_age(sets), view).plan()


class _Step:
    """One reconciliation of a Deployment."""

    def __init__(self, deployment: Workload, sets: Sequence[Workload], view: ReconcileView) -> None:
        self.deployment = deployment
        self._reference = object_reference(DEPLOYMENT, deployment)
        self.sets = sets
        self.view = view
        self.limits: Limits = limits_of(deployment)
        self.newest = rollout.newest_of(deployment, sets)
        self.old = [one for one in sets if one is not self.newest]
        self.number = max(map(rollout.revision, self.old), default=0) + 1

    def plan(self) -> Plan:
        """Return the changes due now."""
        status = counted(self.deployment, self.limits, self.newest, self.sets, self.view.now)
        deployment = self.deployment
        if deployment.metadata.deletion_timestamp is not None:
            return Plan(status_stages(DEPLOYMENT, deployment, status))
        status["conditions"] = paused_or_resumed(deployment, status["conditions"], self.view.now)
        if self.view.is_backing_off:
            return Plan(status_stages(DEPLOYMENT, deployment, self._after_refusal(status)))
        if deployment.spec.get("paused") or self._was_scaled():
            work = self._numbering() or self._scaling()
            if not work and deployment.spec.get("paused"):
                work = self._clean_up()
            return Plan(work or status_stages(DEPLOYMENT, deployment, status))
        if rollout.is_recreate(deployment) and (emptying := self._emptying()) is not None:
            return self._with_progress(emptying, status)
        if self.newest is None:
            return Plan(self._creation(status))
        work = self._numbering()
        if not work and rollout.is_recreate(deployment):
            work = self._scaled({self.newest.metadata.name: self.limits.replicas})
        elif not work:
            work = self._rolling()
        if not work and complete(deployment, deployment.status):
            work = self._clean_up()
        return self._with_progress(work, status)

    def _with_progress(self, work: tuple[Stage, ...], status: Manifest) -> Plan:
        """Return the work with the status that reports its progress."""
        status = with_progress(self.deployment, status, self.newest, self.sets, self.view)
        again = deadline_of(self.deployment, status)
        return Plan((*work, *status_stages(DEPLOYMENT, self.deployment, status)), requeue_at=again)

    def _rolling(self) -> tuple[Stage, ...]:
        assert self.newest is not None
        active = [one for one in self.old if size(one)]
        up = rollout.rolled_up(self.limits, self.newest, active)
        if up != size(self.newest):
            return self._scaled({self.newest.metadata.name: up})
        return self._scaled(rollout.rolled_down(self.limits, self.newest, active))

    def _emptying(self) -> tuple[Stage, ...] | None:
        """Scale old ReplicaSets down (Recreate).

        () while their pods are left, None when there are none.
        """
        down = self._scaled({one.metadata.name: 0 for one in self.old if size(one)})
        if down:
            return down
        pods = (pod for one in self.old for pod in self.view.objects.controlled(POD, one.metadata.uid, Pod))
        left = any(rollout.observed(one, "replicas") for one in self.old) or any(not finished(pod) for pod in pods)
        return () if left else None

    def _was_scaled(self) -> bool:
        """Return whether an active ReplicaSet records another number of desired replicas."""
        stated = (one.metadata.annotations.get(rollout.DESIRED, "") for one in self.sets if size(one))
        return any(text.isdigit() and int(text) != self.limits.replicas for text in stated)

    def _scaling(self) -> tuple[Stage, ...]:
        """Scale outside a rollout step: one active ReplicaSet gets all replicas, several get shares."""
        active = [one for one in self.sets if size(one)]
        newest = self.newest
        if len(active) <= 1:
            one = active[0] if active else newest or (self.old[-1] if self.old else None)
            return () if one is None else self._scaled({one.metadata.name: self.limits.replicas}, insist=True)
        if newest is not None and self._is_saturated(newest):
            return self._scaled({one.metadata.name: 0 for one in active if one is not newest})
        if rollout.is_recreate(self.deployment):
            return ()
        before = count(self.deployment.status.get("replicas"))
        return self._scaled(rollout.proportional(self.limits, active, before), insist=True)

    def _is_saturated(self, newest: Workload) -> bool:
        wanted = self.limits.replicas
        return size(newest) == wanted == rollout.observed(
            newest, "availableReplicas"
        ) and newest.metadata.annotations.get(rollout.DESIRED) == str(wanted)

    def _scaled(self, wanted: Mapping[str, int], *, insist: bool = False) -> tuple[Stage, ...]:
        """Return the writes that resize ReplicaSets.

        With `insist` also where only annotations differ.
        """
        writes = []
        notes = rollout.replicas_annotations(self.limits)
        for one in self.sets:
            meta, before = one.metadata, size(one)
            after = wanted.get(meta.name, before)
            stale = meta.name in wanted and not notes.items() <= meta.annotations.items()
            if after == before and not (insist and stale):
                continue
            events = None
            if after != before:
                way = "up" if after > before else "down"
                text = f"Scaled {way} replica set {meta.name} from {before} to {after}"
                events = WriteEvents(self._reference, on_success=("ScalingReplicaSet", text))
            patch = {"metadata": {"annotations": dict(notes)}, "spec": {"replicas": after}}
            writes.append(Write(_patch(one, patch), events))
        return (tuple(writes),) if writes else ()

    def _numbering(self) -> tuple[Stage, ...]:
        """Keep the newest ReplicaSet's annotations and the Deployment's revision up to date."""
        newest, deployment = self.newest, self.deployment
        if newest is None:
            return ()
        wanted = {**rollout.taken_over(deployment), **rollout.renumbered(newest, self.number)}
        known = newest.metadata.annotations
        changes: Manifest = {key: value for key, value in wanted.items() if known.get(key) != value}
        patch: Manifest = {"metadata": {"annotations": changes}} if changes else {}
        min_ready = count(deployment.spec.get("minReadySeconds"))
        if min_ready != count(newest.spec.get("minReadySeconds")):
            patch["spec"] = {"minReadySeconds": min_ready}
        if patch:
            return ((Write(_patch(newest, patch)),),)
        number = known.get(rollout.REVISION, "")
        if deployment.metadata.annotations.get(rollout.REVISION) == number:
            return ()
        content = {"metadata": {"annotations": {rollout.REVISION: number}}}
        return ((Write(Patch.of(DEPLOYMENT.resource, deployment, content)),),)

    def _creation(self, status: Manifest) -> tuple[Stage, ...]:
        """Create the ReplicaSet of the current template."""
        deployment = self.deployment
        name, manifest = self._manifest()
        first = manifest["spec"]["replicas"]
        events = WriteEvents(
            self._reference,
            on_success=("ScalingReplicaSet", f"Scaled up replica set {name} from 0 to {first}") if first else None,
            on_failure=("ReplicaSetCreateError", f'Failed to create new replica set "{name}": '),
        )
        made: tuple[Stage, ...] = ((Write(Create(resource=REPLICA_SET.resource, manifest=manifest), events),),)
        if not has_deadline(deployment):
            return made
        text = f'Created new replica set "{name}"'
        conditions = set_progress(status["conditions"], True, "NewReplicaSetCreated", text, self.view.now)
        return (*made, *status_stages(DEPLOYMENT, deployment, {**status, "conditions": conditions}))

    def _manifest(self) -> tuple[str, Manifest]:
        deployment = self.deployment
        meta = deployment.metadata
        label = {rollout.HASH: rollout.template_hash(deployment)}
        name = f"{meta.name[: _LONGEST_NAME - 1 - len(label[rollout.HASH])]}-{label[rollout.HASH]}"
        template = dict(deployment.spec.get("template") or {})
        labels = {**((template.get("metadata") or {}).get("labels") or {}), **label}
        template["metadata"] = {**(template.get("metadata") or {}), "labels": labels}
        selector = dict(deployment.spec.get("selector") or {})
        selector["matchLabels"] = {**(selector.get("matchLabels") or {}), **label}
        active = [one for one in self.old if size(one)]
        first = rollout.first_size(self.limits, active, recreate=rollout.is_recreate(deployment))
        spec: Manifest = {"replicas": first, "selector": selector, "template": template}
        if deployment.spec.get("minReadySeconds"):
            spec["minReadySeconds"] = deployment.spec["minReadySeconds"]
        metadata: Manifest = {
            "name": name,
            "namespace": meta.namespace,
            "labels": labels,
            "annotations": {
                **rollout.taken_over(deployment),
                **rollout.replicas_annotations(self.limits),
                rollout.REVISION: str(self.number),
            },
            "ownerReferences": [owner_reference(DEPLOYMENT, deployment)],
        }
        return name, {
            "apiVersion": REPLICA_SET.api_version, "kind": REPLICA_SET.kind, "metadata": metadata, "spec": spec,
        }  # fmt: skip

    def _after_refusal(self, status: Manifest) -> Manifest:
        """Return the status after a refused ReplicaSet.

        It leads to another name after a collision; otherwise it has a condition.
        """
        failure = self.view.failure
        if failure is None or not isinstance(failure.effect, Create) or self.newest is not None:
            return status
        name, _ = self._manifest()
        if failure.effect.manifest["metadata"]["name"] != name:
            return status
        if failure.reason == "AlreadyExists":
            return {**status, "collisionCount": count(status.get("collisionCount")) + 1}
        if not has_deadline(self.deployment):
            return status
        text = f'Failed to create new replica set "{name}": {failure.message}'
        conditions = status["conditions"]
        conditions = set_progress(conditions, False, "ReplicaSetCreateError", text, self.view.now)
        return {**status, "conditions": conditions}

    def _clean_up(self) -> tuple[Stage, ...]:
        """Delete ReplicaSets beyond the revision history limit."""
        limit = self.deployment.spec.get("revisionHistoryLimit")
        if limit is None or int(limit) >= 2**31 - 1:
            return ()
        alive = [one for one in self.old if one.metadata.deletion_timestamp is None]
        alive.sort(key=rollout.revision)
        surplus = alive[: max(len(alive) - int(limit), 0)]
        writes = [
            Write(Delete.of(REPLICA_SET.resource, one))
            for one in surplus
            if not size(one)
            and not rollout.observed(one, "replicas")
            and one.metadata.generation <= rollout.observed(one, "observedGeneration")
        ]
        return (tuple(writes),) if writes else ()


def _patch(one: Workload, patch: Manifest) -> Patch:
    return Patch.of(REPLICA_SET.resource, one, patch, at_version=True)
