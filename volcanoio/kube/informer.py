"""`Informer`: keeps a cache of one kind by list and watch, and publishes the changes.

A watch batch becomes one publish of Observed events. A broken watch resumes where it ended. If the server can no longer
resume it (410), the informer publishes Relisting, lists again and publishes Synced. `InformerSet` has one informer per
kind and selectors, shared by all consumers.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Iterable, Iterator, Mapping

import anyio
import msgspec
import structlog
from anyio.abc import TaskGroup
from anyio.lowlevel import checkpoint

from volcanoio.framework.events import Change, Event, Observed, Relisting, Synced
from volcanoio.framework.probe import NoProbe, Probe
from volcanoio.kube.clock import Clock, RetryBackoff
from volcanoio.kube.decoding import ObjectDecoder, UndecodableError, WithMeta
from volcanoio.kube.errors import (
    ApiError,
    Expired,
    Forbidden,
    NotFound,
    Status,
    TooManyRequests,
    error_from_status,
    error_of,
)
from volcanoio.kube.object_cache import AT_ONCE, ObjectCache, SharedParts
from volcanoio.kube.transport import StreamRefused, Transport, TransportError
from volcanoio.model import kinds
from volcanoio.model.base import ApiObject, Manifest
from volcanoio.model.kinds import Kind

_LOG = structlog.get_logger(__name__)
_WATCH_SECONDS = (300, 600)
_ABSENT_SECONDS = 2.0
"""Seconds between requests for a kind that is not served."""
_ABSENT_TRIES = 20
"""Requests, within about half a minute, after which a custom kind that is still not served is logged as a warning.

Users that follow a guide may start the controller before they define its kind.
"""
_AT_A_TIME, _TURNS = 64, 8
"""Lines of a watch that are folded and acted upon between two turns of the event loop, and the most turns per batch.

