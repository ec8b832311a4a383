"""PATCH: types of patches per resource, and retries after concurrent writes.

Errors of strict decoding are reported whatever happens to the object (apiserver `handlers/patch.go`).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import msgspec

from volcanoio.framework import effects
from volcanoio.kube.transport import ContentType
from volcanoio.localcluster.apiserver.apimachinery import errors
from volcanoio.localcluster.apiserver.apimachinery.objects import Stored, decode, encode
from volcanoio.localcluster.apiserver.apimachinery.paths import Target
from volcanoio.localcluster.apiserver.apimachinery.request import ApiRequest
from volcanoio.localcluster.apiserver.apimachinery.resources import Resource
from volcanoio.localcluster.apiserver.core import Core
from volcanoio.localcluster.apiserver.patches import MalformedPatchError, PatchError, json_patch, strategic
from volcanoio.localcluster.apiserver.registry import bodies
from volcanoio.localcluster.apiserver.registry.bodies import repeated_fields
from volcanoio.localcluster.apiserver.registry.options import FieldValidation, WriteOptions, write_options
from volcanoio.localcluster.apiserver.registry.pod_writes import PODS, patch_status
from volcanoio.localcluster.apiserver.registry.preconditions import check_address, check_versions
from volcanoio.localcluster.apiserver.registry.writer import Raced, Writer, Written
from volcanoio.model.base import Manifest
from volcanoio.model.documents import CONFIGURATION, is_deeper
from volcanoio.model.validation.field_errors import forbidden

_OPERATION: Final = frozenset({"op", "path", "from", "value"})


def patch_warnings(body: bytes, patch: Any, validation: FieldValidation) -> tuple[str, ...]:
    """Return warnings of repeated keys and of unknown fields of a JSON patch's operations."""
    repeated = repeated_fields(body, patch, validation)
    if not isinstance(patch, list):
        return tuple(repeated)
    unknown = (
        []
        if validation == "Ignore"
        else [
            f'unknown field "[{at}].{key}"'
            for at, operation in enumerate(patch)
            if isinstance(operation, dict)
            for key in operation
            if key not in _OPERATION
        ]
    )
    return tuple(f"json patch {one}" for one in repeated + unknown)


ATTEMPTS: Final = 5
"""How often a patch without a resourceVersion is retried before the client gets a conflict."""

_APPLY: Final[dict[str, Callable[[Manifest, Any], Any]]] = {
    ContentType.JSON_PATCH: json_patch.apply,
    ContentType.MERGE_PATCH: effects.apply_merge_patch,
    ContentType.STRATEGIC_MERGE_PATCH: strategic.apply,
}


def patch_function(request: ApiRequest, resource: Resource) -> Callable[[Manifest, Any], Any]:
    """Return the function that applies the request's type of patch; raises ApiError 415."""
    type_ = bodies.content_type(request)
    if type_ not in _APPLY and resource.custom is None:
        raise errors.ApiError(415, "UnsupportedMediaType", "415: Unsupported Media Type", {})
    accepted = [str(known) for known in _APPLY if resource.custom is None or known != ContentType.STRATEGIC_MERGE_PATCH]
    if type_ not in accepted:
        text = "the body of the request was in an unknown format - accepted media types include: "
        raise errors.unsupported_media_type(text + ", ".join([*accepted, ContentType.APPLY_PATCH]))
    return _APPLY[type_]


def decoded_patch(body: bytes, apply: Callable[[Manifest, Any], Any]) -> Any:
    """Decode the patch; raises ApiError 400."""
    if is_deeper(body, CONFIGURATION.depth):
        raise errors.bad_request(f"error decoding patch: nested deeper than {CONFIGURATION.depth} levels")
    try:
        return decode(body)
    except errors.MALFORMED as error:
        prefix = "" if apply is strategic.apply else "error decoding patch: "
        raise errors.bad_request(f"{prefix}{error}") from None


def apply_patch(apply: Callable[[Manifest, Any], Any], obj: Manifest, patch: Any) -> Manifest:
    """Apply a patch.

    Raises ApiError 422 when it cannot be applied, 400 when the result is no object.
    """
    if patch is None:
        if apply is effects.apply_merge_patch:
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


def patch_options(request: ApiRequest) -> WriteOptions:
    """Read the options of a patch; raises ApiError 422."""
    forced = "force" in request.query
    return write_options(request, [forbidden("force", "may not be specified for non-apply patch")] if forced else ())


def _check_kind(patched: Manifest, resource: Resource) -> None:
    """Check kind, version and metadata of the patched object; raises ApiError 422."""
    for key, expected in (("apiVersion", resource.api_version), ("kind", resource.kind)):
        if patched.get(key) != expected:
            why = f"{key} must stay {expected}"
            raise errors.invalid_patch_result(patched, why)
    if not isinstance(patched.get("metadata") or {}, dict):
        raise errors.invalid_patch_result(patched, "metadata must be an object")


class Patcher:
    """Applier of patches through the writer."""

    def __init__(self, core: Core, writer: Writer) -> None:
        self._core = core
        self._writer = writer

    async def patch(self, target: Target, request: ApiRequest) -> Written:
        """Patch an object or its status; raises ApiError."""
        apply = patch_function(request, target.resource)
        options = patch_options(request)
        if target.subresource == "status" and target.resource.name == PODS:
            current = self._core.store.get(target.ref)
            data = patch_status(self._core, target, request, current) if current is not None else None
            if data is not None:
                return Written(data)
        for _ in range(ATTEMPTS):
            current = self._core.store.get(target.ref)
            if current is None:
                raise errors.not_found(target.resource, target.name)
            patch = decoded_patch(request.body, apply)
            problems = patch_warnings(request.body, patch, options.validation)
            new = _patched(target, current, apply, patch)
            body = encode(new)
            if problems and options.validation == "Strict":
                problems += bodies.check_fields(new, body, target.resource, "Warn")
                raise errors.invalid_patch_result(msgspec.Raw(body), f"strict decoding error: {', '.join(problems)}")
            try:
                written = await self._writer.update(target, current, new, body, options)
                return written._replace(warnings=problems + written.warnings) if problems else written
            except errors.UndecodableError as error:
                raise errors.invalid_patch_result(msgspec.Raw(body), error.why) from None
            except Raced:
                continue
        raise errors.modified(target.resource, target.name)


def _patched(target: Target, current: Stored, apply: Callable[[Manifest, Any], Any], patch: Any) -> Manifest:
    """Return the object after the patch, which must still be the one of the URL and of its kind.

    Raises ApiError.
    """
    resource, obj = target.resource, current.decode()
    if resource.custom is not None:
        obj = resource.custom.seen(obj, resource.api_version)
    new = apply_patch(apply, obj, patch)
    if resource.custom is not None:
        new["apiVersion"] = resource.api_version
    elif apply is strategic.apply:  # it only changes fields of the kind, which apiVersion and kind are not
        new["apiVersion"], new["kind"] = resource.api_version, resource.kind
    _check_kind(new, resource)
    metadata = new.get("metadata") or {}
    check_address(target, metadata)
    check_versions(target, current, metadata, patching=True)
    return new
