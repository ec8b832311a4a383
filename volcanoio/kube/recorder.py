"""`EventRecorder`: Kubernetes Events, best effort. It never blocks, retries or fails its caller, and gives way to it.

Which Events are one, and how many are written, is `correlation`.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict, deque
from dataclasses import dataclass

import msgspec
import structlog

from volcanoio.framework.probe import NoProbe, Probe
from volcanoio.kube import requests
from volcanoio.kube.clock import Clock
from volcanoio.kube.correlation import COMBINED, Correlator, EventKey
from volcanoio.kube.requests import Request
from volcanoio.kube.sending import Gate
from volcanoio.kube.transport import Transport, TransportError
from volcanoio.model.base import Manifest, ObjectReference
from volcanoio.model.kinds import EVENT
from volcanoio.model.times import rfc3339

_LOG = structlog.get_logger(__name__)
_REMEMBERED = 4096
_WAITING = 10_000
_LONGEST_NAME = 253
_TIMEOUT = 5.0
_OK, _REDIRECTED, _NOT_FOUND = 200, 300, 404
_LOOK = 30.0
"""Seconds between two looks at what is held back, at most."""
_IDLE_TURN, _OTHERS_SHARE, _LONGEST_WAIT = 0.001, 10.0, 0.25
"""Seconds a turn of an idle loop may take; how many times as long others then have; and the limit to that."""


@dataclass(slots=True)
class _Series:
    """One Event as it was written, and what is new since. `count` 0: not yet written. `busy`: being written."""

    regarding: ObjectReference
    name: str
    message: str
    first: float
    last: float
    count: int = 0
    new: int = 0
    busy: bool = False


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
        self._correlator = Correlator()
        self._waiting: deque[EventKey] = deque()
        self._wake = asyncio.Event()
        self._held = asyncio.Event()
        self._names = 0

    def record(self, regarding: ObjectReference, type_: str, reason: str, message: str, *, component: str = "") -> None:
        """Take an Event (type Normal or Warning) to be written some time soon, or dropped when there are too many.

        `component` "" is the recorder's own.
        """
        now = self._clock.now()
        source = (regarding.kind, regarding.namespace, regarding.name, regarding.uid, component or self._component)
        key = self._correlator.key(source, type_, reason, message, now)
        series = self._series.get(key)
        if series is None:
            series = self._series[key] = _Series(regarding, self._name(regarding.name, now), message, now, now)
            if len(self._series) > _REMEMBERED:
                self._forget_oldest()
        else:
            self._series.move_to_end(key)
        series.new += 1
        series.last = now
        series.message = message
        if series.new == 1 and not series.busy:
            self._enqueue(key, series)

    def _enqueue(self, key: EventKey, series: _Series) -> None:
        """Have what is new written in its turn."""
        admitted = self._correlator.admit(key, self._clock.now()) if len(self._waiting) < _WAITING else None
        if admitted is None:
            self._probe.count("volcanoio_events_dropped_total", series.new, component=self._component)
            series.new = 0
        elif admitted:
            self._waiting.append(key)
            self._wake.set()
        else:
            self._held.set()

    async def run(self) -> None:
        """Write Events until cancelled."""
        async with asyncio.TaskGroup() as group:
            for _ in range(self._writers):
                group.create_task(self._write_for_ever())
            group.create_task(self._release_for_ever())

    async def _write_for_ever(self) -> None:
        while True:
            while self._waiting:
                key = self._waiting.popleft()
                if (series := self._series.get(key)) and series.new:
                    await self._write(key, series)
                    await self._give_way()
            self._wake.clear()
            await self._wake.wait()

    async def _release_for_ever(self) -> None:
        """Write what was held back as tokens come."""
        while True:
            now = self._clock.now()
            if released := self._correlator.release(now):
                self._waiting.extend(released)
                self._wake.set()
            due = self._correlator.next_release()
            if due is None:
                self._held.clear()
                await self._held.wait()
            else:
                await self._clock.idle(min(max(0.0, due - now), _LOOK))

    async def _give_way(self) -> None:
        """Events come last: where a turn of the loop takes long others have work, and most of the time is theirs."""
        began, rate = self._clock.monotonic(), self._clock.rate
        await asyncio.sleep(0)
        busy = (self._clock.monotonic() - began) / rate
        if busy > _IDLE_TURN:
            await self._clock.idle(min(busy * _OTHERS_SHARE, _LONGEST_WAIT) * rate)

    async def _write(self, key: EventKey, series: _Series) -> None:
        total, series.new = series.count + series.new, 0
        if self._gate is not None and not self._gate():
            return
        series.busy = True
        status = _NOT_FOUND
        if series.count:
            status = await self._send(_counted(key, series, total))
        if status == _NOT_FOUND:  # also one that was there and is gone, as Events do
            status = await self._send(_created(key, series, total))
        series.busy = False
        if not _OK <= status < _REDIRECTED:
            self._series.pop(key, None)  # the next of its kind begins a new Event
            return
        series.count = total
        if series.new:
            self._enqueue(key, series)

    async def _send(self, request: Request) -> int:
        """The answer's status; 0 for none."""
        try:
            response = await request.send(self._transport, timeout=_TIMEOUT)
        except TransportError as error:
            _LOG.debug("an Event was not written", error=str(error))
            return 0
        if not response.ok:
            _LOG.debug("an Event was refused", status=response.status, body=response.body[:200])
        return response.status

    def _name(self, subject: str, now: float) -> str:
        """As client-go names them: the object's name and a time that is unique here."""
        self._names += 1
        suffix = f".{int(now * 1e6) * 1000 + self._names:x}"
        return subject[: _LONGEST_NAME - len(suffix)] + suffix

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


def _counted(key: EventKey, series: _Series, total: int) -> Request:
    """The change of an Event that was written before."""
    change: Manifest = {"count": total, "lastTimestamp": rfc3339(series.last)}
    if key[3] is None:
        change["message"] = COMBINED + series.message
    return requests.patch(EVENT, _namespace(series.regarding), series.name, change)


def _created(key: EventKey, series: _Series, total: int) -> Request:
    """An Event as it is written at first."""
    source, type_, reason, message = key
    component = source[-1]
    event: Manifest = {
        "metadata": {"name": series.name, "namespace": _namespace(series.regarding)},
        "involvedObject": msgspec.to_builtins(series.regarding),
        "type": type_,
        "reason": reason,
        "message": COMBINED + series.message if message is None else message,
        "count": total,
        "firstTimestamp": rfc3339(series.first),
        "lastTimestamp": rfc3339(series.last),
        "source": {"component": component},
        "reportingComponent": component,
    }
    return requests.create(EVENT, event)
