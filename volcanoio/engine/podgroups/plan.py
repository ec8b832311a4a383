"""What to do next about one group: make it, bring it up to date, take it away, mark its pods with it."""

from __future__ import annotations

from volcanoio.engine.podgroups.content import changes, content, manifest, misread
from volcanoio.engine.podgroups.membership import owner_of, workload_of
from volcanoio.engine.podgroups.state import GroupState, is_unmarked
from volcanoio.framework.controller import View
from volcanoio.framework.effects import Create, Delete, Effect, Patch, Stages
from volcanoio.framework.operators import event
from volcanoio.model import kinds, names
from volcanoio.model.base import ApiObject, OwnerReference
from volcanoio.model.core import Pod
from volcanoio.model.scheduling import PodGroup
from volcanoio.model.workloads import ReplicaSet, StatefulSet

REVISION = "controller-revision-hash"
"""The label of a StatefulSet's pod that says which revision of the template it is."""


def plan(state: GroupState, view: View, *, inherit: bool) -> Stages:
    """The stages due now; () when all is as it should be or a write of the group is under way."""
    if any(_about_group(effect) for effect in view.in_flight.values()):
        return ()
    group, pod = state.group, state.sample
    reference = owner_of(pod, group)
    owner = None if reference is None else _found(reference, view)
    if isinstance(owner, ReplicaSet | StatefulSet) and owner.spec.replicas == 0:
        return () if group is None else _removed(group)
    if group is None:
        if pod is None or not state.live or _is_gone(reference, owner):
            return ()
        owners = _owners(pod, view, inherit)
        created = Create(resource=kinds.POD_GROUP.resource, manifest=manifest(pod, content(pod, owners)))
        told = (event(kinds.POD, pod, "InvalidAnnotation", text, type_="Warning") for text in misread(pod, owners))
        return ((created, *told), _marks(state, view))
    if group.metadata.deletion_timestamp is not None:
        return ()
    stage: tuple[Effect, ...] = _marks(state, view)
    if pod is not None and state.live and _is_current(pod, owner):
        patch = changes(group, content(pod, _owners(pod, view, inherit)))
        if patch:
            stage = (_updated(group, patch), *stage)
    return (stage,) if stage else ()


def mark(pod: Pod, view: View) -> Patch:
    """Tells a pod which group it is in: what the scheduler goes by."""
    meta = pod.metadata
    return Patch(
        resource=kinds.POD.resource,
        namespace=meta.namespace,
        name=meta.name,
        uid=meta.uid,
        patch={"metadata": {"annotations": {names.GROUP_NAME: view.key.rpartition("/")[2]}}},
    )


def _marks(state: GroupState, view: View) -> tuple[Effect, ...]:
    """The marks of all pods that lack one and are not being told."""
    if not state.unmarked:
        return ()
    told = {effect.uid for effect in view.in_flight.values() if isinstance(effect, Patch)}
    pods = (pod for pod in view.lookup.mine(kinds.POD) if isinstance(pod, Pod) and is_unmarked(pod))
    return tuple(mark(pod, view) for pod in pods if pod.metadata.uid not in told)


def _about_group(effect: Effect) -> bool:
    return isinstance(effect, Create | Patch | Delete) and effect.resource == kinds.POD_GROUP.resource


def _found(reference: OwnerReference, view: View) -> ApiObject | None:
    """The workload that a reference means, if it is one of Kubernetes' and there."""
    kind = workload_of(reference)
    if kind is None:
        return None
    found = view.lookup.get(kind, reference.name, view.key.rpartition("/")[0])
    return found if found is not None and found.metadata.uid == reference.uid else None


def _is_gone(reference: OwnerReference | None, owner: ApiObject | None) -> bool:
    """Whether the pods' owner is deleted, and so the pods are about to be: a group would outlive both."""
    if reference is None or workload_of(reference) is None:
        return False
    return owner is None or owner.metadata.deletion_timestamp is not None


def _is_current(pod: Pod, owner: ApiObject | None) -> bool:
    """Whether a pod is what its owner makes now, so that the group may follow it."""
    if not isinstance(owner, StatefulSet):
        return True
    return pod.metadata.labels.get(REVISION) == owner.status.update_revision


def _owners(pod: Pod, view: View, inherit: bool) -> list[ApiObject]:
    """The workloads that own a pod, which its group inherits from."""
    if not inherit:
        return []
    found = (_found(reference, view) for reference in pod.metadata.owner_references)
    return [owner for owner in found if owner is not None]


def _removed(group: PodGroup) -> Stages:
    """A workload without replicas has no group."""
    meta = group.metadata
    if meta.deletion_timestamp is not None:
        return ()
    return ((Delete(resource=kinds.POD_GROUP.resource, namespace=meta.namespace, name=meta.name, uid=meta.uid),),)


def _updated(group: PodGroup, patch: dict[str, object]) -> Patch:
    meta = group.metadata
    return Patch(resource=kinds.POD_GROUP.resource, namespace=meta.namespace, name=meta.name, uid=meta.uid, patch=patch)
