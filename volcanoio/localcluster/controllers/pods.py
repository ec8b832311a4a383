"""What controllers ask of pods, and how they make them (Kubernetes: pkg/controller/controller_utils.go, api/v1/pod)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from volcanoio.model.base import ApiObject, Manifest
from volcanoio.model.core import Condition, Pod
from volcanoio.model.kinds import Kind
from volcanoio.model.references import owner_reference
from volcanoio.model.times import epoch

DELETION_COST = "controller.kubernetes.io/pod-deletion-cost"


def finished(pod: Pod) -> bool:
    """Whether it has ended for good."""
    return pod.status.phase in ("Succeeded", "Failed")


def terminating(pod: Pod) -> bool:
    """Whether it was deleted and is not gone yet."""
    return pod.metadata.deletion_timestamp is not None


def active(pod: Pod) -> bool:
    """Whether it runs or will run."""
    return not finished(pod) and not terminating(pod)


def condition(pod: Pod, type_: str) -> Condition | None:
    """Its condition of that type."""
    return next((one for one in pod.status.conditions if one.type == type_), None)


def ready(pod: Pod) -> bool:
    """Whether its Ready condition is True."""
    found = condition(pod, "Ready")
    return found is not None and found.status == "True"


def ready_since(pod: Pod) -> float | None:
    """Since when (epoch seconds) it is ready; None when it is not."""
    found = condition(pod, "Ready")
    if found is None or found.status != "True":
        return None
    return epoch(found.last_transition_time) or 0.0


def available_at(pod: Pod, min_ready: float) -> float | None:
    """When (epoch seconds) a ready pod counts as available, `min_ready` seconds after it became ready."""
    since = ready_since(pod)
    if since is None:
        return None
    return 0.0 if not min_ready else since + min_ready


def restarts(pod: Pod) -> int:
    """The restarts of its most restarted container."""
    return max((status.restart_count for status in pod.status.container_statuses), default=0)


def pod_of(
    template: Mapping[str, Any],
    kind: Kind,
    owner: ApiObject,
    name: str,
    *,
    generate_name: str = "",
    labels: Mapping[str, str] | None = None,
    annotations: Mapping[str, str] | None = None,
    finalizers: Sequence[str] = (),
) -> Manifest:
    """A pod made of a template, with what its owner adds to it. The spec is the template's own: copy to change."""
    meta = template.get("metadata") or {}
    metadata: Manifest = {"name": name, "namespace": owner.metadata.namespace}
    if generate_name:
        metadata["generateName"] = generate_name
    for field, extra in (("labels", labels), ("annotations", annotations)):
        if merged := {**(meta.get(field) or {}), **(extra or {})}:
            metadata[field] = merged
    if ends := [*(meta.get("finalizers") or ()), *finalizers]:
        metadata["finalizers"] = ends
    metadata["ownerReferences"] = [owner_reference(kind, owner)]
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": template.get("spec") or {}}


def generated(base: str, suffix: str) -> tuple[str, str]:
    """A generated name and its prefix, as the API server makes them: at most 63 letters."""
    prefix = f"{base}-"
    return prefix[: 63 - len(suffix)] + suffix, prefix
