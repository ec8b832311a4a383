"""`InProcessAdmission`: engine admission behind the embedded API server's hook.

A review reads the queues (and the namespace) it needs from the server itself and not from a watch, so that a Job may
follow its Queue at once. The server's own types are met structurally: this room does not know that one.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final, Protocol

import msgspec

from volcanoio.engine.admission.request import AdmissionSettings, Operation, ReviewRequest
from volcanoio.engine.admission.review import TABLE, review
from volcanoio.framework import groups
from volcanoio.kube.errors import ApiError, check
from volcanoio.kube.transport import Transport, TransportError
from volcanoio.model import kinds, names
from volcanoio.model.base import ApiObject, Manifest
from volcanoio.model.kinds import Kind
from volcanoio.runtime.loading import Registry

_READS: dict[tuple[str, Operation], tuple[Kind, ...]] = {
    (kinds.JOB.resource, Operation.CREATE): (kinds.QUEUE,),
    (kinds.CRON_JOB.resource, Operation.CREATE): (kinds.QUEUE,),
    (kinds.CRON_JOB.resource, Operation.UPDATE): (kinds.QUEUE,),
    (kinds.POD_GROUP.resource, Operation.CREATE): (kinds.QUEUE, kinds.NAMESPACE),
    (kinds.QUEUE.resource, Operation.CREATE): (kinds.QUEUE,),
    (kinds.QUEUE.resource, Operation.UPDATE): (kinds.QUEUE,),
    (kinds.QUEUE.resource, Operation.DELETE): (kinds.QUEUE,),
}
"""What a review looks up."""
_HOOKS = {
    kinds.JOB.resource: "job",
    kinds.CRON_JOB.resource: "cronjob",
    kinds.JOB_FLOW.resource: "jobflow",
    kinds.POD_GROUP.resource: "podgroup",
    kinds.QUEUE.resource: "queue",
}
"""As Volcano's webhooks are named: validatejob.volcano.sh and so on."""


class Request(Protocol):
    """One write, as the server's hook gives it."""

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
        """Such as `jobs`."""
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
    """The answer: `object` replaces the one under review; message and code are for refusals."""

    allowed: bool = True
    object: Manifest | None = None
    message: str = ""
    code: int = 403
    warnings: tuple[str, ...] = ()


class InProcessAdmission:
    """Reviews Jobs, CronJobs, JobFlows, PodGroups and Queues. Job plugins are those of the registry.

    `strict` refuses older forms that are else accepted with a warning. `scheduler_name` is for Jobs that name none,
    `schedulers` are all that the cluster has, () where that is not known.
    """

    resources: Final = frozenset(resource for resource, _ in TABLE)
    """What is reviewed: nothing else has to be shown."""

    def __init__(
        self,
        transport: Transport,
        registry: Registry,
        *,
        strict: bool = False,
        scheduler_name: str = names.SCHEDULER_NAME,
        schedulers: tuple[str, ...] = (),
    ) -> None:
        self._transport = transport
        plugins = registry.factories(groups.JOB_PLUGINS)
        self.settings = AdmissionSettings(
            job_plugins=plugins, strict=strict, scheduler_name=scheduler_name, schedulers=schedulers
        )
        self._decoded: dict[Kind, dict[bytes, ApiObject]] = {}

    async def review(self, request: Request) -> Reply:
        """Judge one write; what is not ours is allowed as it is."""
        resource = f"{request.plural}.{request.group}" if request.group else request.plural
        operation = Operation(request.operation)
        if (resource, operation) not in TABLE:
            return Reply()
        try:
            snapshot = Snapshot(
                [obj for kind in _READS.get((resource, operation), ()) for obj in await self._list(kind)]
            )
        except (ApiError, TransportError) as error:
            return Reply(allowed=False, code=500, message=f"admission cannot read what it needs: {error}; try again")
        asked = ReviewRequest(
            operation=operation,
            resource=resource,
            name=request.name,
            namespace=request.namespace,
            object=request.object,
            old=request.old,
        )
        answer = review(asked, snapshot, self.settings)
        if not answer.allowed:
            return Reply(allowed=False, message=_refusal(resource, answer.messages), warnings=answer.warnings)
        changed = answer.object if answer.object != request.object else None
        return Reply(object=changed, warnings=answer.warnings)

    async def _list(self, kind: Kind) -> list[ApiObject]:
        """All objects of a kind. What is stored unchanged since the last review is not decoded again."""
        response = check(await self._transport.request("GET", kind.path()))
        items = [bytes(item) for item in _LISTING.decode(response.body).items]
        known = self._decoded.get(kind, {})
        self._decoded[kind] = {item: known.get(item) or kind.decode(item) for item in items}
        return list(self._decoded[kind].values())


class Snapshot:
    """An `AdmissionLookup` over objects read for one review."""

    def __init__(self, objects: Iterable[ApiObject]) -> None:
        self._objects: dict[Kind, dict[str, ApiObject]] = {}
        for obj in objects:
            self._objects.setdefault(kinds.of(obj), {})[obj.metadata.key] = obj

    def get(self, kind: Kind, name: str, namespace: str = "") -> ApiObject | None:
        """The object, or None."""
        return self._objects.get(kind, {}).get(f"{namespace}/{name}" if namespace else name)

    def all(self, kind: Kind) -> Iterable[ApiObject]:
        """All objects of a kind."""
        return self._objects.get(kind, {}).values()


class _Listing(msgspec.Struct):
    """A list, each item as its bytes."""

    items: list[msgspec.Raw] = []


_LISTING = msgspec.json.Decoder(_Listing)


def _refusal(resource: str, messages: tuple[str, ...]) -> str:
    """One line for one problem, else a list."""
    lines = messages[0] if len(messages) == 1 else "".join(f"\n- {message}" for message in messages)
    return f'admission webhook "validate{_HOOKS[resource]}.volcano.sh" denied the request: {lines}'
