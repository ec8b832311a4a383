"""How one object names another: as its owner, and as what an Event is about."""

from __future__ import annotations

from volcanoio.model.base import ApiObject, Manifest, ObjectReference
from volcanoio.model.kinds import Kind


def owner_reference(kind: Kind, owner: ApiObject) -> Manifest:
    """The reference by which an object belongs to its controller and goes with it."""
    meta = owner.metadata
    return {
        "apiVersion": kind.api_version,
        "kind": kind.kind,
        "name": meta.name,
        "uid": meta.uid,
        "controller": True,
        "blockOwnerDeletion": True,
    }


def object_reference(kind: Kind, obj: ApiObject) -> ObjectReference:
    """The object as an Event names it."""
    meta = obj.metadata
    return ObjectReference(
        api_version=kind.api_version,
        kind=kind.kind,
        namespace=meta.namespace,
        name=meta.name,
        uid=meta.uid,
        resource_version=meta.resource_version,
    )
