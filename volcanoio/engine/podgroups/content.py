"""What a PodGroup holds that is made for pods: worked out from one of them and the workloads that own it.

Source: Volcano, pkg/controllers/podgroup/pg_controller_handler.go (buildPodGroupFromPod and what it calls).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec

from volcanoio.engine.podgroups.membership import group_name
from volcanoio.framework.effects import merge_diff
from volcanoio.framework.podusage import Usage, as_resource_list, usage_of
from volcanoio.model import kinds, names
from volcanoio.model.base import ApiObject, Manifest
from volcanoio.model.batch import NetworkTopology
from volcanoio.model.core import Pod
from volcanoio.model.references import owner_reference
from volcanoio.model.resources import add
from volcanoio.model.scheduling import PodGroup, PodGroupPhase, PodGroupSpec
from volcanoio.model.workloads import ReplicaSet, StatefulSet

INHERITED = "volcano.sh/"
"""Prefix of the annotations that a PodGroup takes from the owner of its pods."""
_ANNOTATIONS = (
    names.PREEMPTABLE, names.COOLDOWN_TIME, names.REVOCABLE_ZONE, names.JDB_MIN_AVAILABLE, names.JDB_MAX_UNAVAILABLE,
)  # fmt: skip
_LABELS = (names.PREEMPTABLE, names.COOLDOWN_TIME)
_MODES = ("hard", "soft")


class Content(msgspec.Struct, frozen=True):
    """What a PodGroup has to hold. An empty queue, and no topology, leave to the PodGroup what it has."""

    labels: dict[str, str]
    annotations: dict[str, str]
    spec: PodGroupSpec


def content(pod: Pod, owners: Sequence[ApiObject]) -> Content:
    """The content for the group of a pod; `owners` are the workloads it inherits from. Raises QuantityError."""
    inherited: dict[str, str] = {}
    for owner in reversed(owners):  # of two that say the same the first counts
        inherited |= owner.metadata.annotations
    own, labels = pod.metadata.annotations, pod.metadata.labels
    annotations = {key: value for key, value in inherited.items() if key.startswith(INHERITED)}
    annotations |= {key: own[key] for key in _ANNOTATIONS if key in own}
    members = _members(inherited, owners)
    usage: Usage = {}
    add(usage, usage_of(pod.spec), members)
    return Content(
        labels={key: labels[key] for key in _LABELS if key in labels},
        annotations=annotations,
        spec=PodGroupSpec(
            min_member=members,
            queue=own.get(names.QUEUE_NAME_ANNOTATION, ""),
            priority_class_name=pod.spec.priority_class_name,
            min_resources=as_resource_list(usage),
            network_topology=_topology(own),
        ),
    )


def misread(pod: Pod, owners: Sequence[ApiObject]) -> list[str]:
    """What annotations say that a group is made without, a sentence each: Volcano leaves that to its log."""
    found = []
    minimum = next((text for owner in owners if (text := owner.metadata.annotations.get(names.GROUP_MIN_MEMBER))), "1")
    if _number(minimum) is None:
        found.append(
            f'annotation {names.GROUP_MIN_MEMBER} of its owner is "{minimum}", which is no whole number of 0 or more; '
            "the PodGroup's minimum is 1 until it is one"
        )
    mode = pod.metadata.annotations.get(names.TOPOLOGY_MODE, "")
    if mode and mode.lower() not in _MODES:
        found.append(f'annotation {names.TOPOLOGY_MODE} is "{mode}", which counts as hard; write hard or soft')
    return found


def manifest(pod: Pod, wanted: Content) -> Manifest:
    """The PodGroup to create: owned by whoever owns the pod, if that has a controller, else by the pod."""
    meta = pod.metadata
    inherited = msgspec.to_builtins(meta.owner_references)
    owners = [owner_reference(kinds.POD, pod)] if meta.controller is None else inherited
    return {
        "apiVersion": kinds.POD_GROUP.api_version,
        "kind": kinds.POD_GROUP.kind,
        "metadata": {
            "name": group_name(pod),
            "namespace": meta.namespace,
            "labels": wanted.labels,
            "annotations": wanted.annotations,
            "ownerReferences": owners,
        },
        "spec": {"minMember": 0, **msgspec.to_builtins(wanted.spec)},
        "status": {"phase": PodGroupPhase.PENDING.value},
    }


def changes(group: PodGroup, wanted: Content) -> Manifest:
    """The merge patch that brings a group up to date, {} for none. What others put on it stays."""
    spec = group.spec
    new = msgspec.structs.replace(
        wanted.spec,
        queue=wanted.spec.queue or spec.queue,
        network_topology=wanted.spec.network_topology or spec.network_topology,
        min_task_member=spec.min_task_member,
        sub_group_policy=spec.sub_group_policy,
    )
    found: Manifest = {}
    if new != spec:
        found["spec"] = merge_diff(msgspec.to_builtins(spec), msgspec.to_builtins(new))
        if "minMember" in found["spec"]:
            found["spec"]["minMember"] = new.min_member  # a zero is left out where defaults are
    meta = {
        field: added
        for field, has, wants in (
            ("labels", group.metadata.labels, wanted.labels),
            ("annotations", group.metadata.annotations, wanted.annotations),
        )
        if (added := {key: value for key, value in wants.items() if has.get(key) != value})
    }
    return {**found, "metadata": meta} if meta else found


def _members(annotations: Mapping[str, str], owners: Sequence[ApiObject]) -> int:
    """How many pods must run together: 1 unless the owner says otherwise with a number that is not negative.

    Never more than the owner's replicas: the next ReplicaSet of a Deployment begins with a few, and its predecessor
    goes on only once these run.
    """
    members = _number(annotations.get(names.GROUP_MIN_MEMBER, "1"))
    if members is None:
        members = 1
    sizes = (owner.spec.replicas for owner in owners if isinstance(owner, ReplicaSet | StatefulSet))
    return min([members, *(size for size in sizes if size > 0)])


def _number(text: str) -> int | None:
    digits = text.removeprefix("+")
    return int(digits) if digits.isascii() and digits.isdigit() else None


def _topology(annotations: Mapping[str, str]) -> NetworkTopology | None:
    """The network topology that a pod's annotations ask for; a mode nobody knows is `hard`."""
    mode, tier = annotations.get(names.TOPOLOGY_MODE), annotations.get(names.TOPOLOGY_HIGHEST_TIER)
    if mode is None and tier is None:
        return None
    lowered = (mode or "").lower()
    return NetworkTopology(
        mode=lowered if lowered in _MODES else "hard",
        highest_tier_allowed=int(tier) if tier and tier.isascii() and tier.isdigit() else None,
    )
