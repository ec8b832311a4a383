"""Which clock a cluster has, and its time on disk: in a data directory time never goes back.

A cluster whose time ran ahead of the machine's goes on from there when it starts again, at whatever speed.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from math import isinf
from pathlib import Path

from volcanoio.localcluster.clock import RunningClock
from volcanoio.localcluster.jumping import JumpingClock

_EVERY = 1.0
"""Seconds of the machine's between two notes; what passed since the last one is lost by a kill."""
_AHEAD = 2.0
"""Seconds by which the clock must be ahead of the machine's to be noted."""


def clock_for(speed: float, file: Path | None) -> RunningClock | JumpingClock:
    """The clock of a cluster: `speed` times the machine's, jumping when infinite; `file` holds the time it had last.

    Raises ValueError for a speed that is not positive.
    """
    start = _read(file) if file is not None else 0.0
    return JumpingClock(start) if isinf(speed) and speed > 0 else RunningClock(speed, start)


def _read(file: Path) -> float:
    try:
        return float(file.read_text(encoding="ascii"))
    except (OSError, ValueError):  # a directory that cannot be used is for the store to refuse
        return 0.0


@asynccontextmanager
async def noted(clock: RunningClock | JumpingClock, file: Path | None) -> AsyncIterator[None]:
    """Within it the time is noted in `file` while it is ahead of the machine's."""
    if file is None:
        yield
        return
    keeper = asyncio.create_task(_keep(clock, file))
    try:
        yield
    finally:
        keeper.cancel()
        with suppress(asyncio.CancelledError):
            await keeper
        _note(clock, file)


async def _keep(clock: RunningClock | JumpingClock, file: Path) -> None:
    while True:
        await asyncio.sleep(_EVERY)
        _note(clock, file)


def _note(clock: RunningClock | JumpingClock, file: Path) -> None:
    now = clock.now()
    if now > time.time() + _AHEAD:
        fresh = file.with_suffix(".new")
        fresh.write_text(repr(now), encoding="ascii")
        fresh.replace(file)
