"""What the controllers of a local cluster add to `Reconciler`, and the writes that most of them need.

Kubernetes: pkg/controller/controller_utils.go.
"""

from __future__ import annotations

from typing import Any

from volcanoio.framework.effects import Create, Delete, Patch
from volcanoio.framework.reconciler import Reconciler, Write, WriteEvents
from volcanoio.model.base import ApiObject, Manifest
from volcanoio.model.core import Pod
from volcanoio.model.kinds import POD, Kind, object_reference

BURST = 500
"""How many objects one plan creates or deletes at most (Kubernetes: BurstReplicas)."""


class ClusterController(Reconciler):
    """Lazy controller of the local cluster.

    Most clusters do not use most controllers, and pods are many.
    """

    is_lazy = True


def creating(kind: Kind, owner: ApiObject, manifest: Manifest) -> Write:
    """Return the write that creates a pod of an owner, with Events on the owner."""
    name = manifest["metadata"]["name"]
    events = WriteEvents(
        object_reference(kind, owner),
        on_success=("SuccessfulCreate", f"Created pod: {name}"),
        on_failure=("FailedCreate", "Error creating: "),
    )
    return Write(Create(resource=POD.resource, manifest=manifest), events)


def deleting(kind: Kind, owner: ApiObject, pod: Pod) -> Write:
    """Return the write that deletes a pod of an owner, with Events on the owner."""
    meta = pod.metadata
    events = WriteEvents(
        object_reference(kind, owner),
        on_success=("SuccessfulDelete", f"Deleted pod: {meta.name}"),
        on_failure=("FailedDelete", "Error deleting: "),
    )
    return Write(Delete.of(POD.resource, pod), events)


def patching(kind: Kind, obj: ApiObject, patch: dict[str, Any]) -> Write:
    """Return the write that changes an object.

    Refused when it is no longer the version that was seen.
    """
    return Write(Patch.of(kind.resource, obj, patch, at_version=True))
