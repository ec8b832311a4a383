"""Pods as controllers see them: state, readiness, creation from a template, and the order of deletion.

Kubernetes: pkg/controller/controller_utils.go (also ActivePodsWithRanks) and pkg/api/v1/pod.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from volcanoio.model.base import ApiObject, Manifest
from volcanoio.model.core import Condition, Pod
from volcanoio.model.kinds import Kind, owner_reference
from volcanoio.model.times import epoch

DELETION_COST = "controller.kubernetes.io/pod-deletion-cost"


def finished(pod: Pod) -> bool:
    """Return whether the pod has ended for good."""
    return pod.status.phase in ("Succeeded", "Failed")


def terminating(pod: Pod) -> bool:
    """Return whether the pod is terminating: deleted, but still stored."""
    return pod.metadata.deletion_timestamp is not None


def active(pod: Pod) -> bool:
    """Return whether the pod runs or will run."""
    return not finished(pod) and not terminating(pod)


def pod_condition(pod: Pod, type_: str) -> Condition | None:
    """Return the pod's condition of that type."""
    return next((one for one in pod.status.conditions if one.type == type_), None)


def ready(pod: Pod) -> bool:
    """Return whether the pod's Ready condition is True."""
    found = pod_condition(pod, "Ready")
    return found is not None and found.status == "True"


def ready_since(pod: Pod) -> float | None:
    """Return the time (epoch seconds) since which the pod is ready; None when it is not."""
    found = pod_condition(pod, "Ready")
    if found is None or found.status != "True":
        return None
    return epoch(found.last_transition_time) or 0.0


def available_at(pod: Pod, min_ready: float) -> float | None:
    """Return when (epoch seconds) a ready pod counts as available.

    That is `min_ready` seconds after it became ready.
    """
    since = ready_since(pod)
    if since is None:
        return None
    return 0.0 if not min_ready else since + min_ready


def restarts(pod: Pod) -> int:
    """Return the restarts of the pod's most restarted container."""
    return max((status.restart_count for status in pod.status.container_statuses), default=0)


class PodName(NamedTuple):
    """The name of a pod and the prefix that it was generated from."""

    name: str
    prefix: str


class PodMetadata(NamedTuple):
    """Metadata that an owner adds to that of its template."""

    labels: Mapping[str, str] = {}
    annotations: Mapping[str, str] = {}
    finalizers: Sequence[str] = ()


_NOTHING_ADDED = PodMetadata()


def pod_of(
    template: Mapping[str, Any], kind: Kind, owner: ApiObject, name: PodName, added: PodMetadata = _NOTHING_ADDED
) -> Manifest:
    """Return the pod of a template. Its spec is the template's own: copy it to change it."""
    meta = template.get("metadata") or {}
    metadata: Manifest = {"name": name.name, "namespace": owner.metadata.namespace, "generateName": name.prefix}
    for field, extra in (("labels", added.labels), ("annotations", added.annotations)):
        if merged := {**(meta.get(field) or {}), **extra}:
            metadata[field] = merged
    if ends := [*(meta.get("finalizers") or ()), *added.finalizers]:
        metadata["finalizers"] = ends
    metadata["ownerReferences"] = [owner_reference(kind, owner)]
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": template.get("spec") or {}}


def generated(base: str, suffix: str) -> PodName:
    """Return a generated name as the API server makes it, of at most 63 characters."""
    prefix = f"{base}-"
    return PodName(prefix[: 63 - len(suffix)] + suffix, prefix)


_PHASES = {"Pending": 0, "Unknown": 1, "Running": 2}


def deletion_order(pods: Sequence[Pod], on_node: Mapping[str, int], now: float) -> list[Pod]:
    """Return the pods in order of deletion.

    Unassigned before assigned, Pending before Unknown before Running, not ready before ready, cheaper before dearer,
    on a node with more of its kind before fewer, ready (and then created) for a shorter time before longer (in
    powers
    of two, so that the youngest is not always the victim), more restarts before fewer.
    """

    def rank(pod: Pod) -> tuple[object, ...]:
        since = ready_since(pod)
        created = epoch(pod.metadata.creation_timestamp)
        return (
            bool(pod.spec.node_name),
            _PHASES.get(pod.status.phase, 1),
            ready(pod),
            _cost(pod),
            -on_node.get(pod.spec.node_name, 0) if pod.spec.node_name else 0,
            _age(since, now),
            -restarts(pod),
            _age(created, now),
            pod.metadata.uid,
        )

    return sorted(pods, key=rank)


def _cost(pod: Pod) -> int:
    try:
        return int(pod.metadata.annotations.get(DELETION_COST, "0"))
    except ValueError:
        return 0


def _age(since: float | None, now: float) -> int:
    """Return the duration of a state as a power of two; a state not yet reached is the youngest."""
    if since is None:
        return -1
    return int(math.log2(max(now - since, 1.0)))
