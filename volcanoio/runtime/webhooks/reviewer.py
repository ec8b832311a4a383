"""`AdmissionReviewer`: reads the objects that a review needs, and reviews.

Queues come from a cache if there is one. A review that would refuse on cached objects is repeated on objects read from
the API server, so that a Job may be created immediately after its Queue (Volcano refuses it).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Protocol, TypeVar, TypeVarTuple, Unpack

import anyio.to_thread
import msgspec
from msgspec.structs import replace

from volcanoio.engine.admission.queue_rights import (
    RequiredRight,
    command_rights,
    has_restricted,
    is_reviewed_child,
    reads_for_rights,
    required_rights,
    subjects,
    used_queues,
    uses_queues,
)
from volcanoio.engine.admission.request import AdmissionSettings, Read, Review, ReviewRequest, User
from volcanoio.engine.admission.resource_groups import AdmissionConfError, ResourceGroup, parse_admission_conf
from volcanoio.engine.admission.review import reads_for_defaults, reads_for_review, review, with_defaults
from volcanoio.framework.probe import Probe
from volcanoio.kube.client import Client
from volcanoio.kube.clock import Clock
from volcanoio.kube.errors import NotFound, check
from volcanoio.kube.transport import Transport
from volcanoio.model import kinds
from volcanoio.model.base import ApiObject
from volcanoio.model.kinds import Kind
from volcanoio.runtime.loading.mounted_files import MountError
from volcanoio.runtime.loading.reloading import (
    ConfigurationReloader,
    ReloadMetrics,
    SourceContent,
    WatchedConfiguration,
)

MOST_REFUSALS = 10
"""Rights to queues that a denial lists as missing; each is a question to the API server."""


Result = TypeVar("Result")
Arguments = TypeVarTuple("Arguments")


async def perform(in_thread: bool, function: Callable[[Unpack[Arguments]], Result], *arguments: *Arguments) -> Result:
    """Call a function, in a thread if its work would hold the event loop for long."""
    return await anyio.to_thread.run_sync(function, *arguments) if in_thread else function(*arguments)


class RightsSource(Protocol):
    """Answers who may use a restricted queue."""

    async def refusal(self, subjects: tuple[User, ...], right: RequiredRight) -> str:
        """Return why none of the subjects may use the queue, "" if one may."""
        ...


class QueueCache(Protocol):
    """The queues by name, as `kube.informer.Informer` has them."""

    @property
    def is_synced(self) -> bool:
        """Whether the cache is complete."""
        ...

    @property
    def objects(self) -> Mapping[str, ApiObject]:
        """The queues by name."""
        ...


class Snapshot:
    """An `AdmissionLookup` over the objects read for one review; `cached` are further kinds, complete and by key."""

    def __init__(
        self, objects: Iterable[ApiObject], cached: Mapping[Kind, Mapping[str, ApiObject]] | None = None
    ) -> None:
        read: dict[Kind, dict[str, ApiObject]] = {}
        for obj in objects:
            read.setdefault(kinds.of(obj), {})[obj.metadata.key] = obj
        self.by_kind: Mapping[Kind, Mapping[str, ApiObject]] = {**(cached or {}), **read}

    def get(self, kind: Kind, name: str, namespace: str = "") -> ApiObject | None:
        """Return the object, or None."""
        return self.by_kind.get(kind, {}).get(f"{namespace}/{name}" if namespace else name)

    def all(self, kind: Kind) -> Iterable[ApiObject]:
        """Return all objects of a kind."""
        return self.by_kind.get(kind, {}).values()


class AdmissionReviewer:
    """Reviews of writes. Without `rights`, restricted queues are open to all.

    `settings` may be replaced at any time; a review that has begun uses those of its begin.
    """

    def __init__(
        self,
        transport: Transport,
        settings: AdmissionSettings,
        *,
        queues: QueueCache | None = None,
        rights: RightsSource | None = None,
    ) -> None:
        self.settings = settings
        self._transport = transport
        self._client = Client(transport)
        self._queues = queues
        self._rights = rights
        self._decoded: dict[bytes, ApiObject] = {}

    async def default(self, request: ReviewRequest, *, in_thread: bool = False) -> ReviewRequest:
        """Return the request with the defaults set in a copy of its object. Raises ApiError and TransportError."""
        settings = self.settings
        snapshot = await self._snapshot(reads_for_defaults(request))
        return await perform(in_thread, with_defaults, request, snapshot, settings)

    async def review(self, request: ReviewRequest, user: User | None = None, *, in_thread: bool = False) -> Review:
        """Default and validate; check `user`'s rights to the queues. Raises ApiError and TransportError."""
        settings = self.settings
        reads = [*reads_for_defaults(request), *reads_for_review(request)]
        author = user if self._rights is not None and uses_queues(request) else None
        if author is not None and is_reviewed_child(request, author, settings):
            author = None
        if author is not None:
            reads.append(Read(kinds.QUEUE))
        cached = kinds.QUEUE in (read.kind for read in reads) and self._queues is not None and self._queues.is_synced
        snapshot = await self._snapshot(reads, use_cache=cached)
        answer = await perform(in_thread, review, request, snapshot, settings)
        if cached and not answer.allowed:
            snapshot = await self._snapshot(reads)
            answer = await perform(in_thread, review, request, snapshot, settings)
        if author is None or not answer.allowed:
            return answer
        missing = await self._missing_rights(replace(request, object=answer.object), author, snapshot)
        return replace(answer, allowed=False, messages=missing) if missing else answer

    async def _missing_rights(self, request: ReviewRequest, user: User, snapshot: Snapshot) -> tuple[str, ...]:
        """Return a message for each right to a queue that the user does not have, at most `MOST_REFUSALS`."""
        if (rights := self._rights) is None:
            return ()
        wanted = command_rights(request)
        if has_restricted(snapshot):
            further = await self._snapshot(reads_for_rights(request))
            snapshot = Snapshot((), {**further.by_kind, kinds.QUEUE: snapshot.by_kind[kinds.QUEUE]})
            wanted += required_rights(used_queues(request, snapshot), snapshot)
        asked = subjects(request, user)
        messages: list[str] = []
        for right in wanted:
            if reason := await rights.refusal(asked, right):
                messages.append(right.refusal(user, reason))
            if len(messages) == MOST_REFUSALS:
                break
        return tuple(messages)

    async def _snapshot(self, reads: Iterable[Read], *, use_cache: bool = False) -> Snapshot:
        cached = {kinds.QUEUE: self._queues.objects} if use_cache and self._queues is not None else {}
        objects: list[ApiObject] = []
        for read in dict.fromkeys(reads):
            if read.kind not in cached:
                objects += await (self._get(read) if read.name else self._list(read.kind, read.namespace))
        return Snapshot(objects, cached)

    async def _get(self, read: Read) -> list[ApiObject]:
        try:
            return [await self._client.get(read.kind, read.name, read.namespace)]
        except NotFound:
            return []

    async def _list(self, kind: Kind, namespace: str) -> list[ApiObject]:
        """Return all objects of a kind; queues that did not change since the last review are not decoded again."""
        if kind is not kinds.QUEUE:
            try:
                return await self._client.list(kind, namespace)
            except NotFound:
                if kind.is_optional:  # this server does not serve the kind
                    return []
                raise
        response = check(await self._transport.request("GET", kind.path()))
        items = [bytes(item) for item in _LISTING.decode(response.body).items]
        known = self._decoded
        self._decoded = {item: known.get(item) or kind.decode(item) for item in items}
        return list(self._decoded.values())


