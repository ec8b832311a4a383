"""PodGroup of a pod that no Volcano Job made: its name, its pods and its content.

The group is that of the pod's controller, or the pod's own. Source: Volcano, pkg/controllers/podgroup
(helpers.GeneratePodgroupName; buildPodGroupFromPod in pg_controller_handler.go and what it calls).
"""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence

import msgspec

from volcanoio.framework.effects import merge_diff
from volcanoio.framework.podusage import Usage, format_usage, spec_usage
from volcanoio.model import kinds, names
from volcanoio.model.base import ApiObject, Manifest, OwnerReference
from volcanoio.model.batch import NetworkTopology
from volcanoio.model.core import Pod
from volcanoio.model.kinds import Kind, owner_reference
from volcanoio.model.resources import add
from volcanoio.model.scheduling import PodGroup, PodGroupPhase, PodGroupSpec
from volcanoio.model.workloads import ReplicaSet, StatefulSet

WORKLOADS = {
    (kind.api_version, kind.kind): kind
    for kind in (kinds.REPLICA_SET, kinds.STATEFUL_SET, kinds.DAEMON_SET, kinds.KUBERNETES_JOB)
}
"""Owners of pods that are examined, by apiVersion and kind: a Job of another API group is none."""
_FINISHED = ("Succeeded", "Failed")


def group_name(pod: Pod) -> str:
    """Return `podgroup-<uid>` of the pod's controller, or of the pod itself."""
    controller = pod.metadata.controller
    return f"{names.PODGROUP_PREFIX}{pod.metadata.uid if controller is None else controller.uid}"


def pod_keys(schedulers: Collection[str]) -> Callable[[ApiObject], Iterable[str]]:
    """Return the key function for pods: their PodGroup, for pods of these schedulers that are in no other group.

    It runs for every pod at every change, so pods of Volcano Jobs are excluded first. An empty annotation is none. A
    pod with a native group (`spec.schedulingGroup`) needs no other, unless it was given one before that was known.
    """
    desired = frozenset(schedulers)

    def keys(obj: ApiObject) -> Iterable[str]:
        if (named := obj.metadata.annotations.get(names.GROUP_NAME)) and not named.startswith(names.PODGROUP_PREFIX):
            return ()
        if not isinstance(obj, Pod) or obj.spec.scheduler_name not in desired:
            return ()
        if not named and obj.spec.scheduling_group is not None:
            return ()
        name = group_name(obj)
        return (f"{obj.metadata.namespace}/{name}",) if not named or named == name else ()

    return keys


def group_keys(group: ApiObject) -> Iterable[str]:
    """Return the key of a PodGroup that is named after its owner's uid."""
    meta = group.metadata
    if not meta.name.startswith(names.PODGROUP_PREFIX):
        return ()
    owner = meta.controller
    return (meta.key,) if owner is not None and meta.name == f"{names.PODGROUP_PREFIX}{owner.uid}" else ()


def is_live(pod: Pod) -> bool:
    """Return whether a pod is running or still to run."""
    return pod.metadata.deletion_timestamp is None and pod.status.phase not in _FINISHED


def names_group(pod: Pod) -> bool:
    """Return whether the pod has the PodGroup's annotation."""
    return bool(pod.metadata.annotations.get(names.GROUP_NAME))


def workload_of(reference: OwnerReference) -> Kind | None:
    """Return the kind of an owner that is a Kubernetes workload."""
    return WORKLOADS.get((reference.api_version, reference.kind))


def owner_of(pod: Pod | None, group: PodGroup | None) -> OwnerReference | None:
    """Return the controller of a PodGroup's pods, as a pod or the group shows it; None for a bare pod."""
    for each in (pod, group):
        if each is not None and (owner := each.metadata.controller) is not None:
            return None if owner.kind == kinds.POD.kind else owner
    return None


INHERITED_PREFIX = "volcano.sh/"
"""Prefix of the annotations that a PodGroup inherits from the owner of its pods."""
_COPIED_ANNOTATIONS = (
    names.PREEMPTABLE, names.COOLDOWN_TIME, names.REVOCABLE_ZONE, names.JDB_MIN_AVAILABLE, names.JDB_MAX_UNAVAILABLE,
)  # fmt: skip
_COPIED_LABELS = (names.PREEMPTABLE, names.COOLDOWN_TIME)
_TOPOLOGY_MODES = ("hard", "soft")


class DesiredContent(msgspec.Struct, frozen=True):
    """Desired content of a PodGroup. An empty queue or topology leaves the PodGroup's own."""

    labels: dict[str, str]
    annotations: dict[str, str]
    spec: PodGroupSpec


