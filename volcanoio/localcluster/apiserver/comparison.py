"""What a write is compared by: versions, identity, content, and whether a deletion is complete."""

from __future__ import annotations

from typing import Any, Final

from volcanoio.engine.admission.fielderrors import FieldError, invalid
from volcanoio.localcluster.apiserver import errors
from volcanoio.localcluster.apiserver.objects import Stored, encode
from volcanoio.localcluster.apiserver.paths import Target
from volcanoio.localcluster.apiserver.resources import Resource
from volcanoio.localcluster.apiserver.schema.comparison import identical
from volcanoio.model.base import Manifest

_NOT_CONTENT: Final = frozenset({"metadata", "status"})


def check_address(target: Target, meta: Manifest) -> None:
    """The object is the one that the path names; raises ApiError 400."""
    name, namespace = meta.get("name"), meta.get("namespace")
    if not name:
        text = f"the name of the object ({target.name} based on URL) was undeterminable: name must be provided"
        raise errors.bad_request(text)
    if name != target.name:
        text = f"the name of the object ({name}) does not match the name on the URL ({target.name})"
        raise errors.bad_request(text)
    if namespace and target.resource.namespaced and namespace != target.namespace:
        raise errors.other_namespace()


def check_versions(
    target: Target, current: Stored, meta: Manifest, *, required: bool = False, patching: bool = False
) -> None:
    """Compare the uid and resourceVersion a client states with the stored ones; raises ApiError 409, 422 and 500.

    What a patch results in is no precondition: there another uid is a broken rule among others (`uid_errors`).
    """
    resource = target.resource
    version, uid = meta.get("resourceVersion"), meta.get("uid")
    if uid and uid != current.uid and not patching:
        why = f"Precondition failed: UID in precondition: {uid}, UID in object meta: {current.uid}"
        raise errors.conflict(resource, target.name, why)
    if not version or version == "0":
        if required:
            rule = invalid("metadata.resourceVersion", 0, "must be specified for an update")
            raise errors.unversioned(resource, target.name, rule)
        return
    if not str(version).isdigit():
        raise errors.unclassified(f'strconv.ParseUint: parsing "{version}": invalid syntax')
    if str(version) != str(current.revision):
        raise errors.modified(resource, target.name)


def uid_errors(current: Stored, uid: str | None) -> list[FieldError]:
    """What is wrong with an update that makes the uid another one: the real server finds it twice."""
    return [invalid("metadata.uid", uid, "field is immutable")] * 2 if uid and uid != current.uid else []


def check_no_uid(target: Target, meta: Manifest) -> None:
    """An update that would create has no object whose uid could be the stated one; raises ApiError 409."""
    if uid := meta.get("uid"):
        why = f"Precondition failed: UID in precondition: {uid}, UID in object meta: "
        raise errors.conflict(target.resource, target.name, why)


def identity(meta: Manifest) -> Manifest:
    """What admission must not change."""
    keys = ("name", "namespace", "uid", "creationTimestamp", "resourceVersion", "generation")
    return {key: meta[key] for key in keys if key in meta}


def content(resource: Resource, obj: Manifest) -> Any:
    """What a generation counts: all but metadata and, where it has a subresource, the status."""
    custom_status = resource.custom is not None and not resource.custom.status_subresource
    return {key: value for key, value in obj.items() if key not in _NOT_CONTENT or (custom_status and key == "status")}


def unchanged(resource: Resource, new: Any, old: Any) -> bool:
    """Whether two objects, or parts of them, are the same: for custom resources also in `true` and `1`."""
    if new != old or resource.custom is None:
        return bool(new == old)
    return encode(new) == encode(old) or identical(new, old)  # what is encoded tells types apart, and orders of keys


def is_finished(resource: Resource, obj: Manifest) -> bool:
    """Whether an object that is being deleted waits for nothing any more."""
    meta = obj["metadata"]
    if meta.get("finalizers") or meta.get("deletionGracePeriodSeconds"):
        return False
    return resource.name != "namespaces" or not (obj.get("spec") or {}).get("finalizers")
