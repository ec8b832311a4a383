"""Has watched, or asked for again and again, what lifecycle policies read; see `policy_indexes`."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Protocol

import anyio
import structlog
from anyio.abc import TaskGroup

from volcanoio.engine.hosting.cache import ObjectCache
from volcanoio.framework.events import Observed
from volcanoio.kube.clock import Clock
from volcanoio.kube.errors import ApiError
from volcanoio.kube.transport import TransportError
from volcanoio.model.base import ApiObject
from volcanoio.model.kinds import POLLED, Kind
from volcanoio.runtime.policy_indexes import Indexes, View

EVERY = 15.0
"""Seconds between two lists of what cannot be watched: usage is measured no more often."""
_log = structlog.get_logger(__name__)


class Watching(Protocol):
    """An informer, as far as it is asked here."""

    async def synced(self) -> None:
        """Return once everything was listed."""
        ...


class Watchers(Protocol):
    """What this uses of `kube.InformerSet`."""

    def informer(self, kind: Kind) -> Watching:
        """Have a kind watched."""
        ...


class Lister(Protocol):
    """What this uses of `kube.Client`."""

    async def list(self, kind: Kind) -> list[ApiObject]:
        """All objects of a kind; raises ApiError and TransportError."""
        ...


class Reading:
    """Belongs to the loop it is used on. `begun` are read from the start: nothing is decided before they were listed.

    `listed` is called when another kind was, or one that is asked for again and again was for the first time.
    """

    def __init__(
        self,
        begun: Iterable[Kind],
        watchers: Watchers,
        *,
        clock: Clock,
        lister: Lister | None,
        listed: Callable[[], None],
    ) -> None:
        self._watchers = watchers
        self._clock = clock
        self._lister = lister
        self._listed = listed
        self._indexes = Indexes()
        self._pending: dict[str, Kind] = {}
        self._told: dict[str, str] = {}
        """Why kinds could not be listed last."""
        self._tasks: TaskGroup | None = None
        for kind in begun:
            if kind in POLLED:
                self._pending[kind.resource] = kind
            else:
                self._indexes.add(kind.resource, ())

    async def run(self) -> None:
        """Wait for lists, and ask for what cannot be watched, until cancelled."""
        async with anyio.create_task_group() as self._tasks:
            try:
                for kind in self._pending.values():
                    self._tasks.start_soon(self._begin, kind)
                await anyio.sleep_forever()
            finally:
                self._tasks = None

    def fold(self, event: Observed) -> None:
        """Take in one observation."""
        if self._indexes:
            self._indexes.fold(event)

    def view(self, kinds: Iterable[Kind], cache: ObjectCache) -> Mapping[str, View] | None:
        """What one question may read; None while one of the kinds is being listed for the first time."""
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
            await self._watchers.informer(kind).synced()
            self._indexes.add(kind.resource, cache.all(kind.resource) if cache is not None else ())
        else:
            await self._list(kind)
        del self._pending[kind.resource]
        self._listed()
        while kind in POLLED:
            await self._clock.idle(EVERY)
            await self._list(kind)

    async def _list(self, kind: Kind) -> None:
        """Ask once; where nobody answers there is nothing to read."""
        objects: list[ApiObject] = []
        if self._lister is not None:
            try:
                objects = await self._lister.list(kind)
            except (ApiError, TransportError) as error:
                if self._told.get(kind.resource) != str(error):
                    _log.warning("what policies read cannot be listed", kind=str(kind), error=str(error))
                self._told[kind.resource] = str(error)
            else:
                self._told.pop(kind.resource, None)
        self._indexes.add(kind.resource, objects)
