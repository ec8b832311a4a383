"""The clock of a local cluster: real time, a multiple of it, jumping time, or time that tests move.

Everything in a cluster uses its clock, also for stored times: at speed 60 a pod that runs for one minute ends after
one second, and its status shows a minute. Timeouts of HTTP, deadlines of watches and certificates stay in real time.

`--speed max` is discrete-event simulation on a live event loop (`JumpingClock`): when the loop would block, time jumps
to the earliest sleeper. Sleepers of `idle` and `beat` cause no jump. While a hold exists (a request waits for the
disk, a policy computes, a process runs), time does not jump. In a data directory time never goes back (`keep_time`).
"""

from __future__ import annotations

import asyncio
import heapq
import itertools
import time
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager, suppress
from math import isinf
from pathlib import Path
from selectors import BaseSelector, SelectorKey
from typing import Any, Protocol

from volcanoio.kube.clock import Clock as EdgeClock


class Clock(EdgeClock, Protocol):
    """Clock of clients, with the waits that only the nodes of a cluster use."""

    @property
    def skips(self) -> bool:
        """Whether waits are skipped, so that most of the cluster's time takes no real time."""
        ...

    async def sleep_until(self, moment: float) -> None:
        """Wait until `now` has reached the moment; returns at once if it has passed."""
        ...

    async def beat(self, seconds: float) -> None:
        """Sleep like `idle`, for heartbeats: after a jump of time they wake first."""
        ...


class RunningClock:
    """The machine's clock, or one that runs `rate` times as fast. It never steps.

    `start` (epoch seconds) is the time it begins with, at least the wall clock's. Raises ValueError for a rate that is
    not positive.
    """

    skips = False

    def __init__(self, rate: float = 1.0, start: float = 0.0) -> None:
        if rate <= 0:
            msg = f"speed: {rate} must be greater than 0; 1 is real time, 10 lets time run ten times as fast"
            raise ValueError(msg)
        self.rate = rate
        self._began = time.monotonic()
        self._start = max(start, time.time())

    def monotonic(self) -> float:
        """Return seconds since the start."""
        return (time.monotonic() - self._began) * self.rate

    def now(self) -> float:
        """Return the time of day, in seconds since the epoch."""
        return self._start + self.monotonic()

    async def sleep(self, seconds: float) -> None:
        """Sleep on the running loop."""
        await asyncio.sleep(seconds / self.rate)

    async def sleep_until(self, moment: float) -> None:
        """Sleep until the moment."""
        await asyncio.sleep(max(0.0, moment - self.now()) / self.rate)

    idle = beat = sleep


class Sleepers:
    """Waiting tasks by wake-up time, then by order of arrival."""

    _FEW = 64

    def __init__(self) -> None:
        self._heap: list[tuple[float, int, asyncio.Future[None]]] = []
        self._numbers = itertools.count()
        self._dead = 0

    async def wait(self, moment: float) -> None:
        """Sleep until `wake` is called with this moment or a later one."""
        done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        heapq.heappush(self._heap, (moment, next(self._numbers), done))
        try:
            await done
        except asyncio.CancelledError:
            self._dead += 1
            if self._dead > self._FEW and self._dead * 2 > len(self._heap):
                self._heap = [entry for entry in self._heap if not entry[2].done()]
                heapq.heapify(self._heap)
                self._dead = 0
            raise

    def next(self) -> float | None:
        """Return the earliest wake-up time; None without sleepers."""
        while self._heap and self._heap[0][2].done():
            heapq.heappop(self._heap)
            self._dead = max(0, self._dead - 1)
        return self._heap[0][0] if self._heap else None

    def wake(self, moment: float, *, one: bool = False) -> bool:
        """Wake tasks that wait for this moment or an earlier one; returns whether there were any.

        With `one`, only the first is woken.
        """
        woken = False
        while (first := self.next()) is not None and first <= moment and not (one and woken):
            heapq.heappop(self._heap)[2].set_result(None)
            woken = True
        return woken


