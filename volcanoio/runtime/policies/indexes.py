"""Objects that lifecycle policies read besides the job, by resource, namespace and name.

They are folded from the events that controllers receive; kinds that cannot be watched are listed periodically. A
policy reads on its own thread while the event loop runs: each read of a dict here is one atomic step of the interpreter
(`get`, `copy`), so no lock is needed. Within one question, repeated reads of a namespace return the same objects.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from types import MappingProxyType
from typing import Protocol

import anyio
import structlog
from anyio.abc import TaskGroup

from volcanoio.engine.hosting.object_cache import ObjectCache
from volcanoio.framework.events import Change, Observed
from volcanoio.kube.client import Client
from volcanoio.kube.clock import Clock
from volcanoio.kube.errors import ApiError
from volcanoio.kube.transport import TransportError
from volcanoio.model.base import ApiObject
from volcanoio.model.kinds import POLLED, Kind

Objects = dict[str, dict[str, ApiObject]]
"""Objects by namespace ("" for none), then by name."""


class ObjectIndexes:
    """The objects of the resources that policies declared."""

    def __init__(self) -> None:
        self._objects: dict[str, Objects] = {}

    def __contains__(self, resource: object) -> bool:
        return resource in self._objects

    def __bool__(self) -> bool:
        return bool(self._objects)

    def add(self, resource: str, objects: Iterable[ApiObject]) -> None:
        """Store a resource from now on, starting with the given objects; replaces earlier ones."""
        kept: Objects = {}
        for obj in objects:
            kept.setdefault(obj.metadata.namespace, {})[obj.metadata.name] = obj
        self._objects[resource] = kept

    def fold(self, event: Observed) -> None:
        """Fold one observation; resources that are not stored are ignored."""
        objects = self._objects.get(event.resource)
        if objects is None:
            return
        obj = event.obj
        within = objects.setdefault(obj.metadata.namespace, {})
        if event.change is Change.GONE:
            within.pop(obj.metadata.name, None)
        else:
            within[obj.metadata.name] = obj

    def view(self, resources: Iterable[str]) -> Mapping[str, IndexView]:
        """Return the objects of these resources that one question may read."""
        return {resource: IndexView(self._objects.get(resource, {})) for resource in resources}


class IndexView(Mapping[str, ApiObject]):
    """One resource as read by one question, by `namespace/name` or the name alone; see `lifecycle.Index`."""

    def __init__(self, objects: Objects) -> None:
        self._objects = objects
        self._read: dict[str, Mapping[str, ApiObject]] = {}

    def in_namespace(self, namespace: str) -> Mapping[str, ApiObject]:
        """Return the objects of a namespace by name."""
        if namespace not in self._read:
            self._read[namespace] = MappingProxyType(self._objects.get(namespace, {}).copy())
        return self._read[namespace]

    def __getitem__(self, key: str) -> ApiObject:
        namespace, _, name = key.rpartition("/")
        return self._objects.get(namespace, {})[name]

    def __iter__(self) -> Iterator[str]:
        for namespace in sorted(self._objects.copy()):
            for name in sorted(self.in_namespace(namespace)):
                yield f"{namespace}/{name}" if namespace else name

    def __len__(self) -> int:
        return sum(len(within) for within in self._objects.copy().values())


LIST_INTERVAL = 15.0
"""Seconds between two lists of kinds that cannot be watched, such as usage metrics."""
_log = structlog.get_logger(__name__)


class SyncedInformer(Protocol):
    """The methods of an informer that are used here."""

    async def synced(self) -> None:
        """Return once everything is listed."""
        ...


class PolicyIndexes:
    """Indexes for one event loop. `begun` are read from the start: no decision is made before they are listed.

    `listed` is called when a further kind is listed, or a polled one for the first time.
    """

    def __init__(
        self,
        begun: Iterable[Kind],
        watch: Callable[[Kind], SyncedInformer],
        *,
        clock: Clock,
        lister: Client | None,
        listed: Callable[[], None],
    ) -> None:
        self._watch = watch
        self._clock = clock
        self._lister = lister
        self._listed = listed
        self._indexes = ObjectIndexes()
        self._pending: dict[str, Kind] = {}
        self._reported_errors: dict[str, str] = {}
        """Last error of the list of each kind."""
        self._tasks: TaskGroup | None = None
        for kind in begun:
            if kind in POLLED:
                self._pending[kind.resource] = kind
            else:
                self._indexes.add(kind.resource, ())

    async def run(self) -> None:
        """Wait for lists and poll kinds that cannot be watched, until cancelled."""
        async with anyio.create_task_group() as self._tasks:
            try:
                for kind in self._pending.values():
                    self._tasks.start_soon(self._begin, kind)
                await anyio.sleep_forever()
            finally:
                self._tasks = None

    def fold(self, event: Observed) -> None:
        """Fold one observation."""
        if self._indexes:
            self._indexes.fold(event)

    def view(self, kinds: Iterable[Kind], cache: ObjectCache) -> Mapping[str, IndexView] | None:
        """Return the objects that one question may read; None while one of the kinds is listed for the first time."""
        wanted = {kind.resource: kind for kind in kinds}
        for resource, kind in wanted.items():
            if resource not in self._indexes and resource not in self._pending:
                self._pending[resource] = kind
                if self._tasks is not None:
                    self._tasks.start_soon(self._begin, kind, cache)
        if self._pending.keys() & wanted:
            return None
        return self._indexes.view(wanted)

    async def _begin(self, kind: Kind, cache: ObjectCache | None = None) -> None:
        if kind not in POLLED:
            await self._watch(kind).synced()
            self._indexes.add(kind.resource, cache.all(kind.resource) if cache is not None else ())
        else:
            await self._list(kind)
        del self._pending[kind.resource]
        self._listed()
        while kind in POLLED:
            await self._clock.idle(LIST_INTERVAL)
            await self._list(kind)

    async def _list(self, kind: Kind) -> None:
        """List the kind once; without a response there are no objects to read."""
        objects: list[ApiObject] = []
        if self._lister is not None:
            try:
                objects = await self._lister.list(kind)
            except (ApiError, TransportError) as error:
                if self._reported_errors.get(kind.resource) != str(error):
                    _log.warning("objects that policies read cannot be listed", kind=str(kind), error=str(error))
                self._reported_errors[kind.resource] = str(error)
            else:
                self._reported_errors.pop(kind.resource, None)
        self._indexes.add(kind.resource, objects)
