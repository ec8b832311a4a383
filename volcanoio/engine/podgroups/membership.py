"""Which PodGroup a pod is in that no Volcano Job made: that of its controller, or one of its own.

Source: Volcano, pkg/controllers/podgroup (and helpers.GeneratePodgroupName).
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable

from volcanoio.model import kinds, names
from volcanoio.model.base import ApiObject, OwnerReference
from volcanoio.model.core import Pod
from volcanoio.model.kinds import Kind
from volcanoio.model.scheduling import PodGroup

WORKLOADS = {
    (kind.api_version, kind.kind): kind
    for kind in (kinds.REPLICA_SET, kinds.STATEFUL_SET, kinds.DAEMON_SET, kinds.KUBERNETES_JOB)
}
"""Owners of pods that are looked at, by apiVersion and kind: a Job of another API group is none."""
_OVER = ("Succeeded", "Failed")


def group_name(pod: Pod) -> str:
    """`podgroup-<uid>` of the pod's controller, or of the pod itself."""
    controller = pod.metadata.controller
    return f"{names.PODGROUP_PREFIX}{pod.metadata.uid if controller is None else controller.uid}"


def pod_keys(schedulers: Collection[str]) -> Callable[[ApiObject], Iterable[str]]:
    """The key of a pod: its PodGroup's, if it is for one of these schedulers and in no other group.

    Asked of every pod at every change, so what a Volcano Job made is seen at the first glance. An empty annotation is
    none.
    """
    wanted = frozenset(schedulers)

    def keys(obj: ApiObject) -> Iterable[str]:
        named = obj.metadata.annotations.get(names.GROUP_NAME)
        if named and not named.startswith(names.PODGROUP_PREFIX):
            return ()
        if not isinstance(obj, Pod) or obj.spec.scheduler_name not in wanted:
            return ()
        name = group_name(obj)
        return (f"{obj.metadata.namespace}/{name}",) if not named or named == name else ()

    return keys


def group_keys(group: ApiObject) -> Iterable[str]:
    """The key of a PodGroup that bears the name of its owner's uid."""
    meta = group.metadata
    if not meta.name.startswith(names.PODGROUP_PREFIX):
        return ()
    owner = meta.controller
    return (meta.key,) if owner is not None and meta.name == f"{names.PODGROUP_PREFIX}{owner.uid}" else ()


def is_live(pod: Pod) -> bool:
    """Whether a pod still is to run, or runs."""
    return pod.metadata.deletion_timestamp is None and pod.status.phase not in _OVER


def is_marked(pod: Pod) -> bool:
    """Whether the pod says which PodGroup it is in."""
    return bool(pod.metadata.annotations.get(names.GROUP_NAME))


def workload_of(reference: OwnerReference) -> Kind | None:
    """The kind of an owner that is a workload of Kubernetes."""
    return WORKLOADS.get((reference.api_version, reference.kind))


def owner_of(pod: Pod | None, group: PodGroup | None) -> OwnerReference | None:
    """Who controls the pods of a PodGroup, as far as a pod or the group tells; None for a bare pod."""
    for each in (pod, group):
        if each is not None and (owner := each.metadata.controller) is not None:
            return None if owner.kind == kinds.POD.kind else owner
    return None
