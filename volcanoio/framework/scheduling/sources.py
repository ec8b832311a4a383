"""Sources: where facts come from that no API object holds, such as how busy nodes are.

A source is an async function of a plugin; the runtime runs it, restarts it with a growing pause when it ends or raises,
and cancels it with the plugin. What it says is an event: folded into the state, journalled, and read in a session with
`SessionView.facts`. So a replay needs no source. It must not block: whatever it waits for, it awaits.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Protocol, TypeAlias

import msgspec

NODE_METRICS = "node-metrics"
"""The product's own source: `NodeUsage` by node, polled where the configuration's `metrics` section says."""


class Feed(Protocol):
    """What a source is given."""

    def now(self) -> float:
        """The time (epoch seconds)."""
        ...

    async def sleep(self, seconds: float) -> None:
        """Wait."""
        ...

    def say(self, facts: Mapping[str, Any], *, whole: bool = False) -> None:
        """Facts by key, as JSON has them; with `whole` they are all there are, else None takes a fact back."""
        ...


Source: TypeAlias = Callable[[Feed], Awaitable[None]]


class NodeUsage(msgspec.Struct, frozen=True):
    """How busy a node has been in the last ten minutes: `cpu` and `memory` in percent of what it has.

    `at` is when that was asked (epoch seconds), `every` how often it is asked (seconds).
    """

    cpu: float
    memory: float
    at: float
    every: float = 30.0
