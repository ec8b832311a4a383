"""`ObjectWriter`: turns one effect into one write, and the response into its outcome.

Patches of one object form a slot: one is in flight, and unsent ones are combined. A newer merge patch is laid over an
unsent older one, so that no change is lost; both have the same outcome. A patch with other preconditions was computed
from another state: it replaces the unsent one, which fails with 409 as it would have on the server.

Secret material (SSH keys) is made here, just before it is sent: no event, effect or journal contains it.
"""

from __future__ import annotations

import asyncio
import base64
from collections import deque
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol, TypeAlias

import anyio
import msgspec
import structlog
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import rsa
from msgspec.structs import replace

from volcanoio.framework.effects import Create, Delete, Patch, PatchType
from volcanoio.framework.events import Observed
from volcanoio.framework.probe import NoProbe, Probe
from volcanoio.kube import requests
from volcanoio.kube.decoding import ObjectDecoder, UndecodableError
from volcanoio.kube.errors import AlreadyExists, ApiError, Conflict, NotFound, status_of
from volcanoio.kube.requests import DeleteOptions, PatchOptions
from volcanoio.kube.sender import Outcome, Sender, is_gone
from volcanoio.kube.transport import Response, SharedObject
from volcanoio.model import kinds
from volcanoio.model.base import ApiObject, Manifest
from volcanoio.model.kinds import Kind

Filler: TypeAlias = Callable[[Manifest], Manifest]
"""Returns a copy of a manifest with the missing material added. Runs in a worker thread."""

_KEY_BITS = 2048


def ssh_keypair(manifest: Manifest) -> Manifest:
    """Add an SSH key pair to a Secret as `id_rsa`, `id_rsa.pub` and `authorized_keys`; an existing pair is kept.

    The formats are Volcano's (pkg/controllers/job/plugins/ssh/ssh.go): RSA 2048, the private key in PKCS #1 PEM, the
    public one as a line of authorized_keys.
    """
    data = dict(manifest.get("data") or {})
    given = {**data, **(manifest.get("stringData") or {})}
    if "id_rsa" not in given or "id_rsa.pub" not in given:
        key = rsa.generate_private_key(public_exponent=65537, key_size=_KEY_BITS)
        private = key.private_bytes(
            serialization.Encoding.PEM, serialization.PrivateFormat.TraditionalOpenSSL, serialization.NoEncryption()
        )
        public = key.public_key().public_bytes(serialization.Encoding.OpenSSH, serialization.PublicFormat.OpenSSH)
        line = public + b"\n"
        data.update({"id_rsa": _base64(private), "id_rsa.pub": _base64(line), "authorized_keys": _base64(line)})
    elif "authorized_keys" not in given:
        data["authorized_keys"] = data.get("id_rsa.pub") or _base64(str(given["id_rsa.pub"]).encode())
    return {**manifest, "data": data}


def _base64(content: bytes) -> str:
    return base64.b64encode(content).decode()


FILLERS: Mapping[str, Filler] = {"ssh-keypair": ssh_keypair}
"""Valid values of `effects.Create.fill`."""


_LOG = structlog.get_logger(__name__)
_FILLING_THREADS = 2

EXPLANATIONS_IN_FLIGHT = 1
"""Limit of concurrent patches that only set conditions of pods.

They explain why a pod waits, and many are due at once. The API server's other clients, and this process' own
changes of PodGroups, would wait behind all that are in flight.
"""


class OwnWrites(Protocol):
    """Receiver of responses to our own writes (`InformerSet`)."""

    def observe_own(self, resource: str, response: bytes | Manifest) -> list[Observed]:
        """Fold the object in a response; the caller publishes the returned events."""
        ...

    def observe_own_delete(self, resource: str, namespace: str, name: str, uid: str) -> list[Observed]:
        """Fold that an object was removed; the caller publishes the returned events."""
        ...


@dataclass(frozen=True, slots=True)
class Writable:
    """Values that effects may use: `known` kinds, and for `Create.fill` one of `fillers`."""

    known: Iterable[Kind] = kinds.ALL
    fillers: Mapping[str, Filler] = field(default_factory=lambda: FILLERS)


