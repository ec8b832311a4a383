"""The writes that many controllers ask for, and what is told of them (Kubernetes: controller_utils.go)."""

from __future__ import annotations

from typing import Any

from volcanoio.framework.effects import Create, Delete, Patch
from volcanoio.localcluster.controllers.frame.contract import Told, Write
from volcanoio.model.base import ApiObject, Manifest
from volcanoio.model.core import Pod
from volcanoio.model.kinds import POD, Kind
from volcanoio.model.references import object_reference


def creating(kind: Kind, owner: ApiObject, manifest: Manifest) -> Write:
    """The write of a new pod of an owner, told in the owner's Events."""
    name = manifest["metadata"]["name"]
    told = Told(
        object_reference(kind, owner),
        done=("SuccessfulCreate", f"Created pod: {name}"),
        refused=("FailedCreate", "Error creating: "),
    )
    return Write(Create(resource=POD.resource, manifest=manifest), told)


def deleting(kind: Kind, owner: ApiObject, pod: Pod) -> Write:
    """The write that deletes a pod of an owner, told in the owner's Events."""
    meta = pod.metadata
    told = Told(
        object_reference(kind, owner),
        done=("SuccessfulDelete", f"Deleted pod: {meta.name}"),
        refused=("FailedDelete", "Error deleting: "),
    )
    return Write(Delete(resource=POD.resource, namespace=meta.namespace, name=meta.name, uid=meta.uid), told)


def patching(kind: Kind, obj: ApiObject, patch: dict[str, Any]) -> Write:
    """The write that changes an object, refused when it is no longer the version that was seen."""
    meta = obj.metadata
    return Write(
        Patch(
            resource=kind.resource,
            namespace=meta.namespace,
            name=meta.name,
            uid=meta.uid,
            resource_version=meta.resource_version,
            patch=patch,
        )
    )
