"""Timers on a cluster's clock: one heap that a single task waits for."""

from __future__ import annotations

import asyncio
import heapq
import itertools
from collections.abc import Callable

import anyio

from volcanoio.localcluster.clock import Clock

AT_A_TIME = 64
"""Actions before the event loop gets a turn: the pods of a big job start together."""


class Timers:
    """Scheduler of actions, in order of time and then of registration.

    Actions are quick and do not raise.

    Those of `patient` ones look whether others have done something: time is not hurried for their sake.
    """

    def __init__(self, clock: Clock, *, patient: bool = False) -> None:
        self._clock = clock
        self._patient = patient
        self._heap: list[tuple[float, int, Callable[[], None]]] = []
        self._numbers = itertools.count()
        self._wake = asyncio.Event()
        self._sleep: anyio.CancelScope | None = None

    def at(self, moment: float, action: Callable[[], None]) -> None:
        """Call the action at the moment (epoch seconds), or at once if it has passed."""
        earliest = not self._heap or moment < self._heap[0][0]
        heapq.heappush(self._heap, (moment, next(self._numbers), action))
        if earliest:
            self._wake.set()
            if self._sleep is not None:
                self._sleep.cancel()

    async def run(self) -> None:
        """Call due actions until cancelled."""
        while True:
            self._wake.clear()
            now, called = self._clock.now(), 0
            while self._heap and self._heap[0][0] <= now:
                _, _, action = heapq.heappop(self._heap)
                action()
                called += 1
                if called % AT_A_TIME == 0:
                    await asyncio.sleep(0)
            if not self._heap:
                await self._wake.wait()
                continue
            with anyio.CancelScope() as self._sleep:
                if self._patient:
                    await self._clock.idle(max(0.0, self._heap[0][0] - self._clock.now()))
                else:
                    await self._clock.sleep_until(self._heap[0][0])
            self._sleep = None
