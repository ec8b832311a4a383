"""`InProcessAdmission`: the reviewer behind the embedded API server's hook.

A review reads the queues (and the namespace) from the server itself, not from a watch, so that a Job may be created
immediately after its Queue. The server's types are matched structurally, because runtime may not import localcluster.
Every user of the embedded server may do everything, so rights to queues are not checked.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol

from volcanoio.engine.admission.request import AdmissionSettings, Operation, ReviewRequest
from volcanoio.engine.admission.review import is_reviewed, with_defaults
from volcanoio.kube.errors import ApiError
from volcanoio.kube.transport import Transport, TransportError
from volcanoio.model import kinds
from volcanoio.model.base import Manifest
from volcanoio.runtime.webhooks.paths import denial_text, webhook_name
from volcanoio.runtime.webhooks.reviewer import AdmissionReviewer, Snapshot

_EARLY = frozenset({kinds.JOB.resource, kinds.QUEUE.resource})
"""Kinds whose defaults replace values that violate the schema, and whose defaulting reads no other objects."""


class Request(Protocol):
    """One write, as passed by the server's hook."""

    @property
    def operation(self) -> str:
        """CREATE, UPDATE or DELETE."""
        ...

    @property
    def group(self) -> str:
        """The API group, "" for core."""
        ...

    @property
    def plural(self) -> str:
        """The plural resource name, such as `jobs`."""
        ...

    @property
    def namespace(self) -> str:
        """The namespace, "" for cluster-scoped objects."""
        ...

    @property
    def name(self) -> str:
        """The object's name."""
        ...

    @property
    def object(self) -> Manifest | None:
        """The object to store; None for DELETE."""
        ...

    @property
    def old(self) -> Manifest | None:
        """The stored object; None for CREATE."""
        ...

    @property
    def user(self) -> str:
        """The name of the author."""
        ...


@dataclass(frozen=True, slots=True)
class Reply:
    """Result of a review: `object` replaces the reviewed one; message and code are set for refusals."""

    allowed: bool = True
    object: Manifest | None = None
    message: str = ""
    code: int = 403
    warnings: tuple[str, ...] = ()


class InProcessAdmission:
    """Admission of Volcano's kinds and of pod annotations."""

    def __init__(self, transport: Transport, settings: AdmissionSettings) -> None:
        self._reviewer = AdmissionReviewer(transport, settings)

    def reviews(self, operation: str, resource: str, annotations: Mapping[str, str]) -> bool:
        """Return whether a write must be passed to `review`."""
        return is_reviewed(resource, operation, annotations)

    def default(self, request: Request) -> Manifest | None:
        """Return a new object with defaults, before schema validation; None if there is nothing to set."""
        asked = _review_request(request)
        if asked.resource not in _EARLY:
            return None
        made = with_defaults(asked, Snapshot(()), self._reviewer.settings).object
        return None if made == request.object else made

    async def review(self, request: Request) -> Reply:
        """Review one write; writes of other kinds are allowed."""
        asked = _review_request(request)
        if not is_reviewed(asked.resource, asked.operation, _annotations(request.object)):
            return Reply()
        try:
            answer = await self._reviewer.review(asked)
        except (ApiError, TransportError) as error:
            return Reply(allowed=False, code=500, message=f"admission cannot read what it needs: {error}; try again")
        if not answer.allowed:
            message = f'admission webhook "{webhook_name(asked.resource)}" denied the request: '
            return Reply(allowed=False, message=message + denial_text(answer), warnings=answer.warnings)
        changed = answer.object if answer.object != request.object else None
        return Reply(object=changed, warnings=answer.warnings)


def _review_request(request: Request) -> ReviewRequest:
    return ReviewRequest(
        operation=Operation(request.operation),
        resource=f"{request.plural}.{request.group}" if request.group else request.plural,
        name=request.name,
        namespace=request.namespace,
        object=request.object,
        old=request.old,
        username=request.user,
    )


def _annotations(manifest: Manifest | None) -> Mapping[str, str]:
    return ((manifest or {}).get("metadata") or {}).get("annotations") or {}
