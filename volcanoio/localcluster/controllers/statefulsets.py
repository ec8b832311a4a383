"""The StatefulSet controller: pods with stable names, claims and an order (Kubernetes: pkg/controller/statefulset).

First the pods and claims of a set, then the pure rollout (which pods to create and delete next), then the controller.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import msgspec

from volcanoio.framework.effects import Create, Delete, Patch
from volcanoio.framework.events import Observed
from volcanoio.framework.objects import Objects
from volcanoio.framework.reconciler import NO_CHANGES, Plan, ReconcileView, Stage, Write, WriteEvents, in_slow_start
from volcanoio.localcluster.controllers import controller_revisions
from volcanoio.localcluster.controllers.contract import ClusterController
from volcanoio.localcluster.controllers.controller_revisions import template_of
from volcanoio.localcluster.controllers.objects import (
    CONTROLLER_REVISION,
    STATEFUL_SET,
    ControllerRevision,
    Workload,
    count,
)
from volcanoio.localcluster.controllers.ownership import Candidates, affected_keys, claim, status_stages
from volcanoio.localcluster.controllers.pods import (
    PodMetadata,
    PodName,
    active,
    available_at,
    finished,
    pod_of,
    ready,
    terminating,
)
from volcanoio.model.base import Manifest
from volcanoio.model.core import Pod
from volcanoio.model.kinds import POD, PVC, object_reference, owner_reference
from volcanoio.model.storage import PersistentVolumeClaim

REVISION_LABEL = "controller-revision-hash"
_NAME_LABEL = "statefulset.kubernetes.io/pod-name"
_INDEX_LABEL = "apps.kubernetes.io/pod-index"


def first_ordinal(owner: Workload) -> int:
    """Return the ordinal of the first pod."""
    return count((owner.spec.get("ordinals") or {}).get("start"))


def ordinal(owner: Workload, pod: Pod) -> int | None:
    """Return the number at the end of a pod's name."""
    parent, _, number = pod.metadata.name.rpartition("-")
    return int(number) if parent == owner.metadata.name and number.isdigit() else None


def revision_of(pod: Pod) -> str:
    """Return the name of the revision a pod was made of."""
    return pod.metadata.labels.get(REVISION_LABEL, "")


def name_of(owner: Workload, number: int) -> str:
    """Return the name of a pod."""
    return f"{owner.metadata.name}-{number}"


def member(owner: Workload, revision: ControllerRevision, number: int) -> Manifest:
    """Return the pod of an ordinal."""
    name = name_of(owner, number)
    labels = {_NAME_LABEL: name, _INDEX_LABEL: str(number), REVISION_LABEL: revision.metadata.name}
    pod_name = PodName(name, f"{owner.metadata.name}-")
    pod = pod_of(template_of(revision), STATEFUL_SET, owner, pod_name, PodMetadata(labels=labels))
    spec = dict(pod["spec"])
    spec["hostname"] = name
    if owner.spec.get("serviceName"):
        spec["subdomain"] = owner.spec["serviceName"]
    claims = [one["metadata"]["name"] for one in claim_templates(owner)]
    if claims:
        volumes = [{"name": claim, "persistentVolumeClaim": {"claimName": f"{claim}-{name}"}} for claim in claims]
        spec["volumes"] = [*volumes, *(one for one in spec.get("volumes") or () if one.get("name") not in claims)]
    pod["spec"] = spec
    return pod


def claim_templates(owner: Workload) -> list[Mapping[str, Any]]:
    """Return the templates of claims."""
    return list(owner.spec.get("volumeClaimTemplates") or ())


def claim_keys(owner: Workload, number: int) -> list[str]:
    """Return the keys of a pod's claims."""
    meta = owner.metadata
    return [f"{meta.namespace}/{one['metadata']['name']}-{name_of(owner, number)}" for one in claim_templates(owner)]


def volume_claim(owner: Workload, template: Mapping[str, Any], number: int) -> Manifest:
    """Return a claim of a pod.

    It outlives pod and set unless the retention policy deletes it.
    """
    known = template.get("metadata") or {}
    selector = (owner.spec.get("selector") or {}).get("matchLabels") or {}
    metadata: Manifest = {
        **{key: value for key, value in known.items() if value is not None},
        "name": f"{known['name']}-{name_of(owner, number)}",
        "namespace": owner.metadata.namespace,
        "labels": {**(known.get("labels") or {}), **selector},
    }
    policy = owner.spec.get("persistentVolumeClaimRetentionPolicy") or {}
    if policy.get("whenDeleted") == "Delete":
        metadata["ownerReferences"] = [owner_reference(STATEFUL_SET, owner)]
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": metadata,
        "spec": template.get("spec") or {},
    }


