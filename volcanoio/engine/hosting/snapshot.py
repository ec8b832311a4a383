"""A picture of all a host knows, as plain values: what shows whether two hosts are in the same state."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from volcanoio.engine.hosting.host import Host
from volcanoio.engine.hosting.keyed import KeyedHost


def snapshot(host: Host) -> dict[str, Any]:
    """The picture: objects and what is listed by resource, then by controller and key the state and what is in flight.

    API objects of the cache stand in it as they are; all else is plain. Sets and tables are sorted.
    """
    cache = host.cache
    return {
        "objects": {name: {obj.metadata.key: obj for obj in cache.all(name)} for name in cache.resources},
        "listed": [name for name in cache.resources if cache.synced((name,))],
        "controllers": {name: _controller(host[name]) for name in host.controllers},
    }


def _controller(host: KeyedHost) -> dict[str, Any]:
    return {
        "open": host.synced,
        "keys": {
            key: {
                "state": _plain(host.state(key)),
                "in_flight": {str(number): _plain(effect) for number, effect in host.in_flight(key).items()},
            }
            for key in host.keys
        },
    }


def _plain(value: Any) -> Any:
    return msgspec.to_builtins(value, order="deterministic", enc_hook=_table)


def _table(value: Any) -> Any:
    """A mapping or a set of a type of its own, as states hold them."""
    return dict(value) if isinstance(value, Mapping) else sorted(value)
