"""The clock that skips waits, on a live event loop."""

from __future__ import annotations

import asyncio
import socket
import threading
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from volcanoio.localcluster.clock import JumpingClock

DAY = 86_400.0


@asynccontextmanager
async def jumping() -> AsyncIterator[JumpingClock]:
    clock = JumpingClock()
    with clock.within(asyncio.get_running_loop()):
        yield clock


async def test_a_day_of_sleeps_takes_no_time_and_wakes_in_order() -> None:
    seen: list[tuple[str, int]] = []
    async with jumping() as clock:
        began = clock.now()

        async def every(name: str, seconds: float, times: int) -> None:
            for _ in range(times):
                await clock.sleep(seconds)
                seen.append((name, round((clock.now() - began) / 3600)))

        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(every("slow", DAY / 2, 2))
            tasks.create_task(every("fast", DAY / 3, 3))
    assert seen == [("fast", 8), ("slow", 12), ("fast", 16), ("slow", 24), ("fast", 24)]


async def test_idle_timers_cause_no_jumps_and_run_when_time_reaches_them_leases_first() -> None:
    seen: list[str] = []
    async with jumping() as clock:

        async def note(name: str, wait: object) -> None:
            await wait  # type: ignore[misc]  # a coroutine of the clock
            seen.append(name)

        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(note("monitor", clock.idle(5)))
            tasks.create_task(note("heart", clock.beat(10)))
            tasks.create_task(note("pod", clock.sleep(3600)))
        assert seen == ["heart", "monitor", "pod"]
        assert clock.jumps == 1


async def test_time_waits_while_somebody_is_at_work_elsewhere() -> None:
    async with jumping() as clock:
        at_work = [True]
        clock.holds.append(lambda: at_work[0])
        loop, done = asyncio.get_running_loop(), asyncio.Event()
        pod = asyncio.ensure_future(clock.sleep(DAY))
        before = clock.now()

        def finish() -> None:
            at_work[0] = False
            done.set()

        thread = threading.Thread(target=lambda: loop.call_soon_threadsafe(finish))
        await asyncio.sleep(0)
        thread.start()
        await done.wait()
        assert clock.now() - before < DAY
        await pod
        assert clock.now() - before >= DAY
        thread.join()


async def test_a_cancelled_sleep_is_not_jumped_to() -> None:
    async with jumping() as clock:
        before = clock.now()
        forgotten = asyncio.ensure_future(clock.sleep(DAY))
        await asyncio.sleep(0)
        forgotten.cancel()
        await clock.sleep(60)
        assert clock.now() - before < DAY


async def test_clients_have_a_moment_before_time_goes_on() -> None:
    """A client that reacts to what it saw is heard before the clock jumps on."""
    async with jumping() as clock:
        clock.clients = lambda: 1
        ours, theirs = await _pair()
        before = clock.now()
        pod = asyncio.ensure_future(clock.sleep(DAY))
        theirs[1].write(b"seen\n")
        assert await ours[0].readline() == b"seen\n"
        assert clock.now() - before < DAY
        await pod
        for _, writer in (ours, theirs):
            writer.close()
            await writer.wait_closed()


async def _pair() -> tuple[tuple[asyncio.StreamReader, asyncio.StreamWriter], ...]:
    ends = socket.socketpair()
    return tuple([await asyncio.open_connection(sock=end) for end in ends])


def test_a_loop_without_selector_is_refused() -> None:
    loop: Any = object()
    with pytest.raises(TypeError, match="--speed max"), JumpingClock().within(loop):
        pass
