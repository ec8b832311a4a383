"""Refusals as Kubernetes' Status objects; texts and reasons as in apimachinery `pkg/api/errors`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec

from volcanoio.engine.admission.fielderrors import invalid as field_error
from volcanoio.localcluster.apiserver.api import ApiResponse
from volcanoio.localcluster.apiserver.fields import FieldError, causes, summary
from volcanoio.localcluster.apiserver.resources import Resource
from volcanoio.model.base import Manifest

MAX_REQUEST_BYTES = 3 * 2**20
"""The limit of one request's body (apiserver `MaxRequestBodyBytes`)."""
MAX_OBJECT_BYTES = 3 * 2**19
"""1.5 MiB: the limit of what is stored as one object, as etcd's."""

MALFORMED = (msgspec.MsgspecError, UnicodeDecodeError)
"""What decoding a body may raise."""


class ApiError(Exception):
    """A refusal: an HTTP code, a machine-readable reason (may be empty) and a text."""

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
        """What admission told the client before it refused."""

    def status(self) -> Manifest:
        """The Status object."""
        found: Manifest = {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure"}
        found["message"] = self.message
        if self.reason:  # a webhook may refuse without one
            found["reason"] = self.reason
        if self.details is not None:
            found["details"] = self.details
        found["code"] = self.code
        return found

    def response(self) -> ApiResponse:
        """The answer that carries the Status."""
        body = msgspec.json.encode(self.status())
        return ApiResponse(self.code, body, headers=self.headers, warnings=self.warnings)


class UndecodableError(ApiError):
    """The body is no object of the kind; `why` says it without the kind."""

    def __init__(self, resource: Resource, why: str) -> None:
        kind = resource.kind
        super().__init__(
            400, "BadRequest", f'{kind} in version "{resource.version}" cannot be handled as a {kind}: {why}'
        )
        self.why = why


class NoPageError(ApiError):
    """Nothing of Kubernetes' API is at this path, nor beside it."""

    def __init__(self) -> None:
        super().__init__(404, "NotFound", "404 page not found")

    def response(self) -> ApiResponse:
        """A plain text, as Go's router answers."""
        return ApiResponse(404, b"404 page not found\n", content_type="text/plain; charset=utf-8")


def _details(resource: Resource, name: str, **more: Any) -> Manifest:
    details: Manifest = {"name": name} if name else {}
    if resource.group:
        details["group"] = resource.group
    return details | {"kind": resource.plural} | more


def bad_request(message: str) -> ApiError:
    """The request itself is malformed."""
    return ApiError(400, "BadRequest", message)


def other_namespace() -> ApiError:
    """The object says another namespace than the path."""
    return bad_request("the namespace of the provided object does not match the namespace sent on the request")


def not_found(resource: Resource, name: str) -> ApiError:
    """There is no such object."""
    return ApiError(404, "NotFound", f'{resource.name} "{name}" not found', _details(resource, name))


def no_such_path() -> ApiError:
    """Nothing is served there."""
    return ApiError(404, "NotFound", "the server could not find the requested resource", {})


def already_exists(resource: Resource, name: str, *, deleting: bool = False) -> ApiError:
    """An object of that name is stored, and may be about to go."""
    message = f'{"object is being deleted: " if deleting else ""}{resource.name} "{name}" already exists'
    return ApiError(409, "AlreadyExists", message, _details(resource, name))


def conflict(resource: Resource, name: str, why: str) -> ApiError:
    """The stored object is not the one the request was made for."""
    message = f'Operation cannot be fulfilled on {resource.name} "{name}": {why}'
    return ApiError(409, "Conflict", message, _details(resource, name))


def conflict_of_kind(resource: Resource, name: str, why: str) -> ApiError:
    """As `conflict`, where the real server says the kind: found before storage is asked."""
    kind = f"{resource.kind}.{resource.group}" if resource.group else resource.kind
    message = f'Operation cannot be fulfilled on {kind} "{name}": {why}'
    return ApiError(409, "Conflict", message, _details(resource, name) | {"kind": resource.kind})


def modified(resource: Resource, name: str) -> ApiError:
    """The resourceVersion is not the stored one."""
    why = "the object has been modified; please apply your changes to the latest version and try again"
    return conflict(resource, name, why)


def invalid(resource: Resource, name: str, errors: Sequence[FieldError]) -> ApiError:
    """The object breaks rules."""
    kind = f"{resource.kind}.{resource.group}" if resource.group else resource.kind
    details: Manifest = {"name": name} if name else {}
    if resource.group:
        details["group"] = resource.group
    details |= {"kind": resource.kind, "causes": causes(errors)}
    return ApiError(422, "Invalid", f'{kind} "{name}" is invalid: {summary(errors)}', details)


def unversioned(resource: Resource, name: str, rule: FieldError) -> ApiError:
    """An update says no version where it must; found by storage, which knows the resource and not the kind."""
    details = _details(resource, name, causes=causes([rule]))
    return ApiError(422, "Invalid", f'{resource.name} "{name}" is invalid: {rule}', details)


def forbidden(resource: Resource, name: str, why: str, **details: Any) -> ApiError:
    """The request is understood and refused."""
    message = f'{resource.name} "{name}" is forbidden: {why}'
    return ApiError(403, "Forbidden", message, _details(resource, name, **details))


def method_not_allowed() -> ApiError:
    """The resource does not serve this verb."""
    message = "the server does not allow this method on the requested resource"
    return ApiError(405, "MethodNotAllowed", message, {})


def unsupported_media_type(message: str) -> ApiError:
    """The body's content type is not read here."""
    return ApiError(415, "UnsupportedMediaType", message)


def too_large(size: int) -> ApiError:
    """The body is over the limit."""
    message = f"Request entity too large: limit is {MAX_REQUEST_BYTES}"
    if size:
        message += f", the request has {size} bytes"
    return ApiError(413, "RequestEntityTooLarge", message + "; make the object smaller or split it")


def too_large_to_store() -> ApiError:
    """The object is over what etcd takes in one request."""
    return unclassified("etcdserver: request is too large")


def unfit_patch(patched: Manifest | msgspec.Raw, why: str) -> ApiError:
    """What a patch results in is no object of the kind."""
    shown = msgspec.json.encode(patched).decode()
    error = field_error("patch", shown, why)
    return ApiError(422, "Invalid", f' "" is invalid: {error}', {"causes": causes([error])})


def expired(message: str) -> ApiError:
    """The asked-for version is no longer known; list again."""
    return ApiError(410, "Expired", message)


def too_old(asked: int, floor: int) -> ApiError:
    """A watch starts before the oldest event that is kept."""
    return expired(f"too old resource version: {asked} ({floor})")


def future_version(asked: int, current: int) -> ApiError:
    """The asked-for version was never reached, as after the store was wiped."""
    cause = {"reason": "ResourceVersionTooLarge", "message": "Too large resource version"}
    message = f"Timeout: Too large resource version: {asked}, current: {current}"
    return ApiError(504, "Timeout", message, {"causes": [cause], "retryAfterSeconds": 1})


def too_many_requests(message: str, causes: list[dict[str, str]]) -> ApiError:
    """Try again later. When is not said: client-go would wait so long without a word, `kubectl drain` tells why."""
    return ApiError(429, "TooManyRequests", message, {"causes": causes})


def unclassified(message: str) -> ApiError:
    """What the real server answers where it gives an error no code of its own: 500 and no reason."""
    return ApiError(500, "", message)


def internal(message: str) -> ApiError:
    """Our own fault."""
    return ApiError(500, "InternalError", f"Internal error occurred: {message}")
