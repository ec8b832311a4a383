"""Which Events are one and when one may be written: what client-go's `tools/record/events_cache.go` does, and no loss.

Equal Events of a component about an object are one with a count. Of Events that differ in their message alone the first
nine within ten minutes of each other are told, all others are one. A component writes a burst of 25 about an object,
then one in five minutes; there client-go drops what exceeds it, here it is counted and written when its turn comes.
"""

from __future__ import annotations

import heapq
from collections import OrderedDict, deque
from dataclasses import dataclass, field
from itertools import count
from typing import TypeAlias

COMBINED = "(combined from similar events): "
_BURST = 25.0
_REFILL = 300.0
_ONE = 1 - 1e-6
"""A token, but for what rounding takes of it: else a wait for the rest of one might be no time at all."""
_SIMILAR = 9
_WINDOW = 600.0
_REMEMBERED = 4096
_HOLDING = 10_000

Source: TypeAlias = tuple[str, str, str, str, str]
"""Kind, namespace, name and uid of the object, and the component that tells of it."""
EventKey: TypeAlias = tuple[Source, str, str, str | None]
"""Source, type, reason and message; None for the messages of many."""


@dataclass(slots=True)
class _Messages:
    """What was told for one reason, and when last."""

    told: set[str]
    at: float


@dataclass(slots=True)
class _Told:
    """What is known of a source: its tokens as of `at`, its messages by type and reason, and what waits for tokens."""

    tokens: float
    at: float
    messages: dict[tuple[str, str], _Messages] = field(default_factory=dict)
    held: deque[EventKey] | None = None

    def refill(self, now: float) -> None:
        """Have the tokens of now."""
        self.tokens = min(_BURST, self.tokens + max(0.0, now - self.at) / _REFILL)
        self.at = now

    def next(self) -> float:
        """When there is a token."""
        return self.at + max(0.0, 1 - self.tokens) * _REFILL


class Correlator:
    """All sources of a recorder, the longest silent ones forgotten. Times are seconds since the epoch."""

    def __init__(self) -> None:
        self._sources: OrderedDict[Source, _Told] = OrderedDict()
        self._due: list[tuple[float, int, Source]] = []
        self._order = count()
        self._holding = 0

    def key(self, source: Source, type_: str, reason: str, message: str, now: float) -> EventKey:
        """Which Event this one is."""
        messages = self._told(source, now).messages
        known = messages.get((type_, reason))
        if known is None or now - known.at > _WINDOW:
            messages[type_, reason] = _Messages({message}, now)
            return source, type_, reason, message
        known.at = now
        if message in known.told:
            return source, type_, reason, message
        if len(known.told) >= _SIMILAR:
            return source, type_, reason, None
        known.told.add(message)
        return source, type_, reason, message

    def admit(self, key: EventKey, now: float) -> bool | None:
        """Whether an Event may be written now. False: it is held until `release`; None: too many are held."""
        source = key[0]
        told = self._told(source, now)
        told.refill(now)
        if not told.held and told.tokens > _ONE:
            told.tokens -= 1
            return True
        if self._holding >= _HOLDING:
            return None
        if told.held:
            told.held.append(key)
        else:
            told.held = deque((key,))
            self._await_token(source, told)
        self._holding += 1
        return False

    def next_release(self) -> float | None:
        """When the next of those held may be written; None when none is."""
        return self._due[0][0] if self._due else None

    def release(self, now: float) -> list[EventKey]:
        """Those held that may be written now, one for each token."""
        released: list[EventKey] = []
        while self._due and self._due[0][0] <= now:
            _, _, source = heapq.heappop(self._due)
            told = self._sources[source]
            told.refill(now)
            if told.tokens > _ONE and told.held:
                told.tokens -= 1
                released.append(told.held.popleft())
                self._holding -= 1
            if told.held:
                self._await_token(source, told)
        return released

    def _await_token(self, source: Source, told: _Told) -> None:
        heapq.heappush(self._due, (told.next(), next(self._order), source))

    def _told(self, source: Source, now: float) -> _Told:
        told = self._sources.get(source)
        if told is None:
            told = self._sources[source] = _Told(_BURST, now)
            if len(self._sources) > _REMEMBERED:
                self._forget_oldest()
        else:
            self._sources.move_to_end(source)
        return told

    def _forget_oldest(self) -> None:
        """Make room; a source for which something is held is kept and forgotten later."""
        source, told = next(iter(self._sources.items()))
        if told.held:
            self._sources.move_to_end(source)
        else:
            del self._sources[source]
