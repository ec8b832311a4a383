"""All timers of a process in one heap behind one task, driven by an injected clock.

Starting or stopping a timer is O(log n) and awaits nothing; there is no task per timer.
"""

from __future__ import annotations

import asyncio
import heapq
from collections.abc import Callable, Hashable
from itertools import count

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
        self._clock = clock
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
            while (action := self._queue.pop_due(self._clock.now())) is not None:
                action()
            await self._wait()

    async def _wait(self) -> None:
        """Return at the next due time, after LONGEST_SLEEP, or when an earlier timer was started."""
        due = self._queue.next_due()
        if due is None:
            await self._changed.wait()
        else:
            delay = min(max(0.0, due - self._clock.now()), LONGEST_SLEEP)
            sleep = asyncio.ensure_future(self._clock.sleep(delay))
            changed = asyncio.ensure_future(self._changed.wait())
            try:
                await asyncio.wait((sleep, changed), return_when=asyncio.FIRST_COMPLETED)
            finally:
                sleep.cancel()
                changed.cancel()
        self._changed.clear()
