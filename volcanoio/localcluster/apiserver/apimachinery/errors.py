"""Errors as Kubernetes' Status objects; texts and reasons as in apimachinery `pkg/api/errors`.

A broken rule of a field is a `FieldError` (apimachinery `field.Error`); `invalid` makes one Status of several.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import msgspec

from volcanoio.localcluster.apiserver.apimachinery.request import ApiResponse
from volcanoio.localcluster.apiserver.apimachinery.resources import Resource
from volcanoio.model.base import Manifest
from volcanoio.model.validation.field_errors import FieldError
from volcanoio.model.validation.field_errors import invalid as field_error

__all__ = ["FieldError", "causes", "summary"]


def causes(errors: Iterable[FieldError]) -> list[dict[str, str]]:
    """Return the value of `Status.details.causes[]`."""
    return [{"reason": error.reason, "message": error.message, "field": error.field} for error in errors]


def summary(errors: Iterable[FieldError]) -> str:
    """Return one line: a single error without brackets, several errors in brackets."""
    texts = list(dict.fromkeys(str(error) for error in errors))
    return texts[0] if len(texts) == 1 else f"[{', '.join(texts)}]"


MAX_REQUEST_BYTES = 3 * 2**20
"""The limit of one request's body (apiserver `MaxRequestBodyBytes`)."""
MAX_OBJECT_BYTES = 3 * 2**19
"""1.5 MiB: the limit of one stored object, as in etcd."""

MALFORMED = (msgspec.MsgspecError, UnicodeDecodeError, RecursionError)
"""Exceptions of decoding a body."""


