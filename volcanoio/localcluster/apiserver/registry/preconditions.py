"""Preconditions of writes: versions and identity; also comparison of content, and completion of deletions."""

from __future__ import annotations

from typing import Any, Final

from volcanoio.localcluster.apiserver.apimachinery import errors
from volcanoio.localcluster.apiserver.apimachinery.objects import Stored, encode
from volcanoio.localcluster.apiserver.apimachinery.paths import Target
from volcanoio.localcluster.apiserver.apimachinery.resources import Resource
from volcanoio.localcluster.apiserver.schema.equality import identical
from volcanoio.model.base import Manifest
from volcanoio.model.validation.field_errors import FieldError, invalid

_NOT_CONTENT: Final = frozenset({"metadata", "status"})


def check_address(target: Target, meta: Manifest) -> None:
    """Check that the object is the one of the path; raises ApiError 400."""
    name, namespace = meta.get("name"), meta.get("namespace")
    if not name:
        text = f"the name of the object ({target.name} based on URL) was undeterminable: name must be provided"
        raise errors.bad_request(text)
    if name != target.name:
        text = f"the name of the object ({name}) does not match the name on the URL ({target.name})"
        raise errors.bad_request(text)
    if namespace and target.resource.namespaced and namespace != target.namespace:
        raise errors.wrong_namespace()


def check_versions(
    target: Target, current: Stored, meta: Manifest, *, required: bool = False, patching: bool = False
) -> None:
    """Compare uid and resourceVersion from a client with the stored ones.

    Raises ApiError 409, 422 and 500.

    A patched object is no precondition: there another uid is a validation error (`uid_errors`).
    """
    resource = target.resource
    version, uid = meta.get("resourceVersion"), meta.get("uid")
    if uid and uid != current.uid and not patching:
        why = f"Precondition failed: UID in precondition: {uid}, UID in object meta: {current.uid}"
        raise errors.conflict(resource, target.name, why)
    if not version or version == "0":
        if required:
            rule = invalid("metadata.resourceVersion", 0, "must be specified for an update")
            raise errors.missing_version(resource, target.name, rule)
        return
    if not str(version).isdigit():
        raise errors.unclassified(f'strconv.ParseUint: parsing "{version}": invalid syntax')
    if str(version) != str(current.revision):
        raise errors.modified(resource, target.name)


def uid_errors(current: Stored, uid: str | None) -> list[FieldError]:
    """Return errors of an update that changes the uid; the real server reports it twice."""
    return [invalid("metadata.uid", uid, "field is immutable")] * 2 if uid and uid != current.uid else []


def check_no_uid(target: Target, meta: Manifest) -> None:
    """Refuse an update that would create an object with a given uid; raises ApiError 409."""
    if uid := meta.get("uid"):
        why = f"Precondition failed: UID in precondition: {uid}, UID in object meta: "
        raise errors.conflict(target.resource, target.name, why)


def identity(meta: Manifest) -> Manifest:
    """Return the metadata that admission must not change."""
    keys = ("name", "namespace", "uid", "creationTimestamp", "resourceVersion", "generation")
    return {key: meta[key] for key in keys if key in meta}


def content(resource: Resource, obj: Manifest) -> Any:
    """Return the part that a generation counts.

    That is all but metadata and, with that subresource, the status.
    """
    custom_status = resource.custom is not None and not resource.custom.status_subresource
    return {key: value for key, value in obj.items() if key not in _NOT_CONTENT or (custom_status and key == "status")}


def unchanged(resource: Resource, new: Any, old: Any) -> bool:
    """Return whether two objects or parts are equal; for custom resources `true` and `1` differ."""
    if new != old or resource.custom is None:
        return bool(new == old)
    return encode(new) == encode(old) or identical(new, old)  # encodings also differ in types and in order


def is_finished(resource: Resource, obj: Manifest) -> bool:
    """Return whether the deletion of a terminating object can be completed."""
    meta = obj["metadata"]
    if meta.get("finalizers") or meta.get("deletionGracePeriodSeconds"):
        return False
    return resource.name != "namespaces" or not (obj.get("spec") or {}).get("finalizers")
