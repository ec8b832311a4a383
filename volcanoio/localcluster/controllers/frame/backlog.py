"""The keyed backlog: a key stands in it once and is worked on by one at a time."""

from __future__ import annotations

import asyncio
from collections import deque
from typing import TypeAlias

Item: TypeAlias = tuple[str, str]
"""A controller's name and a key of its own."""

FIRST, MOST = 0.02, 30.0
"""Seconds a key waits after its first failure, doubling up to the most."""


class Backlog:
    """Keys to be worked on, in the order they were added."""

    def __init__(self) -> None:
        self._waiting: deque[Item] = deque()
        self._known: set[Item] = set()
        self._busy: set[Item] = set()
        self._again: set[Item] = set()
        self._failures: dict[Item, int] = {}
        self._ready = asyncio.Event()

    def __len__(self) -> int:
        return len(self._waiting) + len(self._busy)

    def add(self, item: Item) -> None:
        """Have a key worked on; one that is being worked on comes again when that is done."""
        if item in self._busy:
            self._again.add(item)
        elif item not in self._known:
            self._known.add(item)
            self._waiting.append(item)
            self._ready.set()

    async def take(self) -> Item:
        """The next key; it is the caller's until `done`."""
        while not self._waiting:
            self._ready.clear()
            await self._ready.wait()
        item = self._waiting.popleft()
        self._known.discard(item)
        self._busy.add(item)
        return item

    def done(self, item: Item) -> None:
        """Give a key back."""
        self._busy.discard(item)
        if item in self._again:
            self._again.discard(item)
            self.add(item)

    def back_off(self, item: Item) -> float:
        """Note a failure of a key; returns the seconds until it should come again."""
        failures = self._failures[item] = self._failures.get(item, 0) + 1
        return min(FIRST * 2.0 ** min(failures - 1, 20), MOST)

    def succeeded(self, item: Item) -> None:
        """End the back-off of a key."""
        self._failures.pop(item, None)
