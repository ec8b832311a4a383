"""`EventBus`: one total order of everything a process learns, delivered in batches.

Publishing is synchronous: every subscriber has seen a batch when `publish` returns. Publishing from inside a subscriber
enqueues; the outermost `publish` drains the queue first in, first out. So there is one order, that of `seq`, and no
subscriber is ever entered twice. The bus belongs to one thread, that of its event loop, and costs no await per event.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import TypeAlias

from msgspec.structs import replace

from volcanoio.bus.inbox import Inbox
from volcanoio.framework.events import Event

Batch: TypeAlias = tuple[Event, ...]
"""Events of consecutive `seq`, published together."""
Subscriber: TypeAlias = Callable[[Batch], None]
FaultHook: TypeAlias = Callable[[Subscriber, Batch, Exception], None]
"""Told of a subscriber that raised, of the batch it was given and of what it raised."""


class EventBus:
    """Stamps events and hands them to subscribers in the order these subscribed.

    `now` gives the time (epoch seconds) for events that carry none. `on_fault` is told of a subscriber that raised;
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
        """An inbox for a consumer that awaits. Close it to stop."""
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
        batch = self._stamp(events)
        if batch:
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
            stamped.append(
                replace(event, seq=self._seq, at=event.at or now, cause=event.cause or self._cause),
            )
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
            msg = "subscribers of the event bus raised"
            raise ExceptionGroup(msg, faults)

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
