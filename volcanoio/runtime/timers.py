"""All timers of a process in one heap behind one task, driven by an injected clock.

Starting or stopping a timer is O(log n) and awaits nothing; there is no task per timer. `Wakes` maps a change of an
object to the timers that it lets fire early (`StartTimer.wake`).
"""

from __future__ import annotations

import asyncio
import heapq
from collections.abc import Callable, Hashable, Sequence
from itertools import count

from volcanoio.framework.decisions import Wake
from volcanoio.framework.events import Change, Observed
from volcanoio.kube.clock import Clock

LONGEST_SLEEP = 60.0
"""Seconds after which the clock is looked at again, as the time of day may be set."""


class TimerQueue:
    """The heap alone: which timers are due. A timer is known by its name; starting one of that name replaces it."""

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
        """Forget a timer; nothing happens when there is none."""
        self._live.pop(name, None)

    def next_due(self) -> float | None:
        """When the next timer is due; None when there is none."""
        while self._heap:
            due, number, name = self._heap[0]
            if name in self._live and self._live[name][0] == number:
                return due
            heapq.heappop(self._heap)
        return None

    def pop_due(self, now: float) -> Callable[[], None] | None:
        """Remove one timer that is due by `now` and return its action; earlier ones first, then as started."""
        due = self.next_due()
        if due is None or due > now:
            return None
        _, _, name = heapq.heappop(self._heap)
        return self._live.pop(name)[1]

    def clear(self) -> None:
        """Forget all: timers die with the lease."""
        self._heap.clear()
        self._live.clear()


class Timers:
    """A TimerQueue that runs: actions are called on the loop of `run`, one after the other."""

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
        """Whether a timer of that name waits."""
        return name in self._queue

    def stop(self, name: Hashable) -> None:
        """Forget a timer."""
        self._queue.stop(name)

    def clear(self) -> None:
        """Forget all."""
        self._queue.clear()

    async def run(self) -> None:
        """Fire timers until cancelled. An action that raises ends the run: actions are ours and must not."""
        while True:
            while (action := self._queue.pop_due(self.clock.now())) is not None:
                action()
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
"""Seconds (of the machine's) after a change in which others are taken with it."""

_Key = tuple[str, str, str, bool]


class Wakes:
    """A table from what may change to the timers that wait for it; empty, it costs one `if` an event."""

    def __init__(self) -> None:
        self._waiting: dict[_Key, set[Hashable]] = {}
        self._of: dict[Hashable, Sequence[Wake]] = {}

    def __bool__(self) -> bool:
        return bool(self._of)

    def wait(self, timer: Hashable, wakes: Sequence[Wake]) -> None:
        """Have a timer wait for changes; what it waited for before is forgotten."""
        self.forget(timer)
        if wakes:
            self._of[timer] = wakes
            for wake in wakes:
                self._waiting.setdefault(_key(wake), set()).add(timer)

    def forget(self, timer: Hashable) -> None:
        """A timer fired or was stopped."""
        for wake in self._of.pop(timer, ()):
            if waiting := self._waiting.get(key := _key(wake)):
                waiting.discard(timer)
                if not waiting:
                    del self._waiting[key]

    def all(self) -> list[Hashable]:
        """Every timer that waits for a change."""
        return list(self._of)

    def woken(self, event: Observed) -> list[Hashable]:
        """The timers that wait for this change, sorted."""
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