def desired_content(pod: Pod, owners: Sequence[ApiObject]) -> DesiredContent:
    """Return the content for the group of a pod; `owners` are the workloads it inherits from. Raises QuantityError."""
    inherited: dict[str, str] = {}
    for owner in reversed(owners):  # the first owner takes precedence
        inherited |= owner.metadata.annotations
    own, labels = pod.metadata.annotations, pod.metadata.labels
    annotations = {key: value for key, value in inherited.items() if key.startswith(INHERITED_PREFIX)}
    annotations |= {key: own[key] for key in _COPIED_ANNOTATIONS if key in own}
    members = _min_member(inherited, owners)
    usage: Usage = {}
    add(usage, spec_usage(pod.spec), members)
    return DesiredContent(
        labels={key: labels[key] for key in _COPIED_LABELS if key in labels},
        annotations=annotations,
        spec=PodGroupSpec(
            min_member=members,
            queue=own.get(names.QUEUE_NAME_ANNOTATION, ""),
            priority_class_name=pod.spec.priority_class_name,
            min_resources=format_usage(usage),
            network_topology=_topology(own),
        ),
    )


def annotation_problems(pod: Pod, owners: Sequence[ApiObject]) -> list[str]:
    """Return a sentence for each annotation that is ignored: Volcano writes these only to its log."""
    found = []
    minimum = next((text for owner in owners if (text := owner.metadata.annotations.get(names.GROUP_MIN_MEMBER))), "1")
    if _parse_count(minimum) is None:
        found.append(
            f'annotation {names.GROUP_MIN_MEMBER} of its owner is "{minimum}", which is not a whole number of 0 or '
            "more; the PodGroup's minimum is 1 until it is fixed"
        )
    if (mode := pod.metadata.annotations.get(names.TOPOLOGY_MODE, "")) and mode.lower() not in _TOPOLOGY_MODES:
        found.append(f'annotation {names.TOPOLOGY_MODE} is "{mode}", which counts as hard; write hard or soft')
    if (tier := pod.metadata.annotations.get(names.TOPOLOGY_HIGHEST_TIER)) is not None and _parse_count(tier) is None:
        found.append(
            f'annotation {names.TOPOLOGY_HIGHEST_TIER} is "{tier}", which is not a whole number of 0 or more; without '
            "a tier, a hard topology restricts nothing"
        )
    return found


def group_manifest(pod: Pod, desired: DesiredContent) -> Manifest:
    """Return the PodGroup to create: owned by the pod's owners if one is its controller, else by the pod."""
    meta = pod.metadata
    inherited = msgspec.to_builtins(meta.owner_references)
    owners = [owner_reference(kinds.POD, pod)] if meta.controller is None else inherited
    return {
        "apiVersion": kinds.POD_GROUP.api_version,
        "kind": kinds.POD_GROUP.kind,
        "metadata": {
            "name": group_name(pod),
            "namespace": meta.namespace,
            "labels": desired.labels,
            "annotations": desired.annotations,
            "ownerReferences": owners,
        },
        "spec": {"minMember": 0, **msgspec.to_builtins(desired.spec)},
        "status": {"phase": PodGroupPhase.PENDING.value},
    }


def group_patch(group: PodGroup, desired: DesiredContent) -> Manifest:
    """Return the merge patch that updates a group, {} for none. Fields of others stay."""
    spec = group.spec
    new = msgspec.structs.replace(
        desired.spec,
        queue=desired.spec.queue or spec.queue,
        network_topology=desired.spec.network_topology or spec.network_topology,
        min_task_member=spec.min_task_member,
        sub_group_policy=spec.sub_group_policy,
    )
    found: Manifest = {}
    if new != spec:
        found["spec"] = merge_diff(msgspec.to_builtins(spec), msgspec.to_builtins(new))
        if "minMember" in found["spec"]:
            found["spec"]["minMember"] = new.min_member  # zero is a default, which to_builtins omits
    meta = {
        field: added
        for field, has, wants in (
            ("labels", group.metadata.labels, desired.labels),
            ("annotations", group.metadata.annotations, desired.annotations),
        )
        if (added := {key: value for key, value in wants.items() if has.get(key) != value})
    }
    return {**found, "metadata": meta} if meta else found


def _min_member(annotations: Mapping[str, str], owners: Sequence[ApiObject]) -> int:
    """Return how many pods must run together: 1 unless the owner has a valid annotation.

    Never more than the owner's replicas: the next ReplicaSet of a Deployment begins with a few, and the old one shrinks
    only once these run.
    """
    if (members := _parse_count(annotations.get(names.GROUP_MIN_MEMBER, "1"))) is None:
        members = 1
    sizes = (owner.spec.replicas for owner in owners if isinstance(owner, ReplicaSet | StatefulSet))
    return min([members, *(size for size in sizes if size > 0)])


def _parse_count(text: str) -> int | None:
    digits = text.removeprefix("+")
    return int(digits) if digits.isascii() and digits.isdigit() else None


def _topology(annotations: Mapping[str, str]) -> NetworkTopology | None:
    """Return the network topology of a pod's annotations; an unknown mode is `hard`."""
    mode, tier = annotations.get(names.TOPOLOGY_MODE), annotations.get(names.TOPOLOGY_HIGHEST_TIER)
    if mode is None and tier is None:
        return None
    lowered = (mode or "").lower()
    return NetworkTopology(
        mode=lowered if lowered in _TOPOLOGY_MODES else "hard",
        highest_tier_allowed=_parse_count(tier or ""),
    )
