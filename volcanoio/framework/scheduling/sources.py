"""Sources: facts that no API object contains, such as how busy nodes are.

A source is an async function of a plugin; the runtime runs it, restarts it with a growing back-off when it ends or
raises, and cancels it with the plugin. The facts it publishes are events: folded into the state, journalled, and read
in a session with `SessionView.facts`. So a replay needs no source. It must not block: await all waiting.
"""

from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Protocol, TypeAlias

import msgspec

NODE_METRICS = "node-metrics"
"""The built-in source: `NodeUsage` by node, polled as configured in the `metrics` section."""


class Feed(Protocol):
    """The argument of a source."""

    def now(self) -> float:
        """Return the time (epoch seconds)."""
        ...

    async def sleep(self, seconds: float) -> None:
        """Wait."""
        ...

    def publish(self, facts: Mapping[str, Any], *, whole: bool = False) -> None:
        """Publish facts by key, as JSON values; None withdraws a fact, `whole` replaces all earlier facts."""
        ...


Source: TypeAlias = Callable[[Feed], Awaitable[None]]


class NodeUsage(msgspec.Struct, frozen=True):
    """The usage of a node in the last ten minutes: `cpu` and `memory` in percent of its capacity.

    `at` is the time of the measurement (epoch seconds), `every` the polling interval (seconds).
    """

    cpu: float
    memory: float
    at: float
    every: float = 30.0


def node_usage(fact: Any) -> NodeUsage | None:
    """Return a fact of the source `node-metrics`; None for one of another form."""
    try:
        return msgspec.convert(fact, NodeUsage)
    except msgspec.ValidationError:
        return None