class ResourceGroupReloader(ConfigurationReloader[tuple[ResourceGroup, ...]]):
    """Puts changes of `--admission-conf` into force; `changed` is called with the new groups."""

    what = "the admission configuration"
    when = "with the next pod"
    metrics = ReloadMetrics(
        "volcanoio_admission_config_valid", "volcanoio_admission_config_reloads_total",
        "volcanoio_admission_config_last_reload_timestamp_seconds",
    )  # fmt: skip
    refusals = (AdmissionConfError, MountError)

    def __init__(
        self,
        watched: WatchedConfiguration,
        changed: Callable[[tuple[ResourceGroup, ...]], None],
        *,
        clock: Clock,
        probe: Probe,
    ) -> None:
        super().__init__(watched, clock=clock, probe=probe)
        self._changed = changed

    def make(self, seen: SourceContent, *, mounted_changed: bool) -> tuple[ResourceGroup, ...]:
        """Parse the file. Raises AdmissionConfError."""
        del mounted_changed
        return parse_admission_conf(seen.text or "")

    def take_over(self, made: tuple[ResourceGroup, ...]) -> None:
        """Pass the groups on."""
        self._changed(made)


class _Listing(msgspec.Struct):
    """A list whose items stay encoded."""

    items: list[msgspec.Raw] = []


_LISTING = msgspec.json.Decoder(_Listing)