class ObjectWriter:
    """Sender of creates, patches and deletes. `spawn` starts a task that lives as long as the owner."""

    def __init__(
        self,
        sender: Sender,
        own: OwnWrites,
        spawn: Callable[[Coroutine[Any, Any, None]], object],
        *,
        writable: Writable,
        probe: Probe | None = None,
    ) -> None:
        self._sender = sender
        self._own = own
        self._fillers = writable.fillers
        self._kinds = {kind.resource: kind for kind in writable.known}
        self._probe = probe or NoProbe()
        self._decoders: dict[str, ObjectDecoder] = {}
        self._slots = PatchSlots(self._send_patch, spawn)
        self._fill_limit = anyio.CapacityLimiter(_FILLING_THREADS)
        self._explaining = asyncio.Semaphore(EXPLANATIONS_IN_FLIGHT)

    async def write(self, effect: Create | Patch | Delete) -> tuple[Outcome, list[Observed]]:
        """Carry out one write; returns its outcome and the changes of the caches."""
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
        if outcome.response is None:
            return outcome, []
        body = SharedObject.of(outcome.response.body)  # decoded here, for informers and for the event of the outcome
        outcome = Outcome(response=Response(outcome.response.status, body), unsure=outcome.unsure)
        return outcome, self._own.observe_own(kind.resource, body)

    def object_of(self, effect: Create | Patch | Delete, outcome: Outcome) -> ApiObject | None:
        """Return the object in the response to a write; None if there is none that can be decoded."""
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
            PatchOptions(
                subresource=effect.subresource,
                type=effect.type,
                uid=effect.uid,
                resource_version=effect.resource_version,
            ),
        )
        if not _only_explains(effect):
            return await self._sender.send(request)
        async with self._explaining:
            return await self._sender.send(request)

    async def _create(self, kind: Kind, effect: Create) -> Outcome:
        manifest = effect.manifest
        if effect.fill:
            filler = self._fillers.get(effect.fill)
            if filler is None:
                message = f'no filler is named "{effect.fill}"; valid values: {", ".join(sorted(self._fillers))}'
                return Outcome(error=ApiError(0, "UnknownFiller", message))
            manifest = await anyio.to_thread.run_sync(filler, manifest, limiter=self._fill_limit)
        outcome = await self._sender.send(requests.create(kind, manifest))
        if outcome.unsure and isinstance(outcome.error, AlreadyExists):
            return await self._ours_after_all(kind, effect.manifest, outcome)
        return outcome

    async def _ours_after_all(self, kind: Kind, manifest: Manifest, outcome: Outcome) -> Outcome:
        """Resolve AlreadyExists after an unknown outcome: a success if the existing object is the one we sent."""
        meta = manifest.get("metadata", {})
        found = await self._sender.send(requests.get(kind, meta.get("namespace", ""), meta.get("name", "")))
        if found.response is None:
            return outcome
        there = msgspec.json.decode(found.response.body, type=_OwnedObject).metadata
        owners = {owner.get("uid") for owner in meta.get("ownerReferences") or ()}
        same = owners <= {owner.get("uid") for owner in there.get("ownerReferences") or ()}
        return found if same and not there.get("deletionTimestamp") else outcome

    async def _delete(self, kind: Kind, effect: Delete) -> tuple[Outcome, list[Observed]]:
        where = (effect.namespace, effect.name)
        options = DeleteOptions(
            uid=effect.uid, resource_version=effect.resource_version, grace=effect.grace, propagation=effect.propagation
        )
        outcome = await self._sender.send(requests.delete(kind, *where, options))
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


def _only_explains(effect: Patch) -> bool:
    """Return whether a patch sets conditions of a pod, and nothing else."""
    return (
        effect.resource == kinds.POD.resource
        and effect.subresource == "status"
        and (effect.patch.keys() == {"status"} and effect.patch["status"].keys() == {"conditions"})
    )


class _OwnedObject(msgspec.Struct, frozen=True):
    metadata: dict[str, Any] = {}