class VirtualClock:
    """Clock that a test advances.

    Timers fire in order, and the effects of one happen before the next.
    """

    rate = 1.0
    skips = False
    _DRAIN_TURNS = 50
    """Turns of the event loop after which work that waits for nothing outside this process is done."""

    def __init__(self, start: float = 1_800_000_000.0) -> None:
        self._now = start
        self._sleepers = Sleepers()

    def now(self) -> float:
        """Return the time (seconds since the epoch) that the test has set."""
        return self._now

    monotonic = now

    async def sleep_until(self, moment: float) -> None:
        """Wait until the test has moved the clock to the moment."""
        if moment <= self._now:
            await asyncio.sleep(0)
        else:
            await self._sleepers.wait(moment)

    async def sleep(self, seconds: float) -> None:
        """Wait until the test has moved the clock by so many seconds."""
        await self.sleep_until(self._now + seconds)

    idle = beat = sleep

    async def run_until(self, condition: Callable[[], bool], *, limit: float = 3600.0) -> None:
        """Advance from timer to timer until the condition holds.

        Raises TimeoutError after `limit` seconds of this clock.
        """
        end = self._now + limit
        while True:
            await self._drain()
            if condition():
                return
            if not self._fire_next(end):
                msg = f"the condition does not hold after {limit} s of virtual time"
                raise TimeoutError(msg)

    async def advance(self, seconds: float) -> None:
        """Advance by so many seconds; every timer due by then fires at its time."""
        end = self._now + seconds
        await self._drain()
        while self._fire_next(end):
            await self._drain()
        self._now = end
        await self._drain()

    def _fire_next(self, end: float) -> bool:
        moment = self._sleepers.next()
        if moment is None or moment > end:
            return False
        self._now = max(self._now, moment)
        return self._sleepers.wake(moment, one=True)

    async def _drain(self) -> None:
        for _ in range(self._DRAIN_TURNS):
            await asyncio.sleep(0)


CLIENT_GRACE = 0.002
"""Seconds that connected clients have before each jump."""
_BUSY_POLL = 0.02
"""Seconds of unbroken work after which sleepers whose time has come are woken all the same."""


class JumpingClock:
    """A `Clock` whose waits take no time. Use it `within` a running loop.

    `holds` return before each jump whether time must not jump; `clients` returns the number of connected clients.
    """

    rate = 1.0
    skips = True

    def __init__(self, start: float = 0.0) -> None:
        self.holds: list[Callable[[], object]] = []
        self.clients: Callable[[], int] = int
        self.jumps = 0
        self._offset = max(start, time.time()) - time.monotonic()
        self._due, self._idlers, self._hearts = Sleepers(), Sleepers(), Sleepers()
        self._woken = 0.0

    def now(self) -> float:
        """Return the time of day, in seconds since the epoch."""
        return self._offset + time.monotonic()

    monotonic = now

    async def sleep(self, seconds: float) -> None:
        """Wait; time jumps to the end of the wait when no other work is due."""
        await self.sleep_until(self.now() + seconds)

    async def sleep_until(self, moment: float) -> None:
        """Wait for the moment; time jumps there when no other work is due."""
        if moment <= self.now():
            await asyncio.sleep(0)
        else:
            await self._due.wait(moment)

    async def idle(self, seconds: float) -> None:
        """Wait without making time jump."""
        await self._idlers.wait(self.now() + seconds)

    async def beat(self, seconds: float) -> None:
        """Wait without making time jump, and wake before idle waiters when it has jumped."""
        await self._hearts.wait(self.now() + seconds)

    @contextmanager
    def within(self, loop: asyncio.AbstractEventLoop) -> Iterator[None]:
        """Replace the loop's selector within the block.

        Raises TypeError for a loop that does not wait by a selector.
        """
        inner = getattr(loop, "_selector", None)
        if not isinstance(inner, BaseSelector):
            msg = f"--speed max: {type(loop).__name__} is not a selector event loop; use asyncio's own, or a number"
            raise TypeError(msg)
        loop._selector = _JumpingSelector(inner, self)  # type: ignore[attr-defined]  # the one place where a loop waits
        try:
            yield
        finally:
            loop._selector = inner  # type: ignore[attr-defined]  # as above

    def wake(self) -> bool:
        """Wake due sleepers of the first kind that has any; returns whether there were any."""
        now = self.now()
        self._woken = time.monotonic()
        return self._hearts.wake(now) or self._idlers.wake(now) or self._due.wake(now)

    def wake_while_busy(self) -> None:
        """Wake all due sleepers if the loop has been busy for longer than `_BUSY_POLL`."""
        if time.monotonic() - self._woken > _BUSY_POLL:
            while self.wake():
                pass

    def may_jump(self) -> bool:
        """Return whether a sleeper waits for time to pass and no hold prevents it."""
        return self._due.next() is not None and not any(hold() for hold in self.holds)

    def jump(self) -> None:
        """Set the time to that of the earliest sleeper."""
        moment = self._due.next()
        if moment is not None:
            self._offset += max(0.0, moment - self.now())
            self.jumps += 1

    def until_next(self) -> float | None:
        """Return seconds until the next sleeper of any kind if time does not jump.

        The result is None when there is none.
        """
        moments = [m for m in (self._due.next(), self._idlers.next(), self._hearts.next()) if m is not None]
        return max(0.0, min(moments) - self.now()) if moments else None


