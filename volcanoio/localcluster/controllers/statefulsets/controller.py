"""The controller of StatefulSets."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import msgspec

from volcanoio.framework.effects import Create, Delete, Patch
from volcanoio.framework.events import Observed
from volcanoio.localcluster.controllers import history
from volcanoio.localcluster.controllers.frame.contract import (
    NOTHING,
    Defaults,
    Plan,
    Stage,
    Told,
    View,
    Write,
    in_slow_start,
)
from volcanoio.localcluster.controllers.frame.tables import Tables
from volcanoio.localcluster.controllers.kinds import (
    CONTROLLER_REVISION,
    STATEFUL_SET,
    ControllerRevision,
    Workload,
)
from volcanoio.localcluster.controllers.owners import claim, concerned, selector_of, status_stages
from volcanoio.localcluster.controllers.quantities import count
from volcanoio.localcluster.controllers.statefulsets import members
from volcanoio.localcluster.controllers.statefulsets.rollout import Rollout
from volcanoio.model.core import Pod
from volcanoio.model.kinds import POD, PVC
from volcanoio.model.references import object_reference
from volcanoio.model.storage import PersistentVolumeClaim

_HASH = "controller.kubernetes.io/hash"


class StatefulSetController(Defaults):
    """Keeps StatefulSets."""

    name = "statefulset-controller"
    primary = STATEFUL_SET
    reads = (POD, PVC, CONTROLLER_REVISION)

    def keys(self, event: Observed, tables: Tables) -> Iterable[str]:
        """Itself; of a pod or revision whose it is or may be."""
        if event.resource == STATEFUL_SET.resource:
            return (event.obj.metadata.key,)
        if event.resource == PVC.resource:
            return ()
        sets = tables.namespace(STATEFUL_SET, event.obj.metadata.namespace, Workload)
        return concerned(STATEFUL_SET, sets, event.obj, event.previous) if sets else ()

    def reconcile(self, key: str, view: View) -> Plan:
        """Number the template, then make, replace or retire pods, then tell in the status."""
        owner = view.tables.get(STATEFUL_SET, key, Workload)
        if owner is None:
            return NOTHING
        meta, tables = owner.metadata, view.tables
        owned = tables.controlled(POD, meta.uid, Pod)
        loose = [pod for pod in tables.loose(POD, meta.namespace, Pod) if members.ordinal(owner, pod) is not None]
        pods, claims = claim(owner, STATEFUL_SET, selector_of(owner), POD, owned, loose)
        if claims and not view.held:
            return Plan((tuple(claims),))
        revisions = tables.controlled(CONTROLLER_REVISION, meta.uid, ControllerRevision)
        update = history.current_of(owner, revisions)
        if update is None or update is not history.in_order(revisions)[-1]:
            return self._numbering(owner, revisions, update, view)
        name = owner.status.get("currentRevision")
        current = next((one for one in revisions if one.metadata.name == name), update)
        rollout = Rollout(owner, pods, current, update, view.now)
        stages: tuple[Stage, ...] = ()
        if meta.deletion_timestamp is None and not view.held:
            stages = self._carried_out(owner, rollout, view)
            if not stages:
                stages = self._truncated(owner, revisions, rollout, pods)
        status = status_stages(STATEFUL_SET, owner, rollout.status())
        return Plan((*stages, *status), again=rollout.next_availability())

    def _numbering(
        self, owner: Workload, revisions: Sequence[ControllerRevision], update: ControllerRevision | None, view: View
    ) -> Plan:
        number = history.next_number(revisions)
        if update is not None:
            return Plan(((history.renumbering(update, number),),))
        collisions = count(owner.status.get("collisionCount"))
        trouble = view.trouble
        if view.held and trouble is not None and trouble.reason == "AlreadyExists":
            made = history.creation(STATEFUL_SET, owner, number, collisions, _HASH).effect
            if isinstance(made, Create) and isinstance(trouble.effect, Create):
                known = trouble.effect.manifest["metadata"]["name"]
                if known == made.manifest["metadata"]["name"]:
                    status = {**owner.status, "collisionCount": collisions + 1}
                    return Plan(status_stages(STATEFUL_SET, owner, status))
        if view.held:
            return NOTHING
        return Plan(((history.creation(STATEFUL_SET, owner, number, collisions, _HASH),),))

    def _carried_out(self, owner: Workload, rollout: Rollout, view: View) -> tuple[Stage, ...]:
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

    def _claims(self, owner: Workload, number: int, view: View) -> Stage:
        """Writes of the claims that a member lacks."""
        name = members.name_of(owner, number)
        templates = members.claim_templates(owner)
        writes: list[Write] = []
        for template, key in zip(templates, members.claim_keys(owner, number), strict=True):
            if view.tables.get(PVC, key, PersistentVolumeClaim) is None:
                manifest = members.claim(owner, template, number)
                text = manifest["metadata"]["name"]
                told = Told(
                    object_reference(STATEFUL_SET, owner),
                    done=(
                        "SuccessfulCreate",
                        f"Create Claim {text} Pod {name} in StatefulSet {owner.metadata.name} success",
                    ),
                    refused=(
                        "FailedCreate",
                        f"Create Claim {text} for Pod {name} in StatefulSet {owner.metadata.name} failed error: ",
                    ),
                )
                writes.append(Write(Create(resource=PVC.resource, manifest=manifest), told))
        return tuple(writes)

    def _tied_claims(self, owner: Workload, pod: Pod, rollout: Rollout, view: View) -> list[Write]:
        """Writes that let the claims of a pod that is too much go with it, where that is wanted."""
        policy = owner.spec.get("persistentVolumeClaimRetentionPolicy") or {}
        number = members.ordinal(owner, pod)
        if policy.get("whenScaled") != "Delete" or number is None or number in rollout.members:
            return []
        writes: list[Write] = []
        for key in members.claim_keys(owner, number):
            claim_ = view.tables.get(PVC, key, PersistentVolumeClaim)
            if claim_ is None or any(one.uid == pod.metadata.uid for one in claim_.metadata.owner_references):
                continue
            meta = claim_.metadata
            known = [msgspec.to_builtins(one) for one in meta.owner_references]
            mine = {"apiVersion": "v1", "kind": "Pod", "name": pod.metadata.name, "uid": pod.metadata.uid}
            patch = Patch(
                resource=PVC.resource,
                namespace=meta.namespace,
                name=meta.name,
                uid=meta.uid,
                resource_version=meta.resource_version,
                patch={"metadata": {"ownerReferences": [*known, mine]}},
            )
            writes.append(Write(patch))
        return writes

    def _creation(self, owner: Workload, number: int, revision: ControllerRevision) -> Write:
        manifest = members.member(owner, revision, number)
        return Write(
            Create(resource=POD.resource, manifest=manifest), _told(owner, "Create", manifest["metadata"]["name"])
        )

    def _deletion(self, owner: Workload, pod: Pod) -> Write:
        meta = pod.metadata
        effect = Delete(resource=POD.resource, namespace=meta.namespace, name=meta.name, uid=meta.uid)
        return Write(effect, _told(owner, "Delete", meta.name))

    def _truncated(
        self, owner: Workload, revisions: Sequence[ControllerRevision], rollout: Rollout, pods: Sequence[Pod]
    ) -> tuple[Stage, ...]:
        used = {rollout.current.metadata.name, rollout.update.metadata.name, *map(members.revision_of, pods)}
        limit = count(owner.spec.get("revisionHistoryLimit"), 10)
        writes = history.surplus(revisions, frozenset(used), limit)
        return (tuple(writes),) if writes else ()


def _told(owner: Workload, verb: str, pod: str) -> Told:
    text = f"{verb} Pod {pod} in StatefulSet {owner.metadata.name}"
    return Told(
        object_reference(STATEFUL_SET, owner),
        done=(f"Successful{verb}", f"{text} successful"),
        refused=(f"Failed{verb}", f"{text} failed error: "),
    )
