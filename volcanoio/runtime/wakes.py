"""Which timers a change of an object lets fire before their time (`StartTimer.wake`)."""

from __future__ import annotations

from collections.abc import Hashable, Sequence

from volcanoio.framework.decisions import Wake
from volcanoio.framework.events import Change, Observed

TOGETHER = 0.02
"""Seconds (of the machine's) after a change in which others are taken with it."""

_Key = tuple[str, str, str, bool]


class Wakes:
    """A table from what may change to the timers that wait for it; empty, it costs one `if` an event."""

    def __init__(self) -> None:
        self._waiting: dict[_Key, set[Hashable]] = {}
        self._of: dict[Hashable, Sequence[Wake]] = {}

    def __bool__(self) -> bool:
        return bool(self._of)

    def wait(self, timer: Hashable, wakes: Sequence[Wake]) -> None:
        """Have a timer wait for changes; what it waited for before is forgotten."""
        self.forget(timer)
        if wakes:
            self._of[timer] = wakes
            for wake in wakes:
                self._waiting.setdefault(_key(wake), set()).add(timer)

    def forget(self, timer: Hashable) -> None:
        """A timer fired or was stopped."""
        for wake in self._of.pop(timer, ()):
            if waiting := self._waiting.get(key := _key(wake)):
                waiting.discard(timer)
                if not waiting:
                    del self._waiting[key]

    def all(self) -> list[Hashable]:
        """Every timer that waits for a change."""
        return list(self._of)

    def woken(self, event: Observed) -> list[Hashable]:
        """The timers that wait for this change, sorted."""
        meta = event.obj.metadata
        resource, namespace, name = event.resource, meta.namespace, meta.name
        found: set[Hashable] = set()
        for gone in (False, True) if event.change is Change.GONE else (False,):
            for key in ((resource, "", "", gone), (resource, namespace, "", gone), (resource, namespace, name, gone)):
                found |= self._waiting.get(key, _NOBODY)
        return sorted(found, key=str)


_NOBODY: frozenset[Hashable] = frozenset()


def _key(wake: Wake) -> _Key:
    return wake.resource, wake.namespace, wake.name, wake.gone
