"""PATCH: which kinds of patch a resource takes, and trying again when another write came between."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import msgspec

from volcanoio.engine.admission.fielderrors import forbidden
from volcanoio.kube.transport import ContentType
from volcanoio.localcluster.apiserver import bodies, errors
from volcanoio.localcluster.apiserver.api import ApiRequest
from volcanoio.localcluster.apiserver.comparison import check_address, check_versions
from volcanoio.localcluster.apiserver.core import Core
from volcanoio.localcluster.apiserver.objects import decode, encode
from volcanoio.localcluster.apiserver.options import FieldValidation, write_options
from volcanoio.localcluster.apiserver.patches import MalformedPatchError, PatchError, json_patch, strategic
from volcanoio.localcluster.apiserver.patches.strictness import patch_problems
from volcanoio.localcluster.apiserver.paths import Target
from volcanoio.localcluster.apiserver.resources import Resource
from volcanoio.localcluster.apiserver.splicing.podstatus import PODS, patch_status
from volcanoio.localcluster.apiserver.writer import Raced, Writer, Written
from volcanoio.model import mergepatch
from volcanoio.model.base import Manifest

ATTEMPTS: Final = 5
"""How often a patch without a resourceVersion is applied to a newer object before the client gets a conflict."""

_APPLY: Final[dict[str, Callable[[Manifest, Any], Any]]] = {
    ContentType.JSON_PATCH: json_patch.apply,
    ContentType.MERGE_PATCH: mergepatch.apply,
    ContentType.STRATEGIC_MERGE_PATCH: strategic.apply,
}


def patch_function(request: ApiRequest, resource: Resource) -> Callable[[Manifest, Any], Any]:
    """How the body changes an object; raises ApiError 415."""
    type_ = bodies.content_type(request)
    if type_ not in _APPLY and resource.custom is None:
        raise errors.ApiError(415, "UnsupportedMediaType", "415: Unsupported Media Type", {})
    accepted = [str(known) for known in _APPLY if resource.custom is None or known != ContentType.STRATEGIC_MERGE_PATCH]
    if type_ not in accepted:
        text = "the body of the request was in an unknown format - accepted media types include: "
        raise errors.unsupported_media_type(text + ", ".join([*accepted, ContentType.APPLY_PATCH]))
    return _APPLY[type_]


def decoded_patch(body: bytes, apply: Callable[[Manifest, Any], Any]) -> Any:
    """The patch; raises ApiError 400."""
    try:
        return decode(body)
    except errors.MALFORMED as error:
        prefix = "" if apply is strategic.apply else "error decoding patch: "
        raise errors.bad_request(f"{prefix}{error}") from None


def apply_patch(apply: Callable[[Manifest, Any], Any], obj: Manifest, patch: Any) -> Manifest:
    """The patched object; raises ApiError 422 when the patch does not fit, 400 when the result is no object."""
    if patch is None:
        if apply is mergepatch.apply:
            raise errors.bad_request("Invalid JSON Patch")
        patch = [] if apply is json_patch.apply else {}
    if apply is not json_patch.apply and not isinstance(patch, dict):
        raise errors.bad_request("error decoding patch: a merge patch is an object")
    try:
        patched = apply(obj, patch)
    except MalformedPatchError as error:
        raise errors.bad_request(str(error)) from None
    except PatchError as error:
        text = f"the server rejected our request due to an error in our request: the patch cannot be applied: {error}"
        raise errors.ApiError(422, "Invalid", text, {}) from error
    if not isinstance(patched, dict):
        raise errors.bad_request("the patch does not result in an object")
    return patched


def patch_options(request: ApiRequest) -> tuple[FieldValidation, bool]:
    """What happens to unknown fields, and whether nothing shall be stored; raises ApiError 422."""
    forced = "force" in request.query
    return write_options(request, [forbidden("force", "may not be specified for non-apply patch")] if forced else ())


def _check_kind(patched: Manifest, resource: Resource) -> None:
    """The patched object is still of its kind and version, and has metadata; raises ApiError 422."""
    for key, expected in (("apiVersion", resource.api_version), ("kind", resource.kind)):
        if patched.get(key) != expected:
            why = f"{key} must stay {expected}"
            raise errors.unfit_patch(patched, why)
    if not isinstance(patched.get("metadata") or {}, dict):
        raise errors.unfit_patch(patched, "metadata must be an object")


class Patcher:
    """Applies patches through the writer."""

    def __init__(self, core: Core, writer: Writer) -> None:
        self._core = core
        self._writer = writer

    async def patch(self, target: Target, request: ApiRequest) -> Written:
        """Patch an object or its status; raises ApiError."""
        apply = patch_function(request, target.resource)
        validation, trial = patch_options(request)
        if target.subresource == "status" and target.resource.name == PODS:
            current = self._core.store.get(target.ref)
            data = patch_status(self._core, target, request, current) if current is not None else None
            if data is not None:
                return Written(data)
        for _ in range(ATTEMPTS):
            current = self._core.store.get(target.ref)
            if current is None:
                raise errors.not_found(target.resource, target.name)
            obj, custom = current.decode(), target.resource.custom
            if custom is not None:
                obj = custom.seen(obj, target.resource.api_version)
            patch = decoded_patch(request.body, apply)
            problems = patch_problems(request.body, patch, validation)
            new = apply_patch(apply, obj, patch)
            resource = target.resource
            if resource.custom is not None:
                new["apiVersion"] = resource.api_version
            elif apply is strategic.apply:  # it changes what the kind has, and the kind is none of that
                new["apiVersion"], new["kind"] = resource.api_version, resource.kind
            _check_kind(new, resource)
            meta = new.get("metadata") or {}
            check_address(target, meta)
            check_versions(target, current, meta, patching=True)
            body = encode(new)
            if problems and validation == "Strict":
                problems += bodies.check_fields(new, body, resource, "Warn")
                raise errors.unfit_patch(msgspec.Raw(body), f"strict decoding error: {', '.join(problems)}")
            try:
                written = await self._writer.update(target, current, new, body, validation, dry_run=trial)
                return written._replace(warnings=problems + written.warnings) if problems else written
            except errors.UndecodableError as error:
                raise errors.unfit_patch(msgspec.Raw(body), error.why) from None
            except Raced:
                continue
        raise errors.modified(target.resource, target.name)
