"""A clock that stands still until it is advanced."""

from __future__ import annotations

import asyncio


class VirtualClock:
    """`volcanoio.kube.clock.Clock` for tests: sleepers wake in order as `advance` passes their time."""

    rate = 1.0

    def __init__(self, start: float = 1000.0) -> None:
        self._now = start
        self._sleepers: list[tuple[float, asyncio.Future[None]]] = []

    def now(self) -> float:
        return self._now

    def monotonic(self) -> float:
        return self._now

    async def sleep(self, seconds: float) -> None:
        waiting: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._sleepers.append((self._now + seconds, waiting))
        await waiting

    idle = sleep

    async def advance(self, seconds: float) -> None:
        """Move on, stopping at every sleeper's time and letting all others run there."""
        end = self._now + seconds
        await run_until_idle()
        while True:
            self._sleepers = [entry for entry in self._sleepers if not entry[1].done()]
            due = min((when for when, _ in self._sleepers), default=end + 1)
            if due > end:
                break
            self._now = max(self._now, due)
            for when, waiting in self._sleepers:
                if when <= self._now and not waiting.done():
                    waiting.set_result(None)
            await run_until_idle()
        self._now = end
        await run_until_idle()


async def run_until_idle() -> None:
    """Let every task that can run, run."""
    for _ in range(20):
        await asyncio.sleep(0)