The limit on turns lets a consumer that is behind the writers catch up.
"""
_SHORT_LIVED = 1.0
"""Seconds; a watch that ends sooner without a line counts as a failure."""
_PROOF_SECONDS = 3
"""Duration of a watch that is started for its bookmark: kube-apiserver sends one 2 s before a watch ends."""
_PROOF_PATIENCE = 6.0
"""Seconds without that bookmark after which the kind is listed instead."""

Publish = Callable[[Iterable[Event]], object]


def _discard(_events: Iterable[Event]) -> None:
    """Discard events; a stopped informer publishes here."""


class Selection(msgspec.Struct, frozen=True, kw_only=True):
    """The part of a kind that is watched; by default all of it."""

    label_selector: str = ""
    field_selector: str = ""
    namespace: str = ""

    def query(self) -> dict[str, str]:
        """Return the selectors as query parameters of a list or watch."""
        selectors = {"labelSelector": self.label_selector, "fieldSelector": self.field_selector}
        return {key: value for key, value in selectors.items() if value}


EVERYTHING = Selection()


_FAILURES, _RELISTS = "volcanoio_informer_failures_total", "volcanoio_informer_relists_total"
_UNDECODABLE = "volcanoio_undecodable_objects_total"


class WatchContext(msgspec.Struct, frozen=True, kw_only=True):
    """Objects that all informers of a process share."""

    transport: Transport
    publish: Publish
    clock: Clock
    seed: int = 0
    probe: Probe = msgspec.field(default_factory=NoProbe)


class Informer:
    """Cache of one selection of a kind; call `run` once. `page` is the page size of lists."""

    def __init__(
        self, kind: Kind, context: WatchContext, selection: Selection = EVERYTHING, *, page: int = 500
    ) -> None:
        self.kind = kind
        self._transport = context.transport
        self._publish = context.publish
        self._clock = context.clock
        self._selectors = selection.query()
        self._path = kind.path(selection.namespace)
        self._page = page
        self._rng = random.Random(
            f"{context.seed}/{kind.resource}/{selection.label_selector}/{selection.field_selector}"
        )
        self._backoff = RetryBackoff(self._rng)
        self._probe = context.probe
        for name in (_FAILURES, _RELISTS, _UNDECODABLE):
            self._probe.count(name, 0.0, resource=kind.resource)
        self._decoder = ObjectDecoder(kind, made=SharedParts().of)
        self._cache = ObjectCache(kind.resource, selective=selection != EVERYTHING)
        self._revision = ""
        """Version at which the watch resumes; "" if a list is needed."""
        self._synced = asyncio.Event()
        self._answered = asyncio.Event()
        self._scope = anyio.CancelScope()
        self._interruptible = anyio.CancelScope()
        """Scope of the current watch or pause; cancelling it makes `run` look at what is requested of it."""
        self._publish_aloud = context.publish
        self._is_announcing = False
        self._awaited = 0
        """Revision that `catch_up` waits for."""
        self._progress = asyncio.Event()
        """Set when the cache has reached it."""

    @property
    def objects(self) -> Mapping[str, ApiObject]:
        """The cache: objects by `namespace/name`; a live, read-only view."""
        return self._cache.objects

    @property
    def is_synced(self) -> bool:
        """Whether an object that is not in the cache does not exist."""
        return self._synced.is_set()

    async def synced(self) -> None:
        """Return once the kind is listed."""
        await self._synced.wait()

    async def answered(self) -> None:
        """Return once the kind is listed, or the server answered that it does not serve it (yet)."""
        await self._answered.wait()

    def observe_own(self, response: bytes | Manifest) -> list[Observed]:
        """Fold the object in a response to our own write; the caller publishes the returned events."""
        try:
            obj = self._decoder.one(response) if isinstance(response, bytes) else self._decoder.lenient(response)
        except UndecodableError as error:
            self._report(error)
            return []
        return self._cache.own(obj)

    def observe_own_delete(self, namespace: str, name: str, uid: str) -> list[Observed]:
        """Fold that our own delete removed the object; the caller publishes the returned events."""
        return self._cache.own_deleted(f"{namespace}/{name}" if namespace else name, uid)

    def stop(self) -> None:
        """End `run`; publish that all objects are gone and the kind is not listed, and then nothing more."""
        self._scope.cancel()
        publish, self._publish = self._publish, _discard
        publish([*self._cache.replace((), 0), Relisting(resource=self.kind.resource)])
        self._synced.clear()

    def silence(self) -> None:
        """Publish nothing until `announce`; call it before `run`."""
        self._publish = _discard

    def announce(self) -> None:
        """Publish all objects and Synced as soon as the kind is listed, and from then on every change."""
        self._is_announcing = True
        self._interruptible.cancel()

    async def catch_up(self) -> None:
        """Return when the cache holds every write that ended before the call.

        A consistent list of one object gives the revision to reach. The watch has reached it with any later event or
        bookmark; if there is none in time, the kind is listed. A kind that is not served is left out.
        """
        revision = await self._current_revision()
        if revision is None:
            return
        self._awaited = max(self._awaited, revision)
        while self._cache.floor < revision:
            self._interruptible.cancel()
            self._progress.clear()
            with anyio.move_on_after(_PROOF_PATIENCE):
                await self._progress.wait()
            if self._cache.floor < revision and self._synced.is_set():
                _LOG.warning("no bookmark in time; the kind is listed again", resource=self.kind.resource)
                self._lose()

    async def _current_revision(self) -> int | None:
        """Return the revision of the kind from the server, None if it is not served."""
        backoff, query = RetryBackoff(self._rng), {**self._selectors, "limit": "1"}
        while True:
            retry_after = 0.0
            try:
                response = await self._transport.request("GET", self._path, query=query, timeout=_PROOF_PATIENCE)
                if response.status == 404 or (response.status == 403 and self.kind.is_optional):
                    return None
                if response.ok and (revision := self._decoder.page(response.body)[0].resource_version).isdigit():
                    return int(revision)
                retry_after = error_of(response, now=self._clock.now()).retry_after
            except (TransportError, msgspec.DecodeError) as error:
                _LOG.warning("the current revision is not known", resource=self.kind.resource, error=str(error))
            await self._clock.sleep(backoff.next(retry_after))

    async def run(self) -> None:
        """List and watch until cancelled or stopped; failures are logged and retried with back-off."""
        with self._scope:
            await self._run()

    async def _run(self) -> None:
        while True:
            wait = 0.0
            try:
                if not self._revision:
                    await self._list()
                    self._backoff.reset()
                if self._is_announcing:
                    await self._publish_all()
                with anyio.CancelScope() as self._interruptible:
                    wait = await self._watch()
            except Expired:
                self._lose()
                wait = self._backoff.next() if self._backoff.failures else 0.0
            except (TooManyRequests, TransportError) as error:  # the watch can resume from its last version
                wait = self._failed(error)
            except (ApiError, UndecodableError, msgspec.DecodeError) as error:
                wait = await self._refused(error)
            if wait:
                with anyio.CancelScope() as self._interruptible:
                    await self._clock.sleep(wait)

    async def _refused(self, error: Exception) -> float:
        """Handle a refused list or watch; the next step is a list. Return the seconds until then."""
        if self.kind.is_optional and isinstance(error, Forbidden | NotFound):
            return await self._none_exist(error)
        self._lose()
        return self._absent() if isinstance(error, NotFound) else self._failed(error)

    def _failed(self, error: Exception) -> float:
        wait = self._backoff.next(getattr(error, "retry_after", 0.0))
        self._probe.count(_FAILURES, resource=self.kind.resource)
        _LOG.warning("list or watch failed", resource=self.kind.resource, error=str(error), retry_in=round(wait, 2))
        return wait

    def _absent(self) -> float:
        """Wait for a kind that is not served: its definition may be created at any time, and asking is cheap."""
        asked, ours = self._backoff.failures, self.kind.resource in kinds.BY_RESOURCE
        if asked == (0 if ours else _ABSENT_TRIES):
            _LOG.warning("this kind is not served; install its CustomResourceDefinition", resource=self.kind.resource)
        elif not asked:
            _LOG.info("this kind is not served yet; it is asked for until it is", resource=self.kind.resource)
        self._answered.set()
        return min(self._backoff.next(), _ABSENT_SECONDS)

    async def _none_exist(self, error: ApiError) -> float:
        """Publish once that an optional kind has no objects; return the seconds until it is asked for again."""
        self._revision = ""
        if isinstance(error, Forbidden) and not self._backoff.failures:
            _LOG.warning(
                "this kind may not be read, so objects of it are ignored; allow it to list and watch the kind",
                resource=self.kind.resource,
                error=str(error),
            )
        gone = self._cache.replace((), 0)
        if not self._synced.is_set():
            self._synced.set()
            self._answered.set()
            self._publish([*gone, Synced(resource=self.kind.resource)])
        elif gone:
            self._publish(gone)
        if self._is_announcing:
            await self._publish_all()
        return self._backoff.next()

    def _lose(self) -> None:
        """Publish once that the watch cannot resume; the next step is a list."""
        self._revision = ""
        if self._synced.is_set():
            self._synced.clear()
            self._probe.count(_RELISTS, resource=self.kind.resource)
            self._publish([Relisting(resource=self.kind.resource)])

    async def _list(self) -> None:
        query = {**self._selectors, "limit": str(self._page)}
        objects: dict[str, ApiObject] = {}
        revision = ""
        while True:
            response = await self._transport.request("GET", self._path, query=query)
            if response.status == 410 and "continue" in query:  # the continue token expired: list in one request
                query, objects = dict(self._selectors), {}
                continue
            if not response.ok:
                raise error_of(response, now=self._clock.now())
            meta, decoded, faults = self._decoder.page(response.body)
            objects |= {obj.metadata.key: obj for obj in decoded}
            for fault in faults:
                self._report(fault)
            revision = meta.resource_version
            if not meta.continue_:
                break
            query["continue"] = meta.continue_
            await checkpoint()  # an in-process server responds without suspending, page after page
        events: list[Event] = []
        for step in self._cache.replacing(objects, int(revision) if revision.isdigit() else 0):
            if events:  # a long list must not block the loop
                self._publish(events)
                await checkpoint()
            events = [*step]
        self._revision = revision or "0"
        self._synced.set()
        self._answered.set()
        self._publish([*events, Synced(resource=self.kind.resource)])
        self._check_progress()

    async def _publish_all(self) -> None:
        """Publish the cache as a list is published."""
        self._publish, self._is_announcing = self._publish_aloud, False
        keys, resource = list(self.objects), self.kind.resource
        for first in range(0, len(keys), AT_ONCE):
            present = filter(None, map(self.objects.get, keys[first : first + AT_ONCE]))
            self._publish([Observed(resource=resource, change=Change.APPEARED, object=obj) for obj in present])
            await checkpoint()
        self._publish([Synced(resource=resource)])

    def _check_progress(self) -> None:
        if self._awaited and self._cache.floor >= self._awaited:
            self._progress.set()

    async def _watch(self) -> float:
        """Watch until the server ends it; returns the seconds to wait before the next."""
        query = {
            **self._selectors,
            "watch": "true",
            "resourceVersion": self._revision,
            "allowWatchBookmarks": "true",
            "timeoutSeconds": str(
                _PROOF_SECONDS if self._cache.floor < self._awaited else self._rng.randint(*_WATCH_SECONDS)
            ),
        }
        started, any_line = self._clock.monotonic(), False
        try:
            async with self._transport.stream(self._path, query=query) as stream:
                async for batch in stream:
                    any_line = True
                    step = max(_AT_A_TIME, len(batch) // _TURNS)
                    for first in range(0, len(batch), step):
                        if first:  # a long batch must not block the loop
                            await checkpoint()
                        self._fold(batch[first : first + step])
                    self._backoff.reset()
        except StreamRefused as refused:
            raise error_of(refused.response, now=self._clock.now()) from refused
        if any_line or self._clock.monotonic() - started >= _SHORT_LIVED:
            return 0.0
        return self._backoff.next()

    def _fold(self, batch: list[bytes]) -> None:
        """Fold lines of a batch in one publish. Lines before an ERROR are published before it is raised."""
        events: list[Event] = []
        try:
            for data in batch:
                if data:
                    events += self._fold_line(data)
        finally:
            self._check_progress()
            if events:
                self._publish(events)

    def _fold_line(self, data: bytes) -> list[Observed]:
        try:
            line = self._decoder.line(data)
        except UndecodableError as error:
            self._report(error)
            return []
        obj = line.object
        if isinstance(obj, ApiObject):
            self._revision = obj.metadata.resource_version
            return self._cache.deleted(obj) if line.type == "DELETED" else self._cache.appeared_or_changed(obj)
        if line.type == "ERROR":
            raise error_from_status(msgspec.json.decode(obj, type=Status))
        if line.type == "BOOKMARK":
            self._revision = msgspec.json.decode(obj, type=WithMeta).metadata.resource_version
            self._cache.progressed(int(self._revision) if self._revision.isdigit() else 0)
        return []

    def _report(self, error: UndecodableError) -> None:
        self._probe.count(_UNDECODABLE, resource=self.kind.resource)
        _LOG.error("an object is skipped because it cannot be read", resource=self.kind.resource, error=str(error))


class InformerSet:
    """The informers of one process, all with the same publisher.

    An Observed event contains its resource, not its selectors: a caller that asks for one resource under several
    selectors gets an object once from each informer that has it.
    """

    def __init__(
        self, transport: Transport, publish: Publish, *, clock: Clock, seed: int = 0, probe: Probe | None = None
    ) -> None:
        self._context = WatchContext(
            transport=transport, publish=publish, clock=clock, seed=seed, probe=probe or NoProbe()
        )
        self._informers: dict[tuple[Kind, Selection], Informer] = {}
        self._by_resource: dict[str, list[Informer]] = {}
        self._tasks: TaskGroup | None = None
        self._is_silent = False

    def informer(
        self, kind: Kind, *, label_selector: str = "", field_selector: str = "", namespace: str = ""
    ) -> Informer:
        """Return the informer of a kind and selection; a new one starts at once if the set is running."""
        selection = Selection(label_selector=label_selector, field_selector=field_selector, namespace=namespace)
        key = (kind, selection)
        if key not in self._informers:
            informer = self._informers[key] = Informer(kind, self._context, selection)
            self._by_resource.setdefault(kind.resource, []).append(informer)
            if self._is_silent:
                informer.silence()
            if self._tasks is not None:
                self._tasks.start_soon(informer.run)
        return self._informers[key]

    def forget(self, kind: Kind) -> None:
        """Stop the informer of all objects of a kind; publishes its objects as gone and the kind as not listed."""
        informer = self._informers.pop((kind, EVERYTHING), None)
        if informer is not None:
            self._by_resource[kind.resource].remove(informer)
            informer.stop()

    def __iter__(self) -> Iterator[Informer]:
        return iter(tuple(self._informers.values()))

    async def run(self) -> None:
        """Run all informers, including those that are added later, until cancelled."""
        async with anyio.create_task_group() as self._tasks:
            try:
                for informer in self._informers.values():
                    self._tasks.start_soon(informer.run)
                await anyio.sleep_forever()
            finally:
                self._tasks = None

    def silence(self) -> None:
        """Keep the caches but publish nothing until `announce`; call it before `informer`."""
        self._is_silent = True

    def announce(self) -> None:
        """Publish everything that is in the caches, and from then on every change."""
        self._is_silent = False
        for informer in self._informers.values():
            informer.announce()

    async def catch_up(self) -> None:
        """Return when every cache holds all writes that ended before the call."""
        async with anyio.create_task_group() as tasks:
            for informer in self._informers.values():
                tasks.start_soon(informer.catch_up)

    async def synced(self) -> None:
        """Return once all informers that were added so far are synced."""
        for informer in tuple(self._informers.values()):
            await informer.synced()

    def observe_own(self, resource: str, response: bytes | Manifest) -> list[Observed]:
        """Fold the object in a response to our own write; the caller publishes the returned events."""
        return [event for informer in self._by_resource.get(resource, ()) for event in informer.observe_own(response)]

    def observe_own_delete(self, resource: str, namespace: str, name: str, uid: str) -> list[Observed]:
        """Fold that our own delete removed an object; the caller publishes the returned events."""
        return [
            event
            for informer in self._by_resource.get(resource, ())
            for event in informer.observe_own_delete(namespace, name, uid)
        ]