class _MarkedMeta(msgspec.Struct, rename="camel", frozen=True):
    deletion_timestamp: str | None = None


class _Marked(msgspec.Struct, frozen=True):
    metadata: _MarkedMeta = _MarkedMeta()


_marked = msgspec.json.Decoder(_Marked).decode


def _terminating(body: bytes) -> bool:
    return bool(_marked(body).metadata.deletion_timestamp)


SlotKey: TypeAlias = tuple[str, str, str, str]
SUPERSEDED = "Superseded"


@dataclass(slots=True)
class _Unsent:
    """A patch that waits for its slot, and the callers that wait for its outcome."""

    effect: Patch
    waiting: list[asyncio.Future[Outcome]]


class PatchSlots:
    """Queue of patches by slot, sent through `send`. `spawn` starts a task that lives as long as the executor."""

    def __init__(
        self, send: Callable[[Patch], Awaitable[Outcome]], spawn: Callable[[Coroutine[Any, Any, None]], object]
    ) -> None:
        self._send = send
        self._spawn = spawn
        self._slots: dict[SlotKey, deque[_Unsent]] = {}

    async def carry_out(self, effect: Patch) -> Outcome:
        """Send a patch when its slot is free; returns its outcome, or that of the patch it was combined with."""
        key = (effect.resource, effect.namespace, effect.name, effect.subresource)
        queue = self._slots.get(key)
        if queue is None:
            self._slots[key] = deque()
            try:
                return await self._send(effect)
            finally:
                self._release(key)
        outcome: asyncio.Future[Outcome] = asyncio.get_running_loop().create_future()
        self._enqueue(queue, effect, outcome)
        return await outcome

    def _enqueue(self, queue: deque[_Unsent], effect: Patch, outcome: asyncio.Future[Outcome]) -> None:
        last = queue[-1] if queue else None
        if last is None or (
            last.effect.uid == effect.uid and effect.resource_version and not last.effect.resource_version
        ):
            queue.append(_Unsent(effect, [outcome]))  # the older one holds for every version
        elif (last.effect.uid, last.effect.resource_version) != (effect.uid, effect.resource_version):
            message = "a newer patch computed from another version replaced this one before it was sent"
            _resolve(last.waiting, Outcome(error=Conflict(409, SUPERSEDED, message)))
            last.effect, last.waiting = effect, [outcome]
        elif (both := combine_patches(last.effect, effect)) is not None:
            last.effect = both
            last.waiting.append(outcome)
        else:
            queue.append(_Unsent(effect, [outcome]))

    def _release(self, key: SlotKey) -> None:
        queue = self._slots[key]
        if queue:
            self._spawn(self._drive(key, queue.popleft()))
        else:
            del self._slots[key]

    async def _drive(self, key: SlotKey, unsent: _Unsent) -> None:
        try:
            outcome = await self._send(unsent.effect)
        finally:
            self._release(key)
        _resolve(unsent.waiting, outcome)


def _resolve(waiting: list[asyncio.Future[Outcome]], outcome: Outcome) -> None:
    for future in waiting:
        if not future.done():
            future.set_result(outcome)


def combine_patches(older: Patch, newer: Patch) -> Patch | None:
    """Return one patch equal to both in sequence; None if no single patch is."""
    if older.type is not PatchType.MERGE or newer.type is not PatchType.MERGE:
        return None
    content = overlay_merge_patch(older.patch, newer.patch)
    return None if content is None else replace(newer, patch=content)


def overlay_merge_patch(older: dict[str, Any], newer: dict[str, Any]) -> dict[str, Any] | None:
    """Return the merge patch (RFC 7386) equal to `older` and then `newer`, or None if there is none.

    There is none if `older` sets a plain value or deletes, and `newer` merges an object into the result.
    """
    result = dict(older)
    for key, value in newer.items():
        if isinstance(value, dict) and key in older:
            before = older[key]
            nested = overlay_merge_patch(before, value) if isinstance(before, dict) else None
            if nested is None:
                return None
            result[key] = nested
        else:
            result[key] = value
    return result
