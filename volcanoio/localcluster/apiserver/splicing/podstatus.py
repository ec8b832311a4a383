"""The status of a pod as its node patches it: nothing but the status is decoded, merged and checked."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, TypeAlias

from volcanoio.kube.transport import ContentType
from volcanoio.localcluster.apiserver import builtin_types, errors
from volcanoio.localcluster.apiserver.api import ApiRequest
from volcanoio.localcluster.apiserver.apply.managers import is_ours
from volcanoio.localcluster.apiserver.comparison import check_versions, uid_errors
from volcanoio.localcluster.apiserver.core import Core
from volcanoio.localcluster.apiserver.fieldpaths import SELECTABLE, read_again
from volcanoio.localcluster.apiserver.objects import Stored, decode
from volcanoio.localcluster.apiserver.patches import PatchError, plain, strategic
from volcanoio.localcluster.apiserver.paths import Target
from volcanoio.localcluster.apiserver.splicing.parts import NULL_VALUE, at_revision, join, split
from volcanoio.model import mergepatch
from volcanoio.model.base import Manifest

PODS: Final = "pods"
_Merge: TypeAlias = Callable[[Manifest, Manifest], Manifest]
_PARTS: Final = frozenset({"metadata", "status"})
_PRECONDITIONS: Final = frozenset({"uid", "resourceVersion"})
_fields_of = read_again(path for path in SELECTABLE[PODS] if path.startswith("status."))


def patch_status(core: Core, target: Target, request: ApiRequest, current: Stored) -> bytes | None:
    """Store a patch of a pod's status and give the new object; None for one that is not of this form.

    The form: our own component patches the status alone, of a pod whose fields have no managers; it may state the uid
    and the version. Raises ApiError 409 where this is another. A pod that is being deleted still waits for
    something, else it were gone, and a status does not change what it waits for.
    """
    if request.query or not is_ours(request.headers.get("user-agent")):
        return None
    if core.webhooks.configured or b'"managedFields"' in current.data:
        return None
    merge, patch = _merge_of(request), _patch(request.body)
    if merge is None or patch is None:
        return None
    parts = split(current.data)
    metadata, stored = parts.get("metadata"), parts.get("status")
    if metadata is None or stored is None:
        return None
    raw = bytes(stored)
    nulls = raw.count(NULL_VALUE)
    if nulls != current.data.count(NULL_VALUE):
        return None
    meta = patch.get("metadata") or {}
    if uid_errors(current, meta.get("uid")):
        return None
    check_versions(target, current, meta, patching=True)
    before: Manifest = decode(raw)
    status: Manifest = decode(raw)
    if nulls:
        builtin_types.drop_nulls(PODS, "status", status)
    try:
        status = merge(status, patch["status"])
    except PatchError:
        return None
    if b"null" in request.body:
        builtin_types.drop_nulls(PODS, "status", status)
    if not status.get("qosClass"):
        status["qosClass"] = before.get("qosClass", "BestEffort")
    if status == before:
        return current.data
    return _store(core, target, current, parts, status)


def _merge_of(request: ApiRequest) -> _Merge | None:
    """How the patch is merged; None for other kinds of patches."""
    type_ = request.headers.get("content-type")
    if type_ == ContentType.STRATEGIC_MERGE_PATCH:
        return plain.apply_status if plain.is_plain(request.body) else strategic.apply_status
    return mergepatch.apply if type_ == ContentType.MERGE_PATCH else None


def _patch(body: bytes) -> Manifest | None:
    """The patch, if it is of the status alone and all in it is of the right type."""
    try:
        patch = decode(body)
    except errors.MALFORMED:
        return None
    if not isinstance(patch, dict) or not patch.keys() <= _PARTS or not isinstance(patch.get("status"), dict):
        return None
    stated = patch.get("metadata", {})
    if not isinstance(stated, dict) or not stated.keys() <= _PRECONDITIONS or not all(stated.values()):
        return None
    return patch if builtin_types.fits(PODS, body) else None


def _store(core: Core, target: Target, current: Stored, parts: dict[str, Any], status: Manifest) -> bytes | None:
    metadata = parts["metadata"]

    def made(revision: int) -> Stored:
        following: Any = at_revision(metadata, current.revision, revision)
        if following is None:
            following = {**decode(metadata), "resourceVersion": str(revision)}
        data = join({**parts, "metadata": following, "status": status})
        if len(data) > errors.MAX_OBJECT_BYTES:
            raise errors.too_large_to_store()
        return current.succeeded_by(revision, data, _fields_of(current.fields, {"status": status}))

    core.check_writable()
    return core.store.put_made(target.ref, made).data
