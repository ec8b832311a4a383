"""The clock that tests move."""

from __future__ import annotations

import asyncio

import pytest

from volcanoio.localcluster.clock import RunningClock, VirtualClock
from volcanoio.model.times import epoch, rfc3339


async def test_virtual_time_fires_timers_in_order_and_all_they_cause() -> None:
    clock = VirtualClock(start=0.0)
    seen: list[tuple[str, float]] = []

    async def periodic(name: str, period: float) -> None:
        for _ in range(3):
            await clock.sleep_until(clock.now() + period)
            seen.append((name, clock.now()))

    async with asyncio.TaskGroup() as tasks:
        tasks.create_task(periodic("slow", 10))
        tasks.create_task(periodic("fast", 4))
        await clock.run_until(lambda: len(seen) == 6)
    assert seen == [("fast", 4), ("fast", 8), ("slow", 10), ("fast", 12), ("slow", 20), ("slow", 30)]


async def test_run_until_gives_up() -> None:
    clock = VirtualClock()
    with pytest.raises(TimeoutError):
        await clock.run_until(lambda: False)


async def test_advance_moves_no_further_than_asked() -> None:
    clock = VirtualClock(start=100.0)
    await clock.advance(5)
    assert clock.now() == 105.0


def test_speed_must_be_positive() -> None:
    with pytest.raises(ValueError, match="greater than 0"):
        RunningClock(0)


def test_timestamps_are_kubernetes() -> None:
    assert rfc3339(1_800_000_000.9) == "2027-01-15T08:00:00Z"
    assert epoch("2027-01-15T08:00:00Z") == 1_800_000_000
    assert epoch(None) is None
