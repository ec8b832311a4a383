"""Which protocol a connection is upgraded to, by what its request says."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from aiohttp import web

from volcanoio.localcluster.apiserver.api import ApiUpgrade
from volcanoio.localcluster.apiserver.streams import spdy, websocket

_PROTOCOLS: dict[tuple[str, str], Callable[[web.BaseRequest, ApiUpgrade], Awaitable[web.StreamResponse]]] = {
    ("GET", "websocket"): websocket.serve,
    ("GET", "spdy/3.1"): spdy.serve,
    ("POST", "spdy/3.1"): spdy.serve,
}
"""Method and `Upgrade` header → who serves it."""


def carries(request: web.BaseRequest) -> bool:
    """Whether the request asks for an upgrade that is served."""
    return _key(request) in _PROTOCOLS


async def carry(request: web.BaseRequest, upgrade: ApiUpgrade) -> web.StreamResponse:
    """Serve an upgraded connection to its end."""
    return await _PROTOCOLS[_key(request)](request, upgrade)


def _key(request: web.BaseRequest) -> tuple[str, str]:
    return request.method, request.headers.get("Upgrade", "").lower()