@dataclass(slots=True)
class Steps:
    """Changes due now: ordinals to create with their revision, and pods to delete."""

    make: list[tuple[int, ControllerRevision]] = field(default_factory=list)
    delete: list[Pod] = field(default_factory=list)

    def __bool__(self) -> bool:
        return bool(self.make or self.delete)


class Rollout:
    """One reconciliation of a StatefulSet: pods by ordinal, surplus pods, and its two revisions."""

    def __init__(
        self, owner: Workload, pods: Sequence[Pod], current: ControllerRevision, update: ControllerRevision, now: float
    ) -> None:
        spec = owner.spec
        self.owner = owner
        self.current = current
        self.update = update
        self.replicas = count(spec.get("replicas"), 1)
        self._now = now
        self._min_ready = float(spec.get("minReadySeconds") or 0)
        strategy = spec.get("updateStrategy") or {}
        self._rolling = strategy.get("type", "RollingUpdate") == "RollingUpdate"
        rolling = strategy.get("rollingUpdate")
        self._partition = None if rolling is None else count(rolling.get("partition"))
        self.ordered = spec.get("podManagementPolicy") != "Parallel"
        start = first_ordinal(owner)
        numbered = [(number, pod) for pod in pods if (number := ordinal(owner, pod)) is not None]
        self._range = range(start, start + self.replicas)
        self.members = {number: pod for number, pod in numbered if number in self._range}
        beyond = sorted((-number, pod.metadata.uid, pod) for number, pod in numbered if number not in self._range)
        self._condemned = [pod for _, _, pod in beyond]
        self._pods = [pod for _, pod in numbered]

    def steps(self) -> Steps:
        """Return the changes due now.

        An ordered set changes one pod at a time, when earlier ones are available.
        """
        steps = Steps()
        for number in self._range:
            if not self._keep(steps, number) and self.ordered:
                return steps
        if steps:
            return steps
        for pod in self._condemned:
            if not self._retire(steps, pod) and self.ordered:
                return steps
        if not steps and self._rolling:
            steps.delete += self._outdated()
        return steps

    def _keep(self, steps: Steps, number: int) -> bool:
        """Plan the changes of one ordinal; returns whether none is due."""
        pod = self.members.get(number)
        if pod is None:
            steps.make.append((number, self._revision(number)))
            return False
        if finished(pod):
            if not terminating(pod):
                steps.delete.append(pod)
            return False
        return self._is_available(pod)

    def _revision(self, number: int) -> ControllerRevision:
        """Return the revision of a recreated pod: below the partition it keeps the current one."""
        if not self._rolling:
            return self.update
        old = count(self.owner.status.get("currentReplicas")) if self._partition is None else self._partition
        return self.current if number < self._range.start + old else self.update

    def _retire(self, steps: Steps, pod: Pod) -> bool:
        """Plan the deletion of a surplus pod; returns whether the next one may be deleted, too."""
        if terminating(pod):
            return False
        if self.ordered and not self._is_available(pod) and pod is not self._first_unavailable():
            return False
        steps.delete.append(pod)
        return False

    def _first_unavailable(self) -> Pod | None:
        members = [self.members[number] for number in self._range if number in self.members]
        return next((pod for pod in (*members, *reversed(self._condemned)) if not self._is_available(pod)), None)

    def _outdated(self) -> Iterator[Pod]:
        """Return the next pod to update: from the last, when those after it are available."""
        lowest = self._range.start + (self._partition or 0)
        for number in reversed(self._range):
            pod = self.members.get(number)
            if pod is None or number < lowest:
                return
            if revision_of(pod) != self.update.metadata.name and not terminating(pod):
                yield pod
                return
            if not self._is_available(pod):
                return

    def _is_available(self, pod: Pod) -> bool:
        if not active(pod) or pod.status.phase != "Running":
            return False
        moment = available_at(pod, self._min_ready)
        return moment is not None and moment <= self._now

    def next_availability(self) -> float | None:
        """Return when the next ready pod becomes available."""
        moments = (available_at(pod, self._min_ready) for pod in self._pods if pod.status.phase == "Running")
        return min((moment for moment in moments if moment is not None and moment > self._now), default=None)

    def status(self) -> Manifest:
        """Return the desired status."""
        running = [pod for pod in self._pods if pod.status.phase == "Running" and ready(pod)]
        available = sum((available_at(pod, self._min_ready) or 0.0) <= self._now for pod in running)
        staying = [revision_of(pod) for pod in self._pods if not terminating(pod)]
        updated = staying.count(self.update.metadata.name)
        current, current_count = self.current.metadata.name, staying.count(self.current.metadata.name)
        if self._rolling and updated == len(running) == len(self._pods) == self.replicas:
            current, current_count = self.update.metadata.name, updated
        counts = {
            "observedGeneration": self.owner.metadata.generation,
            "readyReplicas": len(running),
            "currentReplicas": current_count,
            "updatedReplicas": updated,
        }
        return {
            "replicas": len(self._pods),
            "availableReplicas": available,
            **{name: number for name, number in counts.items() if number},
            "currentRevision": current,
            "updateRevision": self.update.metadata.name,
            "collisionCount": count(self.owner.status.get("collisionCount")),
        }


