"""Work queue for changes in the store: keys are added at once and handled soon after by one task."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Hashable
from typing import Final, Generic, TypeVar

import structlog

_log = structlog.get_logger(__name__)

Key = TypeVar("Key", bound=Hashable)

SLICE: Final = 100
"""Keys handled before other tasks run."""


class WorkQueue(Generic[Key]):
    """A queue that contains each key at most once."""

    def __init__(self, work: Callable[[Key], None]) -> None:
        self._work = work
        self._keys: dict[Key, None] = {}
        self._ready = asyncio.Event()

    def add(self, key: Key) -> None:
        """Queue a key."""
        self._keys[key] = None
        self._ready.set()

    async def run(self) -> None:
        """Handle keys until cancelled."""
        while True:
            await self._ready.wait()
            self.step(SLICE)
            await asyncio.sleep(0)

    def step(self, most: int) -> None:
        """Handle up to `most` keys, oldest first; a key that fails is logged and dropped."""
        for _ in range(min(most, len(self._keys))):
            key = next(iter(self._keys))
            del self._keys[key]
            try:
                self._work(key)
            except Exception:
                _log.exception("apiserver_work_failed", key=str(key))
        if not self._keys:
            self._ready.clear()
