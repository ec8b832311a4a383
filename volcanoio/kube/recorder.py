"""`EventRecorder`: Kubernetes Events, best effort. It never blocks, retries or fails its caller, and gives way to it.

Equal Events about one object are one with a count. The rate of an object is bounded as in client-go's
`tools/record/events_cache.go`: a burst of 25, then one in five minutes.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict, deque
from dataclasses import dataclass
from typing import TypeAlias

import msgspec
import structlog

from volcanoio.framework.probe import NoProbe, Probe
from volcanoio.kube import requests
from volcanoio.kube.clock import Clock
from volcanoio.kube.requests import Request
from volcanoio.kube.sending import Gate
from volcanoio.kube.transport import Transport, TransportError
from volcanoio.model.base import Manifest, ObjectReference
from volcanoio.model.kinds import EVENT
from volcanoio.model.times import rfc3339

_LOG = structlog.get_logger(__name__)
_BURST = 25
_REFILL = 300.0
_REMEMBERED = 4096
_WAITING = 10_000
_LONGEST_NAME = 253
_TIMEOUT = 5.0
_IDLE_TURN, _OTHERS_SHARE, _LONGEST_WAIT = 0.001, 10.0, 0.25
"""Seconds a turn of an idle loop may take; how many times as long others then have; and the limit to that."""

Subject: TypeAlias = tuple[str, str, str, str]
EventKey: TypeAlias = tuple[Subject, str, str, str, str]


@dataclass(slots=True)
class _Series:
    """One Event as it was written, and what is new since. `count` 0: not yet written. `busy`: being written."""

    regarding: ObjectReference
    name: str
    first: float
    last: float
    count: int = 0
    new: int = 0
    busy: bool = False


@dataclass(slots=True)
class _Bucket:
    """The tokens an object has left, as of `at`."""

    tokens: float
    at: float


class EventRecorder:
    """Records for one component (`source.component`), or those that are named. `run` writes, with at most `writers`
    requests under way.
    """

    def __init__(
        self,
        transport: Transport,
        *,
        component: str,
        clock: Clock,
        gate: Gate | None = None,
        writers: int = 4,
        probe: Probe | None = None,
    ) -> None:
        self._transport = transport
        self._component = component
        self._clock = clock
        self._gate = gate
        self._writers = writers
        self._probe = probe or NoProbe()
        self._series: OrderedDict[EventKey, _Series] = OrderedDict()
        self._buckets: OrderedDict[Subject, _Bucket] = OrderedDict()
        self._waiting: deque[EventKey] = deque()
        self._wake = asyncio.Event()
        self._names = 0

    def record(self, regarding: ObjectReference, type_: str, reason: str, message: str, *, component: str = "") -> None:
        """Take an Event (type Normal or Warning) to be written some time soon, or dropped when there are too many.

        `component` "" is the recorder's own.
        """
        now = self._clock.now()
        subject = (regarding.kind, regarding.namespace, regarding.name, regarding.uid)
        if not self._admit(subject, now) or len(self._waiting) >= _WAITING:
            self._probe.count("volcanoio_events_dropped_total", component=self._component)
            return
        key = (subject, type_, reason, message, component or self._component)
        series = self._series.get(key)
        if series is None:
            series = self._series[key] = _Series(regarding, self._name(regarding.name, now), now, now)
            if len(self._series) > _REMEMBERED:
                self._forget_oldest()
        self._series.move_to_end(key)
        if not series.new and not series.busy:
            self._enqueue(key)
        series.new += 1
        series.last = now

    def _enqueue(self, key: EventKey) -> None:
        self._waiting.append(key)
        self._wake.set()

    async def run(self) -> None:
        """Write Events until cancelled."""
        async with asyncio.TaskGroup() as group:
            for _ in range(self._writers):
                group.create_task(self._write_for_ever())

    async def _write_for_ever(self) -> None:
        while True:
            while self._waiting:
                key = self._waiting.popleft()
                if series := self._series.get(key):
                    await self._write(key, series)
                    await self._give_way()
            self._wake.clear()
            await self._wake.wait()

    async def _give_way(self) -> None:
        """Events come last: where a turn of the loop takes long others have work, and most of the time is theirs."""
        began, rate = self._clock.monotonic(), self._clock.rate
        await asyncio.sleep(0)
        busy = (self._clock.monotonic() - began) / rate
        if busy > _IDLE_TURN:
            await self._clock.idle(min(busy * _OTHERS_SHARE, _LONGEST_WAIT) * rate)

    async def _write(self, key: EventKey, series: _Series) -> None:
        _, type_, reason, message, component = key
        if self._gate is not None and not self._gate():
            return
        total, series.new = series.count + series.new, 0
        if series.count:
            change: Manifest = {"count": total, "lastTimestamp": rfc3339(series.last)}
            request = requests.patch(EVENT, _namespace(series.regarding), series.name, change)
        else:
            request = self._creation(series, type_, reason, message, component, total)
        series.busy = True
        written = await self._send(request)
        series.busy = False
        if not written:
            self._series.pop(key, None)  # the next of its kind begins a new Event
            return
        series.count = total
        if series.new:
            self._enqueue(key)

    async def _send(self, request: Request) -> bool:
        try:
            response = await request.send(self._transport, timeout=_TIMEOUT)
        except TransportError as error:
            _LOG.debug("an Event was not written", error=str(error))
            return False
        if not response.ok:
            _LOG.debug("an Event was refused", status=response.status, body=response.body[:200])
        return response.ok

    def _creation(self, series: _Series, type_: str, reason: str, message: str, component: str, count: int) -> Request:
        event: Manifest = {
            "metadata": {"name": series.name, "namespace": _namespace(series.regarding)},
            "involvedObject": msgspec.to_builtins(series.regarding),
            "type": type_,
            "reason": reason,
            "message": message,
            "count": count,
            "firstTimestamp": rfc3339(series.first),
            "lastTimestamp": rfc3339(series.last),
            "source": {"component": component},
            "reportingComponent": component,
        }
        return requests.create(EVENT, event)

    def _name(self, subject: str, now: float) -> str:
        """As client-go names them: the object's name and a time that is unique here."""
        self._names += 1
        suffix = f".{int(now * 1e6) * 1000 + self._names:x}"
        return subject[: _LONGEST_NAME - len(suffix)] + suffix

    def _admit(self, subject: Subject, now: float) -> bool:
        bucket = self._buckets.get(subject)
        if bucket is None:
            bucket = self._buckets[subject] = _Bucket(_BURST, now)
            if len(self._buckets) > _REMEMBERED:
                self._buckets.popitem(last=False)
        self._buckets.move_to_end(subject)
        bucket.tokens = min(_BURST, bucket.tokens + max(0.0, now - bucket.at) / _REFILL)
        bucket.at = now
        if bucket.tokens < 1:
            return False
        bucket.tokens -= 1
        return True

    def _forget_oldest(self) -> None:
        """Make room; a series that still waits to be written is kept and forgotten later."""
        key, series = next(iter(self._series.items()))
        if series.new:
            self._series.move_to_end(key)
        else:
            del self._series[key]


def _namespace(regarding: ObjectReference) -> str:
    """Events about cluster-scoped objects live in `default`."""
    return regarding.namespace or "default"
