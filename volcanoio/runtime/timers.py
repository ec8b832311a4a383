"""All timers of a process in one heap with one task, driven by an injected clock.

Starting or stopping a timer is O(log n) and awaits nothing; there is no task per timer. `Wakes` maps a change of an
object to the timers that fire early because of it (`StartTimer.wake`).
"""

from __future__ import annotations

import asyncio
import heapq
from collections.abc import Callable, Hashable, Sequence
from itertools import count

from volcanoio.framework.decisions import Wake
from volcanoio.framework.events import Change, Observed
from volcanoio.kube.clock import Clock

AT_ONCE = 64
"""Actions after which other tasks of the event loop run: many keys may be due together."""
LONGEST_SLEEP = 60.0
"""Maximum sleep in seconds before the clock is read again, because the time of day may be set."""


class TimerQueue:
    """Heap of timers by due time. Timers have names; starting one replaces an earlier one with the same name."""

    def __init__(self) -> None:
        self._heap: list[tuple[float, int, Hashable]] = []
        self._live: dict[Hashable, tuple[int, Callable[[], None]]] = {}
        self._order = count()

    def __len__(self) -> int:
        return len(self._live)

    def __contains__(self, name: object) -> bool:
        return name in self._live

    def start(self, name: Hashable, due: float, action: Callable[[], None]) -> None:
        """Call `action` once when it is `due` (epoch seconds)."""
        number = next(self._order)
        self._live[name] = (number, action)
        heapq.heappush(self._heap, (due, number, name))

    def stop(self, name: Hashable) -> None:
        """Remove a timer; nothing happens if there is none."""
        self._live.pop(name, None)

    def next_due(self) -> float | None:
        """Return the time at which the next timer is due; None if there is none."""
        while self._heap:
            due, number, name = self._heap[0]
            if name in self._live and self._live[name][0] == number:
                return due
            heapq.heappop(self._heap)
        return None

    def pop_due(self, now: float) -> Callable[[], None] | None:
        """Remove one timer that is due by `now` and return its action; earlier ones first, then by order of start."""
        due = self.next_due()
        if due is None or due > now:
            return None
        _, _, name = heapq.heappop(self._heap)
        return self._live.pop(name)[1]

    def clear(self) -> None:
        """Remove all timers, when leadership is lost."""
        self._heap.clear()
        self._live.clear()


class Timers:
    """A running TimerQueue: actions are called on the loop of `run`, one after another."""

    def __init__(self, clock: Clock) -> None:
        self.clock = clock
        self._queue = TimerQueue()
        self._changed = asyncio.Event()

    def __len__(self) -> int:
        return len(self._queue)

    def start(self, name: Hashable, due: float, action: Callable[[], None]) -> None:
        """Call `action` once at `due` (epoch seconds; at once if that has passed); replaces a timer of that name."""
        before = self._queue.next_due()
        self._queue.start(name, due, action)
        if before is None or due < before:
            self._changed.set()

    def has(self, name: Hashable) -> bool:
        """Return whether a timer of that name exists."""
        return name in self._queue

    def stop(self, name: Hashable) -> None:
        """Remove a timer."""
        self._queue.stop(name)

    def clear(self) -> None:
        """Remove all timers."""
        self._queue.clear()

    async def run(self) -> None:
        """Fire timers until cancelled. An action that raises ends the run: actions are our own and must not raise."""
        while True:
            called = 0
            while (action := self._queue.pop_due(self.clock.now())) is not None:
                action()
                called += 1
                if called % AT_ONCE == 0:
                    await asyncio.sleep(0)
            await self._wait()

    async def _wait(self) -> None:
        """Return at the next due time, after LONGEST_SLEEP, or when an earlier timer was started."""
        due = self._queue.next_due()
        if due is None:
            await self._changed.wait()
        else:
            delay = min(max(0.0, due - self.clock.now()), LONGEST_SLEEP)
            sleep = asyncio.ensure_future(self.clock.sleep(delay))
            changed = asyncio.ensure_future(self._changed.wait())
            try:
                await asyncio.wait((sleep, changed), return_when=asyncio.FIRST_COMPLETED)
            finally:
                sleep.cancel()
                changed.cancel()
        self._changed.clear()


WAKE_DELAY = 0.02
"""Seconds of the machine's clock to wait after a change for others that are handled together with it."""

_Key = tuple[str, str, str, bool]


class Wakes:
    """Table from changes of objects to the timers that wait for them; an empty one costs one `if` per event."""

    def __init__(self) -> None:
        self._waiting: dict[_Key, set[Hashable]] = {}
        self._of: dict[Hashable, Sequence[Wake]] = {}

    def __bool__(self) -> bool:
        return bool(self._of)

    def wait(self, timer: Hashable, wakes: Sequence[Wake]) -> None:
        """Let a timer wait for changes; replaces its earlier ones."""
        self.forget(timer)
        if wakes:
            self._of[timer] = wakes
            for wake in wakes:
                self._waiting.setdefault(_key(wake), set()).add(timer)

    def forget(self, timer: Hashable) -> None:
        """Remove a timer that fired or was stopped."""
        for wake in self._of.pop(timer, ()):
            if waiting := self._waiting.get(key := _key(wake)):
                waiting.discard(timer)
                if not waiting:
                    del self._waiting[key]

    def all(self) -> list[Hashable]:
        """Return every timer that waits for a change."""
        return list(self._of)

    def woken(self, event: Observed) -> list[Hashable]:
        """Return the timers that wait for this change, sorted."""
        meta = event.obj.metadata
        resource, namespace, name = event.resource, meta.namespace, meta.name
        found: set[Hashable] = set()
        for gone in (False, True) if event.change is Change.GONE else (False,):
            for key in ((resource, "", "", gone), (resource, namespace, "", gone), (resource, namespace, name, gone)):
                found |= self._waiting.get(key, _NO_TIMERS)
        return sorted(found, key=str)


_NO_TIMERS: frozenset[Hashable] = frozenset()


def _key(wake: Wake) -> _Key:
    return wake.resource, wake.namespace, wake.name, wake.gone
