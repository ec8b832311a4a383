"""`ObjectWriter`: one effect to one write, with what its outcome means for the object."""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Iterable, Mapping
from typing import Any, Protocol

import anyio
import msgspec
import structlog

from volcanoio.framework.effects import Create, Delete, Patch
from volcanoio.framework.events import Observed
from volcanoio.framework.probe import NoProbe, Probe
from volcanoio.kube import requests
from volcanoio.kube.decoding import ObjectDecoder, UndecodableError
from volcanoio.kube.errors import AlreadyExists, ApiError, Conflict, NotFound, status_of
from volcanoio.kube.fillers import FILLERS, Filler
from volcanoio.kube.presence import is_gone
from volcanoio.kube.sending import Outcome, Sender
from volcanoio.kube.slots import PatchSlots
from volcanoio.kube.transport import Response, SharedObject
from volcanoio.model import kinds
from volcanoio.model.base import ApiObject, Manifest
from volcanoio.model.kinds import Kind

_LOG = structlog.get_logger(__name__)
_FILLING_THREADS = 2


class OwnWrites(Protocol):
    """Where responses to our own writes are folded (`InformerSet`)."""

    def observe_own(self, resource: str, response: bytes | Manifest) -> list[Observed]:
        """Fold the object in a response; the events are the caller's to publish."""
        ...

    def observe_own_delete(self, resource: str, namespace: str, name: str, uid: str) -> list[Observed]:
        """Fold that an object is gone for good; the events are the caller's to publish."""
        ...


class ObjectWriter:
    """Creates, patches and deletes. `known` are the kinds effects may name, `fillers` what `Create.fill` may name.

    `spawn` starts a task that lives as long as the owner does.
    """

    def __init__(
        self,
        sender: Sender,
        own: OwnWrites,
        spawn: Callable[[Coroutine[Any, Any, None]], object],
        *,
        fillers: Mapping[str, Filler] = FILLERS,
        known: Iterable[Kind] = kinds.ALL,
        probe: Probe | None = None,
    ) -> None:
        self._sender = sender
        self._own = own
        self._fillers = fillers
        self._kinds = {kind.resource: kind for kind in known}
        self._probe = probe or NoProbe()
        self._decoders: dict[str, ObjectDecoder] = {}
        self._slots = PatchSlots(self._send_patch, spawn)
        self._fill_limit = anyio.CapacityLimiter(_FILLING_THREADS)

    async def write(self, effect: Create | Patch | Delete) -> tuple[Outcome, list[Observed]]:
        """Carry out one write; gives its outcome and what the response changed in the caches."""
        kind = self._kinds.get(effect.resource)
        if kind is None:
            message = f"no kind is known for {effect.resource}; register it with the executor"
            return Outcome(error=ApiError(0, "UnknownResource", message)), []
        if isinstance(effect, Delete):
            return await self._delete(kind, effect)
        if isinstance(effect, Create):
            outcome = await self._create(kind, effect)
        else:
            outcome = await self._slots.carry_out(effect)
        self._count(effect, outcome)
        if outcome.response is None:
            return outcome, []
        body = SharedObject.of(outcome.response.body)  # decoded here, for informers and for the event of the outcome
        outcome = Outcome(response=Response(outcome.response.status, body), unsure=outcome.unsure)
        return outcome, self._own.observe_own(kind.resource, body)

    def object_of(self, effect: Create | Patch | Delete, outcome: Outcome) -> ApiObject | None:
        """The object in the response to a write; None where there is none that can be read."""
        body = outcome.response.body if outcome.response is not None else b""
        if not body or status_of(body):
            return None
        decoder = self._decoders.get(effect.resource)
        if decoder is None:
            decoder = self._decoders[effect.resource] = ObjectDecoder(self._kinds[effect.resource])
        try:
            return decoder.one(body)
        except UndecodableError as error:
            self._probe.count("volcanoio_undecodable_objects_total", resource=effect.resource)
            _LOG.error("the answer to a write cannot be read", resource=effect.resource, error=str(error))
            return None

    async def _send_patch(self, effect: Patch) -> Outcome:
        request = requests.patch(
            self._kinds[effect.resource],
            effect.namespace,
            effect.name,
            effect.patch,
            subresource=effect.subresource,
            type_=effect.type,
            uid=effect.uid,
            resource_version=effect.resource_version,
        )
        return await self._sender.send(request)

    async def _create(self, kind: Kind, effect: Create) -> Outcome:
        manifest = effect.manifest
        if effect.fill:
            filler = self._fillers.get(effect.fill)
            if filler is None:
                message = f'no filler is named "{effect.fill}"; known are: {", ".join(sorted(self._fillers))}'
                return Outcome(error=ApiError(0, "UnknownFiller", message))
            manifest = await anyio.to_thread.run_sync(filler, manifest, limiter=self._fill_limit)
        outcome = await self._sender.send(requests.create(kind, manifest))
        if outcome.unsure and isinstance(outcome.error, AlreadyExists):
            return await self._ours_after_all(kind, effect.manifest, outcome)
        return outcome

    async def _ours_after_all(self, kind: Kind, manifest: Manifest, outcome: Outcome) -> Outcome:
        """AlreadyExists after an attempt whose outcome is unknown: a success if the object there is the one we made."""
        meta = manifest.get("metadata", {})
        found = await self._sender.send(requests.get(kind, meta.get("namespace", ""), meta.get("name", "")))
        if found.response is None:
            return outcome
        there = msgspec.json.decode(found.response.body, type=_Owned).metadata
        owners = {owner.get("uid") for owner in meta.get("ownerReferences") or ()}
        same = owners <= {owner.get("uid") for owner in there.get("ownerReferences") or ()}
        return found if same and not there.get("deletionTimestamp") else outcome

    async def _delete(self, kind: Kind, effect: Delete) -> tuple[Outcome, list[Observed]]:
        where = (effect.namespace, effect.name)
        request = requests.delete(
            kind,
            *where,
            uid=effect.uid,
            resource_version=effect.resource_version,
            grace=effect.grace,
            propagation=effect.propagation,
        )
        outcome = await self._sender.send(request)
        self._count(effect, outcome)
        gone = isinstance(outcome.error, NotFound) or (
            isinstance(outcome.error, Conflict) and await is_gone(self._sender, kind, *where, effect.uid)
        )
        if gone:
            outcome = Outcome(response=Response(200, b""))
        if outcome.response is None:
            return outcome, []
        body = outcome.response.body
        if gone or status_of(body) or not _terminating(body):
            return outcome, self._own.observe_own_delete(kind.resource, *where, effect.uid)
        return outcome, self._own.observe_own(kind.resource, body)

    def _count(self, effect: Create | Patch | Delete, outcome: Outcome) -> None:
        code = outcome.response.status if outcome.response else outcome.error.code if outcome.error else 0
        verb = type(effect).__name__.lower()
        self._probe.count("volcanoio_api_writes_total", verb=verb, resource=effect.resource, code=str(code))


class _Owned(msgspec.Struct, frozen=True):
    metadata: dict[str, Any] = {}


class _MarkedMeta(msgspec.Struct, rename="camel", frozen=True):
    deletion_timestamp: str | None = None


class _Marked(msgspec.Struct, frozen=True):
    metadata: _MarkedMeta = _MarkedMeta()


_marked = msgspec.json.Decoder(_Marked).decode


def _terminating(body: bytes) -> bool:
    return bool(_marked(body).metadata.deletion_timestamp)
