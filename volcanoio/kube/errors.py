"""Error responses of an API server as exceptions, built from the Status in the response.

Reasons and codes: `k8s.io/apimachinery/pkg/apis/meta/v1` (`StatusReason`).
"""

# ruff: noqa: N818 - the classes are named as Kubernetes names the reasons

from __future__ import annotations

from email.utils import parsedate_to_datetime
from typing import Any

import msgspec

from volcanoio.kube.transport import Response


class StatusCause(msgspec.Struct, frozen=True):
    """One field's error, from `details.causes[]`."""

    reason: str = ""
    message: str = ""
    field: str = ""


class StatusDetails(msgspec.Struct, frozen=True, rename="camel"):
    """The object of the error, from `details` of a Status."""

    name: str = ""
    group: str = ""
    kind: str = ""
    uid: str = ""
    causes: tuple[StatusCause, ...] = ()
    retry_after_seconds: int = 0


class Status(msgspec.Struct, frozen=True):
    """A `v1.Status`."""

    kind: str = ""
    status: str = ""
    message: str = ""
    reason: str = ""
    details: StatusDetails | None = None
    code: int = 0


class ApiError(Exception):
    """Error response of the server; `code` is the HTTP status, `reason` and `message` come from its Status.

    `retry_after` is in seconds, 0 if the server sent none.
    """

    def __init__(
        self, code: int, reason: str, message: str, details: StatusDetails | None = None, retry_after: float = 0.0
    ) -> None:
        super().__init__(f"{message} (HTTP {code} {reason})")
        self.code = code
        self.reason = reason
        self.message = message
        self.details = details or StatusDetails()
        self.retry_after = retry_after


class BadRequest(ApiError):
    """400: the request itself is malformed."""


class Unauthorized(ApiError):
    """401: no or bad credentials."""


class Forbidden(ApiError):
    """403: missing permission, or refused by admission."""


class NotFound(ApiError):
    """404: no such object or resource."""

    @property
    def is_unserved(self) -> bool:
        """Whether the server does not serve the kind or its group, as where Volcano is not installed."""
        return self.message in ("the server could not find the requested resource", "404 page not found")


class MethodNotAllowed(ApiError):
    """405: the resource does not support that verb."""


class Conflict(ApiError):
    """409: a precondition (uid, resourceVersion) does not hold."""


class AlreadyExists(ApiError):
    """409: an object with that name exists."""


class Expired(ApiError):
    """410: the resourceVersion or continue token is too old; list again."""


class TooLarge(ApiError):
    """413: the request is too large."""


class UnsupportedMediaType(ApiError):
    """415: the server does not accept that body or patch type."""


class Invalid(ApiError):
    """422: the object is not valid; `details.causes` name the fields."""


class TooManyRequests(ApiError):
    """429: the server is overloaded or limits requests; nothing was changed."""


class ServerFailure(ApiError):
    """5xx: the server failed. A write may have been carried out."""


_BY_CODE: dict[int, type[ApiError]] = {
    400: BadRequest,
    401: Unauthorized,
    403: Forbidden,
    404: NotFound,
    405: MethodNotAllowed,
    409: Conflict,
    410: Expired,
    413: TooLarge,
    415: UnsupportedMediaType,
    422: Invalid,
    429: TooManyRequests,
}
_BY_REASON: dict[str, type[ApiError]] = {"AlreadyExists": AlreadyExists}
_STATUS = msgspec.json.Decoder(Status)


def status_of(body: bytes) -> Status | None:
    """Return the Status in a body, None if it contains something else."""
    if b'"Status"' not in body:  # most bodies are objects; this avoids decoding them
        return None
    try:
        status = _STATUS.decode(body)
    except (msgspec.DecodeError, msgspec.ValidationError):
        return None
    return status if status.kind == "Status" else None


def error_from_status(status: Status, *, code: int = 0, retry_after: float = 0.0) -> ApiError:
    """Return the exception for a Status, also for the object of a watch's ERROR event."""
    code = status.code or code
    kind = _BY_REASON.get(status.reason) or _BY_CODE.get(code) or (ServerFailure if code >= 500 else ApiError)
    if not retry_after and status.details is not None:
        retry_after = float(status.details.retry_after_seconds)
    return kind(code, status.reason, status.message or "no message", status.details, retry_after)


def error_of(response: Response, *, now: float = 0.0) -> ApiError:
    """Return the exception for an error response; `now` (epoch seconds) is needed for a Retry-After that is a date."""
    wait = _retry_after(response, now)
    status = status_of(response.body)
    if status is None:  # from a proxy, or a server that is not an API server
        text = response.body[:500].decode("utf-8", "replace").strip() or "empty answer"
        status = Status(message=text, reason="Unknown")
    return error_from_status(status, code=response.status, retry_after=wait)


def check(response: Response) -> Response:
    """Return the response if it is 2xx; raises an ApiError otherwise."""
    if response.ok:
        return response
    raise error_of(response)


def _retry_after(response: Response, now: float) -> float:
    """Return the seconds of the Retry-After header (RFC 9110, 10.2.3: a number or a date); 0 without one."""
    text: Any = response.headers.get("Retry-After") or response.headers.get("retry-after") or ""
    if text.isdigit():
        return float(text)
    try:
        return max(0.0, parsedate_to_datetime(text).timestamp() - now) if text and now else 0.0
    except ValueError:
        return 0.0
