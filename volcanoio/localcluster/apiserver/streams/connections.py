"""Which protocol a connection is upgraded to, by what its request says."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from typing import Any

from aiohttp import web

from volcanoio.localcluster.apiserver.api import ApiForward, ApiStreams, ApiUpgrade
from volcanoio.localcluster.apiserver.streams import portforward, spdy, websocket

Serve = Callable[[web.BaseRequest, ApiStreams], Coroutine[Any, Any, web.StreamResponse]]
Forward = Callable[[web.BaseRequest, ApiForward], Coroutine[Any, Any, web.StreamResponse]]

_STREAMS: dict[str, Serve] = {"websocket": websocket.serve, "spdy/3.1": spdy.serve}
_FORWARDS: dict[str, Forward] = {"spdy/3.1": portforward.serve}
"""`Upgrade` header → who serves it. kubectl falls back to SPDY where its tunnel in a WebSocket is not to be had."""


def carry(request: web.BaseRequest, offer: ApiUpgrade) -> Coroutine[Any, Any, web.StreamResponse] | None:
    """What serves the connection to its end; None when it asks for no upgrade that is served."""
    protocol = request.headers.get("Upgrade", "").lower()
    if isinstance(offer, ApiStreams) and protocol in _STREAMS:
        return _STREAMS[protocol](request, offer)
    if isinstance(offer, ApiForward) and protocol in _FORWARDS:
        return _FORWARDS[protocol](request, offer)
    return None
