"""`History`: the past of a cluster for the page, read from a journal while its process goes on writing it.

A journal does not say who may see what: the page shows it to users who may list pods of all namespaces.
"""

from __future__ import annotations

import time
from pathlib import Path

import anyio
import anyio.to_thread
import msgspec

from volcanoio.compose.journals.states import PastStates

REFRESH_SECONDS = 10.0
"""Seconds for which the journal is not looked at again."""
TREND_POINTS = 600


class NoHistoryError(Exception):
    """There is no past to show; the message contains the next step."""


class Span(msgspec.Struct, frozen=True):
    """First and last time that can be shown (epoch seconds), seconds between two, and (time, running, waiting) pods."""

    start: float
    end: float
    step: float
    trend: list[tuple[float, int, int]]


class History:
    """States of the cluster at past times, from a journal's directory; None if there is no journal."""

    def __init__(self, directory: Path | None) -> None:
        self._directory = directory
        self._states: PastStates | None = None
        self._read_at = float("-inf")
        self._reading = anyio.Lock()

    async def span(self) -> Span:
        """Return what can be shown, now that the journal has grown. Raises NoHistoryError, JournalError."""
        states = await self._read()
        if (found := states.span) is None:
            raise NoHistoryError("the journal has no event yet; try again in a moment")
        start, end = found
        trend = [(each.at, each.running, each.pending) for each in states.totals(TREND_POINTS)]
        return Span(start=start, end=end, step=60.0 if end - start > 3600 else 1.0, trend=trend)

    async def at(self, moment: float) -> bytes:
        """Return all rows at a time, as JSON. Raises NoHistoryError, JournalError."""
        states = self._states or await self._read()
        return await anyio.to_thread.run_sync(lambda: msgspec.json.encode(states.at(moment)))

    async def _read(self) -> PastStates:
        if self._directory is None:
            raise NoHistoryError(
                "no journal is recorded; start `volcanoio up` or the scheduler with --journal DIR, "
                "or this page with --journal of a scheduler's journal"
            )
        async with self._reading:
            if self._states is None:
                self._states = PastStates(self._directory)
            if time.monotonic() - self._read_at > REFRESH_SECONDS:
                await anyio.to_thread.run_sync(self._states.refresh)
                self._read_at = time.monotonic()
            return self._states
