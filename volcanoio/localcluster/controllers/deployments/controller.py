"""The controller of Deployments: one step of the rollout at a time, each from what is there."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from volcanoio.framework.effects import Create, Delete, Patch
from volcanoio.framework.events import Change, Observed
from volcanoio.localcluster.controllers.deployments import revisions, sizes
from volcanoio.localcluster.controllers.deployments import status as statuses
from volcanoio.localcluster.controllers.deployments.sizes import Limits, limits_of, size
from volcanoio.localcluster.controllers.frame.contract import NOTHING, Defaults, Plan, Stage, Told, View, Write
from volcanoio.localcluster.controllers.frame.tables import Tables
from volcanoio.localcluster.controllers.kinds import DEPLOYMENT, REPLICA_SET, Workload
from volcanoio.localcluster.controllers.owners import claim, concerned, selector_of, status_stages
from volcanoio.localcluster.controllers.pods import finished
from volcanoio.localcluster.controllers.quantities import count
from volcanoio.model.base import Manifest
from volcanoio.model.core import Pod
from volcanoio.model.kinds import POD
from volcanoio.model.references import object_reference, owner_reference

_LONGEST_NAME = 253


class DeploymentController(Defaults):
    """Rolls Deployments out."""

    name = "deployment-controller"
    primary = DEPLOYMENT
    reads = (REPLICA_SET, POD)

    def keys(self, event: Observed, tables: Tables) -> Iterable[str]:
        """Itself; of a ReplicaSet those it belongs to or may; of a pod that is over, who may wait for that."""
        if event.resource == DEPLOYMENT.resource:
            return (event.obj.metadata.key,)
        namespace = event.obj.metadata.namespace
        if event.resource == REPLICA_SET.resource:
            deployments = tables.namespace(DEPLOYMENT, namespace, Workload)
            return concerned(DEPLOYMENT, deployments, event.obj, event.previous)
        controller = event.obj.metadata.controller
        if controller is None or controller.kind != REPLICA_SET.kind:
            return ()
        if event.change is not Change.GONE and not finished(event.object):
            return ()
        owner = tables.get(REPLICA_SET, f"{namespace}/{controller.name}", Workload)
        above = owner.metadata.controller if owner is not None else None
        return () if above is None or above.kind != DEPLOYMENT.kind else (f"{namespace}/{above.name}",)

    def reconcile(self, key: str, view: View) -> Plan:
        """The next step."""
        deployment = view.tables.get(DEPLOYMENT, key, Workload)
        if deployment is None or not (selector := selector_of(deployment)):
            return NOTHING
        meta = deployment.metadata
        owned = view.tables.controlled(REPLICA_SET, meta.uid, Workload)
        loose = view.tables.loose(REPLICA_SET, meta.namespace, Workload)
        sets, claims = claim(deployment, DEPLOYMENT, selector, REPLICA_SET, owned, loose)
        if claims and not view.held:
            return Plan((tuple(claims),))
        return _Step(deployment, revisions.by_age(sets), view).plan()


class _Step:
    """One look at one Deployment."""

    def __init__(self, deployment: Workload, sets: Sequence[Workload], view: View) -> None:
        self.deployment = deployment
        self.sets = sets
        self.view = view
        self.limits: Limits = limits_of(deployment)
        self.newest = revisions.newest_of(deployment, sets)
        self.old = [one for one in sets if one is not self.newest]
        self.number = max(map(revisions.revision, self.old), default=0) + 1

    def plan(self) -> Plan:
        """What is to be done now."""
        status = statuses.counted(self.deployment, self.limits, self.newest, self.sets, self.view.now)
        deployment = self.deployment
        if deployment.metadata.deletion_timestamp is not None:
            return Plan(status_stages(DEPLOYMENT, deployment, status))
        status["conditions"] = statuses.paused_or_resumed(deployment, status["conditions"], self.view.now)
        if self.view.held:
            return Plan(status_stages(DEPLOYMENT, deployment, self._troubled(status)))
        if deployment.spec.get("paused") or self._was_scaled():
            work = self._numbering() or self._scaling()
            if not work and deployment.spec.get("paused"):
                work = self._clean_up()
            return Plan(work or status_stages(DEPLOYMENT, deployment, status))
        if sizes.is_recreate(deployment) and (emptying := self._emptying()) is not None:
            return self._told(emptying, status)
        if self.newest is None:
            return Plan(self._creation(status))
        work = self._numbering()
        if not work and sizes.is_recreate(deployment):
            work = self._scaled({self.newest.metadata.name: self.limits.replicas})
        elif not work:
            work = self._rolling()
        if not work and statuses.complete(deployment, deployment.status):
            work = self._clean_up()
        return self._told(work, status)

    def _told(self, work: tuple[Stage, ...], status: Manifest) -> Plan:
        """The work, and what is to be said of the progress so far."""
        status = statuses.with_progress(self.deployment, status, self.newest, self.sets, self.view)
        again = statuses.deadline_of(self.deployment, status)
        return Plan((*work, *status_stages(DEPLOYMENT, self.deployment, status)), again=again)

    def _rolling(self) -> tuple[Stage, ...]:
        assert self.newest is not None
        active = [one for one in self.old if size(one)]
        up = sizes.rolled_up(self.limits, self.newest, active)
        if up != size(self.newest):
            return self._scaled({self.newest.metadata.name: up})
        return self._scaled(sizes.rolled_down(self.limits, self.newest, active))

    def _emptying(self) -> tuple[Stage, ...] | None:
        """Recreate: scale the old ones down; () while pods of theirs are left, None when there are none."""
        down = self._scaled({one.metadata.name: 0 for one in self.old if size(one)})
        if down:
            return down
        pods = (pod for one in self.old for pod in self.view.tables.controlled(POD, one.metadata.uid, Pod))
        left = any(sizes.observed(one, "replicas") for one in self.old) or any(not finished(pod) for pod in pods)
        return () if left else None

    def _was_scaled(self) -> bool:
        """Whether an active ReplicaSet knows of another number of replicas than is wanted now."""
        stated = (one.metadata.annotations.get(sizes.DESIRED, "") for one in self.sets if size(one))
        return any(text.isdigit() and int(text) != self.limits.replicas for text in stated)

    def _scaling(self) -> tuple[Stage, ...]:
        """Outside a step of the rollout: one active ReplicaSet gets all, several get their shares."""
        active = [one for one in self.sets if size(one)]
        newest = self.newest
        if len(active) <= 1:
            one = active[0] if active else newest or (self.old[-1] if self.old else None)
            return () if one is None else self._scaled({one.metadata.name: self.limits.replicas}, insist=True)
        if newest is not None and self._is_saturated(newest):
            return self._scaled({one.metadata.name: 0 for one in active if one is not newest})
        if sizes.is_recreate(self.deployment):
            return ()
        before = count(self.deployment.status.get("replicas"))
        return self._scaled(sizes.proportional(self.limits, active, before), insist=True)

    def _is_saturated(self, newest: Workload) -> bool:
        wanted = self.limits.replicas
        return size(newest) == wanted == sizes.observed(
            newest, "availableReplicas"
        ) and newest.metadata.annotations.get(sizes.DESIRED) == str(wanted)

    def _scaled(self, wanted: Mapping[str, int], *, insist: bool = False) -> tuple[Stage, ...]:
        """Writes that give ReplicaSets other sizes; with `insist` also where only the annotations are others."""
        writes = []
        notes = sizes.replicas_annotations(self.limits)
        for one in self.sets:
            meta, before = one.metadata, size(one)
            after = wanted.get(meta.name, before)
            stale = meta.name in wanted and not notes.items() <= meta.annotations.items()
            if after == before and not (insist and stale):
                continue
            told = None
            if after != before:
                way = "up" if after > before else "down"
                text = f"Scaled {way} replica set {meta.name} from {before} to {after}"
                told = Told(object_reference(DEPLOYMENT, self.deployment), done=("ScalingReplicaSet", text))
            patch = {"metadata": {"annotations": dict(notes)}, "spec": {"replicas": after}}
            writes.append(Write(_patch(one, patch), told))
        return (tuple(writes),) if writes else ()

    def _numbering(self) -> tuple[Stage, ...]:
        """Keep the newest ReplicaSet's annotations and the Deployment's revision up to date."""
        newest, deployment = self.newest, self.deployment
        if newest is None:
            return ()
        wanted = {**revisions.taken_over(deployment), **revisions.renumbered(newest, self.number)}
        known = newest.metadata.annotations
        changes: Manifest = {key: value for key, value in wanted.items() if known.get(key) != value}
        patch: Manifest = {"metadata": {"annotations": changes}} if changes else {}
        min_ready = count(deployment.spec.get("minReadySeconds"))
        if min_ready != count(newest.spec.get("minReadySeconds")):
            patch["spec"] = {"minReadySeconds": min_ready}
        if patch:
            return ((Write(_patch(newest, patch)),),)
        number = known.get(revisions.REVISION, "")
        if deployment.metadata.annotations.get(revisions.REVISION) == number:
            return ()
        meta = deployment.metadata
        effect = Patch(
            resource=DEPLOYMENT.resource, namespace=meta.namespace, name=meta.name, uid=meta.uid,
            patch={"metadata": {"annotations": {revisions.REVISION: number}}},
        )  # fmt: skip
        return ((Write(effect),),)

    def _creation(self, status: Manifest) -> tuple[Stage, ...]:
        """Make the ReplicaSet of the current template."""
        deployment = self.deployment
        name, manifest = self._manifest()
        first = manifest["spec"]["replicas"]
        told = Told(
            object_reference(DEPLOYMENT, deployment),
            done=("ScalingReplicaSet", f"Scaled up replica set {name} from 0 to {first}") if first else None,
            refused=("ReplicaSetCreateError", f'Failed to create new replica set "{name}": '),
        )
        made: tuple[Stage, ...] = ((Write(Create(resource=REPLICA_SET.resource, manifest=manifest), told),),)
        if not statuses.has_deadline(deployment):
            return made
        text = f'Created new replica set "{name}"'
        conditions = statuses.set_progress(status["conditions"], True, "NewReplicaSetCreated", text, self.view.now)
        return (*made, *status_stages(DEPLOYMENT, deployment, {**status, "conditions": conditions}))

    def _manifest(self) -> tuple[str, Manifest]:
        deployment = self.deployment
        meta = deployment.metadata
        label = {revisions.HASH: revisions.template_hash(deployment)}
        name = f"{meta.name[: _LONGEST_NAME - 1 - len(label[revisions.HASH])]}-{label[revisions.HASH]}"
        template = dict(deployment.spec.get("template") or {})
        labels = {**((template.get("metadata") or {}).get("labels") or {}), **label}
        template["metadata"] = {**(template.get("metadata") or {}), "labels": labels}
        selector = dict(deployment.spec.get("selector") or {})
        selector["matchLabels"] = {**(selector.get("matchLabels") or {}), **label}
        active = [one for one in self.old if size(one)]
        first = sizes.first_size(self.limits, active, recreate=sizes.is_recreate(deployment))
        spec: Manifest = {"replicas": first, "selector": selector, "template": template}
        if deployment.spec.get("minReadySeconds"):
            spec["minReadySeconds"] = deployment.spec["minReadySeconds"]
        metadata: Manifest = {
            "name": name,
            "namespace": meta.namespace,
            "labels": labels,
            "annotations": {
                **revisions.taken_over(deployment),
                **sizes.replicas_annotations(self.limits),
                revisions.REVISION: str(self.number),
            },
            "ownerReferences": [owner_reference(DEPLOYMENT, deployment)],
        }
        return name, {
            "apiVersion": REPLICA_SET.api_version, "kind": REPLICA_SET.kind, "metadata": metadata, "spec": spec,
        }  # fmt: skip

    def _troubled(self, status: Manifest) -> Manifest:
        """What the refusal of a new ReplicaSet means: another name after a collision, else a condition."""
        trouble = self.view.trouble
        if trouble is None or not isinstance(trouble.effect, Create) or self.newest is not None:
            return status
        name, _ = self._manifest()
        if trouble.effect.manifest["metadata"]["name"] != name:
            return status
        if trouble.reason == "AlreadyExists":
            return {**status, "collisionCount": count(status.get("collisionCount")) + 1}
        if not statuses.has_deadline(self.deployment):
            return status
        text = f'Failed to create new replica set "{name}": {trouble.message}'
        conditions = status["conditions"]
        told = statuses.set_progress(conditions, False, "ReplicaSetCreateError", text, self.view.now)
        return {**status, "conditions": told}

    def _clean_up(self) -> tuple[Stage, ...]:
        """Delete what is older than the history is long."""
        limit = self.deployment.spec.get("revisionHistoryLimit")
        if limit is None or int(limit) >= 2**31 - 1:
            return ()
        alive = [one for one in self.old if one.metadata.deletion_timestamp is None]
        alive.sort(key=revisions.revision)
        surplus = alive[: max(len(alive) - int(limit), 0)]
        writes = [
            Write(
                Delete(
                    resource=REPLICA_SET.resource, namespace=one.metadata.namespace, name=one.metadata.name,
                    uid=one.metadata.uid,
                )
            )
            for one in surplus
            if not size(one)
            and not sizes.observed(one, "replicas")
            and one.metadata.generation <= sizes.observed(one, "observedGeneration")
        ]  # fmt: skip
        return (tuple(writes),) if writes else ()


def _patch(one: Workload, patch: Manifest) -> Patch:
    meta = one.metadata
    return Patch(
        resource=REPLICA_SET.resource, namespace=meta.namespace, name=meta.name, uid=meta.uid,
        resource_version=meta.resource_version, patch=patch,
    )  # fmt: skip