_HASH = "controller.kubernetes.io/hash"


class StatefulSetController(ClusterController):
    """Controller that runs the pods and claims of StatefulSets."""

    name = "statefulset-controller"
    primary = STATEFUL_SET
    reads = (POD, PVC, CONTROLLER_REVISION)

    def keys(self, event: Observed, objects: Objects) -> Iterable[str]:
        """Return the set; for a pod or revision its owner or possible owners."""
        if event.resource == STATEFUL_SET.resource:
            return (event.obj.metadata.key,)
        if event.resource == PVC.resource:
            return ()
        sets = objects.namespace(STATEFUL_SET, event.obj.metadata.namespace, Workload)
        return affected_keys(STATEFUL_SET, sets, event.obj, event.previous) if sets else ()

    def reconcile(self, key: str, view: ReconcileView) -> Plan:
        """Number the template, create, replace or delete pods, and update the status."""
        owner = view.objects.get(STATEFUL_SET, key, Workload)
        if owner is None:
            return NO_CHANGES
        meta, objects = owner.metadata, view.objects
        orphans = [pod for pod in objects.orphans(POD, meta.namespace, Pod) if ordinal(owner, pod) is not None]
        candidates = Candidates(POD, objects.controlled(POD, meta.uid, Pod), orphans)
        pods, claims = claim(owner, STATEFUL_SET, candidates)
        if claims and not view.is_backing_off:
            return Plan((tuple(claims),))
        revisions = objects.controlled(CONTROLLER_REVISION, meta.uid, ControllerRevision)
        update = controller_revisions.current_of(owner, revisions)
        if update is None or update is not controller_revisions.in_order(revisions)[-1]:
            return self._numbering(owner, revisions, update, view)
        name = owner.status.get("currentRevision")
        current = next((one for one in revisions if one.metadata.name == name), update)
        rollout = Rollout(owner, pods, current, update, view.now)
        stages: tuple[Stage, ...] = ()
        if meta.deletion_timestamp is None and not view.is_backing_off:
            stages = self._carried_out(owner, rollout, view)
            if not stages:
                stages = self._truncated(owner, revisions, rollout, pods)
        status = status_stages(STATEFUL_SET, owner, rollout.status())
        return Plan((*stages, *status), requeue_at=rollout.next_availability())

    def _numbering(
        self,
        owner: Workload,
        revisions: Sequence[ControllerRevision],
        update: ControllerRevision | None,
        view: ReconcileView,
    ) -> Plan:
        number = controller_revisions.next_number(revisions)
        if update is not None:
            return Plan(((controller_revisions.renumbering(update, number),),))
        collisions = count(owner.status.get("collisionCount"))
        failure = view.failure
        if view.is_backing_off and failure is not None and failure.reason == "AlreadyExists":
            made = controller_revisions.creation(STATEFUL_SET, owner, number, collisions, _HASH).effect
            if isinstance(made, Create) and isinstance(failure.effect, Create):
                known = failure.effect.manifest["metadata"]["name"]
                if known == made.manifest["metadata"]["name"]:
                    status = {**owner.status, "collisionCount": collisions + 1}
                    return Plan(status_stages(STATEFUL_SET, owner, status))
        if view.is_backing_off:
            return NO_CHANGES
        return Plan(((controller_revisions.creation(STATEFUL_SET, owner, number, collisions, _HASH),),))

    def _carried_out(self, owner: Workload, rollout: Rollout, view: ReconcileView) -> tuple[Stage, ...]:
        steps = rollout.steps()
        stages: list[Stage] = []
        for number, revision in steps.make:
            if missing := self._claims(owner, number, view):
                stages.append(missing)
            stages.append((self._creation(owner, number, revision),))
        if not rollout.ordered and len(steps.make) > 1:
            made = [self._creation(owner, number, revision) for number, revision in steps.make]
            claims = [write for number, _ in steps.make for write in self._claims(owner, number, view)]
            stages = [*((tuple(claims),) if claims else ()), *in_slow_start(made)]
        if steps.delete:
            if tied := [write for pod in steps.delete for write in self._tied_claims(owner, pod, rollout, view)]:
                stages.append(tuple(tied))
            stages.append(tuple(self._deletion(owner, pod) for pod in steps.delete))
        return tuple(stages)

    def _claims(self, owner: Workload, number: int, view: ReconcileView) -> Stage:
        """Return the writes of a pod's missing claims."""
        name = name_of(owner, number)
        templates = claim_templates(owner)
        writes: list[Write] = []
        for template, key in zip(templates, claim_keys(owner, number), strict=True):
            if view.objects.get(PVC, key, PersistentVolumeClaim) is None:
                manifest = volume_claim(owner, template, number)
                text = manifest["metadata"]["name"]
                events = WriteEvents(
                    object_reference(STATEFUL_SET, owner),
                    on_success=(
                        "SuccessfulCreate",
                        f"Create Claim {text} Pod {name} in StatefulSet {owner.metadata.name} success",
                    ),
                    on_failure=(
                        "FailedCreate",
                        f"Create Claim {text} for Pod {name} in StatefulSet {owner.metadata.name} failed error: ",
                    ),
                )
                writes.append(Write(Create(resource=PVC.resource, manifest=manifest), events))
        return tuple(writes)

    def _tied_claims(self, owner: Workload, pod: Pod, rollout: Rollout, view: ReconcileView) -> list[Write]:
        """Return the writes that bind claims to a surplus pod, where the retention policy deletes them."""
        policy = owner.spec.get("persistentVolumeClaimRetentionPolicy") or {}
        number = ordinal(owner, pod)
        if policy.get("whenScaled") != "Delete" or number is None or number in rollout.members:
            return []
        writes: list[Write] = []
        for key in claim_keys(owner, number):
            claim_ = view.objects.get(PVC, key, PersistentVolumeClaim)
            if claim_ is None or any(one.uid == pod.metadata.uid for one in claim_.metadata.owner_references):
                continue
            meta = claim_.metadata
            known = [msgspec.to_builtins(one) for one in meta.owner_references]
            mine = {"apiVersion": "v1", "kind": "Pod", "name": pod.metadata.name, "uid": pod.metadata.uid}
            content = {"metadata": {"ownerReferences": [*known, mine]}}
            writes.append(Write(Patch.of(PVC.resource, claim_, content, at_version=True)))
        return writes

    def _creation(self, owner: Workload, number: int, revision: ControllerRevision) -> Write:
        manifest = member(owner, revision, number)
        return Write(
            Create(resource=POD.resource, manifest=manifest),
            _write_events(owner, "Create", manifest["metadata"]["name"]),
        )

    def _deletion(self, owner: Workload, pod: Pod) -> Write:
        return Write(Delete.of(POD.resource, pod), _write_events(owner, "Delete", pod.metadata.name))

    def _truncated(
        self, owner: Workload, revisions: Sequence[ControllerRevision], rollout: Rollout, pods: Sequence[Pod]
    ) -> tuple[Stage, ...]:
        used = {rollout.current.metadata.name, rollout.update.metadata.name, *map(revision_of, pods)}
        limit = count(owner.spec.get("revisionHistoryLimit"), 10)
        writes = controller_revisions.surplus(revisions, frozenset(used), limit)
        return (tuple(writes),) if writes else ()


def _write_events(owner: Workload, verb: str, pod: str) -> WriteEvents:
    text = f"{verb} Pod {pod} in StatefulSet {owner.metadata.name}"
    return WriteEvents(
        object_reference(STATEFUL_SET, owner),
        on_success=(f"Successful{verb}", f"{text} successful"),
        on_failure=(f"Failed{verb}", f"{text} failed error: "),
    )
