"""In-process admission: reviewers that may change or refuse a write before it is stored."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Literal, Protocol, TypeAlias

import msgspec

from volcanoio.localcluster.apiserver.apimachinery.errors import ApiError
from volcanoio.localcluster.apiserver.apimachinery.resources import Resource
from volcanoio.model.base import Manifest

Operation: TypeAlias = Literal["CREATE", "UPDATE", "DELETE"]

_NONE: Mapping[str, str] = {}
_REASONS = {
    400: "BadRequest",
    403: "Forbidden",
    409: "Conflict",
    422: "Invalid",
    429: "TooManyRequests",
    500: "InternalError",
}


class AdmissionRequest(msgspec.Struct, frozen=True):
    """One write. `object` is None for DELETE, `old` for CREATE; neither may be changed in place."""

    operation: Operation
    group: str
    plural: str
    namespace: str
    name: str
    object: Manifest | None
    old: Manifest | None
    dry_run: bool = False
    user: str = "volcanoio"


class AdmissionReply(msgspec.Struct, frozen=True):
    """The answer of a reviewer. `object` replaces the reviewed one.

    Code and message are for refusals.
    """

    allowed: bool = True
    object: Manifest | None = None
    message: str = ""
    code: int = 403
    warnings: tuple[str, ...] = ()


class Verdict(Protocol):
    """Protocol of a reviewer's answer.

    With it, reviewers of other packages need not import AdmissionReply.
    """

    @property
    def allowed(self) -> bool:
        """Whether the write is allowed."""
        ...

    @property
    def object(self) -> Manifest | None:
        """The object that replaces the reviewed one; None leaves it."""
        ...

    @property
    def message(self) -> str:
        """The reason of a refusal."""
        ...

    @property
    def code(self) -> int:
        """The HTTP status of a refusal."""
        ...

    @property
    def warnings(self) -> tuple[str, ...]:
        """Warnings for the client, allowed or not."""
        ...


class Admission(Protocol):
    """A reviewer of writes."""

    async def review(self, request: AdmissionRequest) -> Verdict:
        """Review one write; called after defaulting and validation, before the object is stored."""
        ...


def default_all(reviewers: Iterable[Admission], request: AdmissionRequest) -> Manifest | None:
    """Return the new object with the defaults of all reviewers; None when none changed it."""
    changed: Manifest | None = None
    for reviewer in reviewers:
        default = getattr(reviewer, "default", None)
        if default is not None and (made := default(request)) is not None:
            changed = made
            request = msgspec.structs.replace(request, object=changed)
    return changed


def has_reviewer(
    reviewers: Iterable[Admission], operation: Operation, resource: str, annotations: Mapping[str, str] = _NONE
) -> bool:
    """Return whether any reviewer reviews a write.

    A reviewer opts out by a method `reviews` that returns False.
    """
    asked = (getattr(one, "reviews", None) for one in reviewers)
    return any(reviews is None or reviews(operation, resource, annotations) for reviews in asked)


async def review_all(
    reviewers: Sequence[Admission], resource: Resource, request: AdmissionRequest
) -> tuple[Manifest | None, tuple[str, ...]]:
    """Call each reviewer in turn.

    Returns the changed object (None when unchanged) and the warnings.

    Raises ApiError with the code and message of the first refusal.
    """
    changed: Manifest | None = None
    warnings: tuple[str, ...] = ()
    for reviewer in reviewers:
        reply = await reviewer.review(request)
        warnings += reply.warnings
        if not reply.allowed:
            details = {"name": request.name, "kind": resource.plural}
            if resource.group:
                details["group"] = resource.group
            raise ApiError(reply.code, _REASONS.get(reply.code, "Forbidden"), reply.message, details)
        if reply.object is not None:
            changed = reply.object
            request = msgspec.structs.replace(request, object=changed)
    return changed, warnings
