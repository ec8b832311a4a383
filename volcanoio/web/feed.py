"""`Feed`: the rows of a cluster as one viewer may see them, kept by informers, as numbered changes.

Changes within 200 ms are one event. The last ones are kept, so that a reader that lost its connection continues where
it was (`Last-Event-ID`); one that was away for longer gets all rows.
"""

from __future__ import annotations

import asyncio
import secrets
import time
from collections import deque
from collections.abc import Callable, Collection, Iterable
from typing import NamedTuple

import anyio
import msgspec
import structlog

from volcanoio.engine.overview import KINDS, Overview
from volcanoio.framework.events import Event
from volcanoio.kube.client import Client
from volcanoio.kube.clock import WallClock
from volcanoio.kube.errors import ApiError
from volcanoio.kube.informer import InformerSet
from volcanoio.kube.transport import Transport, TransportError
from volcanoio.model import kinds
from volcanoio.model.kinds import Kind
from volcanoio.model.quantity import QuantityError
from volcanoio.model.resources import CPU, MEMORY, Amounts, add, amounts
from volcanoio.model.workloads import PodMetrics

COALESCE = 0.2
"""Seconds within which changes become one event."""
KEPT_EVENTS, KEPT_BYTES = 600, 16 << 20
"""Events that are kept for readers that reconnect."""
SYNC_SECONDS = 20.0
"""Longest time that a first request waits for the lists."""
TREND_SECONDS, TREND_POINTS = 5.0, 720
"""Seconds between two points of the trend; points that are kept."""
USAGE_SECONDS = 15.0
NO_USAGE_SECONDS = 120.0
"""Seconds between two reads of metrics.k8s.io; while it is not served or may not be read."""
_LOG = structlog.get_logger(__name__)


class Part(NamedTuple):
    """An event for readers: `id` names the state after it; `body` is JSON; `is_whole` if it has all rows."""

    id: str
    body: bytes
    is_whole: bool


class Point(NamedTuple):
    """Numbers of pods at a time (epoch seconds)."""

    at: float
    running: int
    waiting: int


class Feed:
    """Rows of the kinds that may be listed, in `namespace` or ("") everywhere; `run` until cancelled.

    `now` returns the cluster's time.
    """

    def __init__(
        self,
        transport: Transport,
        readable: Collection[Kind],
        *,
        namespace: str = "",
        now: Callable[[], float] = time.time,
    ) -> None:
        self.namespace = namespace
        self.readable = readable
        self.overview = Overview()
        self._client = Client(transport)
        self._informers = InformerSet(transport, self._publish, clock=WallClock())
        self._name = secrets.token_hex(6)
        self._sequence = 0
        self._kept: deque[Part] = deque()
        self._kept_bytes = 0
        self._changed = asyncio.Event()
        self._published = asyncio.Event()
        self._encode = msgspec.json.Encoder().encode
        self._measured = False
        self._now = now
        self.trend: deque[Point] = deque(maxlen=TREND_POINTS)
        """Pods over the time since the feed was started."""
        self.objects = {
            kind: self._informers.informer(kind, namespace=namespace if kind.namespaced else "").objects
            for kind in KINDS
            if kind in readable
        }
        """Objects of the watched kinds by `namespace/name`; live views."""

    @property
    def missing(self) -> list[str]:
        """Kinds that the viewer may not list, without optional ones: a server need not have these."""
        return [kind.resource for kind in KINDS if kind not in self.readable and not kind.is_optional]

    async def run(self) -> None:
        """Watch, and publish changes."""
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(self._informers.run)
            tasks.start_soon(self._measure)
            tasks.start_soon(self._observe_trend)
            while True:
                await self._changed.wait()
                await asyncio.sleep(COALESCE)
                self._changed.clear()
                self._take()

    async def synced(self) -> bool:
        """Return whether all kinds are listed; waits for them at most `SYNC_SECONDS`."""
        with anyio.move_on_after(SYNC_SECONDS) as scope:
            for informer in self._informers:
                await informer.answered()
        return not scope.cancelled_caught

    def snapshot(self) -> Part:
        """Return all rows, as of now."""
        self._take()
        return Part(self._id(), self._encode(self.overview.snapshot()), True)

    def since(self, last: str) -> list[Part]:
        """Return the events after the one with that id; one with all rows if that is not known any more."""
        name, _, number = last.partition(".")
        missed = self._sequence - int(number) if number.isdecimal() and len(number) < 20 else -1
        if name != self._name or not 0 <= missed <= len(self._kept):
            return [self.snapshot()]
        return list(self._kept)[len(self._kept) - missed :]

    async def after(self, last: str, seconds: float) -> list[Part]:
        """Return the events after that id, once there are any; [] after `seconds`."""
        with anyio.move_on_after(seconds):
            while last == self._id():
                await self._published.wait()
        return self.since(last) if last != self._id() else []

    def _id(self) -> str:
        return f"{self._name}.{self._sequence}"

    def _publish(self, events: Iterable[Event]) -> None:
        self.overview.fold(events)
        self._changed.set()

    def _take(self) -> None:
        if not (changes := self.overview.take_changes()):
            return
        self._sequence += 1
        part = Part(self._id(), self._encode(changes), False)
        self._kept.append(part)
        self._kept_bytes += len(part.body)
        while len(self._kept) > KEPT_EVENTS or self._kept_bytes > KEPT_BYTES:
            self._kept_bytes -= len(self._kept.popleft().body)
        published, self._published = self._published, asyncio.Event()
        published.set()

    async def _observe_trend(self) -> None:
        await self.synced()
        while True:
            self.trend.append(Point(self._now(), *self.overview.pod_counts()))
            await asyncio.sleep(TREND_SECONDS)

    async def _measure(self) -> None:
        """Read periodically what pods use."""
        while True:
            try:
                found = await self._client.list(kinds.POD_METRICS, self.namespace)
                wait = USAGE_SECONDS
            except (ApiError, TransportError, msgspec.DecodeError, ValueError) as error:
                _LOG.debug("what pods use is not shown", error=str(error))
                found, wait = [], NO_USAGE_SECONDS
            if found or self._measured:
                self._measured = bool(found)
                self.overview.measure({one.metadata.key: used for one in found if (used := _used(one))})
                self._changed.set()
            await asyncio.sleep(wait)


def _used(item: object) -> Amounts:
    """Return the cpu and memory that a pod uses; nothing for quantities that cannot be read."""
    total: Amounts = {}
    if isinstance(item, PodMetrics):
        try:
            for container in item.containers:
                add(total, amounts({name: container.usage[name] for name in (CPU, MEMORY) if name in container.usage}))
        except QuantityError:
            return {}
    return total
