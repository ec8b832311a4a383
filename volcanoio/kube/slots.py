"""`PatchSlots`: updates of one object are a slot. One is in flight, and unsent ones become one.

A newer merge patch is laid over the unsent older one, so that whether it was computed as a whole or against what was
already under way, nothing is lost; both share the outcome. A patch whose preconditions are others was computed from
another state: it supersedes the unsent one, which fails with 409 as it would have on the server.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Coroutine
from dataclasses import dataclass
from typing import Any, TypeAlias

from msgspec.structs import replace

from volcanoio.framework.effects import Patch, PatchType
from volcanoio.kube.errors import Conflict
from volcanoio.kube.sending import Outcome

SlotKey: TypeAlias = tuple[str, str, str, str]
SUPERSEDED = "Superseded"


@dataclass(slots=True)
class _Unsent:
    """One patch that waits its turn, and those who wait for its outcome."""

    effect: Patch
    waiting: list[asyncio.Future[Outcome]]


class PatchSlots:
    """Carries patches out through `send`, slot by slot. `spawn` starts a task that lives as long as the executor."""

    def __init__(
        self,
        send: Callable[[Patch], Awaitable[Outcome]],
        spawn: Callable[[Coroutine[Any, Any, None]], object],
    ) -> None:
        self._send = send
        self._spawn = spawn
        self._slots: dict[SlotKey, deque[_Unsent]] = {}

    async def carry_out(self, effect: Patch) -> Outcome:
        """Send a patch when its slot is free; returns its outcome, or that of the patch it became part of."""
        key = (effect.resource, effect.namespace, effect.name, effect.subresource)
        queue = self._slots.get(key)
        if queue is None:
            self._slots[key] = deque()
            try:
                return await self._send(effect)
            finally:
                self._release(key)
        outcome: asyncio.Future[Outcome] = asyncio.get_running_loop().create_future()
        self._enqueue(queue, effect, outcome)
        return await outcome

    def _enqueue(self, queue: deque[_Unsent], effect: Patch, outcome: asyncio.Future[Outcome]) -> None:
        last = queue[-1] if queue else None
        if last is None:
            queue.append(_Unsent(effect, [outcome]))
        elif (last.effect.uid, last.effect.resource_version) != (effect.uid, effect.resource_version):
            message = "a newer patch computed from another version replaced this one before it was sent"
            _resolve(last.waiting, Outcome(error=Conflict(409, SUPERSEDED, message)))
            last.effect, last.waiting = effect, [outcome]
        elif (both := combined(last.effect, effect)) is not None:
            last.effect = both
            last.waiting.append(outcome)
        else:
            queue.append(_Unsent(effect, [outcome]))

    def _release(self, key: SlotKey) -> None:
        queue = self._slots[key]
        if queue:
            self._spawn(self._drive(key, queue.popleft()))
        else:
            del self._slots[key]

    async def _drive(self, key: SlotKey, unsent: _Unsent) -> None:
        try:
            outcome = await self._send(unsent.effect)
        finally:
            self._release(key)
        _resolve(unsent.waiting, outcome)


def _resolve(waiting: list[asyncio.Future[Outcome]], outcome: Outcome) -> None:
    for future in waiting:
        if not future.done():
            future.set_result(outcome)


def combined(older: Patch, newer: Patch) -> Patch | None:
    """One patch that does what both do in turn; None when no single patch can."""
    if older.type is not PatchType.MERGE or newer.type is not PatchType.MERGE:
        return None
    content = overlaid(older.patch, newer.patch)
    return None if content is None else replace(newer, patch=content)


def overlaid(older: dict[str, Any], newer: dict[str, Any]) -> dict[str, Any] | None:
    """The merge patch (RFC 7386) equal to `older`, then `newer`.

    None where there is none: `older` sets a plain value or deletes, and `newer` merges an object into the result.
    """
    result = dict(older)
    for key, value in newer.items():
        if isinstance(value, dict) and key in older:
            before = older[key]
            nested = overlaid(before, value) if isinstance(before, dict) else None
            if nested is None:
                return None
            result[key] = nested
        else:
            result[key] = value
    return result
