"""`EventBus`: one total order of all events of a process, delivered in batches.

Publishing is synchronous: every subscriber has seen a batch when `publish` returns. Publishing from inside a
subscriber enqueues; the outermost `publish` drains the queue first in, first out. So there is one order, that of
`seq`, and no subscriber is ever entered twice. The bus belongs to one thread, that of its event loop, and costs no
await per event.

`Inbox` is for a consumer that awaits: one asyncio.Event per wake-up and a deque, 0.1 µs an event, where a stream per
event costs 4 to 14 µs.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import TypeAlias

from msgspec.structs import replace

from volcanoio.framework.events import Event

Batch: TypeAlias = tuple[Event, ...]
"""Events of consecutive `seq`, published together."""
Subscriber: TypeAlias = Callable[[Batch], None]
FaultHook: TypeAlias = Callable[[Subscriber, Batch, Exception], None]
"""Called with a subscriber that raised, its batch and the exception."""


class EventBus:
    """Stamps events and hands them to subscribers in the order these subscribed.

    `now` gives the time (epoch seconds) for events that carry none. `on_fault` is called for a subscriber that raised;
    without one the faults are raised as an ExceptionGroup when the outermost `publish` has delivered everything.
    """

    def __init__(self, now: Callable[[], float], *, on_fault: FaultHook | None = None) -> None:
        self._now = now
        self._on_fault = on_fault
        self._subscribers: list[Subscriber] = []
        self._queue: deque[Batch] = deque()
        self._draining = False
        self._cause = 0
        self._seq = 0

    @property
    def seq(self) -> int:
        """The seq of the newest event taken in; 0 before the first."""
        return self._seq

    def subscribe(self, subscriber: Subscriber) -> Callable[[], None]:
        """Give every later batch to `subscriber`; call the result to stop."""
        self._subscribers.append(subscriber)
        return lambda: self._subscribers.remove(subscriber)

    def subscribe_async(self) -> Inbox:
        """Return an inbox for a consumer that awaits; closing it ends the subscription."""
        inbox = Inbox()
        inbox.on_close(self.subscribe(inbox.put))
        return inbox

    @contextmanager
    def caused_by(self, event: Event | int) -> Iterator[None]:
        """Within it, published events that name no cause get this event (or seq) as theirs."""
        before = self._cause
        self._cause = event if isinstance(event, int) else event.seq
        try:
            yield
        finally:
            self._cause = before

    def publish(self, events: Iterable[Event]) -> Batch:
        """Take events in: stamp and deliver them (or enqueue them, inside a subscriber). Returns them stamped.

        An event keeps an `at` or `cause` it brings. Without a cause it gets that of `caused_by`; inside a subscriber
        that set none, the last event of the batch being delivered (exact where a batch holds one event); else 0.
        """
        if batch := self._stamp(events):
            self._queue.append(batch)
            if not self._draining:
                self._drain()
        return batch

    def _stamp(self, events: Iterable[Event]) -> Batch:
        stamped = []
        now = 0.0
        for event in events:
            self._seq += 1
            now = now or self._now()
            stamped.append(replace(event, seq=self._seq, at=event.at or now, cause=event.cause or self._cause))
        return tuple(stamped)

    def _drain(self) -> None:
        faults: list[Exception] = []
        outer_cause, self._draining = self._cause, True
        try:
            while self._queue:
                self._deliver(self._queue.popleft(), faults)
        finally:
            self._cause, self._draining = outer_cause, False
        if faults:
            raise ExceptionGroup("subscribers of the event bus raised", faults)

    def _deliver(self, batch: Batch, faults: list[Exception]) -> None:
        for subscriber in tuple(self._subscribers):
            self._cause = batch[-1].seq
            try:
                subscriber(batch)
            except Exception as error:
                if self._on_fault is None:
                    faults.append(error)
                else:
                    self._on_fault(subscriber, batch, error)


class Inbox:
    """A queue of events with one consumer. Unbounded: what it holds is the consumer's backlog, seen in `len`."""

    def __init__(self) -> None:
        self._events: deque[Event] = deque()
        self._wake = asyncio.Event()
        self._closed = False
        self._on_close: Callable[[], None] = lambda: None

    def __len__(self) -> int:
        return len(self._events)

    def put(self, events: Iterable[Event]) -> None:
        """Append events and wake the consumer."""
        self._events.extend(events)
        self._wake.set()

    def drain(self, most: int | None = None) -> list[Event]:
        """Return all waiting events, or at most that many, oldest first, without awaiting; [] if there are none."""
        if most is not None and most < len(self._events):
            return [self._events.popleft() for _ in range(most)]
        events = list(self._events)
        self._events.clear()
        if not self._closed:
            self._wake.clear()
        return events

    async def wait(self) -> None:
        """Return once there is something to drain, or the inbox is closed."""
        while not self._events and not self._closed:
            await self._wake.wait()
            if not self._events and not self._closed:
                self._wake.clear()

    async def batch(self) -> list[Event]:
        """Wait for an event and return all that are waiting; [] only if the inbox is closed and empty."""
        await self.wait()
        return self.drain()

    def on_close(self, action: Callable[[], None]) -> None:
        """Set what `close` calls to end the subscription."""
        self._on_close = action

    def close(self) -> None:
        """Take no more events and wake the consumer; what waits can still be drained. Idempotent."""
        if not self._closed:
            self._closed = True
            self._on_close()
            self._wake.set()
