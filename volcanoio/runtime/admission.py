"""`InProcessAdmission`: engine admission behind the embedded API server's hook.

A review reads the queues (and the namespace) from the server itself, not from a watch, so that a Job may be created
immediately after its Queue. The server's types are matched structurally, because runtime may not import localcluster.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Protocol

import msgspec

from volcanoio.engine.admission.request import AdmissionSettings, Operation, ReviewRequest
from volcanoio.engine.admission.review import is_reviewed, review, with_defaults
from volcanoio.kube.client import Client
from volcanoio.kube.errors import ApiError, check
from volcanoio.kube.transport import Transport, TransportError
from volcanoio.model import kinds
from volcanoio.model.base import ApiObject, Manifest
from volcanoio.model.kinds import Kind

_READS: dict[tuple[str, Operation], tuple[Kind, ...]] = {
    (kinds.JOB.resource, Operation.CREATE): (kinds.QUEUE,),
    (kinds.CRON_JOB.resource, Operation.CREATE): (kinds.QUEUE,),
    (kinds.CRON_JOB.resource, Operation.UPDATE): (kinds.QUEUE,),
    (kinds.POD_GROUP.resource, Operation.CREATE): (kinds.QUEUE, kinds.NAMESPACE),
    (kinds.QUEUE.resource, Operation.CREATE): (kinds.QUEUE,),
    (kinds.QUEUE.resource, Operation.UPDATE): (kinds.QUEUE,),
    (kinds.QUEUE.resource, Operation.DELETE): (kinds.QUEUE, kinds.POD_GROUP),
}
"""Kinds that a review of each kind and operation reads."""
_EARLY = frozenset({kinds.JOB.resource, kinds.QUEUE.resource})
"""Kinds whose defaults replace values that violate the schema, and whose defaulting reads no other objects."""
_HOOKS = {
    kinds.JOB.resource: "job",
    kinds.CRON_JOB.resource: "cronjob",
    kinds.JOB_FLOW.resource: "jobflow",
    kinds.JOB_TEMPLATE.resource: "jobtemplate",
    kinds.POD.resource: "pod",
    kinds.POD_GROUP.resource: "podgroup",
    kinds.QUEUE.resource: "queue",
}
"""Resource names in Volcano's webhook names: validatejob.volcano.sh and so on."""


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
        self._transport = transport
        self.settings = settings
        self._decoded: dict[Kind, dict[bytes, ApiObject]] = {}

    def reviews(self, operation: str, resource: str, annotations: Mapping[str, str]) -> bool:
        """Return whether a write must be passed to `review`."""
        return is_reviewed(resource, operation, annotations)

    def default(self, request: Request) -> Manifest | None:
        """Return a new object with defaults, before schema validation; None if there is nothing to set."""
        asked = _review_request(request)
        if asked.resource not in _EARLY:
            return None
        made = with_defaults(asked, Snapshot(()), self.settings).object
        return None if made == request.object else made

    async def review(self, request: Request) -> Reply:
        """Review one write; writes of other kinds are allowed."""
        asked = _review_request(request)
        resource, operation = asked.resource, asked.operation
        if not is_reviewed(resource, operation, _annotations(request.object)):
            return Reply()
        try:
            snapshot = Snapshot(
                [obj for kind in _READS.get((resource, operation), ()) for obj in await self._list(kind)]
            )
        except (ApiError, TransportError) as error:
            return Reply(allowed=False, code=500, message=f"admission cannot read what it needs: {error}; try again")
        answer = review(asked, snapshot, self.settings)
        if not answer.allowed:
            return Reply(allowed=False, message=_refusal(resource, answer.messages), warnings=answer.warnings)
        changed = answer.object if answer.object != request.object else None
        return Reply(object=changed, warnings=answer.warnings)

    async def _list(self, kind: Kind) -> list[ApiObject]:
        """Return all objects of a kind; objects that did not change since the last review are not decoded again.

        PodGroups, which may be many, are read in pages when a queue is deleted, and not kept.
        """
        if kind is kinds.POD_GROUP:
            return list(await Client(self._transport).list(kind))
        response = check(await self._transport.request("GET", kind.path()))
        items = [bytes(item) for item in _LISTING.decode(response.body).items]
        known = self._decoded.get(kind, {})
        self._decoded[kind] = {item: known.get(item) or kind.decode(item) for item in items}
        return list(self._decoded[kind].values())


class Snapshot:
    """An `AdmissionLookup` over the objects read for one review."""

    def __init__(self, objects: Iterable[ApiObject]) -> None:
        self._objects: dict[Kind, dict[str, ApiObject]] = {}
        for obj in objects:
            self._objects.setdefault(kinds.of(obj), {})[obj.metadata.key] = obj

    def get(self, kind: Kind, name: str, namespace: str = "") -> ApiObject | None:
        """Return the object, or None."""
        return self._objects.get(kind, {}).get(f"{namespace}/{name}" if namespace else name)

    def all(self, kind: Kind) -> Iterable[ApiObject]:
        """Return all objects of a kind."""
        return self._objects.get(kind, {}).values()


class _Listing(msgspec.Struct):
    """A list whose items stay encoded."""

    items: list[msgspec.Raw] = []


_LISTING = msgspec.json.Decoder(_Listing)


def _review_request(request: Request) -> ReviewRequest:
    return ReviewRequest(
        operation=Operation(request.operation),
        resource=f"{request.plural}.{request.group}" if request.group else request.plural,
        name=request.name,
        namespace=request.namespace,
        object=request.object,
        old=request.old,
    )


def _annotations(manifest: Manifest | None) -> Mapping[str, str]:
    return ((manifest or {}).get("metadata") or {}).get("annotations") or {}


def _refusal(resource: str, messages: tuple[str, ...]) -> str:
    """Format problems: one on a line, several as a list."""
    lines = messages[0] if len(messages) == 1 else "".join(f"\n- {message}" for message in messages)
    return f'admission webhook "validate{_HOOKS[resource]}.volcano.sh" denied the request: {lines}'