class ApiError(Exception):
    """A refusal: an HTTP code, a machine-readable reason (may be empty) and a message."""

    def __init__(
        self,
        code: int,
        reason: str,
        message: str,
        details: Manifest | None = None,
        headers: dict[str, str] | None = None,
    ) -> None:
        super().__init__(message)
        self.code = code
        self.reason = reason
        self.message = message
        self.details = details
        self.headers = headers or {}
        self.warnings: tuple[str, ...] = ()
        """Warnings of admission before the refusal."""

    def status(self) -> Manifest:
        """Return the Status object."""
        found: Manifest = {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure"}
        found["message"] = self.message
        if self.reason:  # a webhook may refuse without a reason
            found["reason"] = self.reason
        if self.details is not None:
            found["details"] = self.details
        found["code"] = self.code
        return found

    def response(self) -> ApiResponse:
        """Return the answer that carries the Status."""
        body = msgspec.json.encode(self.status())
        return ApiResponse(self.code, body, headers=self.headers, warnings=self.warnings)


class UndecodableError(ApiError):
    """The body cannot be decoded as the kind; `why` is the message without the kind."""

    def __init__(self, resource: Resource, why: str) -> None:
        kind = resource.kind
        super().__init__(
            400, "BadRequest", f'{kind} in version "{resource.version}" cannot be handled as a {kind}: {why}'
        )
        self.why = why


class NoPageError(ApiError):
    """The path is outside Kubernetes' API."""

    def __init__(self) -> None:
        super().__init__(404, "NotFound", "404 page not found")

    def response(self) -> ApiResponse:
        """Return a plain text, as Go's router answers."""
        return ApiResponse(404, b"404 page not found\n", content_type="text/plain; charset=utf-8")


def _details(resource: Resource, name: str, **more: Any) -> Manifest:
    details: Manifest = {"name": name} if name else {}
    if resource.group:
        details["group"] = resource.group
    return details | {"kind": resource.plural} | more


def bad_request(message: str) -> ApiError:
    """Return a 400: the request is malformed."""
    return ApiError(400, "BadRequest", message)


def wrong_namespace() -> ApiError:
    """Return a 400: the object names another namespace than the path."""
    return bad_request("the namespace of the provided object does not match the namespace sent on the request")


def not_found(resource: Resource, name: str) -> ApiError:
    """Return a 404: the object does not exist."""
    return ApiError(404, "NotFound", f'{resource.name} "{name}" not found', _details(resource, name))


def no_such_subresource(resource: Resource, name: str, subresource: str) -> ApiError:
    """Return a 404: the custom resource does not have the subresource.

    A real server answers without a warning.
    """
    error = not_found(resource, name)
    known = ", ".join(resource.subresources) or "none"
    error.warnings = (f'{resource.name} has no subresource "{subresource}"; valid values: {known}',)
    return error


def no_such_path() -> ApiError:
    """Return a 404: nothing is served at the path."""
    return ApiError(404, "NotFound", "the server could not find the requested resource", {})


def already_exists(resource: Resource, name: str, *, deleting: bool = False) -> ApiError:
    """Return a 409: an object of that name is stored, and may be terminating."""
    message = f'{"object is being deleted: " if deleting else ""}{resource.name} "{name}" already exists'
    return ApiError(409, "AlreadyExists", message, _details(resource, name))


def conflict(resource: Resource, name: str, why: str) -> ApiError:
    """Return a 409: the stored object is not the one the request was made for."""
    message = f'Operation cannot be fulfilled on {resource.name} "{name}": {why}'
    return ApiError(409, "Conflict", message, _details(resource, name))


def conflict_of_kind(resource: Resource, name: str, why: str) -> ApiError:
    """Return a 409 found before storage is called; it names the kind, not the resource."""
    kind = f"{resource.kind}.{resource.group}" if resource.group else resource.kind
    message = f'Operation cannot be fulfilled on {kind} "{name}": {why}'
    return ApiError(409, "Conflict", message, _details(resource, name) | {"kind": resource.kind})


def modified(resource: Resource, name: str) -> ApiError:
    """Return a 409: the resourceVersion is not the stored one."""
    why = "the object has been modified; please apply your changes to the latest version and try again"
    return conflict(resource, name, why)


def invalid_object(resource: Resource, name: str, errors: Sequence[FieldError]) -> ApiError:
    """Return a 422: the object violates validation rules."""
    kind = f"{resource.kind}.{resource.group}" if resource.group else resource.kind
    details: Manifest = {"name": name} if name else {}
    if resource.group:
        details["group"] = resource.group
    details |= {"kind": resource.kind, "causes": causes(errors)}
    return ApiError(422, "Invalid", f'{kind} "{name}" is invalid: {summary(errors)}', details)


def missing_version(resource: Resource, name: str, rule: FieldError) -> ApiError:
    """Return a 422: an update is missing the required resourceVersion.

    Storage has the resource and not the kind.
    """
    details = _details(resource, name, causes=causes([rule]))
    return ApiError(422, "Invalid", f'{resource.name} "{name}" is invalid: {rule}', details)


def forbidden(resource: Resource, name: str, why: str, **details: Any) -> ApiError:
    """Return a 403: the request is understood and refused."""
    message = f'{resource.name} "{name}" is forbidden: {why}'
    return ApiError(403, "Forbidden", message, _details(resource, name, **details))


def method_not_allowed() -> ApiError:
    """Return a 405: the resource does not serve this verb."""
    message = "the server does not allow this method on the requested resource"
    return ApiError(405, "MethodNotAllowed", message, {})


def unsupported_media_type(message: str) -> ApiError:
    """Return a 415: the content type of the body is not supported."""
    return ApiError(415, "UnsupportedMediaType", message)


def too_large(size: int) -> ApiError:
    """Return a 413: the body exceeds the limit."""
    message = f"Request entity too large: limit is {MAX_REQUEST_BYTES}"
    if size:
        message += f", the request has {size} bytes"
    return ApiError(413, "RequestEntityTooLarge", message + "; make the object smaller or split it")


def too_large_to_store() -> ApiError:
    """Return a 500: the object exceeds what etcd takes in one request."""
    return unclassified("etcdserver: request is too large")


def invalid_patch_result(patched: Manifest | msgspec.Raw, why: str) -> ApiError:
    """Return a 422: the patched object is not a valid object of the kind."""
    shown = msgspec.json.encode(patched).decode()
    error = field_error("patch", shown, why)
    return ApiError(422, "Invalid", f' "" is invalid: {error}', {"causes": causes([error])})


def expired(message: str) -> ApiError:
    """Return a 410: the requested version is no longer available; list again."""
    return ApiError(410, "Expired", message)


def too_old(asked: int, floor: int) -> ApiError:
    """Return a 410: a watch starts before the oldest event in the window."""
    return expired(f"too old resource version: {asked} ({floor})")


def future_version(asked: int, current: int) -> ApiError:
    """Return a 504: the requested version has not been reached, for example after a wipe."""
    cause = {"reason": "ResourceVersionTooLarge", "message": "Too large resource version"}
    message = f"Timeout: Too large resource version: {asked}, current: {current}"
    return ApiError(504, "Timeout", message, {"causes": [cause], "retryAfterSeconds": 1})


def too_many_requests(message: str, causes: list[dict[str, str]]) -> ApiError:
    """Return a 429 without Retry-After.

    With Retry-After, client-go waits without a message; without it, `kubectl drain` prints the reason.
    """
    return ApiError(429, "TooManyRequests", message, {"causes": causes})


def unclassified(message: str) -> ApiError:
    """Return a 500 without a reason, as the real server does for an error without a code."""
    return ApiError(500, "", message)


def internal(message: str) -> ApiError:
    """Return a 500: a fault of the server."""
    return ApiError(500, "InternalError", f"Internal error occurred: {message}")
