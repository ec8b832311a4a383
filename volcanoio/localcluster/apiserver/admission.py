"""Admission in the same process: reviewers that may change or refuse a write before it is stored."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Literal, Protocol, TypeAlias

import msgspec

from volcanoio.localcluster.apiserver.errors import ApiError
from volcanoio.localcluster.apiserver.resources import Resource
from volcanoio.model.base import Manifest

Operation: TypeAlias = Literal["CREATE", "UPDATE", "DELETE"]

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
    """What a reviewer says. `object` replaces the one under review; code and message are for refusals."""

    allowed: bool = True
    object: Manifest | None = None
    message: str = ""
    code: int = 403
    warnings: tuple[str, ...] = ()


class Verdict(Protocol):
    """What a reply is read as, so that a reviewer of another room need not import this one."""

    @property
    def allowed(self) -> bool:
        """Whether the write may go on."""
        ...

    @property
    def object(self) -> Manifest | None:
        """What replaces the object under review; None leaves it."""
        ...

    @property
    def message(self) -> str:
        """Why it is refused."""
        ...

    @property
    def code(self) -> int:
        """The HTTP status of a refusal."""
        ...

    @property
    def warnings(self) -> tuple[str, ...]:
        """What the client is told either way."""
        ...


class Admission(Protocol):
    """A reviewer of writes."""

    async def review(self, request: AdmissionRequest) -> Verdict:
        """Judge one write; called after defaulting and validation, before anything is stored."""
        ...


def judges(reviewers: Iterable[Admission], resource: str) -> bool:
    """Whether anyone reviews writes of a resource: all do but those that say in `resources` which ones they review."""
    return any(resource in getattr(one, "resources", (resource,)) for one in reviewers)


async def review_all(
    reviewers: Sequence[Admission], resource: Resource, request: AdmissionRequest
) -> tuple[Manifest | None, tuple[str, ...]]:
    """Ask each in turn; returns the replaced object (None when nobody changed it) and warnings.

    Raises ApiError with the code and message of the first that refuses.
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