class _JumpingSelector(BaseSelector):
    """Selector of the loop whose timeout the clock limits."""

    def __init__(self, inner: BaseSelector, clock: JumpingClock) -> None:
        self._inner = inner
        self._clock = clock

    def select(self, timeout: float | None = None) -> list[tuple[SelectorKey, int]]:
        """Wait like `selectors.BaseSelector.select`; the loop's timeout is 0 while it has work."""
        clock = self._clock
        events = self._inner.select(0)
        if timeout is not None and timeout <= 0:
            clock.wake_while_busy()
            return events
        if events or clock.wake():
            return events
        if not clock.may_jump():
            return self._block(timeout)
        if clock.clients():
            events = self._inner.select(CLIENT_GRACE if timeout is None else min(timeout, CLIENT_GRACE))
            if events:
                return events
        clock.jump()
        clock.wake()
        return events

    def _block(self, timeout: float | None) -> list[tuple[SelectorKey, int]]:
        limits = [limit for limit in (timeout, self._clock.until_next()) if limit is not None]
        return self._inner.select(min(limits, default=None))

    def register(self, fileobj: Any, events: int, data: Any = None) -> SelectorKey:
        """Register with the loop's own selector."""
        return self._inner.register(fileobj, events, data)

    def unregister(self, fileobj: Any) -> SelectorKey:
        """Unregister from the loop's own selector."""
        return self._inner.unregister(fileobj)

    def modify(self, fileobj: Any, events: int, data: Any = None) -> SelectorKey:
        """Modify a registration of the loop's own selector."""
        return self._inner.modify(fileobj, events, data)

    def get_map(self) -> Mapping[Any, SelectorKey]:
        """Return the map of the loop's own selector."""
        return self._inner.get_map()

    def close(self) -> None:
        """Close the loop's own selector."""
        self._inner.close()


_SAVE_EVERY = 1.0
"""Seconds of the machine's between two notes; what passed since the last one is lost by a kill."""
_LEAST_AHEAD = 2.0
"""Seconds by which the clock must be ahead of the machine's to be noted."""


def clock_for(speed: float, file: Path | None) -> RunningClock | JumpingClock:
    """Return the clock of a cluster.

    It runs `speed` times as fast as the machine's and jumps when `speed` is infinite; `file` holds its last time.

    Raises ValueError for a speed that is not positive.
    """
    start = _read_time(file) if file is not None else 0.0
    return JumpingClock(start) if isinf(speed) and speed > 0 else RunningClock(speed, start)


def _read_time(file: Path) -> float:
    try:
        return float(file.read_text(encoding="ascii"))
    except (OSError, ValueError):  # the store reports a directory that cannot be used
        return 0.0


@asynccontextmanager
async def keep_time(clock: RunningClock | JumpingClock, file: Path | None) -> AsyncIterator[None]:
    """Record the time in `file` while it is ahead of the machine's."""
    if file is None:
        yield
        return
    keeper = asyncio.create_task(_save_periodically(clock, file))
    try:
        yield
    finally:
        keeper.cancel()
        with suppress(asyncio.CancelledError):
            await keeper
        _save_time(clock, file)


async def _save_periodically(clock: RunningClock | JumpingClock, file: Path) -> None:
    while True:
        await asyncio.sleep(_SAVE_EVERY)
        _save_time(clock, file)


def _save_time(clock: RunningClock | JumpingClock, file: Path) -> None:
    now = clock.now()
    if now > time.time() + _LEAST_AHEAD:
        fresh = file.with_suffix(".new")
        fresh.write_text(repr(now), encoding="ascii")
        fresh.replace(file)
