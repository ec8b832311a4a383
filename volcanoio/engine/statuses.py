"""A status as a reducer writes it: what must change, computed from the version that it knows."""

from __future__ import annotations

import msgspec

from volcanoio.framework.effects import Patch, merge_diff
from volcanoio.model.base import ApiObject
from volcanoio.model.kinds import Kind


def status_patch(kind: Kind, obj: ApiObject, before: msgspec.Struct, after: msgspec.Struct) -> Patch:
    """The write that makes `after` of the object's status `before`; refused with 409 if the object has changed."""
    meta = obj.metadata
    return Patch(
        resource=kind.resource,
        namespace=meta.namespace,
        name=meta.name,
        subresource="status",
        patch={"status": merge_diff(msgspec.to_builtins(before), msgspec.to_builtins(after))},
        uid=meta.uid,
        resource_version=meta.resource_version,
    )
