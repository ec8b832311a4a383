"""`EventRecorder`: writes Kubernetes Events without guarantee. It never blocks, retries or raises.

`Correlator` follows client-go's `tools/record/events_cache.go`, but loses no occurrence. Equal Events of a component
about an object are one Event with a count. Of Events that differ only in their message, the first nine within ten
minutes of each other are written, the others are combined into one. A component writes a burst of 25 Events about an
object, then one every five minutes; client-go drops the excess, here it is counted and written later.
"""

from __future__ import annotations

import asyncio
import heapq
from collections import Counter, OrderedDict, deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from itertools import count
from typing import NamedTuple

import msgspec
import structlog

from volcanoio.framework.effects import Record
from volcanoio.framework.probe import NoProbe, Probe
from volcanoio.kube import requests
from volcanoio.kube.clock import Clock
from volcanoio.kube.requests import Request
from volcanoio.kube.sender import LeaderFence
from volcanoio.kube.transport import Transport, TransportError
from volcanoio.model.base import Manifest, ObjectReference
from volcanoio.model.kinds import EVENT
from volcanoio.model.times import rfc3339

COMBINED = "(combined from similar events): "
_LOG = structlog.get_logger(__name__)
_DROPPED = "volcanoio_events_dropped_total"
_MAX_SERIES = 4096
_MAX_WAITING = 10_000
_MAX_NAME_LENGTH = 253
_TIMEOUT = 5.0
_OK, _REDIRECTED, _NOT_FOUND = 200, 300, 404
_HELD_CHECK_INTERVAL = 1.0
"""Maximum seconds between two checks of held Events."""
_IDLE_TURN, _YIELD_FACTOR, _MAX_YIELD = 0.001, 10.0, 0.25
"""Seconds that a turn of an idle loop may take; factor by which a writer then yields; maximum seconds of a yield."""
_BUSY_CHECK, _IDLE_SECONDS = 0.05, 0.5
"""Seconds between two looks at `busy`, and for which it must be False after it was True."""
_MAX_BUSY = {"Normal": 30.0, "Warning": 2.0}
"""Seconds after which an Event of each type is written although `busy`: a Warning explains what a user waits for."""


class EventBudget(NamedTuple):
    """Limit of all Events of one type or reason of a process: `burst` at once, then `per_second`."""

    burst: float
    per_second: float


