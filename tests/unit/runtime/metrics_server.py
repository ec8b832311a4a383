"""An HTTP server with the answers of Prometheus."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

from aiohttp import web

Handler = Callable[[web.Request], Awaitable[web.Response]]


@asynccontextmanager
async def server(handler: Handler) -> AsyncIterator[str]:
    """A server on this machine; its address."""
    app = web.Application()
    app.router.add_route("*", "/{tail:.*}", handler)
    runner = web.AppRunner(app)
    await runner.setup()
    try:
        site = web.TCPSite(runner, "127.0.0.1", 0)
        await site.start()
        host, port = runner.addresses[0][:2]
        yield f"http://{host}:{port}"
    finally:
        await runner.cleanup()


def vector(**by_instance: str) -> web.Response:
    result = [{"metric": {"instance": name}, "value": [1.5, value]} for name, value in by_instance.items()]
    return web.json_response({"status": "success", "data": {"resultType": "vector", "result": result}})
