"""A webhook server that records requests and can answer with errors first."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from aiohttp import web


class Hook:
    """Takes POSTs; the first `failures` of them are answered 503."""

    def __init__(self, failures: int = 0) -> None:
        self.failures = failures
        self.reported: list[dict[str, Any]] = []
        self.attempts = 0
        self.url = ""
        self._heard = asyncio.Event()

    async def heard(self) -> None:
        """Return once a request arrived."""
        async with asyncio.timeout(30):
            await self._heard.wait()

    async def take(self, request: web.Request) -> web.Response:
        """One POST."""
        self.attempts += 1
        if self.attempts <= self.failures:
            return web.Response(status=503)
        self.reported.append(await request.json())
        self._heard.set()
        return web.Response(status=204)


@asynccontextmanager
async def webhook(failures: int = 0) -> AsyncIterator[Hook]:
    """A running webhook."""
    hook = Hook(failures)
    app = web.Application()
    app.router.add_post("/alerts", hook.take)
    runner = web.AppRunner(app)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    host, port = runner.addresses[0][:2]
    hook.url = f"http://{host}:{port}/alerts"
    try:
        yield hook
    finally:
        await runner.cleanup()
