"""One heap for all timers, on a clock that stands still."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from hypothesis import given
from hypothesis import strategies as st

from tests.unit.runtime.virtual_time import VirtualClock
from volcanoio.runtime.timers import TimerQueue, Timers


@asynccontextmanager
async def running(clock: VirtualClock) -> AsyncIterator[Timers]:
    timers = Timers(clock)
    task = asyncio.create_task(timers.run())
    try:
        yield timers
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


async def test_timers_fire_in_order_of_their_due_time() -> None:
    clock, fired = VirtualClock(), list[str]()
    async with running(clock) as timers:
        for name, due in (("late", 1030.0), ("early", 1010.0), ("middle", 1020.0)):
            timers.start(name, due, lambda name=name: fired.append(f"{name}@{clock.now():g}"))  # type: ignore[misc]  # bound now
        await clock.advance(25)
        assert fired == ["early@1010", "middle@1020"]
        await clock.advance(25)
        assert fired == ["early@1010", "middle@1020", "late@1030"]


async def test_an_earlier_timer_started_later_is_not_missed() -> None:
    clock, fired = VirtualClock(), list[float]()
    async with running(clock) as timers:
        timers.start("a", 1100.0, lambda: fired.append(clock.now()))
        await clock.advance(1)
        timers.start("b", 1005.0, lambda: fired.append(clock.now()))
        await clock.advance(10)
        assert fired == [1005.0]


async def test_overdue_means_once_and_now() -> None:
    clock, fired = VirtualClock(), list[float]()
    async with running(clock) as timers:
        timers.start("a", 5.0, lambda: fired.append(clock.now()))
        await clock.advance(0)
        await clock.advance(100)
        assert fired == [1000.0]


async def test_an_action_may_start_its_timer_again() -> None:
    clock, fired = VirtualClock(), list[float]()
    async with running(clock) as timers:

        def again() -> None:
            fired.append(clock.now())
            timers.start("tick", clock.now() + 10, again)

        timers.start("tick", 1010.0, again)
        await clock.advance(35)
        assert fired == [1010.0, 1020.0, 1030.0]


operations = st.lists(
    st.one_of(
        st.tuples(st.just("start"), st.integers(0, 5), st.integers(0, 20)),
        st.tuples(st.just("stop"), st.integers(0, 5), st.just(0)),
    ),
    max_size=30,
)


@given(operations, st.integers(0, 20))
def test_due_timers_are_the_last_started_that_were_not_stopped(steps: list[tuple[str, int, int]], now: int) -> None:
    queue, fired, model = TimerQueue(), list[tuple[int, int]](), dict[int, int]()
    for operation, name, due in steps:
        if operation == "start":
            queue.start(name, due, lambda entry=(name, due): fired.append(entry))  # type: ignore[misc]  # bound now
            model[name] = due
        else:
            queue.stop(name)
            model.pop(name, None)
    while (action := queue.pop_due(now)) is not None:
        action()
    assert sorted(fired) == sorted((name, due) for name, due in model.items() if due <= now)
    assert [due for _, due in fired] == sorted(due for _, due in fired)
    assert len(queue) == len(model) - len(fired)