BUDGETS: Mapping[str, EventBudget] = {
    "Normal": EventBudget(burst=50.0, per_second=10.0),
    "FailedScheduling": EventBudget(burst=500.0, per_second=20.0),
}
"""Limits of a component by reason, else by type. Other Warnings have none: they are few, and urgent. But thousands of
pods may begin to wait at once, and the API server's other clients would wait behind all their Events.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class RecorderOptions:
    """Options of a recorder: limits of its Events, see BUDGETS, and whether Events have to wait.

    Events are written while `fence()` is True.
    """

    fence: LeaderFence | None = None
    budgets: Mapping[str, EventBudget] = field(default_factory=dict)
    busy: Callable[[], bool] = lambda: False


@dataclass(slots=True)
class _Series:
    """An Event as it was last written (`count` times, 0: not yet) and the `new` occurrences since."""

    regarding: ObjectReference
    name: str
    message: str
    first: float
    last: float
    count: int = 0
    new: int = 0
    is_busy: bool = False
    """Whether a request for it is in flight."""


class EventRecorder:
    """Recorder of Events for `component` (`source.component`), or for the component of a call; `run` writes them."""

    def __init__(
        self,
        transport: Transport,
        *,
        component: str,
        clock: Clock,
        probe: Probe | None = None,
        options: RecorderOptions | None = None,
    ) -> None:
        options = options or RecorderOptions()
        self._transport = transport
        self._busy = options.busy
        self._component = component
        self._clock = clock
        self._fence = options.fence
        self._probe = probe or NoProbe()
        self._probe.count(_DROPPED, 0.0, component=component)
        self._series: OrderedDict[EventKey, _Series] = OrderedDict()
        self._correlator = Correlator(options.budgets)
        self._waiting: deque[EventKey] = deque()
        self._wake = asyncio.Event()
        self._held = asyncio.Event()
        self._names = 0

    def record(self, event: Record, *, host: str = "") -> None:
        """Queue an Event for writing; it is dropped when too many wait. `host` is the node that the component serves.

        An Event without a component is the recorder's own.
        """
        now, regarding, message = self._clock.now(), event.regarding, event.message
        component = event.component or self._component
        source = EventSource(regarding.kind, regarding.namespace, regarding.name, regarding.uid, component, host)
        key = self._correlator.correlate(EventKey(source, event.type, event.reason, message, regarding.field_path), now)
        series = self._series.get(key)
        if series is None:
            series = self._series[key] = _Series(regarding, self._name(regarding.name, now), message, now, now)
            if len(self._series) > _MAX_SERIES:
                self._forget_oldest()
        else:
            self._series.move_to_end(key)
        series.new += 1
        series.last = now
        series.message = message
        if series.new == 1 and not series.is_busy:
            self._enqueue(key, series)

    def _enqueue(self, key: EventKey, series: _Series) -> None:
        admitted = self._correlator.admit(key, self._clock.now()) if len(self._waiting) < _MAX_WAITING else None
        if admitted is None:
            self._probe.count(_DROPPED, series.new, component=self._component)
            series.new = 0
        elif admitted:
            self._waiting.append(key)
            self._wake.set()
        else:
            self._held.set()

    async def run(self, writers: int = 4) -> None:
        """Write Events until cancelled, with at most `writers` requests in flight."""
        async with asyncio.TaskGroup() as group:
            for _ in range(writers):
                group.create_task(self._run_writer())
            group.create_task(self._run_release())

    async def _run_writer(self) -> None:
        while True:
            while self._waiting:
                key = self._waiting.popleft()
                if (series := self._series.get(key)) and series.new:
                    await self._wait_while_busy(series.last + _MAX_BUSY.get(key.type, 0.0) * self._clock.rate)
                    await self._write(key, series)
                    await self._yield_to_others()
            self._wake.clear()
            await self._wake.wait()

    async def _run_release(self) -> None:
        """Queue held Events for writing when the rate limit admits them."""
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
                await self._clock.idle(min(max(0.0, due - now), _HELD_CHECK_INTERVAL))

    async def _wait_while_busy(self, until: float) -> None:
        """Wait while requests are in flight that go before Events, and shortly after, at most until that time."""
        rate, idle_from = self._clock.rate, 0.0
        while (now := self._clock.now()) < until and (self._busy() or now < idle_from):
            if self._busy():
                idle_from = now + _IDLE_SECONDS * rate
            await self._clock.idle(_BUSY_CHECK * rate)

    async def _yield_to_others(self) -> None:
        """Wait while turns of the event loop take long: Events have the lowest priority."""
        began, rate = self._clock.monotonic(), self._clock.rate
        await asyncio.sleep(0)
        busy = (self._clock.monotonic() - began) / rate
        if busy > _IDLE_TURN:
            await self._clock.idle(min(busy * _YIELD_FACTOR, _MAX_YIELD) * rate)

    async def _write(self, key: EventKey, series: _Series) -> None:
        total, series.new = series.count + series.new, 0
        if self._fence is not None and not self._fence():
            return
        series.is_busy = True
        status = _NOT_FOUND
        if series.count:
            status = await self._send(_count_patch(key, series, total))
        if status == _NOT_FOUND:  # not written yet, or expired
            status = await self._send(_create_request(key, series, total))
        series.is_busy = False
        if not _OK <= status < _REDIRECTED:
            self._series.pop(key, None)  # the next occurrence creates a new Event
            return
        series.count = total
        if series.new:
            self._enqueue(key, series)

    async def _send(self, request: Request) -> int:
        """Return the HTTP status of the response; 0 for none."""
        try:
            response = await request.send(self._transport, timeout=_TIMEOUT)
        except TransportError as error:
            _LOG.debug("an Event was not written", error=str(error))
            return 0
        if not response.ok:
            _LOG.debug("an Event was refused", status=response.status, body=response.body[:200])
        return response.status

    def _name(self, subject: str, now: float) -> str:
        """Return a name in client-go's form: the object's name and a unique time."""
        self._names += 1
        suffix = f".{int(now * 1e6) * 1000 + self._names:x}"
        return subject[: _MAX_NAME_LENGTH - len(suffix)] + suffix

    def _forget_oldest(self) -> None:
        """Drop the oldest series; those with unwritten occurrences are kept and dropped later."""
        key, series = next(iter(self._series.items()))
        if series.new:
            self._series.move_to_end(key)
        else:
            del self._series[key]


def _namespace(regarding: ObjectReference) -> str:
    """Return the namespace of Events about an object: `default` for cluster-scoped ones."""
    return regarding.namespace or "default"


def _count_patch(key: EventKey, series: _Series, total: int) -> Request:
    change: Manifest = {"count": total, "lastTimestamp": rfc3339(series.last)}
    if key.message is None:
        change["message"] = COMBINED + series.message
    return requests.patch(EVENT, _namespace(series.regarding), series.name, change)


def _create_request(key: EventKey, series: _Series, total: int) -> Request:
    component, host = key.source.component, key.source.host
    event: Manifest = {
        "metadata": {"name": series.name, "namespace": _namespace(series.regarding)},
        "involvedObject": msgspec.to_builtins(series.regarding),
        "type": key.type,
        "reason": key.reason,
        "message": COMBINED + series.message if key.message is None else key.message,
        "count": total,
        "firstTimestamp": rfc3339(series.first),
        "lastTimestamp": rfc3339(series.last),
        "source": {"component": component, **({"host": host} if host else {})},
        "reportingComponent": component,
        **({"reportingInstance": host} if host else {}),
    }
    return requests.create(EVENT, event)


_BURST = 25.0
_REFILL_SECONDS = 300.0
_ONE_TOKEN = 1 - 1e-6
"""One token without the rounding error; otherwise the wait for the rest of a token could be zero seconds."""
_MAX_SIMILAR = 9
_WINDOW = 600.0
_MAX_SOURCES = 4096
_MAX_HELD = 10_000


class EventSource(NamedTuple):
    """Object of an Event and its reporter: the component, and the node it serves, if any."""

    kind: str
    namespace: str
    name: str
    uid: str
    component: str
    host: str = ""


class EventKey(NamedTuple):
    """Identity of an Event; `message` is None where Events with different messages are combined."""

    source: EventSource
    type: str
    reason: str
    message: str | None
    field_path: str = ""


@dataclass(slots=True)
class _SimilarEvents:
    """Events of one type and reason that are written one by one, and the time of the last."""

    keys: set[EventKey]
    at: float


@dataclass(slots=True)
class _SourceState:
    """Tokens of a source at time `at`, its Events by type and reason, and those that wait for tokens."""

    tokens: float
    at: float
    burst: float = _BURST
    refill_seconds: float = _REFILL_SECONDS
    similar: dict[tuple[str, str], _SimilarEvents] = field(default_factory=dict)
    held: deque[EventKey] | None = None

    def refill(self, now: float) -> None:
        """Add the tokens for the time since the last refill."""
        self.tokens = min(self.burst, self.tokens + max(0.0, now - self.at) / self.refill_seconds)
        self.at = now

    def next_token_at(self) -> float:
        """Return the time at which there is a token."""
        return self.at + max(0.0, 1 - self.tokens) * self.refill_seconds

    def spend(self) -> bool:
        """Take a token, if there is one."""
        if self.tokens <= _ONE_TOKEN:
            return False
        self.tokens -= 1
        return True


class Correlator:
    """Correlator of a recorder's Events, which also limits their rate. Times are seconds since the epoch.

    If there are too many sources, the one without Events for longest is dropped. `budgets` limit all Events of a
    reason, else of a type, together, after the limit of their sources.
    """

    def __init__(self, budgets: Mapping[str, EventBudget] | None = None) -> None:
        self._shared = {
            name: _SourceState(budget.burst, 0.0, burst=budget.burst, refill_seconds=1 / budget.per_second)
            for name, budget in (budgets or {}).items()
        }
        """The limits of reasons and types."""
        self._sources: OrderedDict[EventSource, _SourceState] = OrderedDict()
        self._due: list[tuple[float, int, EventSource | str]] = []
        """When a source, or a reason or type, has its next token."""
        self._order = count()
        self._holding: Counter[str] = Counter()
        """Number of held Events by reason."""

    def correlate(self, event: EventKey, now: float) -> EventKey:
        """Return the Event that is to be written for this one: itself, or one that combines similar ones."""
        state = self._source_state(event.source, now)
        similar = state.similar.get((event.type, event.reason))
        if similar is None or now - similar.at > _WINDOW:
            state.similar[event.type, event.reason] = _SimilarEvents({event}, now)
            return event
        similar.at = now
        if event in similar.keys:
            return event
        if len(similar.keys) >= _MAX_SIMILAR:
            return EventKey(event.source, event.type, event.reason, None)
        similar.keys.add(event)
        return event

    def admit(self, key: EventKey, now: float) -> bool | None:
        """Return whether an Event may be written now.

        False: it is held until `release`; None: too many are held, so it is dropped.
        """
        source = key.source
        state = self._source_state(source, now)
        state.refill(now)
        if not state.held and state.spend():
            return self._admit_shared(key, now)
        return self._hold(key, source, state)

    def _admit_shared(self, key: EventKey, now: float) -> bool | None:
        """Return whether the limit of its reason or type admits an Event; None if too many are held."""
        name = key.reason if key.reason in self._shared else key.type
        if (state := self._shared.get(name)) is None:
            return True
        state.refill(now)
        return True if not state.held and state.spend() else self._hold(key, name, state)

    def _hold(self, key: EventKey, source: EventSource | str, state: _SourceState) -> bool | None:
        """Hold an Event until `release`: False, or None if too many are held."""
        if self._holding[key.reason] >= _MAX_HELD:
            return None
        if state.held:
            state.held.append(key)
        else:
            state.held = deque((key,))
            self._await_token(source, state)
        self._holding[key.reason] += 1
        return False

    def next_release(self) -> float | None:
        """Return the time at which the next held Event may be written; None when none is held."""
        return self._due[0][0] if self._due else None

    def release(self, now: float) -> list[EventKey]:
        """Return the held Events that may be written now, one for each token."""
        released: list[EventKey] = []
        while self._due and self._due[0][0] <= now:
            _, _, source = heapq.heappop(self._due)
            state = self._shared[source] if isinstance(source, str) else self._sources[source]
            state.refill(now)
            if state.held and state.spend():
                key = state.held.popleft()
                self._holding[key.reason] -= 1
                if isinstance(source, str) or self._admit_shared(key, now):
                    released.append(key)
            if state.held:
                self._await_token(source, state)
        return released

    def _await_token(self, source: EventSource | str, state: _SourceState) -> None:
        heapq.heappush(self._due, (state.next_token_at(), next(self._order), source))

    def _source_state(self, source: EventSource, now: float) -> _SourceState:
        state = self._sources.get(source)
        if state is None:
            state = self._sources[source] = _SourceState(_BURST, now)
            if len(self._sources) > _MAX_SOURCES:
                self._forget_oldest()
        else:
            self._sources.move_to_end(source)
        return state

    def _forget_oldest(self) -> None:
        """Drop the oldest source; those with held Events are kept and dropped later."""
        source, state = next(iter(self._sources.items()))
        if state.held:
            self._sources.move_to_end(source)
        else:
            del self._sources[source]
