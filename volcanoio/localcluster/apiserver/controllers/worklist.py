"""Work that changes in the store ask for: noted at once, done soon after by one task."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Hashable
from typing import Final, Generic, TypeVar

import structlog

_log = structlog.get_logger(__name__)

Key = TypeVar("Key", bound=Hashable)

SLICE: Final = 100
"""Keys done before other tasks get a turn."""


class Worklist(Generic[Key]):
    """A queue in which a key stands at most once."""

    def __init__(self, work: Callable[[Key], None]) -> None:
        self._work = work
        self._keys: dict[Key, None] = {}
        self._ready = asyncio.Event()

    def add(self, key: Key) -> None:
        """Ask for work on a key."""
        self._keys[key] = None
        self._ready.set()

    async def run(self) -> None:
        """Work until cancelled."""
        while True:
            await self._ready.wait()
            self.step(SLICE)
            await asyncio.sleep(0)

    def step(self, most: int) -> None:
        """Work on up to `most` keys, oldest first. One that fails is reported and dropped; the others go on."""
        for _ in range(min(most, len(self._keys))):
            key = next(iter(self._keys))
            del self._keys[key]
            try:
                self._work(key)
            except Exception:
                _log.exception("apiserver_work_failed", key=str(key))
        if not self._keys:
            self._ready.clear()
