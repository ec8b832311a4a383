"""What a write is compared by: versions, identity, content, and whether a deletion is complete."""

from __future__ import annotations

from typing import Any, Final

from volcanoio.engine.admission.fielderrors import invalid
from volcanoio.localcluster.apiserver import errors
from volcanoio.localcluster.apiserver.objects import Stored
from volcanoio.localcluster.apiserver.paths import Target
from volcanoio.localcluster.apiserver.resources import Resource
from volcanoio.model.base import Manifest

_NOT_CONTENT: Final = frozenset({"metadata", "status"})


def check_versions(target: Target, current: Stored, meta: Manifest, *, required: bool) -> None:
    """Compare the uid and resourceVersion a client states with the stored ones; raises ApiError 409 and 422."""
    resource = target.resource
    version, uid = meta.get("resourceVersion"), meta.get("uid")
    if uid and uid != current.uid:
        why = f"Precondition failed: UID in precondition: {uid}, UID in object meta: {current.uid}"
        raise errors.conflict(resource, target.name, why)
    if not version or version == "0":
        if required:
            rule = invalid("metadata.resourceVersion", 0, "must be specified for an update")
            raise errors.invalid(resource, target.name, [rule])
        return
    if str(version) != str(current.revision):
        raise errors.modified(resource, target.name)


def identity(meta: Manifest) -> Manifest:
    """What admission must not change."""
    keys = ("name", "namespace", "uid", "creationTimestamp", "resourceVersion", "generation")
    return {key: meta[key] for key in keys if key in meta}


def content(resource: Resource, obj: Manifest) -> Any:
    """What a generation counts: all but metadata and, where it has a subresource, the status."""
    custom_status = resource.custom is not None and not resource.custom.status_subresource
    return {key: value for key, value in obj.items() if key not in _NOT_CONTENT or (custom_status and key == "status")}


def is_finished(resource: Resource, obj: Manifest) -> bool:
    """Whether an object that is being deleted waits for nothing any more."""
    meta = obj["metadata"]
    if meta.get("finalizers") or meta.get("deletionGracePeriodSeconds"):
        return False
    return resource.name != "namespaces" or not (obj.get("spec") or {}).get("finalizers")
